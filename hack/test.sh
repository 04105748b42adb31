#!/usr/bin/env bash
# Runs the Go tests of a tier, inside of hack/with-parts.sh, and checks the coverage.
#
#   hack/test.sh quick     what `make test` runs: the newest RabbitMQ, and all packages that need minutes at most
#   hack/test.sh extended  what `make test-all` runs besides, with every RabbitMQ of the matrix
#
# TESTFLAGS is passed on to go test. docs/development.md says what is in which tier, and why.
#
# Tests mostly wait for brokers, so many more of them run at once than there are cores: packages, tests that are parallel,
# and, by run-test.sh, the specs of a suite. Each has a vhost and a namespace of its own. The longest come first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Suites and tests on brokers, the longest first.
on_brokers=(./test/e2e ./internal/rabbit ./test/faults ./test/deployment ./internal/rabbit/transfer ./test/plugin ./test/monitoring
  ./test/consumer ./test/facts)

# API servers and tests collect garbage less often: they need memory, and time is short. For the same reason nothing is linked
# for a debugger (-w), and no test binary waits a second for the race detector at its end.
export GOGC=400 GORACE=atexit_sleep_ms=0

# run_tests LABELS PROFILE ARGUMENT…: the specs that Ginkgo's filter of labels picks, and all other tests.
run_tests() {
  local labels=$1 profile=$2 flags
  shift 2
  eval "flags=(${TESTFLAGS:-})"
  WARREN_TEST_LABELS=$labels go test -exec="$PWD/hack/run-test.sh" -race -shuffle=on -timeout=60m -ldflags=-w -count=1 \
    -coverpkg=./api/...,./internal/... -coverprofile="$profile" ${flags[@]+"${flags[@]}"} "$@"
}

quick() {
  local others
  others=$(go list ./... ./consumer/... ./cmd/kubectl-warren/... | grep -vE '/test/(gitops|incluster|cluster)$')
  # shellcheck disable=SC2086 # words
  run_tests '!extended && !soak' cover.out -p=3 -parallel=8 -skip=Hammered "${on_brokers[@]}" $others
  go build -o /dev/null ./examples/orders
  GOWORK=off go -C consumer/otelconsumer test -race -shuffle=on ./...
  hack/coverage.sh cover.out
}

# What depends on RabbitMQ's version runs on all of them, the newest included: it may have other neighbours there.
extended() {
  export WARREN_TEST_SHARERS=5 # of a queue, in the model of internal/ownership
  run_tests extended cover-extended.out -p=2 -parallel=8 ./test/e2e ./test/cluster ./test/faults ./test/deployment ./test/plugin \
    ./internal/rabbit ./internal/rabbit/... ./internal/ownership ./test/consumer ./test/facts
  hack/coverage.sh cover.out cover-extended.out
}

"${1:?usage: hack/test.sh quick|extended}"
