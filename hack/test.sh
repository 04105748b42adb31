#!/usr/bin/env bash
# Runs the Go tests of a tier, inside of hack/with-parts.sh, and checks the coverage.
#
#   hack/test.sh quick     the tests of `make test`, on the newest RabbitMQ
#   hack/test.sh extended  the further tests of `make test-all`, on every RabbitMQ of the matrix
#
# TESTFLAGS is passed on to go test. docs/development.md describes the tiers.
#
# Tests mostly wait for brokers, so many more of them run at the same time than there are cores: packages, parallel tests and, by
# run-test.sh, the specs of a suite. Each test has its own vhost and namespace.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# These settings save time: API servers and tests collect garbage less often, binaries have no debug information (-w), and no test
# binary waits a second for the race detector at its end.
export GOGC=400 GORACE=atexit_sleep_ms=0

# run_tier LABELS PROFILE ARGUMENT…: runs the packages in the caller's arrays `counted` and `others` at the same time. Ginkgo
# runs the specs that match LABELS. Tests in `counted` run api/ and internal/ in their own process, and write their coverage to
# PROFILE.
run_tier() {
  local profile=$2 flags run status=0
  export WARREN_TEST_LABELS=$1
  shift 2
  eval "flags=(${TESTFLAGS:-})"
  run=(go test -exec="$PWD/hack/run-test.sh" -race -shuffle=on -timeout=60m -ldflags=-w -count=1 -parallel=8 "$@" ${flags[@]+"${flags[@]}"})
  "${run[@]}" -coverpkg=./api/...,./internal/... -coverprofile="$profile" "${counted[@]}" &
  ((!${#others[@]})) || "${run[@]}" "${others[@]}" || status=1
  wait $! || status=1
  return "$status"
}

# These packages run first, with 8 tests at a time in all. Beside other packages, a broker can take longer than 100 ms to answer, and
# then Warren does not delete a queue.
quiet=(./internal/rabbit/recreate ./internal/rabbit ./internal/rabbit/{safedelete,observe,brokermatch,change})

# test/e2e and test/plugin use the API server alone, so they run after the suites that share it. Those suites mostly wait, so the
# packages of internal/ run beside them.
quick() {
  local counted others status=0
  counted=("${quiet[@]}") others=()
  run_tier '!extended && !soak && !bench' cover-rabbit.out -short -p=2 -parallel=4 || status=1
  # shellcheck disable=SC2207 # packages have no spaces; the bash of macOS has no mapfile
  counted=(./internal/rabbit/mover ./api/... $(go list ./internal/... | grep -vxFf <(go list "${quiet[@]}" ./internal/rabbit/mover)) \
    ./test/e2e ./test/plugin)
  others=(./test/monitoring ./test/faults ./test/deployment ./test/consumer ./test/facts ./test/stopping)
  # shellcheck disable=SC2207
  others+=($(go list ./... ./consumer/... ./cmd/kubectl-warren/... | grep -vE '/test/(gitops|incluster|cluster)$' |
    grep -vxFf <(go list "${quiet[@]}" "${counted[@]}" "${others[@]}")))
  run_tier '!extended && !soak && !bench' cover.out -short -p=2 || status=1
  ((!status)) || return "$status"
  go build -o /dev/null ./examples/orders
  GOWORK=off go -C consumer/otelconsumer test -race -shuffle=on ./...
  hack/coverage.sh cover-rabbit.out cover.out
}

# extended also repeats tests on the newest RabbitMQ, because there they run beside other tests than in quick.
extended() {
  local counted others
  export WARREN_TEST_SHARERS=5 # how many share a queue in the model of internal/ownership
  counted=(./internal/rabbit ./internal/rabbit/... ./test/e2e ./test/plugin ./internal/ownership)
  others=(./test/deployment ./test/cluster ./test/consumer ./test/facts ./test/faults ./test/stopping ./cmd/warren-conformance)
  run_tier extended cover-extended.out -p=1
  hack/coverage.sh cover-rabbit.out cover.out cover-extended.out
}

"${1:?usage: hack/test.sh quick|extended}"
