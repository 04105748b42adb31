# shellcheck shell=bash
# A cluster of three brokers on this machine. Sourced by hack/brokers.sh.
#
# A node is a broker with its own ports, data and folder, FOLDER/node-N. The nodes share an Erlang cookie, and their configuration
# lists all nodes.

NODES=(1 2 3)
CLUSTER="" # the folder of the cluster
NODE=""    # the number of the selected node

# cluster_configuration prints the settings of a node that are about the cluster; nothing for a single broker.
cluster_configuration() {
  local number
  [[ -n $CLUSTER ]] || return 0
  echo 'cluster_formation.peer_discovery_backend = classic_config'
  for number in "${NODES[@]}"; do
    echo "cluster_formation.classic_config.nodes.$number = $("${BACKEND}_node_name" "$number")"
  done
}

cluster() {
  local action=${1:-} number="" argument="" version=""
  shift || true
  case $action in
    start)
      for argument in "$@"; do
        if [[ " ${VERSIONS[*]} newest " == *" $argument "* ]]; then version=$(versions "$argument"); else CLUSTER=$argument; fi
      done
      alone brokers cluster_prepare "$version"
      cluster_await
      ;;
    stop | remove)
      cluster_folder "${1:-}"
      [[ ! -f $CLUSTER/version ]] || "cluster_$action"
      ;;
    node | eval)
      [[ $# -ge 2 ]] || usage
      if [[ $action == node ]]; then argument=$1 number=$2; else number=$1 argument=$2; fi
      [[ " ${NODES[*]} " == *" $number "* ]] || die "no such node: $number (there are ${NODES[*]})"
      cluster_folder "${3:-}"
      [[ -f $CLUSTER/version ]] || die "no cluster in $CLUSTER: hack/brokers.sh cluster start"
      cluster_node "$number"
      "cluster_${action}_at_node" "$argument"
      ;;
    *) usage ;;
  esac
}

# cluster_folder FOLDER sets the folder of the cluster, and the variables that depend on it.
cluster_folder() {
  CLUSTER=${1:-$WARREN_CACHE/brokers/cluster}
  mkdir -p "$CLUSTER"
  CLUSTER=$(cd "$CLUSTER" && pwd)
  PRIVATE="warren-cluster-$(cksum <<<"$CLUSTER" | cut -d ' ' -f 1)"
  VERSION=$(cat "$CLUSTER/version" 2>/dev/null || true)
}

# cluster_node NUMBER selects a node.
cluster_node() {
  NODE=$1 STATE=$CLUSTER/node-$1
  recall "$VERSION"
}

# cluster_prepare VERSION starts the nodes that do not run, without waiting, because each node waits for the others when it boots.
cluster_prepare() {
  local number
  cluster_folder "$CLUSTER"
  if [[ -n $VERSION && -f $CLUSTER/unfinished ]]; then # its start or removal was killed
    (cluster_remove) # in a subshell, because it selects nodes
    VERSION=""
  fi
  if [[ -z $VERSION ]]; then
    cluster_make "${1:-${VERSIONS[0]}}"
    return
  fi
  [[ -z $1 || $1 == "$VERSION" ]] || die "the cluster in $CLUSTER is one of RabbitMQ $VERSION; remove it first"
  provide "$VERSION"
  for number in "${NODES[@]}"; do
    cluster_node "$number"
    "${BACKEND}_cluster_prepare" "$VERSION"
    "${BACKEND}_running" "$VERSION" || "${BACKEND}_boot_again" "$VERSION"
  done
}

cluster_make() {
  local number base
  VERSION=$1
  provide "$VERSION"
  certificates
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$CLUSTER/cookie"
  for number in "${NODES[@]}"; do
    "${BACKEND}_copy" "$VERSION" "$CLUSTER/node-$number"
  done
  base=$(cluster_ports)
  for number in "${NODES[@]}"; do
    NODE=$number STATE=$CLUSTER/node-$number
    take_ports $((base + number))
    EPMD=$((27000 + base + 1))
    remember "$VERSION"
  done
  : >"$CLUSTER/unfinished"
  echo "$VERSION" >"$CLUSTER/version"
  for number in "${NODES[@]}"; do
    cluster_node "$number"
    "${BACKEND}_cluster_prepare" "$VERSION"
    "${BACKEND}_boot" "$VERSION"
  done
  rm "$CLUSTER/unfinished"
}

# cluster_ports prints the number before those of three free sets of ports. Single brokers use sets whose number is 3, 0 or 10 above a
# multiple of 20, so the sets of a cluster begin 3 higher.
cluster_ports() {
  local number offset
  number=$(($(number_of "$VERSION") + 3))
  for offset in $(port_offsets); do
    ! { free_ports $((number + offset + 1)) && free_ports $((number + offset + 2)) && free_ports $((number + offset + 3)); } || break
  done
  echo $((number + offset))
}

# cluster_await waits until each node answers, and lists all nodes as running.
cluster_await() {
  local number begin=$SECONDS
  for number in "${NODES[@]}"; do
    cluster_node "$number"
    await "$VERSION" "$begin"
  done
  until [[ $(answer "$HTTP" '/api/nodes?columns=running' | grep -o '"running":true' | wc -l) -eq ${#NODES[@]} ]]; do
    ((SECONDS - begin < 240)) || die "the nodes in $CLUSTER did not become one cluster"
    sleep 0.2
  done
  for number in "${NODES[@]}"; do
    cluster_node "$number"
    echo "amqp://guest:guest@127.0.0.1:$AMQP,http://guest:guest@127.0.0.1:$HTTP"
  done
}

# cluster_has NUMBER succeeds if the node exists. A script that is killed while it removes the cluster leaves some nodes.
cluster_has() { [[ -f $CLUSTER/node-$1/$VERSION/endpoints ]]; }

cluster_stop() {
  local number
  for number in "${NODES[@]}"; do
    cluster_has "$number" || continue
    cluster_node "$number"
    ! "${BACKEND}_running" "$VERSION" || "${BACKEND}_cut" "$VERSION"
  done
  "${BACKEND}_cluster_end" "$VERSION"
}

cluster_remove() {
  local number
  : >"$CLUSTER/unfinished" # after a kill, the next start removes the rest first
  cluster_stop
  for number in "${NODES[@]}"; do
    cluster_has "$number" || continue
    cluster_node "$number"
    "${BACKEND}_remove" "$VERSION"
    rm -rf "$STATE"
  done
  "${BACKEND}_cluster_remove"
  rm -rf "$CLUSTER/epmd" "$CLUSTER/cookie" "$CLUSTER/version" "$CLUSTER/unfinished"
}

cluster_eval_at_node() { "${BACKEND}_eval" "$VERSION" "$1"; }

# cluster_node_at_node ACTION changes the state of the selected node, unless it has that state.
cluster_node_at_node() {
  case $1 in
    start)
      "${BACKEND}_running" "$VERSION" || "${BACKEND}_boot_again" "$VERSION"
      await "$VERSION" "$SECONDS"
      ;;
    stop) ! "${BACKEND}_running" "$VERSION" || "${BACKEND}_quit" "$VERSION" ;;
    kill) ! "${BACKEND}_running" "$VERSION" || "${BACKEND}_cut" "$VERSION" ;;
    pause) "${BACKEND}_pause" "$VERSION" ;;
    resume) "${BACKEND}_resume" "$VERSION" ;;
    *) usage ;;
  esac
}
