# shellcheck shell=bash
# Brokers from Debian's packages, in a folder of their own. Sourced by hack/brokers.sh.
#
# The packages are only unpacked, so this needs no root and changes nothing on the machine. The broker runs in a chroot. It has its
# own PID namespace, so that killing one process also ends Erlang's epmd and helpers. It has its own mount namespace, so that no
# mount remains.

# shellcheck source=hack/debian.sh
. "$HACK_DIR/debian.sh"

debian_suite() {
  case $1 in
    3.10) echo bookworm ;;
    4.0) echo trixie ;;
    4.3) echo forky ;;
  esac
}

debian_root() { echo "$STATE/$1/root"; }

debian_provide() {
  local version=$1 suite root work begin=$SECONDS package
  root=$(debian_root "$version")
  [[ ! -d $root ]] || return 0
  suite=$(debian_suite "$version")
  debian_isolation >/dev/null
  [[ -n $(debian_mirror) ]] || die "apt knows no mirror of Debian: name one in WARREN_DEBIAN_MIRROR, or $REMEDY"
  say "unpacking RabbitMQ $version from Debian $suite (once per machine, usually under a minute)…"
  work="$STATE/$version/work"
  rm -rf "$work"
  mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/root"
  quietly "$WARREN_CACHE/logs/rabbitmq-$version.log" debian_download "$suite" "$work/apt" ||
    die "cannot download RabbitMQ $version from $(debian_mirror); check that mirror (WARREN_DEBIAN_MIRROR chooses another), or $REMEDY"
  package=$(cd "$work/apt/archives" && ls rabbitmq-server_*)
  [[ $package == "rabbitmq-server_$version."* ]] ||
    die "Debian $suite has $package instead of RabbitMQ $version: $REMEDY"
  debian_unpack "$work/apt/archives" "$work/root"
  mv "$work/root" "$root"
  rm -rf "$work"
  package=${package#*_}
  say "unpacked RabbitMQ ${package%%-*} in $((SECONDS - begin)) s"
}

# debian_download SUITE FOLDER downloads rabbitmq-server with its dependencies.
debian_download() {
  debian_apt "$1" "$2" update &&
    debian_apt "$1" "$2" install -y --download-only rabbitmq-server base-files bash coreutils dash findutils grep mawk sed
}

# debian_unpack ARCHIVES ROOT unpacks the packages, and does the work of their scripts: it merges /usr, and adds a user and a host.
debian_unpack() {
  local archives=$1 root=$2 name package
  for name in bin sbin lib lib64; do
    mkdir -p "$root/usr/$name"
    ln -s "usr/$name" "$root/$name"
  done
  for package in "$archives"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink --no-same-owner \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
  done
  ln -sf mawk "$root/usr/bin/awk"
  echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
  echo '127.0.0.1 localhost' >"$root/etc/hosts"
  echo localhost >"$root/etc/hostname"
}

# debian_isolation prints the command that runs a broker in its own namespaces. For root in a container that may not create
# namespaces, it prints a command without.
debian_isolation() {
  local namespaces="unshare --mount --pid --fork --kill-child"
  if $namespaces true 2>/dev/null; then
    echo "$namespaces"
  elif $namespaces --map-root-user true 2>/dev/null; then
    echo "$namespaces --map-root-user"
  elif [[ $(id -u) == 0 ]]; then
    echo env
  else
    die "this user may not make user namespaces, which RabbitMQ from Debian's packages needs; run as root, $REMEDY"
  fi
}

# DEBIAN_INSIDE is the script of the first process in the new namespaces. Its arguments are ROOT, a shell command and the environment.
# It remains the parent, because debian_spawned finds the process by its command line.
# shellcheck disable=SC2016
DEBIAN_INSIDE='
root=$1
command=$2
shift 2
if mount --rbind /dev "$root/dev" 2>/dev/null; then
  mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"
else
  for device in "null 3" "zero 5" "random 8" "urandom 9"; do
    set -- "$device" "$@"
    [ -e "$root/dev/${1% *}" ] || mknod -m 666 "$root/dev/${1% *}" c 1 "${1#* }"
    shift
  done
fi
chroot "$root" env -i PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 HOME=/var/lib/rabbitmq "$@" \
  sh -c "$command"
exit $?
'

# DEBIAN_DETACH is the script of the outermost process. It writes its ID, which is also the ID of its session and process group, to a
# file. It closes the file descriptors of the caller, such as a lock or a pipe whose reader waits for the end.
# shellcheck disable=SC2016
DEBIAN_DETACH='
for fd in /proc/self/fd/*; do
  fd=${fd##*/}
  [ "$fd" -le 2 ] || eval "exec $fd>&-"
done
echo $$ >"$1.new" && mv "$1.new" "$1"
shift
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)"
exec "$@"
'

debian_boot() {
  local version=$1 root
  root=$(debian_root "$version")
  rm -rf "$root/var/lib/rabbitmq" "$root/var/log/rabbitmq" "$root/etc/rabbitmq"
  debian_make_data "$root"
  mkdir -p "$root/var/lib/rabbitmq" "$root/var/log/rabbitmq" "$root/etc/rabbitmq/tls"
  configuration "$ADDRESS" "$AMQP" "$AMQPS" "$HTTP" "$HTTPS" >"$root/etc/rabbitmq/rabbitmq.conf"
  echo "$PLUGINS" >"$root/etc/rabbitmq/enabled_plugins"
  cp "$TLS"/{ca.crt,server.crt,server.key} "$root/etc/rabbitmq/tls/"
  [[ -z $CLUSTER ]] || install -m 400 "$CLUSTER/cookie" "$root/var/lib/rabbitmq/.erlang.cookie"
  debian_boot_again "$version"
}

debian_boot_again() { debian_spawn "$STATE/$1" "$(debian_root "$1")" "epmd & exec /usr/lib/rabbitmq/bin/rabbitmq-server"; }

# debian_data ROOT prints the folder in memory for the data of the broker in ROOT. Brokers sync each write to the disk; with the data
# in memory, tests use a tenth less of the machine. The data survives the end of the process.
debian_data() { echo "/dev/shm/warren-$(cksum <<<"$1" | cut -d ' ' -f 1)"; }

# debian_make_data ROOT creates that folder, unless memory is short or /dev/shm is not visible inside ROOT. It removes the folders of
# brokers whose ROOT no longer exists.
debian_make_data() {
  local data
  data=$(debian_data "$1")
  rm -rf "$data"
  [[ -w /dev/shm && $(debian_isolation) == unshare* ]] || return 0
  remove_lost_data
  [[ $(df -Pk /dev/shm | awk 'NR == 2 { print $4 }') -gt 4000000 ]] || return 0
  mkdir -m 700 "$data"
  ln -s "$1" "$data/root"
}

# debian_spawn FOLDER ROOT COMMAND starts a command inside ROOT, with its process ID and its output in FOLDER.
debian_spawn() {
  local isolation
  isolation=$(debian_isolation)
  rm -f "$1/pid"
  # shellcheck disable=SC2046,SC2086 # the isolation is a command with options
  setsid bash -c "$DEBIAN_DETACH" detach "$1/pid" $isolation sh -c "$DEBIAN_INSIDE" rabbitmq "$2" "$3" $(debian_environment "$2") \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1} $ERLANG_ARGUMENTS" \
    </dev/null >"$1/boot.log" 2>&1 &
  until [[ -f $1/pid ]]; do sleep 0.05; done
}

debian_node_name() { echo "warren${CLUSTER:+-$1}@localhost"; }

# debian_environment ROOT
debian_environment() {
  local data
  data=$(debian_data "$1")
  [[ ! -d $data ]] || echo "RABBITMQ_MNESIA_BASE=$data"
  echo "RABBITMQ_NODENAME=$(debian_node_name "$NODE") RABBITMQ_LOGS=/var/log/rabbitmq/rabbitmq.log" \
    "WARREN_RUN=${WARREN_RUN:-} RABBITMQ_DIST_PORT=$DIST ERL_EPMD_PORT=$EPMD ERL_EPMD_ADDRESS=127.0.0.1"
}

debian_running() { debian_spawned "$STATE/$1" "$(debian_root "$1")"; }

# debian_spawned FOLDER ROOT succeeds if the process of debian_spawn runs. It checks the command line, because another process may have
# the ID after a reboot.
debian_spawned() {
  local pid
  pid=$(cat "$1/pid" 2>/dev/null) && [[ -n $pid ]] && tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "$2"
}

# debian_stop kills the broker, because the next start deletes its data.
debian_stop() {
  debian_cut "$1"
  debian_remove "$1"
}

# debian_cut kills the broker and waits until all its processes have ended, because they use the data until then.
debian_cut() {
  debian_end "$STATE/$1"
  while listens "$AMQP" || listens "$HTTP" || { [[ -z $CLUSTER ]] && listens "${EPMD:-0}"; }; do sleep 0.05; done
}

# debian_end FOLDER kills the process of debian_spawn.
debian_end() {
  local pid
  pid=$(cat "$1/pid")
  kill -KILL -- "-$pid"
  debian_await_end "$1" "$pid"
}

debian_await_end() {
  while kill -0 -- "-$2" 2>/dev/null; do sleep 0.05; done
  rm -f "$1/pid"
}

# --- nodes of a cluster: they share one epmd, which continues to run without them --------------

debian_cluster_prepare() {
  local root="$CLUSTER/node-1/$1/root"
  ! debian_spawned "$CLUSTER/epmd" "$root" || return 0
  mkdir -p "$CLUSTER/epmd"
  debian_spawn "$CLUSTER/epmd" "$root" "exec epmd"
  until listens "$EPMD"; do sleep 0.05; done
}

debian_cluster_end() {
  ! debian_spawned "$CLUSTER/epmd" "$CLUSTER/node-1/$1/root" || debian_end "$CLUSTER/epmd"
}

debian_cluster_remove() { :; }

# debian_quit VERSION stops the broker gracefully, with SIGTERM to Erlang's virtual machine.
debian_quit() {
  local pid
  pid=$(cat "$STATE/$1/pid")
  # shellcheck disable=SC2046 # there is one
  kill -TERM $(awk -v group="$pid" '$2 == "(beam.smp)" && $5 == group { print $1 }' /proc/[0-9]*/stat 2>/dev/null)
  debian_await_end "$STATE/$1" "$pid"
}

debian_pause() { kill -STOP -- "-$(cat "$STATE/$1/pid")"; }

debian_resume() { kill -CONT -- "-$(cat "$STATE/$1/pid")"; }

debian_eval() {
  # shellcheck disable=SC2046 # each word is an assignment
  $(debian_isolation) sh -c "$DEBIAN_INSIDE" rabbitmqctl "$(debian_root "$1")" \
    'exec /usr/lib/rabbitmq/bin/rabbitmqctl --quiet eval "$EXPRESSION"' $(debian_environment "$(debian_root "$1")") "EXPRESSION=$2"
}

debian_pid() { cat "$STATE/$1/pid"; }

# debian_copy VERSION FOLDER copies the programs of a version, as hard links if the file system supports them. It leaves out mounts, and
# the files that the broker writes.
debian_copy() {
  local from to="$2/$1/root"
  from=$(debian_root "$1")
  rm -rf "$to"
  mkdir -p "$to"
  debian_shared_files "$from" -type d -printf "$to/%P\\0" | xargs -0 mkdir -p
  debian_shared_files "$from" ! -type d -print0 | (cd "$from" && xargs -0 cp -al --parents -t "$to" 2>/dev/null) ||
    debian_shared_files "$from" ! -type d -print0 | (cd "$from" && xargs -0 cp -a --parents -t "$to")
}

# debian_shared_files ROOT EXPRESSION… runs find(1) on the files that are the same for all brokers of a version.
debian_shared_files() {
  (cd "$1" && shift && find . -xdev \( -path ./var/lib/rabbitmq -o -path ./var/log/rabbitmq \) -prune -o "$@")
}

debian_remove() { rm -rf "$(debian_data "$(debian_root "$1")")"; }

debian_log() { tail -n 20 "$STATE/$1/boot.log" "$(debian_log_name "$1")" 2>/dev/null; }

debian_log_name() { echo "$(debian_root "$1")/var/log/rabbitmq/rabbitmq.log"; }
