#!/usr/bin/env bash
# Runs a command with real parts, which it finds by environment variables. hack/supervise.sh ends the processes that the command and
# this script have started.
#
#   hack/with-parts.sh PART… -- COMMAND [ARGUMENT…]
#
#   brokers    RabbitMQ in every version of the matrix; the brokers continue to run for the next run
#   newest     only the newest version of RabbitMQ
#   apiserver  a kube-apiserver with Warren's CRDs, for all suites of the run
#   manager    the manager, built once for all suites of the run
#   node       the binary with kubelet, kube-controller-manager and kube-scheduler
#
# The programs kube-apiserver, etcd and kubectl are always provided.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -n ${WARREN_RUN:-} ]] || exec "$HACK_DIR/supervise.sh" "$0" "$@"

parts=()
while [[ $# -gt 0 && $1 != -- ]]; do
  parts+=("$1")
  shift
done
[[ $# -gt 1 ]] || usage
shift

brokers() {
  local environment
  "$HACK_DIR/brokers.sh" start "$@" >/dev/null
  environment=$("$HACK_DIR/brokers.sh" env "$@")
  eval "$environment"
}

# apiserver starts the server without waiting, because the start takes as long as all other parts together.
apiserver() {
  local folder
  folder=$(mktemp -d)
  go build -C "$HACK_DIR/.." -o "$folder/apiserver" ./hack/apiserver
  # GOGC saves a tenth of its CPU time.
  (cd "$HACK_DIR/.." && GOGC=400 exec "$folder/apiserver" "$folder") &
  server=$!
  export WARREN_TEST_KUBECONFIG=$folder/kubeconfig
}

# await_apiserver waits until the server has written its kubeconfig.
await_apiserver() {
  until [[ -s $WARREN_TEST_KUBECONFIG ]]; do
    kill -0 "$server" 2>/dev/null || die "the API server did not start, see above"
    sleep 0.2
  done
}

manager() {
  WARREN_TEST_MANAGER=$(mktemp -d)/manager
  export WARREN_TEST_MANAGER
  go build -C "$HACK_DIR/.." -o "$WARREN_TEST_MANAGER" ./cmd
}

server=""
KUBEBUILDER_ASSETS=$("$HACK_DIR/kubernetes.sh" path)
export KUBEBUILDER_ASSETS
# On a busy machine an API server takes longer than envtest's 20 s.
export KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=${KUBEBUILDER_CONTROLPLANE_START_TIMEOUT:-3m}
export KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=${KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT:-1m}
for part in ${parts[@]+"${parts[@]}"}; do
  case $part in
    brokers) brokers ;;
    newest) brokers newest ;;
    apiserver) apiserver ;;
    manager) manager ;;
    node) "$HACK_DIR/kubernetes.sh" node >/dev/null ;;
    *) die "no such part: $part" ;;
  esac
done
[[ -z $server ]] || await_apiserver
status=0
"$@" || status=$?
[[ -z $server ]] || { kill "$server" && wait "$server"; } || true
exit "$status"
