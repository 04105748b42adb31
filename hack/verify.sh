#!/usr/bin/env bash
# Fails when generated files, or the go.mod files, are not what their sources make of them.
# Works on a copy, so that a checkout with changes can be verified, and stays as it is.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
in_copy() { git -C "$copy" -c core.hooksPath=/dev/null -c core.excludesFile=/dev/null "$@"; }

# Files deleted but not yet committed are still listed: hence the test for existence.
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
  tar -c --null -T - | tar -x -C "$copy"
in_copy init -q
in_copy add -A -f

# What its sources no longer make must not stay behind.
find "$copy" \( -name 'zz_generated.*' -o -path "$copy/config/crd/bases/*.yaml" -o -path '*/BrokerConnection/*.lua' \) -delete
rm -rf "$copy/docs/reference/schemas"
make -s -C "$copy" generate manifests docs chart

in_copy add -A -N
if ! in_copy diff --exit-code --stat; then
  in_copy --no-pager diff | sed -n '1,60p' >&2
  die "generated files are not fresh, see above; run: make generate manifests docs chart"
fi

# The version of consumer/ that the manager needs is tagged after it was written.
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
