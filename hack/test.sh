#!/usr/bin/env bash
# Runs the Go tests of a tier, inside of hack/with-parts.sh.
#
#   hack/test.sh quick     the tests of `make test`, on the newest RabbitMQ
#   hack/test.sh extended  the further tests of `make test-all`, on every RabbitMQ of the matrix
#
# TESTFLAGS is passed on to go test. WARREN_COVERAGE=1 also checks the coverage of both tiers together, at the end of extended; it takes
# a tenth of the time. docs/development.md describes the tiers.
#
# Tests mostly wait for brokers, so many more of them run at the same time than there are cores: packages, parallel tests and, by
# run-test.sh, the specs of a suite. Each test has its own vhost and namespace.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# These settings save time: API servers and tests collect garbage less often, binaries have neither debug information nor symbols
# (-s -w), and no test binary waits a second for the race detector at its end.
export GOGC=400 GORACE=atexit_sleep_ms=0

# run_tests PROFILE ARGUMENT…: runs packages. With WARREN_COVERAGE, PROFILE becomes their coverage of api/ and internal/. Go takes the
# result of an unchanged package from its cache, and prints "(cached)".
run_tests() {
  local profile=$1 flags
  shift
  eval "flags=(${TESTFLAGS:-})"
  [[ -z ${WARREN_COVERAGE:-} ]] || flags+=(-coverpkg=./api/...,./internal/... -coverprofile="$profile")
  go test -race -timeout=60m -ldflags='-s -w' -parallel=8 ${uncached[@]+"${uncached[@]}"} ${flags[@]+"${flags[@]}"} "$@"
}

# run_parts is run_tests for packages whose results must not be cached, because their tests use real parts or files of another module.
run_parts() {
  local uncached=(-exec="'$PWD/hack/run-test.sh'" -shuffle=on -count=1)
  run_tests "$@"
}

# pure prints the packages, except those below test/ and hack/, whose tests use neither real parts nor files of another module: Go
# does not see changes of these.
pure() {
  local folder
  go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... ./consumer/... ./cmd/kubectl-warren/... |
    sed -nE '\%^[^ ]*/warren/(test|hack)/|/warren/test/(brokers|testenv)%d; s/\.test .*//p' |
    grep -vxFf <(for folder in $(git grep -lF ../../../ -- 'cmd/kubectl-warren/*_test.go' | xargs -n1 dirname | sort -u); do
      echo "github.com/warren-mq/warren/$folder"
    done)
}

# These packages run first, with 12 tests at a time in all. Beside other packages, a broker can take longer than 100 ms to answer, and
# then Warren does not delete a queue.
quiet=(./internal/rabbit/recreate ./internal/rabbit ./internal/rabbit/{safedelete,observe,brokermatch,change})

# test/e2e and test/plugin run last and one at a time, because each runs as many specs at a time as the machine can bear. In extended,
# test/faults does, too.
quick() {
  local status=0 modules=(./... ./consumer/... ./cmd/kubectl-warren/...)
  # Beside compilers, brokers would be too slow for the tests. This compiles packages and their tests.
  go list -race -test -export "${modules[@]}" >/dev/null
  local longest=(./test/faults ./internal/rabbit/mover) last=(./test/e2e ./test/plugin)
  export WARREN_TEST_LABELS='!extended && !soak && !bench'
  run_parts cover-rabbit.out -short -p=3 -parallel=4 "${quiet[@]}" || status=1
  local package pure=() # beside the next ones, because these mostly wait
  while read -r package; do pure+=("$package"); done < <(pure)
  run_tests cover-pure.out -short -p=2 -skip='^Fuzz' "${pure[@]}" & # `make fuzz-seeds` runs the fuzz tests
  # shellcheck disable=SC2046 # packages have no spaces
  run_parts cover.out -short -p=3 "${longest[@]}" $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' \
    "${modules[@]}" | grep -vE '/test/(gitops|incluster|cluster|docs)$' |
    grep -vxFf <(go list "${pure[@]}" "${quiet[@]}" "${longest[@]}" "${last[@]}")) || status=1
  run_parts cover-last.out -short -p=1 "${last[@]}" || status=1
  wait $! || status=1
  ((!status)) || return "$status"
  go build -o /dev/null ./examples/orders
  go test -shuffle=on -count=1 ./test/docs # it reads all files, which takes ten times longer with -race
  GOWORK=off go -C consumer/otelconsumer test -race -shuffle=on ./...
}

# extended also repeats tests on the newest RabbitMQ, because there they run beside other tests than in quick.
extended() {
  export WARREN_TEST_PEERS=5 # how many share a queue in the model of internal/ownership
  export WARREN_TEST_LABELS=extended
  local status=0
  run_parts cover-extended.out -p=2 ./internal/rabbit ./internal/rabbit/... ./internal/{ownership,topology/plan/recreationmodel} ./consumer \
    ./internal/controller/brokers ./test/{deployment,monitoring,cluster,consumer,facts,stopping,traffic} ./cmd/warren-conformance || status=1
  run_parts cover-extended-last.out -p=1 ./test/{e2e,faults,plugin} || status=1
  ((!status)) || return "$status"
  [[ -z ${WARREN_COVERAGE:-} ]] || hack/coverage.sh cover-{pure,rabbit}.out cover.out cover-last.out cover-extended{,-last}.out
}

"${1:?usage: hack/test.sh quick|extended}"
