#!/usr/bin/env bash
# Real RabbitMQ brokers for the tests and for `make run`.
#
#   hack/brokers.sh start [VERSION…]    start the brokers that do not run; prints the started versions
#   hack/brokers.sh env [VERSION…]      print the environment variables that name the brokers, for eval
#   hack/brokers.sh status [VERSION…]   print which brokers run, with addresses and logs
#   hack/brokers.sh stop [VERSION…]     stop the brokers that `start` has started
#   hack/brokers.sh provide [VERSION…]  download and unpack, so that `start` needs no network
#
#   hack/brokers.sh private start FOLDER [VERSION [ADDRESS]]
#       start another broker, by default of the newest version, for a test that stops it. Prints its addresses like an entry of
#       WARREN_TEST_BROKERS. With the same FOLDER it starts again with its ports and data. With ADDRESS it listens there, at the
#       default ports of RabbitMQ.
#   hack/brokers.sh private stop FOLDER             kill it and keep its data
#   hack/brokers.sh private remove FOLDER           kill it and delete its data
#   hack/brokers.sh private eval FOLDER EXPRESSION  evaluate an Erlang expression
#   hack/brokers.sh private pid FOLDER              print the ID of the broker's root process
#
#   hack/brokers.sh cluster start [FOLDER] [VERSION]    start a cluster of three nodes, by default of the newest version and in a
#                                                       folder of the cache; prints the addresses of each node
#   hack/brokers.sh cluster stop|remove [FOLDER]        kill all nodes; `remove` also deletes their data
#   hack/brokers.sh cluster node ACTION N [FOLDER]      start, stop (gracefully), kill, pause or resume node 1, 2 or 3
#   hack/brokers.sh cluster eval N EXPRESSION [FOLDER]  evaluate an Erlang expression on node N
#
# VERSION is 4.3, 4.0, 3.10 or `newest`; all versions by default. A broker starts without data, listens on 127.0.0.1, and has the
# user guest/guest.
#
# The first source that works is used: WARREN_TEST_BROKERS (no broker is started), Docker, Debian's packages (unpacked without root
# and without an installation).
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/brokers/docker.sh
. "$HACK_DIR/brokers/docker.sh"
# shellcheck source=hack/brokers/debian.sh
. "$HACK_DIR/brokers/debian.sh"
# shellcheck source=hack/brokers/cluster.sh
. "$HACK_DIR/brokers/cluster.sh"

VERSIONS=(4.3 4.0 3.10) # the newest first
STATE="$WARREN_CACHE/brokers"
PORTS="$WARREN_CACHE/brokers/ports" # for each used set of ports, by number, a file with the path of the broker's endpoints
TLS="$WARREN_CACHE/tls"
PRIVATE="" # the name of a private broker's cluster
ADDRESS=127.0.0.1
REMEDY="start Docker, use a Debian or Ubuntu machine, or name brokers of your own: WARREN_TEST_BROKERS='amqp://user:password@host:5672,http://user:password@host:15672 …'"

# --- addresses of a broker: $STATE/VERSION/endpoints, written at each start ------------------

# A broker of version 4.3 has the ports 21403 (AMQP), 22403 (AMQPS), 23403 (management) and 24403 (management over TLS), or the next
# free set. All are below the range of client ports. A private broker gets a random set from another range. No other broker gets the
# ports of a stopped private broker.
choose_ports() {
  local number offset
  number=$(number_of "$1")
  for offset in $(port_offsets); do
    ! free_ports $((number + offset)) || break
  done
  take_ports $((number + offset))
  [[ $ADDRESS == 127.0.0.1 ]] || AMQP=5672 AMQPS=5671 HTTP=15672 HTTPS=15671
}

number_of() { echo $((${1%.*} * 100 + ${1#*.})); }

port_offsets() {
  if [[ -z $PRIVATE ]]; then
    seq 0 20 480
  else
    for offset in $(seq 510 20 990); do echo "$RANDOM $offset"; done | sort -n | cut -d ' ' -f 2
  fi
}

# free_ports NUMBER succeeds if no process listens on a port of the set, and no other broker owns the set.
free_ports() {
  local base owner
  owner=$(cat "$PORTS/$1" 2>/dev/null || true)
  [[ ! -f $owner || $owner == "$STATE"/* ]] || return 1
  for base in 21000 22000 23000 24000 26000 27000; do
    ! listens $((base + $1)) || return 1
  done
}

take_ports() {
  free_ports "$1" || die "no free ports for RabbitMQ near $((21000 + $1)); stop the process that listens there"
  AMQP=$((21000 + $1)) AMQPS=$((22000 + $1)) HTTP=$((23000 + $1)) HTTPS=$((24000 + $1))
  DIST=$((26000 + $1)) EPMD=$((27000 + $1))
}

remember() {
  mkdir -p "$STATE/$1" "$PORTS"
  printf '%s=%s\n' BACKEND "$BACKEND" ADDRESS "$ADDRESS" AMQP "$AMQP" AMQPS "$AMQPS" HTTP "$HTTP" HTTPS "$HTTPS" DIST "$DIST" EPMD "$EPMD" \
    >"$STATE/$1/endpoints"
  echo "$STATE/$1/endpoints" >"$PORTS/$((DIST - 26000))"
}

recall() {
  [[ -f $STATE/$1/endpoints ]] || return 1
  # shellcheck disable=SC1090
  . "$STATE/$1/endpoints"
}

running() { recall "$1" && "${BACKEND}_running" "$1"; }

listens() { (exec 3<>"/dev/tcp/$ADDRESS/$1") 2>/dev/null; }

# answer PORT PATH [METHOD BODY] prints the response of the management API. It uses bash's TCP, so that curl is not needed.
answer() {
  local method=${3:-GET} body=${4:-}
  (
    exec 3<>"/dev/tcp/$ADDRESS/$1"
    printf '%s %s HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n' "$method" "$2" >&3
    printf 'Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#body}" "$body" >&3
    cat <&3
  ) 2>/dev/null
}

# keep_events binds the event exchange to an exchange without bindings. If the last binding of the event exchange is removed while
# another one is added, RabbitMQ can treat it as unbound from then on, and send no events.
keep_events() {
  answer "$HTTP" /api/exchanges/%2F/kept.events PUT '{"type":"fanout"}' >/dev/null
  answer "$HTTP" /api/bindings/%2F/e/amq.rabbitmq.event/e/kept.events POST '{"routing_key":"none"}' >/dev/null
}

# answers PORT succeeds if the management API accepts the test user.
answers() { [[ $(answer "$1" /api/overview | head -n 1) == *' 200 '* ]]; }

ready() { listens "$AMQP" && listens "$AMQPS" && listens "$HTTPS" && answers "$HTTP"; }

# --- configuration -----------------------------------------------------------------------------

# configuration ADDRESS AMQP AMQPS HTTP HTTPS prints rabbitmq.conf, with small limits so that three brokers fit on a laptop. All other
# settings are RabbitMQ's defaults.
configuration() {
  cat <<CONF
listeners.tcp.1 = $1:$2
listeners.ssl.1 = $1:$3
management.tcp.ip = $1
management.tcp.port = $4
management.ssl.ip = $1
management.ssl.port = $5
$(for prefix in ssl_options management.ssl; do
    printf "$prefix.%s\n" 'cacertfile = /etc/rabbitmq/tls/ca.crt' 'certfile = /etc/rabbitmq/tls/server.crt' \
      'keyfile = /etc/rabbitmq/tls/server.key' 'verify = verify_peer' 'fail_if_no_peer_cert = false'
  done)
loopback_users = none
log.console = false
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 1GB
vm_memory_calculation_strategy = allocated
raft.wal_max_size_bytes = 67108864
${PRIVATE:+cluster_name = $PRIVATE}
$(cluster_configuration)
CONF
}

PLUGINS='[rabbitmq_management,rabbitmq_event_exchange,rabbitmq_shovel].'

# RabbitMQ restarts the dead-letter worker of a deleted queue a hundred times within a moment. Then the supervisor of the workers
# stops with the workers of all queues, and dead letters wait (rabbitmq-server#16652): other tests would fail. This loop makes the
# supervisor leave such a worker stopped: it sets restart_type, the fifth element of a child's record, whenever the supervisor is new. The
# loop contains no spaces, because the broker's scripts split words.
ERLANG_ARGUMENTS="-eval spawn(fun()->(fun(F)->F(F)end)(fun(F)->timer:sleep(200),\
case{whereis(rabbit_fifo_dlx_sup),get(supervisor)}of{P,P}->(ok);{P,_}when(is_pid(P))->put(supervisor,P),\
sys:replace_state(P,fun(S)->{[I],C}=element(4,S),setelement(4,S,{[I],C#{I:=setelement(5,maps:get(I,C),temporary)}})end);\
_->(ok)end,F(F)end)end)."

certificates() {
  [[ -f $TLS/ca.crt ]] || GOWORK=off go run "$HACK_DIR/certs/main.go" "$TLS" ||
    die "cannot write the test certificates to $TLS"
}

# --- commands ----------------------------------------------------------------------------------

# provide VERSION gets a version from the first source that works on this machine, and sets BACKEND.
provide() {
  if docker_available && docker_provide "$1"; then
    BACKEND=docker
  elif debian_available; then
    BACKEND=debian
    debian_provide "$1"
  else
    die "RabbitMQ $1 cannot be provided here; $REMEDY"
  fi
}

provide_all() {
  local version
  for version in "$@"; do provide "$version"; done
  certificates
}

start() {
  local version begin
  # An interrupted run stops the brokers that it has started. After a run that exits by itself, they continue to run.
  [[ -z ${WARREN_RUN:-} ]] || export WARREN_RUN=$WARREN_RUN-shared
  for version in "$@"; do
    ! running "$version" || continue
    provide "$version"
    certificates
    choose_ports "$version"
    remember "$version"
    "${BACKEND}_boot" "$version"
    echo "$version"
  done
  begin=$SECONDS
  for version in "$@"; do
    recall "$version"
    await "$version" "$begin"
  done
}

await() {
  local version=$1 begin=$2 waited=""
  until ready; do
    waited=yes
    "${BACKEND}_running" "$version" || sleep 1 # a process has no command line for a moment while it executes the next program
    if ! "${BACKEND}_running" "$version" || ((SECONDS - begin > 180)); then
      "${BACKEND}_log" "$version" >&2 || true
      die "RabbitMQ $version did not start; the end of its log is above"
    fi
    sleep 0.2
  done
  keep_events
  say "RabbitMQ $version ${waited:+started in $((SECONDS - begin)) s, }listens on amqp://$ADDRESS:$AMQP and http://$ADDRESS:$HTTP"
}

stop() {
  local version
  for version in "$@"; do
    recall "$version" || continue
    if "${BACKEND}_running" "$version"; then
      "${BACKEND}_stop" "$version"
      say "stopped RabbitMQ $version"
    fi
    rm -f "$STATE/$version/endpoints"
  done
}

environment() {
  local version plain=() tls=() user=guest:guest@127.0.0.1
  for version in "$@"; do
    running "$version" || continue
    plain+=("amqp://$user:$AMQP,http://$user:$HTTP")
    tls+=("amqps://$user:$AMQPS,https://$user:$HTTPS")
  done
  [[ ${#plain[@]} -gt 0 ]] || die "no broker of $* runs; start them with hack/brokers.sh start"
  echo "export WARREN_TEST_BROKERS='${plain[*]}'"
  echo "export WARREN_TEST_TLS_BROKERS='${tls[*]}'"
  echo "export WARREN_TEST_TLS_DIR='$TLS'"
}

status() {
  local version
  for version in "$@"; do
    if running "$version"; then
      echo "$version runs ($BACKEND): amqp://127.0.0.1:$AMQP http://127.0.0.1:$HTTP amqps://127.0.0.1:$AMQPS https://127.0.0.1:$HTTPS, log: $("${BACKEND}_log_name" "$version")"
    else
      echo "$version does not run"
    fi
  done
}

# private ACTION FOLDER [VERSION [ADDRESS]] carries out an action on a private broker. FOLDER has its addresses and data.
private() {
  local action=$1 folder=${2:-} version=${3:-}
  [[ -n $folder ]] || usage
  if [[ $action == start ]]; then
    ADDRESS=${4:-$ADDRESS}
    mkdir -p "$folder"
    [[ -n $version || ! -f $folder/version ]] || version=$(cat "$folder/version")
    version=$(versions "${version:-newest}")
    provide "$version"
    certificates
  fi
  [[ -d $folder ]] || die "no such folder: $folder"
  folder=$(cd "$folder" && pwd)
  PRIVATE="private-$(cksum <<<"$folder" | cut -d ' ' -f 1)"
  case $action in
    start) private_start "$folder" "$version" ;;
    stop | remove)
      version=$(cat "$folder/version" 2>/dev/null) || return 0
      private_end "$action" "$folder" "$version"
      ;;
    eval) private_eval "$folder" "$3" ;;
    pid) private_pid "$folder" ;;
    *) usage ;;
  esac
}

private_start() {
  local folder=$1 version=$2
  if [[ ! -f $folder/version ]]; then
    "${BACKEND}_copy" "$version" "$folder"
    STATE=$folder
    choose_ports "$version"
    remember "$version"
    "${BACKEND}_boot" "$version"
    echo "$version" >"$folder/version"
  else
    STATE=$folder
    running "$version" || "${BACKEND}_boot_again" "$version"
  fi
  await "$version" "$SECONDS"
  echo "amqp://guest:guest@$ADDRESS:$AMQP,http://guest:guest@$ADDRESS:$HTTP"
}

private_eval() {
  local folder=$1 expression=$2 version
  version=$(cat "$folder/version")
  STATE=$folder
  recall "$version"
  "${BACKEND}_eval" "$version" "$expression"
}

private_pid() {
  local folder=$1 version
  version=$(cat "$folder/version")
  STATE=$folder
  recall "$version"
  "${BACKEND}_pid" "$version"
}

private_end() {
  local action=$1 folder=$2 version=$3
  STATE=$folder
  ! running "$version" || "${BACKEND}_cut" "$version"
  [[ $action == remove ]] || return 0
  "${BACKEND}_remove" "$version"
  rm -rf "${folder:?}/$version" "$folder/version"
}

# versions [VERSION…] prints the versions, all by default.
versions() {
  local given
  [[ $# -gt 0 ]] || set -- "${VERSIONS[@]}"
  for given in "$@"; do
    [[ $given != newest ]] || given=${VERSIONS[0]}
    [[ " ${VERSIONS[*]} " == *" $given "* ]] || die "no such version: $given (there are ${VERSIONS[*]})"
    echo "$given"
  done
}


command=${1:-}
shift || true
if [[ $command == private ]]; then
  [[ $# -ge 1 ]] || usage
  alone brokers private "$@"
  exit
fi
if [[ $command == cluster ]]; then
  cluster "$@"
  exit
fi
selected=$(versions "$@")
# shellcheck disable=SC2086 # one word per version
case $command in
  start)
    if [[ -n ${WARREN_TEST_BROKERS:-} ]]; then
      say "using the brokers that WARREN_TEST_BROKERS names"
    else
      alone brokers start $selected
    fi
    ;;
  env)
    if [[ -n ${WARREN_TEST_BROKERS:-} ]]; then
      echo "export WARREN_TEST_BROKERS='$WARREN_TEST_BROKERS'"
    else
      environment $selected
    fi
    ;;
  provide) alone brokers provide_all $selected ;;
  stop) alone brokers stop $selected ;;
  status) status $selected ;;
  *) usage ;;
esac
