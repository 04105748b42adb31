#!/usr/bin/env bash
# Fails if generated files or go.mod files do not match their sources. It works on a copy, so it also verifies changes that are not
# committed, and changes no file of the checkout.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
in_copy() { git -C "$copy" -c core.hooksPath=/dev/null -c core.excludesFile=/dev/null "$@"; }

# Git also lists deleted files, so the loop tests whether a file exists.
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
  tar -c --null -T - | tar -x -C "$copy"
# Git exports variables such as GIT_DIR to hooks. They must not lead the following commands to the caller's index.
# shellcheck disable=SC2046 # one word per variable
unset $(git rev-parse --local-env-vars)
in_copy init -q
in_copy add -A -f

# Generated files without a source must not remain.
find "$copy" \( -name 'zz_generated.*' -o -path "$copy/config/crd/bases/*.yaml" -o -path '*/BrokerConnection/*.lua' \) -delete
rm -rf "$copy/docs/reference/schemas"
make -s -C "$copy" generate manifests docs chart

in_copy add -A -N
if ! in_copy diff --exit-code --stat; then
  in_copy --no-pager diff | sed -n '1,60p' >&2
  die "generated files are not fresh, see above; run: make generate manifests docs chart"
fi

# go.mod requires a version of consumer/ that is tagged later, so the check replaces it by the folder.
tidied="$copy/tidy.mod"
cp go.mod "$tidied"
cp go.sum "${tidied%.mod}.sum"
go mod edit -replace="github.com/warren-mq/warren/consumer=$PWD/consumer" "$tidied"
GOWORK=off go mod tidy -diff -modfile="$tidied" || die "go.mod is not tidy; see above"
for module in cmd/kubectl-warren consumer consumer/otelconsumer examples/orders hack/{argocd,etcd,flux,kubernetes,lint,site,tools,vale}; do
  GOWORK=off go -C "$module" mod tidy -diff ||
    die "$module/go.mod is not tidy; run: go -C $module mod tidy"
done
say "everything generated is fresh"
