# shellcheck shell=bash
# Functions for the scripts in hack/: the cache, messages, locks. Sourced.

# The cache is outside of the checkout, so that all clones on a machine share it.
WARREN_CACHE="${WARREN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warren}"
mkdir -p "$WARREN_CACHE"
WARREN_CACHE="$(cd "$WARREN_CACHE" && pwd)"
HACK_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export WARREN_CACHE HACK_DIR

# Progress goes to stderr, because callers read the result from stdout.
say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# usage prints the comment at the head of the script.
usage() {
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

have() { command -v "$1" >/dev/null 2>&1; }

# quietly LOG COMMAND… writes the output of a command to LOG. If the command fails, it prints the end of LOG.
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

# limited SECONDS COMMAND… runs a command with a time limit. On a machine without timeout(1), such as macOS, there is no limit.
limited() {
  local seconds=$1
  shift
  if have timeout; then timeout "$seconds" "$@"; else "$@"; fi
}

# remove_lost_data removes the data in memory of brokers whose folder no longer exists; see hack/brokers/debian.sh.
remove_lost_data() {
  local data
  for data in /dev/shm/warren-*; do
    [[ ! -L $data/root || -e $data/root ]] || rm -rf "$data"
  done
}

# alone NAME FUNCTION… runs a function in one process of this machine at a time. Processes that continue to run must not inherit
# the lock's file descriptor (9).
alone() {
  local lock=$1
  shift
  if ! have flock; then
    "$@"
    return
  fi
  exec 9>"$WARREN_CACHE/.$lock.lock"
  flock -n 9 || {
    say "waiting for another process that holds the lock $lock"
    flock 9
  }
  "$@"
  exec 9>&-
}

# npm_modules PREFIX FOLDER prints a folder of the cache with the modules that FOLDER/package-lock.json pins.
npm_modules() {
  local key
  key=$(cksum <"$2/package-lock.json" | cut -d ' ' -f 1)
  [[ -d $WARREN_CACHE/$1$key ]] || alone npm fetch_npm_modules "$WARREN_CACHE/$1$key" "$2"
  echo "$WARREN_CACHE/$1$key"
}

fetch_npm_modules() {
  [[ ! -d $1 ]] || return 0 # another process was faster
  have npm || die "npm is missing: it fetches the modules of $2"
  rm -rf "$1.work" && mkdir -p "$1.work"
  cp "$2"/package{,-lock}.json "$1.work"
  quietly "$WARREN_CACHE/logs/npm.log" npm ci --prefix "$1.work" --ignore-scripts --no-audit --no-fund ||
    die "cannot fetch the modules of $2; this machine needs access to an npm registry"
  mv "$1.work" "$1"
}
