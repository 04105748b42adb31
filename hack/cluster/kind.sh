# shellcheck shell=bash
# A cluster by kind, in Docker. Sourced by hack/cluster.sh.
#
#   WARREN_KIND_IMAGE   another node image than that of the pinned kind, for another Kubernetes

kind_tool() { "$HACK_DIR/tool.sh" kind "$@" --name warren; }

kind_running() { [[ -f $KUBECONFIG_FILE ]] && docker inspect warren-control-plane >/dev/null 2>&1; }

kind_up() {
  kind_tool create cluster --kubeconfig "$KUBECONFIG_FILE" --wait 3m ${WARREN_KIND_IMAGE:+--image "$WARREN_KIND_IMAGE"} >&2
}

kind_down() { kind_tool delete cluster 2>/dev/null; }

kind_load() { kind_tool load image-archive "$1" >&2; }

# The gateway of Docker's network, of which there may be one for IPv6 too.
kind_address() {
  docker network inspect kind --format '{{range .IPAM.Config}}{{println .Gateway}}{{end}}' | grep -v ':' | head -n 1
}

kind_log() { docker exec warren-control-plane journalctl --no-pager -n 50 -u kubelet -u containerd; }
