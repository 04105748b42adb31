#!/usr/bin/env bash
# Runs the Go tests of a tier, inside of hack/with-parts.sh, and checks the coverage.
#
#   hack/test.sh quick     what `make test` runs: the newest RabbitMQ, and all packages that need minutes at most
#   hack/test.sh extended  what `make test-all` runs besides, with every RabbitMQ of the matrix
#
# TESTFLAGS is passed on to go test. docs/development.md says what is in which tier, and why.
#
# Tests mostly wait for brokers, so many more of them run at once than there are cores: packages, tests that are parallel,
# and, by run-test.sh, the specs of a suite. Each has a vhost and a namespace of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# API servers and tests collect garbage less often: they need memory, and time is short. For the same reason nothing is linked
# for a debugger (-w), and no test binary waits a second for the race detector at its end.
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

# These packages run first, and 8 tests at a time in all: Warren leaves a queue alone whose broker takes longer than 100 ms to answer, as
# one does beside other packages.
quiet=(./internal/rabbit/recreate ./internal/rabbit ./internal/rabbit/{safedelete,observe,brokermatch,change})

# test/e2e and test/plugin use the API server alone. They run after the suites that share it, which mostly wait: beside those run the
# packages of internal/, whose linking takes most of the time.
quick() {
  local counted others status=0
  counted=("${quiet[@]}") others=()
  run_tier '!extended && !soak && !bench' cover-rabbit.out -short -p=2 -parallel=4 || status=1
  # shellcheck disable=SC2207 # packages have no spaces; the bash of macOS has no mapfile
  counted=(./internal/rabbit/mover ./api/... $(go list ./internal/... | grep -vxFf <(go list "${quiet[@]}" ./internal/rabbit/mover)) \
    ./test/e2e ./test/plugin)
  others=(./test/monitoring ./test/faults ./test/deployment ./test/consumer ./test/facts ./test/stopping)
  # shellcheck disable=SC2207 # packages have no spaces; the bash of macOS has no mapfile
  others+=($(go list ./... ./consumer/... ./cmd/kubectl-warren/... | grep -vE '/test/(gitops|incluster|cluster)$' |
    grep -vxFf <(go list "${quiet[@]}" "${counted[@]}" "${others[@]}")))
  run_tier '!extended && !soak && !bench' cover.out -short -p=2 || status=1
  ((!status)) || return "$status"
  go build -o /dev/null ./examples/orders
  GOWORK=off go -C consumer/otelconsumer test -race -shuffle=on ./...
  hack/coverage.sh cover-rabbit.out cover.out
}

# What depends on RabbitMQ's version runs on all of them, the newest included: it may have other neighbours there.
extended() {
  local counted others
  export WARREN_TEST_SHARERS=5 # of a queue, in the model of internal/ownership
  counted=(./internal/rabbit ./internal/rabbit/... ./test/e2e ./test/plugin ./internal/ownership)
  others=(./test/deployment ./test/cluster ./test/consumer ./test/facts ./test/faults ./test/stopping ./cmd/warren-conformance)
  run_tier extended cover-extended.out -p=1
  hack/coverage.sh cover-rabbit.out cover.out cover-extended.out
}

"${1:?usage: hack/test.sh quick|extended}"
