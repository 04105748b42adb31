#!/usr/bin/env bash
# kubectl-warren for five platforms: an archive for each, and the manifest for krew with their checksums. The same commit gives the same
# bytes.
#
#   hack/plugin.sh [CHECKOUT]   write the archives of this checkout, or of another one, and kubectl-warren.yaml into OUTPUT
#
#   VERSION    the version; by default the tag of the commit, or a pseudo-version of its time and hash if it has none
#   PLATFORMS  linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64 unless given; `host` is only the platform of this machine
#   OUTPUT     the folder to write into; dist unless given
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/describe.sh
. "$HACK_DIR/describe.sh"

CHECKOUT="${1:-$HACK_DIR/..}"
CHECKOUT="$(cd "$CHECKOUT" && pwd)"
OUTPUT="${OUTPUT:-$HACK_DIR/../dist}"
PLATFORMS="${PLATFORMS:-linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64}"
[[ $PLATFORMS != host ]] || PLATFORMS=$(go env GOHOSTOS)/$(go env GOHOSTARCH)

# binary OS ARCHITECTURE FILE: builds the plugin. The file must not depend on this machine.
binary() {
  env GOOS="$1" GOARCH="$2" CGO_ENABLED=0 GOWORK=off GOFLAGS= GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 \
    go -C "$CHECKOUT/cmd/kubectl-warren" build -trimpath -buildvcs=false -ldflags "$(flags) -buildid=" -o "$3" .
}

describe
mkdir -p "$OUTPUT"
OUTPUT=$(cd "$OUTPUT" && pwd)
binaries=()
for platform in ${PLATFORMS//,/ }; do
  say "building kubectl-warren $VERSION for $platform"
  file="$OUTPUT/bin/${platform//\//-}/kubectl-warren"
  binary "${platform%/*}" "${platform#*/}" "$file"
  binaries+=("$platform=$file")
done
CGO_ENABLED=0 GOFLAGS='' go -C "$HACK_DIR/.." run ./hack/plugin -output "$OUTPUT" -version "$VERSION" -epoch "$EPOCH" \
  -license "$CHECKOUT/LICENSE" "${binaries[@]}"
say "wrote $(cd "$OUTPUT" && echo kubectl-warren_* kubectl-warren.yaml) into $OUTPUT"
