#!/usr/bin/env bash
# Searches the code that each Go module of this repository links for known vulnerabilities (govulncheck). It skips the modules in hack/,
# because they only build tools and programs for tests.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# It sets GOTOOLCHAIN, because a release links the standard library of that Go.
# shellcheck source=hack/describe.sh
. "$HACK_DIR/describe.sh"
cd "$HACK_DIR/.."

# database prints where govulncheck reads the database: https://vuln.go.dev, or on a machine that reaches only a Go module proxy, the same
# entries from the module golang.org/x/vulndb, which may be some days older.
database() {
  local module source
  if have curl && curl --fail --silent --max-time 20 --output /dev/null https://vuln.go.dev/index/db.json; then
    echo https://vuln.go.dev
    return
  fi
  module=golang.org/x/vulndb@$(GOWORK=off GOFLAGS=-mod=mod go list -m -f '{{.Version}}' golang.org/x/vulndb@latest)
  say "cannot reach https://vuln.go.dev, so the database is $module"
  source=$(go mod download -json "$module" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",$/\1/p')
  go run "${module/@//cmd/indexdb@}" -vulns "$source/data/osv" -out "$WARREN_CACHE/vulndb"
  echo "file://$WARREN_CACHE/vulndb"
}

database=$(database)
failed=""
while IFS= read -r module; do
  folder=$(dirname "$module")
  say "$folder"
  # Only the module of the manager needs go.work: the go.mod files of the others replace the modules of this repository.
  GOWORK=$([[ $folder == . ]] || echo off) go -C "$folder" run golang.org/x/vuln/cmd/govulncheck@v1.1.4 -db "$database" ./... || failed+=" $folder"
done < <(git ls-files 'go.mod' '*/go.mod' ':!hack')
[[ -z $failed ]] || die "vulnerabilities in:$failed"
