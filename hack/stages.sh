# shellcheck shell=bash
# Stages of a long run, for .ci/run and hack/test-all.sh. Each prints a headline. The end of the output has the time of each stage, and
# the stages and tests that failed. Sourced.

timings=""
failed="" # "yes" once a stage has failed
printed=$(mktemp) # the output of the stages

# stage NAME COMMAND… runs a stage. With `set -e`, a failed stage ends the script; otherwise the next stage runs.
stage() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n=== %s\n' "$name"
  if "$@" > >(tee -a "$printed") 2>&1; then
    timings+=$(printf '%-16s %5d s' "$name" $((SECONDS - begin)))$'\n'
  else
    timings+=$(printf '%-16s %5d s  FAILED' "$name" $((SECONDS - begin)))$'\n'
    # shellcheck disable=SC2034 # test-all.sh reads it
    failed=yes
    return 1
  fi
}

# beside NAME COMMAND… starts a stage that runs beside the following ones, until `await NAME`.
beside() {
  local name=$1
  shift
  "$@" >"$printed.$name" 2>&1 &
  echo $! >"$printed.$name.pid"
}

# await NAME waits for a stage that runs beside others, and prints its output. Its time is only the time spent waiting.
await() { stage "$1" awaited "$1"; }

awaited() {
  local status=0
  wait "$(<"$printed.$1.pid")" || status=$?
  cat "$printed.$1"
  return "$status"
}

# finish STATUS prints the result last, because some readers see only the end of the output.
finish() {
  printf '\n%s' "$timings"
  if [[ $1 != 0 ]]; then
    printf 'FAILED with exit code %s: see above\n' "$1"
    grep -E -A 12 '^ *(--- FAIL|\[FAIL\]|\[FAILED\]|\[PANICKED\]|\[TIMEDOUT\]|panic:|WARNING: DATA RACE)' "$printed" | head -n 60 || true
    grep -E '^ *(--- FAIL|\[FAIL\]|FAIL[[:space:]])' "$printed" | sort -u | tail -n 20 || true
  fi
  rm -f "$printed" "$printed".*
}
trap 'finish $?' EXIT
