# shellcheck shell=bash
# A cluster by kind, in Docker. Sourced by hack/cluster.sh.
#
#   WARREN_KIND_IMAGE   another node image than that of the pinned kind, for another Kubernetes

KIND_BROKER=warren-broker # a container

kind_tool() { "$HACK_DIR/tool.sh" kind "$@" --name warren; }

kind_running() { [[ -f $KUBECONFIG_FILE ]] && docker inspect warren-control-plane >/dev/null 2>&1; }

kind_up() {
  kind_tool create cluster --kubeconfig "$KUBECONFIG_FILE" --wait 3m ${WARREN_KIND_IMAGE:+--image "$WARREN_KIND_IMAGE"} >&2
}

kind_down() {
  docker rm -f -v "$KIND_BROKER" >/dev/null 2>&1 || true
  kind_tool delete cluster 2>/dev/null
}

kind_load() { kind_tool load image-archive "$1" >&2; }

# kind_mirror HOST: standard input is what containerd is told about the registry. Images of kind read this folder.
kind_mirror() {
  docker exec -i warren-control-plane sh -c "mkdir -p '/etc/containerd/certs.d/$1' && cat >'/etc/containerd/certs.d/$1/hosts.toml'"
}

# kind_broker runs it in the network of the nodes. Not every machine reaches that network, so it has a port here too.
kind_broker() {
  local begin=$SECONDS
  docker_provide 4.3 || die "no RabbitMQ can be had; give this machine access to Docker Hub"
  docker start "$KIND_BROKER" 2>/dev/null ||
    docker run --detach --name "$KIND_BROKER" --hostname "$KIND_BROKER" --network kind --publish 127.0.0.1::15672 "$(docker_image 4.3)"
  until docker exec "$KIND_BROKER" rabbitmq-diagnostics --quiet check_port_connectivity >/dev/null 2>&1; do
    ((SECONDS - begin < 180)) || { docker logs --tail 20 "$KIND_BROKER" >&2; die "RabbitMQ did not come up; its last words are above"; }
    sleep 0.5
  done
  BROKER_HOST=$(docker inspect --format '{{.NetworkSettings.Networks.kind.IPAddress}}' "$KIND_BROKER")
  BROKER_API=http://guest:guest@$(docker port "$KIND_BROKER" 15672/tcp | head -n 1)/api
}

# The gateway of Docker's network, of which there may be one for IPv6 too.
kind_address() {
  docker network inspect kind --format '{{range .IPAM.Config}}{{println .Gateway}}{{end}}' | grep -v ':' | head -n 1
}

kind_log() { docker exec warren-control-plane journalctl --no-pager -n 50 -u kubelet -u containerd; }
