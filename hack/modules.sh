#!/usr/bin/env bash
# Checks that users can import the Go modules of a release once they are tagged. It tags a clone of this checkout, and Go reads the
# modules from the clone instead of GitHub.
#
#   hack/modules.sh VERSION   such as v1.2.3
#
# The manager requires a version of consumer/, so consumer/VERSION has to be tagged before VERSION. Users require
# consumer/otelconsumer/VERSION, so that tag comes before VERSION, too. If VERSION is tagged already, this
# checks the tags that exist.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

ROOT=github.com/warren-mq/warren
VERSION=${1:-}
[[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || die "name a version such as v1.2.3, not '$VERSION'"
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

required() { sed -n "s#^[[:space:]]*$ROOT/consumer \(v[^ ]*\).*#\1#p" "$1" | head -n 1; }
tagged() { git rev-parse --quiet --verify "refs/tags/$1^{commit}" >/dev/null; }

# The modules must agree on the version of consumer/, because Go takes the highest one.
consumer=$(required go.mod)
for module in consumer/otelconsumer examples/orders cmd/kubectl-warren; do
  [[ $(required "$module/go.mod") == "$consumer" ]] ||
    die "$module/go.mod requires $ROOT/consumer $(required "$module/go.mod"), and go.mod requires $consumer; require the same version"
done

# check_tags checks that the manager was built with the tagged consumer/. It is the first check of a release, so it also requires the date
# in the changelog.
check_tags() {
  grep -q "^## \[${VERSION#v}\] - [0-9]" CHANGELOG.md || die "$VERSION is tagged, and CHANGELOG.md has no date for it: set the date before you tag it"
  tagged "consumer/$consumer" || die "$VERSION is tagged, and consumer/$consumer, which it requires, is not: tag consumer/ first"
  git merge-base --is-ancestor "consumer/$consumer" "$VERSION" || die "consumer/$consumer is not an ancestor of $VERSION: tag consumer/ at an earlier commit"
  git diff --quiet "consumer/$consumer" "$VERSION" -- consumer ||
    die "consumer/ has changed between consumer/$consumer and $VERSION: tag a new version of consumer/, and require it in go.mod"
  tagged "consumer/otelconsumer/$VERSION" || die "$VERSION is tagged, and consumer/otelconsumer/$VERSION is not: tag consumer/otelconsumer/ first"
}

# check_untagged checks that consumer/ has not changed since the version that go.mod requires, if that version is tagged.
check_untagged() {
  if tagged "consumer/$consumer"; then
    git diff --quiet "consumer/$consumer" HEAD -- consumer ||
      die "consumer/ has changed since consumer/$consumer: require consumer $VERSION in each go.mod, and tag consumer/$VERSION first"
  elif [[ $consumer != "$VERSION" ]]; then
    die "go.mod requires $ROOT/consumer $consumer, which is not tagged: require $VERSION"
  fi
}

if tagged "$VERSION"; then check_tags; else check_untagged; fi

git clone --quiet --no-hardlinks . "$work/warren"
tag() { git -C "$work/warren" rev-parse --quiet --verify "refs/tags/$1" >/dev/null || git -C "$work/warren" tag "$1"; }

# Go reads other modules from the cache of this machine first. Git reads the clone instead of GitHub.
cache=$(go env GOMODCACHE)
proxy=$(go env GOPROXY)
export GOMODCACHE="$work/modules" GOPROXY="file://$cache/cache/download,$proxy" GOPRIVATE="$ROOT,$ROOT/*" GOWORK=off GOFLAGS=-mod=mod
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$work/warren.insteadOf" GIT_CONFIG_VALUE_0="https://$ROOT"
export GIT_ALLOW_PROTOCOL=file:https

# user FOLDER PACKAGE VERSION creates a module that imports a package of the release.
user() {
  mkdir "$work/$1"
  (cd "$work/$1" && go mod init example.com/user && go get "$2@$3" && go list -deps "$2") >"$work/$1.log" 2>&1
}

tag "consumer/$consumer"
tag "consumer/otelconsumer/$VERSION"
user consumer "$ROOT/consumer" "$consumer" || { cat "$work/consumer.log" >&2; die "consumer/$consumer cannot be used"; }
user otelconsumer "$ROOT/consumer/otelconsumer" "$VERSION" || { cat "$work/otelconsumer.log" >&2; die "consumer/otelconsumer/$VERSION cannot be used"; }
tag "$VERSION"
user manager "$ROOT/cmd" "$VERSION" || { cat "$work/manager.log" >&2; die "$VERSION cannot be used"; }
say "tag consumer/$consumer, consumer/otelconsumer/$VERSION and $VERSION, in this order: Go finds what each of them requires"
