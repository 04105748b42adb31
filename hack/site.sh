#!/usr/bin/env bash
# Builds docs/ as a site with Hugo.
#
#   hack/site.sh build [FOLDER] [ARGUMENT OF HUGO…]   write the site to a folder, dist/site by default; fails for a broken link
#   hack/site.sh serve [ARGUMENT OF HUGO…]            serve it on http://localhost:1313, and rebuild it after each change
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

# Mermaid draws the diagrams in the reader's browser.
mermaid() {
  local modules
  modules=$(npm_modules site/mermaid- hack/site)
  mkdir -p bin/site/mermaid
  cp "$modules/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js" bin/site/mermaid/
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
  *) usage ;;
esac
