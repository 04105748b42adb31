#!/usr/bin/env bash
# Provides prometheus and promtool, and prints their folder.
#
#   hack/prometheus.sh path
#
# Taken from the first place that works: WARREN_PROMETHEUS (a folder), the cache, Debian's package (unpacked into the cache:
# neither root nor an installation is needed), the machine's own.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/brokers/debian.sh
. "$HACK_DIR/brokers/debian.sh"

VERSION=2.42 # that of Debian bookworm; the suite has no other
FOLDER="$WARREN_CACHE/prometheus/$VERSION"

provide() {
  if [[ -x $FOLDER/prometheus ]]; then
    echo "$FOLDER"
  elif debian_available && [[ -n $(debian_mirror) ]]; then
    fetch
    echo "$FOLDER"
  elif have prometheus && have promtool; then
    dirname "$(command -v prometheus)"
  else
    die "prometheus and promtool cannot be provided here: install Prometheus, or name a folder with both in WARREN_PROMETHEUS"
  fi
}

fetch() {
  local work begin=$SECONDS
  work="$FOLDER.work"
  rm -rf "$work"
  say "unpacking Prometheus $VERSION from Debian bookworm (once per machine, usually under a minute)…"
  quietly "$WARREN_CACHE/logs/prometheus.log" download "$work" ||
    die "Prometheus cannot be fetched from $(debian_mirror); check that mirror, or choose another by WARREN_DEBIAN_MIRROR"
  [[ -n $(find "$work" -name "prometheus_$VERSION.*.deb") ]] || die "Debian bookworm has another Prometheus than $VERSION"
  dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -x -C "$work" ./usr/bin/prometheus ./usr/bin/promtool
  mv "$work/usr/bin" "$FOLDER"
  rm -rf "$work"
  say "unpacked Prometheus in $((SECONDS - begin)) s"
}

# download FOLDER: the package alone, for its programs need no more than the C library.
download() {
  mkdir -p "$1/lists/partial" "$1/archives/partial"
  debian_apt bookworm "$1" update && (cd "$1" && debian_apt bookworm "$1" download prometheus)
}

case ${1:-} in
  path)
    if [[ -n ${WARREN_PROMETHEUS:-} ]]; then
      echo "$WARREN_PROMETHEUS"
    else
      alone prometheus provide
    fi
    ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
