#!/usr/bin/env bash
# Lets warren-conformance try the consumer library and the example in TypeScript, with each retry strategy, on a broker of its own.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

have npm || die "npm is missing: it builds examples/typescript"

# The pinned modules of npm are kept in the cache.
typescript() {
  local key kept
  key=$(cksum <examples/typescript/package-lock.json | cut -d ' ' -f 1)
  kept="$WARREN_CACHE/typescript/$key"
  [[ -d $kept ]] || alone typescript fetch_modules "$kept"
  ln -sfn "$kept/node_modules" examples/typescript/node_modules
  npm --prefix examples/typescript run --silent build
}

fetch_modules() {
  [[ ! -d $1 ]] || return 0 # another process was faster
  rm -rf "$1.work" && mkdir -p "$1.work"
  cp examples/typescript/package{,-lock}.json "$1.work"
  quietly "$WARREN_CACHE/logs/typescript.log" npm ci --prefix "$1.work" --ignore-scripts --no-audit --no-fund ||
    die "cannot fetch the modules of examples/typescript; this machine needs access to an npm registry"
  mv "$1.work" "$1"
}

typescript
npm --prefix examples/typescript test --silent
go test -count=1 -timeout=30m -parallel=4 -run='TestTheLibraryPasses|TestTypeScriptPasses|TestFaultsAreFound|TestAProgramWithoutFaultsPasses' \
  ./cmd/warren-conformance
