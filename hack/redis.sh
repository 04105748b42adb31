#!/usr/bin/env bash
# Runs redis-server, which Argo CD needs, in the foreground.
#
#   hack/redis.sh ARGUMENT…
#
# The first source that works is used: the machine's own, the cache, Debian's package (unpacked into the cache, without root and without
# an installation).
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/debian.sh
. "$HACK_DIR/debian.sh"

VERSION=7.0 # that of Debian bookworm; the suite has no other
FOLDER="$WARREN_CACHE/debian/redis-$VERSION"

provide() {
  [[ ! -x $FOLDER/usr/bin/redis-server ]] || return 0 # another process was faster
  if ! debian_available || [[ -z $(debian_mirror) ]]; then die "redis-server cannot be provided here: install Redis"; fi
  debian_programs redis "$FOLDER" "redis-server=5:$VERSION.*" "redis-tools=5:$VERSION.*" libatomic1 libjemalloc2 liblzf1 libssl3
}

! have redis-server || exec redis-server "$@"
[[ -x $FOLDER/usr/bin/redis-server ]] || alone redis provide
LD_LIBRARY_PATH=$(dirname "$FOLDER"/usr/lib/*/liblzf.so.1) exec "$FOLDER/usr/bin/redis-server" "$@"
