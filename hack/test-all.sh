#!/usr/bin/env bash
# Runs all tests: `make test`, and what takes longer. The soak goes on beside the other stages.
#
#   WARREN_SOAK            for how long the soak works; 2h unless given
#   WARREN_DELETE_TRIALS   how often the hammer deletes a queue in each of its ways; 50 unless given
set -uo pipefail # no -e: all stages run although one fails, for the next run may be a night away
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=hack/stages.sh
. hack/stages.sh

hammer() {
  WARREN_DELETE_TRIALS=${WARREN_DELETE_TRIALS:-50} hack/with-parts.sh brokers -- \
    go test ./internal/rabbit/safedelete -race -count=1 -timeout=60m -run=Hammered -v
}

wait_for_soak() {
  local status=0
  wait "$soaking" || status=$?
  cat bin/soak.log
  return "$status"
}

# The soak has an API server and a manager of its own.
mkdir -p bin
make soak >bin/soak.log 2>&1 &
soaking=$!
stage test make test
stage extended hack/with-parts.sh apiserver brokers manager node -- hack/test.sh extended
stage hammer hammer
stage chaos-consumer make chaos-consumer
stage bench-batch make bench-batch
stage chaos-redrive make chaos-redrive
stage crashpoints make crashpoints
stage fuzz make fuzz
stage conformance make conformance
stage test-image make test-image
stage e2e-cluster make e2e-cluster
stage e2e-gitops make e2e-gitops
stage soak wait_for_soak
[[ -z $failed ]]
