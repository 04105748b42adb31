# shellcheck shell=bash
# A cluster by kind, in Docker. Sourced by hack/cluster.sh.
#
#   WARREN_KIND_IMAGE   the node image, for another Kubernetes than that of the pinned kind

KIND_BROKER=warren-broker # a container

kind_tool() { "$HACK_DIR/tool.sh" kind "$@" --name warren; }

kind_running() { [[ -f $KUBECONFIG_FILE ]] && docker inspect warren-control-plane >/dev/null 2>&1; }

kind_up() {
  echo "${WARREN_RUN:-}" >"$STATE/run" # hack/supervise.sh reads it
  kind_tool create cluster --kubeconfig "$KUBECONFIG_FILE" --wait 3m ${WARREN_KIND_IMAGE:+--image "$WARREN_KIND_IMAGE"} >&2
}

kind_down() {
  docker rm -f -v "$KIND_BROKER" >/dev/null 2>&1 || true
  kind_tool delete cluster 2>/dev/null
}

kind_load() { kind_tool load image-archive "$1" >&2; }

# kind_mirror HOST writes containerd's settings for a registry from standard input, to the folder that kind's images read.
kind_mirror() {
  docker exec -i warren-control-plane sh -c "mkdir -p '/etc/containerd/certs.d/$1' && cat >'/etc/containerd/certs.d/$1/hosts.toml'"
}

# kind_broker runs a broker in the network of the nodes, and publishes a port for machines that do not reach that network.
kind_broker() {
  local begin=$SECONDS
  docker_provide 4.3 || die "cannot pull RabbitMQ; give this machine access to Docker Hub"
  docker start "$KIND_BROKER" 2>/dev/null ||
    docker run --detach --name "$KIND_BROKER" --label "warren-run=${WARREN_RUN:-}" --hostname "$KIND_BROKER" --network kind --publish 127.0.0.1::15672 "$(docker_image 4.3)"
  until docker exec "$KIND_BROKER" rabbitmq-diagnostics --quiet check_port_connectivity >/dev/null 2>&1; do
    ((SECONDS - begin < 180)) || { docker logs --tail 20 "$KIND_BROKER" >&2; die "RabbitMQ did not start; the end of its log is above"; }
    sleep 0.5
  done
  BROKER_HOST=$(docker inspect --format '{{.NetworkSettings.Networks.kind.IPAddress}}' "$KIND_BROKER")
  BROKER_API=http://guest:guest@$(docker port "$KIND_BROKER" 15672/tcp | head -n 1)/api
}

# kind_address prints the IPv4 gateway of the network of the nodes.
kind_address() {
  docker network inspect kind --format '{{range .IPAM.Config}}{{println .Gateway}}{{end}}' | grep -v ':' | head -n 1
}

kind_log() { docker exec warren-control-plane journalctl --no-pager -n 50 -u kubelet -u containerd; }
