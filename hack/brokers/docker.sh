# shellcheck shell=bash
# Brokers as containers of the official image. Sourced by hack/brokers.sh.

docker_available() { have docker && limited 10 docker info >/dev/null 2>&1; }

docker_name() { echo "warren-rabbitmq-$1-$(id -u)${PRIVATE:+-$PRIVATE}${CLUSTER:+-$NODE}"; }

docker_image() { echo "rabbitmq:$1-management"; }

docker_provide() {
  local image
  image=$(docker_image "$1")
  ! docker image inspect "$image" >/dev/null 2>&1 || return 0
  say "pulling $image (once per machine)…"
  quietly "$WARREN_CACHE/logs/pull-$1.log" docker pull "$image" || {
    say "$image cannot be pulled"
    return 1
  }
}

# docker_boot copies files into the container, because the daemon may not see a folder to mount.
docker_boot() {
  local name files
  name=$(docker_name "$1")
  files=$(mktemp -d)
  configuration 0.0.0.0 5672 5671 15672 15671 >"$files/rabbitmq.conf"
  echo "$PLUGINS" >"$files/enabled_plugins"
  cp -r "$TLS" "$files/tls"
  chmod -R a+rX "$files"
  docker rm -f "$name" >/dev/null 2>&1 || true
  # shellcheck disable=SC2046 # options
  docker create --name "$name" --label "warren-run=${WARREN_RUN:-}" $([[ -z $CLUSTER ]] || echo "--network $PRIVATE --hostname node-$NODE --network-alias node-$NODE") \
    -p "$ADDRESS:$AMQP:5672" -p "$ADDRESS:$AMQPS:5671" -p "$ADDRESS:$HTTP:15672" -p "$ADDRESS:$HTTPS:15671" \
    -e "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=$ERLANG_ARGUMENTS" "$(docker_image "$1")" >/dev/null
  docker cp "$files/." "$name:/etc/rabbitmq/" >/dev/null 2>&1
  if [[ -n $CLUSTER ]]; then # the image makes the broker's user the owner of the files in this folder
    install -m 600 "$CLUSTER/cookie" "$files/.erlang.cookie"
    docker cp "$files/.erlang.cookie" "$name:/var/lib/rabbitmq/.erlang.cookie" >/dev/null 2>&1
  fi
  docker start "$name" >/dev/null
  rm -r "$files"
}

docker_running() { [[ $(docker inspect -f '{{.State.Running}}' "$(docker_name "$1")" 2>/dev/null) == true ]]; }

docker_stop() { docker rm -f -v "$(docker_name "$1")" >/dev/null; }

# The container of a private broker keeps its data while it is stopped.
docker_copy() { :; }

docker_boot_again() { docker start "$(docker_name "$1")" >/dev/null; }

docker_cut() { docker kill "$(docker_name "$1")" >/dev/null; }

docker_remove() { docker rm -f -v "$(docker_name "$1")" >/dev/null 2>&1 || true; }

docker_log() { docker logs --tail 20 "$(docker_name "$1")"; }

docker_log_name() { echo "docker logs $(docker_name "$1")"; }

# --- nodes of a cluster: they share one network ------------------------------------------------

docker_node_name() { echo "rabbit@node-$1"; }

docker_cluster_prepare() {
  docker network inspect "$PRIVATE" >/dev/null 2>&1 || docker network create --label "warren-run=${WARREN_RUN:-}" "$PRIVATE" >/dev/null
}

docker_cluster_end() { :; }

docker_cluster_remove() { docker network rm "$PRIVATE" >/dev/null 2>&1 || true; }

docker_quit() { docker stop --time 120 "$(docker_name "$1")" >/dev/null; }

docker_pause() { docker pause "$(docker_name "$1")" >/dev/null; }

docker_resume() { docker unpause "$(docker_name "$1")" >/dev/null; }

docker_eval() { docker exec "$(docker_name "$1")" rabbitmqctl --quiet eval "$2"; }

docker_pid() { docker inspect -f '{{.State.Pid}}' "$(docker_name "$1")"; }
