#!/usr/bin/env bash
# Runs a test binary, for `go test -exec`. The specs of a Ginkgo suite run in several processes, because they mostly wait. Other tests,
# and tests that -run selects, run in one process.
#
#   WARREN_TEST_LABELS      Ginkgo's label filter
#   WARREN_TEST_PROCESSES   the number of processes for a suite. The default is the number in a comment of the suite
#                           (`// processes: 2`), or four for each core
set -euo pipefail

binary=$1
shift
grep -qs 'RunSpecs(' ./*_test.go || exec "$binary" "$@"

profile="" verbose="" picked=""
given=() passed=()
for argument in "$@"; do
  case $argument in
    -test.parallel=*) continue ;;                   # Ginkgo refuses it
    -test.coverprofile=*) profile=${argument#*=} ;; # each process writes a profile, and Ginkgo merges them
    -test.testlogfile=*) ;;                         # for the cache of results, which tests on real parts must not use
    -test.v=true) verbose=-v ;;
    -test.run=* | -test.list=* | -test.bench=* | -test.fuzz=*) picked=yes ;;
    *) passed+=("$argument") ;;
  esac
  given+=("$argument")
done
[[ -z $picked ]] || exec "$binary" "${given[@]}"

# Ginkgo runs a binary in the binary's folder, but a test expects the folder of its package.
ginkgo=$(go tool -n ginkgo)
link=./processes-$$.test
folder=$(mktemp -d)
trap 'rm -rf "$link" "$folder"' EXIT
ln -s "$binary" "$link"
status=0
processes=$(sed -n 's|^// processes: ||p' ./*_test.go)
"$ginkgo" run --procs="${WARREN_TEST_PROCESSES:-${processes:-$((4 * $(getconf _NPROCESSORS_ONLN)))}}" --randomize-all --fail-on-empty --no-color $verbose \
  ${WARREN_TEST_LABELS:+--label-filter="$WARREN_TEST_LABELS"} \
  ${profile:+--cover --coverprofile=cover.out --output-dir="$folder"} "$link" -- "${passed[@]}" || status=$?
[[ -z $profile || ! -f $folder/cover.out ]] || mv "$folder/cover.out" "$profile"
exit "$status"
