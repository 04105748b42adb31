#!/usr/bin/env bash
# A Kubernetes cluster of one node, with a kubelet, to run the operator in. See docs/development.md.
#
#   hack/cluster.sh up             start it, or leave it as it runs; prints its kubeconfig file
#   hack/cluster.sh down           end it, and give back all that it changed on this machine
#   hack/cluster.sh run COMMAND…   up, run a command with KUBECONFIG set, and down unless it ran before
#   hack/cluster.sh load FILE…     make images known to it: tar files, as `make image` writes them
#   hack/cluster.sh address        where its pods reach this machine
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
  for file in "$@"; do
    [[ -f $file ]] || die "no such file: $file; make image writes dist/image-$(go env GOHOSTARCH).tar"
    "${WAY}_load" "$file"
  done
}

usage() {
  sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

command=${1:-}
shift || true
case $command in
  up | down) alone cluster "$command" ;;
  run | load)
    [[ $# -gt 0 ]] || usage
    "$command" "$@"
    ;;
  address | log) "${WAY}_$command" ;;
  *) usage ;;
esac
