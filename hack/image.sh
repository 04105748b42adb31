#!/usr/bin/env bash
# The image of the manager, without a Docker daemon. See docs/adr/0020-build-the-image-without-a-daemon.md.
#
#   hack/image.sh build [CHECKOUT]  write the image of this checkout, or of another one, into OUTPUT
#   hack/image.sh push              push the image that `build` wrote, as IMG; prints the name with its digest
#   hack/image.sh arguments         print the arguments for `docker build`
#   hack/image.sh flags             print the linker flags that set the version of the manager
#
#   IMG        the name of the image; ghcr.io/warren-mq/warren with the version as tag unless given
#   VERSION    the version; by default the tag of the commit, or a pseudo-version of its time and hash if it has none
#   PLATFORMS  linux/amd64,linux/arm64 unless given; `host` is only the platform of this machine
#   OUTPUT     the folder to write into; dist unless given
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/describe.sh
. "$HACK_DIR/describe.sh"

CHECKOUT="$HACK_DIR/.."
OUTPUT="${OUTPUT:-$HACK_DIR/../dist}"

arguments() { printf -- '--build-arg=%s\0' "VERSION=$VERSION" "REVISION=$REVISION" "LDFLAGS=$(flags)"; }

build() {
  local platform binaries=() platforms=${PLATFORMS:-linux/amd64,linux/arm64}
  [[ $platforms != host ]] || platforms=linux/$(go env GOHOSTARCH)
  mkdir -p "$OUTPUT"
  OUTPUT=$(cd "$OUTPUT" && pwd)
  for platform in ${platforms//,/ }; do
    say "building the manager $VERSION for $platform"
    manager "${platform%/*}" "${platform#*/}" "$OUTPUT/bin/${platform//\//-}/manager"
    binaries+=("$platform=$OUTPUT/bin/${platform//\//-}/manager")
  done
  program build -output "$OUTPUT" -tag "$(name)" -version "$VERSION" -revision "$REVISION" -epoch "$EPOCH" "${binaries[@]}"
  say "wrote $(name), $(cat "$OUTPUT/image.digest"), into $OUTPUT"
}

# manager OS ARCHITECTURE FILE: builds the manager. The file must not depend on this machine.
manager() {
  env GOOS="$1" GOARCH="$2" CGO_ENABLED=0 GOWORK= GOFLAGS= GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 \
    go -C "$CHECKOUT" build -trimpath -buildvcs=false -ldflags "$(flags) -buildid=" -o "$3" ./cmd
}

name() { echo "${IMG:-ghcr.io/warren-mq/warren:$VERSION}"; }

program() { CGO_ENABLED=0 GOWORK=off GOFLAGS='' go -C "$HACK_DIR/tools" run ./image "$@"; }

command=${1:-}
[[ -z ${2:-} ]] || CHECKOUT=$2
case $command in
  build) describe && build ;;
  push) describe && program push "$(cd "$OUTPUT" && pwd)/image" "$(name)" ;;
  arguments) describe && arguments ;;
  flags) describe && flags ;;
  *) usage ;;
esac
