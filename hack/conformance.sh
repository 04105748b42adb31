#!/usr/bin/env bash
# Tests examples/typescript with warren-conformance under some retry strategies, on a private broker.
#
#   hack/conformance.sh STRATEGY…
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -n ${WARREN_RUN:-} ]] || exec "$HACK_DIR/supervise.sh" "$0" "$@"
cd "$HACK_DIR/.."

have npm || die "npm is missing: it builds examples/typescript"
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' ||
  die "examples/typescript needs Node.js 20 or newer; this is $(node --version)"

modules=$(npm_modules typescript/ examples/typescript)
if [[ ! -d examples/typescript/node_modules || -L examples/typescript/node_modules ]]; then # otherwise "npm ci" created it
  ln -sfn "$modules/node_modules" examples/typescript/node_modules
fi
npm --prefix examples/typescript run --silent build
npm --prefix examples/typescript test --silent
go build -o bin/warren-conformance ./cmd/warren-conformance
unset WARREN_TEST_BROKERS # warren-conformance restarts its broker
for strategy in "$@"; do
  bin/warren-conformance -strategy "$strategy" -follows-pause -- node examples/typescript/dist/main.js
done
