#!/usr/bin/env bash
# Runs all tests: `make test`, and the tests that take longer. The soak runs beside the other stages.
#
#   WARREN_SOAK            the duration of the soak, 2h by default
#   WARREN_DELETE_TRIALS   how often the stage `hammer` deletes a queue in each way, 50 by default
set -uo pipefail # no -e, so that all stages run although one fails
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=hack/stages.sh
. hack/stages.sh

hammer() {
  WARREN_DELETE_TRIALS=${WARREN_DELETE_TRIALS:-50} hack/with-parts.sh brokers -- \
    go test ./internal/rabbit/safedelete -race -count=1 -timeout=60m -run=Hammered -v
}

# The soak has its own API server and manager.
export WARREN_COVERAGE=1
beside soak make soak
stage test make test
stage extended hack/with-parts.sh apiserver brokers manager node -- hack/test.sh extended
stage hammer hammer
stage chaos-consumer make chaos-consumer
stage bench-batch make bench-batch
stage chaos-redrive make chaos-redrive
stage crashpoints make crashpoints
stage fuzz-seeds make fuzz-seeds
stage fuzz make fuzz
stage conformance make conformance
stage test-image make test-image
stage e2e-cluster make e2e-cluster
stage e2e-gitops make e2e-gitops
await soak
[[ -z $failed ]]
