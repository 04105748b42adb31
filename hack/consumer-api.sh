#!/usr/bin/env bash
# Shows how the API of the Go module in consumer/ differs from that of its latest tag. From v1 on, an incompatible change fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
readonly module=github.com/warren-mq/warren/consumer
tag=$(git tag --list 'consumer/v*' --sort=-version:refname | head -n 1)
if [[ -z $tag ]]; then
  echo "consumer/ has no tag yet, so there is nothing to compare with"
  exit 0
fi

folder=$(mktemp -d)
trap 'git worktree remove --force "$folder/tagged" 2>/dev/null; rm -rf "$folder"' EXIT
git worktree add --quiet --detach "$folder/tagged" "$tag"
export GOWORK=off GOFLAGS=
GOBIN=$folder go install "$apidiff"
(cd "$folder/tagged/consumer" && "$folder/apidiff" -m -w "$folder/before" "$module")
(cd consumer && "$folder/apidiff" -m -w "$folder/after" "$module")
"$folder/apidiff" -m "$folder/before" "$folder/after"
incompatible=$("$folder/apidiff" -m -incompatible "$folder/before" "$folder/after")
[[ $tag == consumer/v0.* || -z $incompatible ]] || { echo "incompatible with $tag" >&2 && exit 1; }
