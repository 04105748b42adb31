#!/usr/bin/env bash
# Provides prometheus and promtool, and prints their folder.
#
#   hack/prometheus.sh path
#
# The first source that works is used: WARREN_PROMETHEUS (a folder), the cache, Debian's package (unpacked into the cache, without root
# and without an installation), the machine's own.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/debian.sh
. "$HACK_DIR/debian.sh"

VERSION=2.42 # that of Debian bookworm; the suite has no other
FOLDER="$WARREN_CACHE/debian/prometheus-$VERSION"

provide() {
  if [[ -x $FOLDER/usr/bin/prometheus ]]; then
    echo "$FOLDER/usr/bin"
  elif debian_available && [[ -n $(debian_mirror) ]]; then
    debian_programs prometheus "$FOLDER" "prometheus=$VERSION.*" # its programs need no more than the C library
    echo "$FOLDER/usr/bin"
  elif have prometheus && have promtool; then
    dirname "$(command -v prometheus)"
  else
    die "prometheus and promtool cannot be provided here: install Prometheus, or name a folder with both in WARREN_PROMETHEUS"
  fi
}

case ${1:-} in
  path)
    if [[ -n ${WARREN_PROMETHEUS:-} ]]; then
      echo "$WARREN_PROMETHEUS"
    else
      alone prometheus provide
    fi
    ;;
  *) usage ;;
esac
