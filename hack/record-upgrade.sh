#!/usr/bin/env bash
# Records what the Warren of a commit makes of the resources in test/deployment/testdata/upgrade/given.yaml, on each broker of
# the test environment. The test of upgrades in test/deployment starts from there. Takes some minutes.
#
#   hack/record-upgrade.sh COMMIT
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

[[ $# == 1 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
commit=$(git rev-parse --verify "$1^{commit}")
folder=$PWD/test/deployment/testdata/upgrade

older=$(mktemp -d)
trap 'rm -rf "$older"' EXIT
git archive "$commit" | tar -x -C "$older"
go -C "$older" build -trimpath -o "$older/bin/manager" ./cmd

find "$folder" -mindepth 1 -maxdepth 1 ! -name given.yaml -exec rm -rf {} +
{
  echo "# The manifests of commit $commit, by hack/record-upgrade.sh."
  hack/tool.sh kustomize build "$older/config/default"
} >"$folder/manifests.yaml"

WARREN_RECORD_UPGRADE=$older/bin/manager hack/with-parts.sh all \
  go test -v -count=1 -timeout=30m ./test/deployment -ginkgo.focus 'An older Warren is recorded' -ginkgo.v
say "recorded commit $commit in ${folder#"$PWD/"}"
