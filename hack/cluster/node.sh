#!/usr/bin/env bash
# The first process in the namespaces of a cluster without Docker. It starts the programs of Kubernetes and waits. hack/cluster/bare.sh
# starts it.
set -euo pipefail
STATE=$1 ASSETS=$2 KUBERNETES=$3 PACKAGES=$4 ADDRESS=$5 GATEWAY=$6
HOST=${ADDRESS%/*}
PATH="$PACKAGES/usr/sbin:$PACKAGES/usr/bin:$PATH"
LD_LIBRARY_PATH=$(printf '%s:' "$PACKAGES"/usr/lib/*-linux-gnu*)
export PATH LD_LIBRARY_PATH
unset {http,https,all}_proxy {HTTP,HTTPS,ALL}_PROXY # the parts reach each other without a proxy

# mounts redirects the usual folders of the programs to the folder of the cluster, or to memory.
mounts() {
  mount --make-rprivate /
  mkdir -p "$STATE"/{lib,log,logs}
  cp -L /etc/resolv.conf "$STATE/resolv.conf" 2>/dev/null || : >"$STATE/resolv.conf" # often a link into /run
  mount --bind "$STATE/lib" /var/lib
  mount --bind "$STATE/log" /var/log
  mount -t tmpfs -o mode=755 tmpfs /run
}

network() {
  until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
  ip link set lo up
  ip address add "$ADDRESS" dev eth0
  ip link set eth0 up
  ip route add default via "$GATEWAY"
  echo 1 >/proc/sys/net/ipv4/ip_forward
}

start() {
  local name=$1
  shift
  "$@" >"$STATE/logs/$name.log" 2>&1 &
}

# api_server returns when the API server is ready. Until then kube-controller-manager has no permissions, and exits after ten seconds.
api_server() {
  start etcd "$ASSETS/etcd" --data-dir /var/lib/etcd --unsafe-no-fsync --listen-peer-urls http://127.0.0.1:2380 \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
  start kube-apiserver "$ASSETS/kube-apiserver" --advertise-address "$HOST" --etcd-servers http://127.0.0.1:2379 \
    --service-cluster-ip-range 10.96.0.0/16 --client-ca-file "$STATE/ca.crt" \
    --tls-cert-file "$STATE/apiserver.crt" --tls-private-key-file "$STATE/apiserver.key" \
    --kubelet-certificate-authority "$STATE/ca.crt" --kubelet-client-certificate "$STATE/kubelet-client.crt" \
    --kubelet-client-key "$STATE/kubelet-client.key" --kubelet-preferred-address-types InternalIP \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$STATE/service-accounts.crt" \
    --service-account-signing-key-file "$STATE/service-accounts.key" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged
  until "$ASSETS/kubectl" --kubeconfig "$STATE/kubeconfig" get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done
}

controllers() {
  start kube-controller-manager "$KUBERNETES" kube-controller-manager --kubeconfig "$STATE/controller-manager.kubeconfig" \
    --service-account-private-key-file "$STATE/service-accounts.key" --root-ca-file "$STATE/ca.crt" \
    --use-service-account-credentials --leader-elect=false
  start kube-scheduler "$KUBERNETES" kube-scheduler --kubeconfig "$STATE/scheduler.kubeconfig" --leader-elect=false
}

node() {
  containerd_configuration >"$STATE/containerd.toml"
  kubelet_configuration >"$STATE/kubelet.yaml"
  proxy_configuration >"$STATE/proxy.yaml"
  mkdir -p "$STATE/cni"
  cni_configuration >"$STATE/cni/10-bridge.conflist"
  start containerd containerd --config "$STATE/containerd.toml"
  until ctr --namespace k8s.io images import "$STATE/pause.tar" >/dev/null 2>&1; do sleep 0.1; done
  start kubelet "$KUBERNETES" kubelet --config "$STATE/kubelet.yaml" --kubeconfig "$STATE/kubelet.kubeconfig" \
    --hostname-override warren --node-ip "$HOST"
  start kube-proxy "$KUBERNETES" kube-proxy --config "$STATE/proxy.yaml"
}

# containerd needs restrict_oom_score_adj, because without CAP_SYS_RESOURCE a process may not lower its OOM score below its parent's.
containerd_configuration() {
  local cni=$PACKAGES/usr/lib/cni
  [[ -d $cni ]] || cni=/usr/lib/cni
  cat <<CONF
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "warren.local/pause:1"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "$STATE/registries"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$cni"
conf_dir = "$STATE/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
CONF
}

kubelet_configuration() {
  cat <<CONF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {x509: {clientCAFile: $STATE/ca.crt}}
tlsCertFile: $STATE/kubelet.crt
tlsPrivateKeyFile: $STATE/kubelet.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
resolvConf: $STATE/resolv.conf
# A test can run on a nearly full disk.
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
CONF
}

# kube-proxy must not change the connection tracking of the machine.
proxy_configuration() {
  cat <<CONF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: $STATE/proxy.kubeconfig}
clusterCIDR: 10.244.0.0/24
hostnameOverride: warren
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
CONF
}

cni_configuration() {
  cat <<CONF
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
CONF
}

mounts
network
api_server
controllers
node
# The first process also reaps processes whose parents have ended.
while :; do wait -n || true; sleep 1; done
