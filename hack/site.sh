#!/usr/bin/env bash
# Makes a site of docs/ with Hugo:
#
#   hack/site.sh build [FOLDER] [ARGUMENT OF HUGO…]   into a folder, dist/site unless given; fails where a link leads nowhere
#   hack/site.sh serve [ARGUMENT OF HUGO…]            on http://localhost:1313, again at each change
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

# Mermaid draws the pictures, in the reader's browser. hack/site/package-lock.json pins it.
mermaid() {
  local key kept
  key=$(cksum <"$HACK_DIR/site/package-lock.json" | cut -d ' ' -f 1)
  kept="$WARREN_CACHE/site/mermaid-$key"
  [[ -d $kept ]] || alone site fetch_mermaid "$kept"
  mkdir -p bin/site/mermaid
  cp "$kept/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js" bin/site/mermaid/
}

fetch_mermaid() {
  [[ ! -d $1 ]] || return 0 # another process was faster
  have npm || die "npm is missing: it fetches Mermaid, which draws the pictures of the site"
  rm -rf "$1.work" && mkdir -p "$1.work"
  cp "$HACK_DIR"/site/package{,-lock}.json "$1.work"
  quietly "$WARREN_CACHE/logs/mermaid.log" npm ci --prefix "$1.work" --ignore-scripts --no-audit --no-fund ||
    die "cannot fetch Mermaid; this machine needs access to an npm registry"
  mv "$1.work" "$1"
}

hugo() { "$HACK_DIR/tool.sh" hugo "$@" --config hack/site/hugo.yaml --noBuildLock; }

command=${1:-}
shift || true
case $command in
  build)
    mermaid
    hugo build --destination "${1:-dist/site}" --cleanDestinationDir --panicOnWarning "${@:2}"
    ;;
  serve)
    mermaid
    hugo server "$@"
    ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
