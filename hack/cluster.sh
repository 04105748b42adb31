#!/usr/bin/env bash
# A Kubernetes cluster of one node, with a kubelet, to run the operator in. See docs/development.md.
#
#   hack/cluster.sh up             start it, or leave it as it runs; prints its kubeconfig file
#   hack/cluster.sh down           end it, and give back all that it changed on this machine
#   hack/cluster.sh run COMMAND…   up, run a command with KUBECONFIG set, and down unless it ran before
#   hack/cluster.sh load [FILE…]   make images known to it: tar files; the one that `make image` writes for this machine unless given
#   hack/cluster.sh mirror HOST REGISTRY   pull images of HOST from REGISTRY, such as ghcr.io from http://10.245.0.1:5000
#   hack/cluster.sh broker         start a RabbitMQ that ends with the cluster; prints where it is, for eval: BROKER_HOST for pods,
#                                  BROKER_API, the management API, for this machine. It knows the user guest/guest
#   hack/cluster.sh address        where its pods reach this machine
#   hack/cluster.sh status         whether it runs; fails unless it does
#   hack/cluster.sh log            the last words of each of its parts
#
# Taken from the first place that works: kind, where a Docker daemon answers; else the parts of Kubernetes and Debian's
# containerd, as root, in namespaces of their own.
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
if docker_available; then WAY=kind; else WAY=bare; fi

up() {
  local begin=$SECONDS
  if ! "${WAY}_running"; then
    "${WAY}_down" # what an earlier one left behind
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

# run ends the cluster however the command ends.
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

# mirror tells containerd, which reads the file at each pull.
mirror() {
  [[ $# == 2 ]] || usage
  expect_running
  printf 'server = "%s"\n[host."%s"]\ncapabilities = ["pull", "resolve"]\n' "$2" "$2" | "${WAY}_mirror" "$1"
}

# broker has BROKER_HOST and BROKER_API set by the way that the cluster was made.
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

usage() {
  sed -n '2,17s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

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
