#!/usr/bin/env bash
# Runs a command with a new PostgreSQL with fsync, and removes it afterwards. WARREN_POSTGRES tells the command how to connect.
#
#   hack/postgres.sh COMMAND…
#
# The first source that works is used: the machine's own, the cache, Debian's packages (unpacked into the cache, without root and
# without an installation).
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/debian.sh
. "$HACK_DIR/debian.sh"

VERSION=15 # that of Debian bookworm
FOLDER="$WARREN_CACHE/debian/postgresql-$VERSION"

provide() {
  [[ ! -x $FOLDER/usr/lib/postgresql/$VERSION/bin/postgres ]] || return 0 # another process was faster
  if ! debian_available || [[ -z $(debian_mirror) ]]; then die "PostgreSQL cannot be provided here: install PostgreSQL $VERSION"; fi
  debian_programs postgresql "$FOLDER" "postgresql-$VERSION=$VERSION.*" libpq5 libicu72 libldap-2.5-0 liblz4-1 libsasl2-2 libssl3 libxml2 libzstd1
}

programs=/usr/lib/postgresql/$VERSION/bin
if [[ ! -x $programs/postgres ]]; then
  [[ -x $FOLDER$programs/postgres ]] || alone postgresql provide
  LD_LIBRARY_PATH=$(dirname "$FOLDER"/usr/lib/*/libpq.so.5)
  export LD_LIBRARY_PATH
  programs=$FOLDER$programs
fi

folder=$(mktemp -d) # on a disk, so that fsync takes as long as in production
as=()
if [[ $(id -u) == 0 ]]; then # PostgreSQL refuses to run as root
  chown 65534:65534 "$folder"
  chmod o+x "$(dirname "$folder")" # the temporary directory of a run is private
  as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
end() {
  "${as[@]}" "$programs/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap end EXIT

cd "$folder"
quietly "$WARREN_CACHE/logs/postgresql.log" "${as[@]}" "$programs/initdb" -D "$folder/data" -U postgres -A trust
"${as[@]}" "$programs/pg_ctl" -D "$folder/data" -l "$folder/log" -w -o "-c listen_addresses='' -k '$folder' -c fsync=on" start >/dev/null ||
  { cat "$folder/log" >&2 && exit 1; }
cd "$OLDPWD"
export WARREN_POSTGRES="host=$folder user=postgres dbname=postgres sslmode=disable"
"$@"
