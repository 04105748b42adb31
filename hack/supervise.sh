#!/usr/bin/env bash
# Runs a command, and ends every process that the command started: when the command has exited, and within ten seconds when
# SIGINT, SIGTERM or SIGHUP stops it. API servers, brokers and nodes of clusters run in sessions of their own, so the processes
# are found by WARREN_RUN in their environment. Temporary files of the run are removed, too.
#
#   hack/supervise.sh COMMAND [ARGUMENT…]
#
# The brokers that all runs share go on after a run that exits by itself; see hack/brokers.sh.
set -uo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ $# -gt 0 ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/warren-XXXXXX")
run=$(basename "$folder")

# processes PATTERN prints the ids of the processes whose WARREN_RUN matches.
processes() {
  if [[ -d /proc/self ]]; then
    grep -lszx -- "WARREN_RUN=$1" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3
  else
    ps -axEww -o pid=,command= | awk -v mark="WARREN_RUN=$1" '{ for (i = 2; i <= NF; i++) if ($i ~ "^" mark "$") { print $1; next } }'
  fi
}

# signal NAME PATTERN sends a signal to the matching processes. It fails when there are none.
signal() {
  local found
  found=$(processes "$2")
  [[ -n $found ]] || return 1
  # shellcheck disable=SC2086 # one word per process
  kill "-$1" $found 2>/dev/null || true
}

# gone PATTERN SECONDS waits until no process matches, for at most so many seconds.
gone() {
  local end=$((SECONDS + $2))
  while [[ -n $(processes "$1") ]]; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

# finish PATTERN kills the matching processes, and removes the containers and the temporary files of the run.
finish() {
  while signal KILL "$1"; do sleep 0.1; done
  if have docker; then
    docker ps -a --format '{{.ID}} {{.Label "warren-run"}}' 2>/dev/null | awk -v mark="^$1\$" '$2 ~ mark { print $1 }' |
      xargs -r docker rm -f -v >/dev/null 2>&1
  fi
  rm -rf "$folder"
}

# interrupt STATUS: programs get three seconds to clean up after SIGINT, and one after SIGTERM.
# shellcheck disable=SC2317 # traps call it
interrupt() {
  trap '' INT TERM HUP
  say "stopping; every process of this run ends within ten seconds"
  kill -INT -- "-$command" 2>/dev/null
  gone "$run.*" 3 || { signal TERM "$run.*" && gone "$run.*" 1; }
  finish "$run.*"
  exit "$1"
}

# In a process group of its own, the command gets the signals of a terminal from this script alone.
set -m
WARREN_RUN=$run TMPDIR=$folder "$@" </dev/null &
command=$!
set +m
trap 'interrupt 130' INT
trap 'interrupt 143' TERM
trap 'interrupt 129' HUP
wait "$command"
status=$?
trap '' INT TERM HUP
gone "$run" 2 || say "killed what the command left running: $(processes "$run" | xargs -r ps -o args= -p 2>/dev/null | cut -c-120)"
finish "$run"
exit "$status"
