# shellcheck shell=bash
# A cluster on a machine without Docker. Sourced by hack/cluster.sh.
#
# The cluster has its own mount, PID and network namespaces, with node.sh as the first process. Killing this process also removes
# mounts, interfaces, firewall rules and containers. bare_down restores kernel settings and removes the cgroups of pods, which have
# no namespace. The machine reaches the node over a pair of interfaces.

LINK=warren-node
HOST_ADDRESS=10.245.0.1
NODE_ADDRESS=10.245.0.2
POD_NETWORK=10.244.0.0/24
# The kubelet sets these for the whole machine.
KERNEL_SETTINGS=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes)

bare_running() {
  local pid
  pid=$(cat "$STATE/pid" 2>/dev/null) && [[ -n $pid ]] && tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "$STATE"
}

bare_possible() {
  [[ $(uname) == Linux && $(id -u) == 0 ]] && have apt-get && have dpkg-deb && have ip && have sysctl && have unshare ||
    die "a cluster needs Docker, or root on Debian or Ubuntu with the packages iproute2 and procps; start Docker, or become root"
  case $WARREN_CACHE/ in
    /run/* | /var/lib/* | /var/log/*) die "the cluster hides /run, /var/lib and /var/log of the machine; set WARREN_CACHE to another folder" ;;
  esac
}

# bare_parts sets the folders of the programs: Kubernetes, and Debian's packages, which are only unpacked.
bare_parts() {
  local codename
  ASSETS=$("$HACK_DIR/kubernetes.sh" path)
  KUBERNETES=$("$HACK_DIR/kubernetes.sh" node)
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  PACKAGES="$WARREN_CACHE/cluster/$codename"
  [[ -d $PACKAGES ]] || bare_unpack
}

# bare_unpack unpacks the packages, and those of their dependencies that this machine does not have.
bare_unpack() {
  local work="$PACKAGES.$$" wanted=(containerd runc containernetworking-plugins nftables)
  say "unpacking ${wanted[*]} from Debian's packages (once per machine, usually a few seconds)…"
  rm -rf "$work"
  mkdir -p "$work/archives" "$work/root"
  quietly "$WARREN_CACHE/logs/cluster-packages.log" bare_download "$work/archives" "${wanted[@]}" ||
    die "cannot download Debian's packages; check apt's sources, or install by hand: apt-get install ${wanted[*]}"
  find "$work/archives" -name '*.deb' -print0 | xargs -0 -I{} dpkg-deb -x {} "$work/root"
  mv "$work/root" "$PACKAGES"
  rm -rf "$work"
}

bare_download() {
  local folder=$1 missing
  shift
  missing=$(bare_missing "$@") || { apt-get update -q && missing=$(bare_missing "$@"); } || return 1
  # shellcheck disable=SC2086 # one word per package
  [[ -z $missing ]] || (cd "$folder" && apt-get download -q -o APT::Sandbox::User= $missing)
}

bare_missing() { apt-get install -q --simulate --no-install-recommends "$@" | sed -n 's/^Inst \([^ ]*\) .*/\1/p'; }

bare_up() {
  local child
  bare_possible
  bare_parts
  bare_images
  (cd "$HACK_DIR/.." && go run ./hack/cluster/pki "$STATE" "$NODE_ADDRESS")
  sysctl -e "${KERNEL_SETTINGS[@]}" 2>/dev/null | tr -d ' ' >"$STATE/sysctl"
  bare_spawn
  child=$(bare_child)
  ip link add "$LINK" type veth peer name eth0 netns "$child"
  ip address add "$HOST_ADDRESS/30" dev "$LINK"
  ip link set "$LINK" up
  ip route add "$POD_NETWORK" via "$NODE_ADDRESS"
  bare_await
}

# bare_images builds the image that keeps a pod's namespaces alive.
bare_images() {
  CGO_ENABLED=0 GOFLAGS='' go -C "$HACK_DIR/.." build -trimpath -ldflags '-s -w' -o "$STATE/pause" ./hack/cluster/pause
  CGO_ENABLED=0 GOWORK=off GOFLAGS='' go -C "$HACK_DIR/tools" run ./image wrap warren.local/pause:1 "$STATE/pause" "$STATE/pause.tar"
}

# bare_spawn starts unshare and records its process ID. The first process of the namespaces dies with unshare.
bare_spawn() {
  # shellcheck disable=SC2016
  setsid bash -c 'for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
    echo $$ >"$1/pid.new" && mv "$1/pid.new" "$1/pid"
    exec unshare --mount --net --pid --fork --kill-child --mount-proc bash "$2" "$1" "$3" "$4" "$5" "$6" "$7"' \
    spawn "$STATE" "$HACK_DIR/cluster/node.sh" "$ASSETS" "$KUBERNETES" "$PACKAGES" "$NODE_ADDRESS/30" "$HOST_ADDRESS" \
    </dev/null >"$STATE/node.log" 2>&1 &
  disown # so that this shell prints nothing when it ends
  until [[ -f $STATE/pid ]]; do sleep 0.05; done
}

# bare_child waits for the first process in the namespaces.
bare_child() {
  local pid child
  pid=$(cat "$STATE/pid")
  until child=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null) && [[ -n $child ]]; do
    kill -0 "$pid" 2>/dev/null || die "cannot create namespaces: $(cat "$STATE/node.log")"
    sleep 0.05
  done
  echo "${child%% *}"
}

bare_await() {
  local begin=$SECONDS kubectl=("$ASSETS/kubectl" --kubeconfig "$KUBECONFIG_FILE")
  until "${kubectl[@]}" get serviceaccount default >/dev/null 2>&1 &&
    [[ $("${kubectl[@]}" get nodes -o 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]]; do
    if ! bare_running || ((SECONDS - begin > 120)); then
      bare_log >&2
      bare_down
      die "the cluster did not start; the end of its logs is above"
    fi
    sleep 0.3
  done
}

bare_down() {
  local pid
  if bare_running; then
    pid=$(cat "$STATE/pid")
    kill -KILL -- "-$pid"
    while bare_running; do sleep 0.05; done
  fi
  ! ip link show "$LINK" >/dev/null 2>&1 || ip link delete "$LINK"
  [[ ! -d $STATE/broker ]] || "$HACK_DIR/brokers.sh" private remove "$STATE/broker" # deletes its data, which is in another folder
  bare_remove_cgroups
  [[ ! -f $STATE/sysctl ]] || sysctl -q -p "$STATE/sysctl"
  rm -rf "$STATE"
}

# bare_remove_cgroups waits until the kernel has ended the processes in the cgroups, because only empty ones can be removed.
bare_remove_cgroups() {
  local begin=$SECONDS
  while find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null
    [[ -n $(find /sys/fs/cgroup -maxdepth 2 -type d -name kubepods) ]]; do
    ((SECONDS - begin < 20)) || { say "cgroups of pods are left in /sys/fs/cgroup" && return; }
    sleep 0.2
  done
}

bare_load() {
  bare_parts
  bare_inside env PATH="$PACKAGES/usr/sbin:$PACKAGES/usr/bin:$PATH" ctr --namespace k8s.io images import "$(realpath "$1")" >&2
}

# bare_mirror HOST writes containerd's settings for a registry from standard input.
bare_mirror() { mkdir -p "$STATE/registries/$1" && cat >"$STATE/registries/$1/hosts.toml"; }

# bare_inside COMMAND… runs a command in the namespaces of the cluster.
bare_inside() { nsenter --target "$(bare_child)" --mount --pid --net "$@"; }

# bare_broker downloads the broker before it enters the namespaces, which have no route to a mirror.
bare_broker() {
  "$HACK_DIR/brokers.sh" provide newest
  bare_inside "$HACK_DIR/brokers.sh" private start "$STATE/broker" newest "$NODE_ADDRESS"
  BROKER_HOST=$NODE_ADDRESS
  BROKER_API=http://guest:guest@$NODE_ADDRESS:15672/api
}

bare_address() { echo "$HOST_ADDRESS"; }

bare_log() { tail -n 15 "$STATE"/node.log "$STATE"/logs/*.log; }
