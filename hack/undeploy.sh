#!/usr/bin/env bash
# Removes the operator, its CRDs and every resource of Warren in the cluster. It contacts no broker, and deletes nothing there: it stops the
# operator before it deletes the resources, because a running operator would delete their queues. It changes nothing while another operator
# runs in the cluster, or a queue is being recreated.
#
#   KUBECTL   the command; kubectl unless given
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."
KUBECTL=${KUBECTL:-kubectl}
KINDS=(consumerqueues.messaging.warren.dev brokerconnections.messaging.warren.dev)

kube() { $KUBECTL "$@"; }

known() { kube get customresourcedefinition "$1" >/dev/null 2>&1; }

# others lists the operators of other namespaces or releases. If the CRDs are deleted, these operators see their resources being deleted.
others() {
  kube get deployments --all-namespaces --selector app.kubernetes.io/name=warren,app.kubernetes.io/component=manager \
    -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' |
    sed '/^warren-system\/warren-controller-manager$/d'
}

# deleting lists the ConsumerQueues that are being deleted.
deleting() {
  ! known "${KINDS[0]}" || kube get "${KINDS[0]}" --all-namespaces \
    -o jsonpath='{range .items[?(@.metadata.deletionTimestamp)]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}'
}

# recreating lists the ConsumerQueues with a recreation under way. Its status is necessary to move the bindings and messages back.
recreating() {
  ! known "${KINDS[0]}" || kube get "${KINDS[0]}" --all-namespaces \
    -o jsonpath='{range .items[?(@.status.recreation.phase)]}{.metadata.namespace}/{.metadata.name} {.status.recreation.phase}{"\n"}{end}' |
    sed '/ Waiting$/d; s/ .*//'
}

# await waits until the operator has finished its deletions: a half-deleted queue refuses messages.
await() {
  local begin=$SECONDS
  while [[ -n $(deleting) ]]; do
    if ((SECONDS - begin > 90)); then
      say "not deleted within 90 s, so fences may remain at the broker (see docs/runbooks/fence-standing.md): $(deleting | tr '\n' ' ')"
      return
    fi
    sleep 1
  done
}

# release removes only Warren's finalizers, from a hundred resources at a time.
release() {
  local kind=$1 namespace others names
  ! known "$kind" || kube get "$kind" --all-namespaces \
    -o jsonpath='{range .items[?(@.metadata.finalizers)]}{.metadata.namespace}{" "}{.metadata.finalizers}{" "}{.metadata.name}{"\n"}{end}' |
    sed -E 's#"messaging\.warren\.dev/[^"]*"##g; s#,+#,#g; s#\[,#[#; s#,\]#]#' | sort |
    awk '{ key = $1 " " $2; if (key != last || ++count > 100) { printf "%s%s", (NR > 1 ? "\n" : ""), key; count = 0 }
           printf " %s", $3; last = key } END { if (NR) print "" }' |
    while read -r namespace others names; do
      # shellcheck disable=SC2086 # one word per resource
      kube patch "$kind" --namespace "$namespace" --type=merge -p "{\"metadata\":{\"finalizers\":$others}}" $names >/dev/null
    done
}

found=$(others)
[[ -z $found ]] || die "other operators would delete queues when their CRDs are deleted. Uninstall these first: ${found//$'\n'/, }"
found=$(recreating)
[[ -z $found ]] || die "queues are being recreated. Their messages and bindings would stay at the hold queues. Wait until the" \
  "recreations have ended, or abort them with kubectl warren abort: ${found//$'\n'/, }"

# While an aggregated API does not answer, Kubernetes deletes no namespace.
kube delete --ignore-not-found apiservice/v1alpha1.deadletters.messaging.warren.dev
await
kube delete --ignore-not-found --cascade=foreground --namespace warren-system deployment/warren-controller-manager
found=$(recreating)
[[ -z $found ]] || die "recreations have begun meanwhile. Install Warren again, and wait until they have ended: ${found//$'\n'/, }"
for kind in "${KINDS[@]}"; do release "$kind"; done
kube delete --ignore-not-found -k config/default
kube delete --ignore-not-found --namespace kube-system rolebinding/warren-front-proxy-rolebinding
# The objects of config/contract, config/prometheus, config/requested-by and config/namespaced outside of warren-system.
kube delete --ignore-not-found -k config/contract
kube delete --ignore-not-found clusterrolebinding/warren-metrics-scraper
! kube get -k config/requested-by >/dev/null 2>&1 || kube delete -k config/requested-by # unknown before Kubernetes 1.36
kube get rolebindings --all-namespaces --field-selector metadata.name=warren-manager-rolebinding \
  -o jsonpath='{range .items[*]}{.metadata.namespace}{"\n"}{end}' |
  while read -r namespace; do
    kube delete --ignore-not-found --namespace "$namespace" rolebinding/warren-manager-rolebinding role/warren-manager-role
  done
say "Warren is removed; its queues and exchanges remain at the brokers"
