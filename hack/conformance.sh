#!/usr/bin/env bash
# Lets warren-conformance try the example in TypeScript under retry strategies, on a broker that it may restart.
#
#   hack/conformance.sh STRATEGY…
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -n ${WARREN_RUN:-} ]] || exec "$HACK_DIR/supervise.sh" "$0" "$@"
cd "$HACK_DIR/.."

have npm || die "npm is missing: it builds examples/typescript"
node -e 'process.exit("any" in AbortSignal ? 0 : 1)' || die "examples/typescript needs Node.js 20.3 or newer; this is $(node --version)"

# The pinned modules of npm are kept in the cache. A folder from "npm ci" is used as it is.
typescript() {
  local key kept
  key=$(cksum <examples/typescript/package-lock.json | cut -d ' ' -f 1)
  kept="$WARREN_CACHE/typescript/$key"
  [[ -d $kept ]] || alone typescript fetch_modules "$kept"
  [[ -d examples/typescript/node_modules && ! -L examples/typescript/node_modules ]] ||
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
go build -o bin/warren-conformance ./cmd/warren-conformance
unset WARREN_TEST_BROKERS # those are not to be restarted
for strategy in "$@"; do
  bin/warren-conformance -strategy "$strategy" -follows-pause -- node examples/typescript/dist/main.js
done
