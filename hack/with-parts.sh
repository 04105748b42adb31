#!/usr/bin/env bash
# Runs a command with real parts: an API server's binaries and brokers, in the environment
# variables that the tests and `make run` read.
#
#   hack/with-parts.sh all|newest COMMAND [ARGUMENT…]
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  all) versions=() ;;
  newest) versions=(newest) ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
shift

KUBEBUILDER_ASSETS=$("$HACK_DIR/kubernetes.sh" path)
export KUBEBUILDER_ASSETS
# On a loaded machine an API server takes longer than the 20 s that envtest gives it.
export KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=${KUBEBUILDER_CONTROLPLANE_START_TIMEOUT:-3m}
export KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=${KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT:-1m}
"$HACK_DIR/brokers.sh" start ${versions[@]+"${versions[@]}"} >/dev/null
environment=$("$HACK_DIR/brokers.sh" env ${versions[@]+"${versions[@]}"})
eval "$environment"
exec "$@"
