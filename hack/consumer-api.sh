#!/usr/bin/env bash
# Shows how the API of each Go module of the consumer library differs from that of its latest tag. From v1 on, an incompatible change fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
folder=$(mktemp -d)
trap 'rm -rf "$folder"; git worktree prune' EXIT
export GOWORK=off GOFLAGS=
GOBIN=$folder go install "$apidiff"

for path in consumer consumer/otelconsumer; do
  module=github.com/warren-mq/warren/$path
  tag=$(git tag --list "$path/v*" --sort=-version:refname | head -n 1)
  if [[ -z $tag ]]; then
    echo "$path/ has no tag yet, so there is nothing to compare with"
    continue
  fi
  git worktree add --quiet --detach "$folder/tagged" "$tag"
  (cd "$folder/tagged/$path" && "$folder/apidiff" -m -w "$folder/before" "$module")
  (cd "$path" && "$folder/apidiff" -m -w "$folder/after" "$module")
  git worktree remove --force "$folder/tagged"
  "$folder/apidiff" -m "$folder/before" "$folder/after"
  incompatible=$("$folder/apidiff" -m -incompatible "$folder/before" "$folder/after")
  [[ $tag == "$path"/v0.* || -z $incompatible ]] || { echo "incompatible with $tag" >&2 && exit 1; }
done
