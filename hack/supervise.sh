#!/usr/bin/env bash
# Runs a command. When the command has exited, or within ten seconds after SIGINT, SIGTERM or SIGHUP, it ends every process that
# the command has started, and removes their temporary files. API servers, brokers and cluster nodes run in sessions of their
# own, so it finds processes by WARREN_RUN in their environment.
#
#   hack/supervise.sh COMMAND [ARGUMENT…]
#
# Shared brokers continue to run after a run that exits by itself; see hack/brokers.sh.
set -uo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ $# -gt 0 ]] || usage

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

# signal NAME PATTERN sends a signal to the matching processes. It fails if there are none.
signal() {
  local found
  found=$(processes "$2")
  [[ -n $found ]] || return 1
  # shellcheck disable=SC2086 # one word per process
  kill "-$1" $found 2>/dev/null || true
}

# gone PATTERN SECONDS waits until no process matches. It fails after the given time.
gone() {
  local end=$((SECONDS + $2))
  while [[ -n $(processes "$1") ]]; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

# labelled PATTERN COMMAND… prints the IDs of the containers or networks that docker COMMAND… lists, if their WARREN_RUN matches.
labelled() {
  docker "${@:2}" --format '{{.ID}} {{.Label "warren-run"}}' 2>/dev/null | awk -v mark="^$1\$" '$2 ~ mark { print $1 }'
}

# kind_node PATTERN prints the container of the cluster of hack/cluster.sh, if a matching WARREN_RUN has started it.
kind_node() { ! grep -qsx -- "$1" "$WARREN_CACHE/cluster/state/run" || echo warren-control-plane; }

# finish PATTERN kills the matching processes, and removes the containers, the networks and the temporary files of the run.
finish() {
  while signal KILL "$1"; do sleep 0.1; done
  if have docker; then
    { labelled "$1" ps -a; kind_node "$1"; } | xargs -r docker rm -f -v >/dev/null 2>&1
    labelled "$1" network ls | xargs -r docker network rm >/dev/null 2>&1
  fi
  rm -rf "$folder"
  remove_lost_data
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

# The command gets its own process group, so that a terminal signals only this script.
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
