#!/usr/bin/env bash
# A Kubernetes cluster of one node, with a kubelet, to run the operator in. See docs/development.md.
#
#   hack/cluster.sh up             start the cluster, unless it runs; prints the path of its kubeconfig
#   hack/cluster.sh down           stop it, and undo its changes on this machine
#   hack/cluster.sh run COMMAND…   run a command with KUBECONFIG; starts the cluster, and stops it unless it ran before
#   hack/cluster.sh load [FILE…]   load images from tar files; without FILE, the image of `make image` for this machine
#   hack/cluster.sh mirror HOST REGISTRY   pull images of HOST from REGISTRY, such as ghcr.io from http://10.245.0.1:5000
#   hack/cluster.sh broker         start a RabbitMQ that stops with the cluster, with the user guest/guest. Prints, for eval,
#                                  BROKER_HOST for pods, and BROKER_API, the management API, for this machine
#   hack/cluster.sh address        print the address of this machine for pods
#   hack/cluster.sh status         print whether the cluster runs; fails unless it does
#   hack/cluster.sh log            print the end of each part's log
#
# With a Docker daemon, the cluster is kind. Otherwise it consists of the programs of Kubernetes and Debian's containerd, as root, in
# their own namespaces.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/brokers/docker.sh
. "$HACK_DIR/brokers/docker.sh"
# shellcheck source=hack/cluster/kind.sh
. "$HACK_DIR/cluster/kind.sh"
# shellcheck source=hack/cluster/bare.sh
. "$HACK_DIR/cluster/bare.sh"

STATE="$WARREN_CACHE/cluster/state"
KUBECONFIG_FILE="$STATE/kubeconfig"
if docker_available; then
  WAY=kind
else
  WAY=bare
  # A proxy does not reach the node.
  NO_PROXY=${NO_PROXY:-${no_proxy:-}}
  NO_PROXY=${NO_PROXY:+$NO_PROXY,}$NODE_ADDRESS,$HOST_ADDRESS
  export NO_PROXY no_proxy=$NO_PROXY
fi

up() {
  local begin=$SECONDS
  if ! "${WAY}_running"; then
    "${WAY}_down" # removes what an earlier cluster has left
    mkdir -p "$STATE"
    "${WAY}_up"
    say "the cluster is up after $((SECONDS - begin)) s ($WAY)"
  fi
  echo "$KUBECONFIG_FILE"
}

down() {
  "${WAY}_down"
  rm -rf "$STATE"
  say "the cluster is gone"
}

# run starts the cluster if none is running, and stops only a cluster that it started, also if the command fails.
run() {
  "${WAY}_running" || trap down EXIT
  alone cluster up >/dev/null
  KUBECONFIG=$KUBECONFIG_FILE "$@"
}

load() {
  local file
  expect_running
  [[ $# -gt 0 ]] || set -- "$HACK_DIR/../dist/image-$(go env GOHOSTARCH).tar"
  for file in "$@"; do
    [[ -f $file ]] || die "no such file: $file; make image PLATFORMS=host writes one into dist"
    "${WAY}_load" "$file"
  done
}

# mirror writes a file that containerd reads at each pull.
mirror() {
  [[ $# == 2 ]] || usage
  expect_running
  printf 'server = "%s"\n[host."%s"]\ncapabilities = ["pull", "resolve"]\n' "$2" "$2" | "${WAY}_mirror" "$1"
}

# broker prints the variables that kind_broker or bare_broker sets.
broker() {
  expect_running
  "${WAY}_broker" >/dev/null
  echo "export BROKER_HOST=$BROKER_HOST"
  echo "export BROKER_API=$BROKER_API"
}

status() {
  if "${WAY}_running"; then echo "the cluster runs ($WAY)"; else echo "no cluster runs" && return 1; fi
}

expect_running() { "${WAY}_running" || die "no cluster runs; start it with hack/cluster.sh up"; }


command=${1:-}
shift || true
case $command in
  up | down) alone cluster "$command" ;;
  run)
    [[ $# -gt 0 ]] || usage
    run "$@"
    ;;
  load) load "$@" ;;
  mirror) mirror "$@" ;;
  status) status ;;
  broker) alone cluster broker ;;
  address | log) "${WAY}_$command" ;;
  *) usage ;;
esac
