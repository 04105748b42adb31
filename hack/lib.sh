# shellcheck shell=bash
# Shared by the scripts in hack/: where things are kept, how they speak, how they take turns.

# Everything that takes long to get lives outside of the checkout, so that the next clone on
# the same machine starts at once.
WARREN_CACHE="${WARREN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warren}"
mkdir -p "$WARREN_CACHE"
WARREN_CACHE="$(cd "$WARREN_CACHE" && pwd)"
HACK_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export WARREN_CACHE HACK_DIR

# Progress goes to stderr: stdout belongs to the answer that a caller reads.
say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }

die() {
  say "$*"
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# quietly LOG COMMAND…: keeps the output of a long command in LOG, and shows its end only
# when the command fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" </dev/null >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    say "the whole output is in $log"
    return 1
  }
}

# limited SECONDS COMMAND…: where the machine has no timeout(1) (macOS), without a limit.
limited() {
  local seconds=$1
  shift
  if have timeout; then timeout "$seconds" "$@"; else "$@"; fi
}

# alone NAME FUNCTION…: one process of this machine at a time. The lock's file descriptor (9)
# must not be inherited by what is left running, see `9>&-` where something is started.
alone() {
  local lock=$1
  shift
  if ! have flock; then
    "$@"
    return
  fi
  exec 9>"$WARREN_CACHE/.$lock.lock"
  flock -n 9 || {
    say "another process is at it, waiting for it to finish"
    flock 9
  }
  "$@"
  exec 9>&-
}
