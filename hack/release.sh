#!/usr/bin/env bash
# Builds the files of a release in dist/. The same commit gives the same bytes. See docs/releasing.md.
#
#   hack/release.sh build   write image, chart, install.yaml, plugin, SBOMs, notes, checksums and provenance into OUTPUT
#   hack/release.sh push    push the image and the chart that `build` wrote, to REGISTRY; prints their names with digests
#
#   VERSION    the version, such as v1.2.3
#   REGISTRY   the registry of image and chart, ghcr.io/warren-mq by default
#   PLATFORMS  the platforms of image and plugin, all by default; `host` is this machine's
#   OUTPUT     the folder to write to, dist by default. The files of an earlier release there are deleted
#   BUILDER    the builder in the provenance, this script by default
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/describe.sh
. "$HACK_DIR/describe.sh"

CHECKOUT="$HACK_DIR/.."
OUTPUT="${OUTPUT:-$HACK_DIR/../dist}"
REGISTRY="${REGISTRY:-ghcr.io/warren-mq}"
IMG="$REGISTRY/warren:${VERSION:-}"
export OUTPUT VERSION IMG

checked_version() {
  [[ ${VERSION:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || die "set VERSION to a version such as v1.2.3, not '${VERSION:-}'"
}

build() {
  checked_version
  [[ -z $(in_checkout status --porcelain) ]] || die "the checkout has changes that are not committed: commit them"
  describe
  mkdir -p "$OUTPUT"
  OUTPUT=$(cd "$OUTPUT" && pwd)
  (cd "$OUTPUT" && rm -rf image chart bin image.digest chart.digest ./image-*.tar ./sbom-*.cdx.json ./warren-*.tgz install.yaml \
    kubectl-warren* release-notes.md checksums.txt provenance.intoto.json)
  tool notes # first, because it fails soonest
  "$HACK_DIR/image.sh" build
  "$HACK_DIR/plugin.sh"
  for binary in "$OUTPUT"/bin/*/kubectl-warren; do tool sbom "$binary"; done
  tool chart
  installer >"$OUTPUT/install.yaml"
  (cd "$OUTPUT" && sha256 install.yaml ./*.tgz ./image-*.tar ./sbom-*.cdx.json kubectl-warren* | sed 's# \./# #' >checksums.txt)
  tool provenance ${BUILDER:+-builder "$BUILDER"}
  say "wrote $VERSION into $OUTPUT"
}

# sha256 FILE… prints checksums. macOS has no sha256sum.
sha256() { if have sha256sum; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }

# tool COMMAND [ARGUMENT…] runs the program of hack/tools/release. Further flags come before its arguments.
tool() {
  local command=$1
  shift
  [[ -n ${TOOL:-} ]] || { TOOL="$OUTPUT/bin/release" && program release "$TOOL"; }
  "$TOOL" "$command" -output "$OUTPUT" -version "$VERSION" -revision "$REVISION" -epoch "$EPOCH" -registry "$REGISTRY" \
    -changelog "$CHECKOUT/CHANGELOG.md" -chart "$CHECKOUT/charts/warren" "$@"
}

# program NAME FILE builds a program of hack/tools.
program() { CGO_ENABLED=0 GOWORK=off GOFLAGS='' go -C "$HACK_DIR/tools" build -trimpath -o "$2" "./$1"; }

# installer prints config/default with the image by its digest. A label has the version, which `kubectl warren version` prints.
installer() {
  make --silent -C "$CHECKOUT" overlay IMG="$REGISTRY/warren@$(cat "$OUTPUT/image.digest")" VERSION= >&2
  printf 'labels:\n- pairs: {app.kubernetes.io/version: %s}\n' "$VERSION" >>"$CHECKOUT/bin/overlay/kustomization.yaml"
  "$HACK_DIR/tool.sh" kustomize build "$CHECKOUT/bin/overlay"
}

push() {
  checked_version
  OUTPUT=$(cd "$OUTPUT" && pwd)
  program image "$OUTPUT/bin/image"
  "$OUTPUT/bin/image" push "$OUTPUT/image" "$IMG"
  "$OUTPUT/bin/image" push "$OUTPUT/chart" "$REGISTRY/charts/warren:${VERSION#v}"
}

case ${1:-} in
  build) build ;;
  push) push ;;
  *) usage ;;
esac
