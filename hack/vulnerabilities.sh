#!/usr/bin/env bash
# Looks for known vulnerabilities (govulncheck) in what each Go module of this repository links. It needs the network, for the database.
# Modules in hack/ only build tools and programs of tests, so they are left out.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

failed=""
while IFS= read -r module; do
  folder=$(dirname "$module")
  say "$folder"
  # Only the module of the manager needs go.work: the others replace the modules of this repository by themselves.
  GOWORK=$([[ $folder == . ]] || echo off) go -C "$folder" run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./... || failed+=" $folder"
done < <(git ls-files 'go.mod' '*/go.mod' ':!hack')
[[ -z $failed ]] || die "vulnerabilities in:$failed"
