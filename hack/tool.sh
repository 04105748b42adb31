#!/usr/bin/env bash
# Runs a pinned tool. The first run on a machine builds the tool from the module in hack/ that pins it.
#
#   hack/tool.sh argocd|controller-gen|crd-ref-docs|gofumpt|golangci-lint|helm|helm3|helm-docs|hugo|kind|krew|kubeconform|
#                kustomize|kustomize-controller|setup-envtest|source-controller|vale [ARGUMENT…]
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=${1:-}
case $name in
  argocd) module=argocd package=github.com/argoproj/argo-cd/v3/cmd ;;
  controller-gen) module=tools package=sigs.k8s.io/controller-tools/cmd/controller-gen ;;
  crd-ref-docs) module=tools package=github.com/elastic/crd-ref-docs ;;
  gofumpt) module=tools package=mvdan.cc/gofumpt ;;
  helm) module=tools package=helm.sh/helm/v4/cmd/helm ;;
  helm3) module=tools package=helm.sh/helm/v3/cmd/helm ;;
  helm-docs) module=tools package=github.com/norwoodj/helm-docs/cmd/helm-docs ;;
  hugo) module=site package=github.com/gohugoio/hugo ;;
  kind) module=tools package=sigs.k8s.io/kind ;;
  krew) module=tools package=sigs.k8s.io/krew/cmd/krew ;;
  kubeconform) module=tools package=github.com/yannh/kubeconform/cmd/kubeconform ;;
  kustomize-controller | source-controller) module=flux package=github.com/fluxcd/$name ;;
  kustomize) module=tools package=sigs.k8s.io/kustomize/kustomize/v5 ;;
  setup-envtest) module=tools package=sigs.k8s.io/controller-runtime/tools/setup-envtest ;;
  vale) module=vale package=github.com/errata-ai/vale/v3/cmd/vale ;;
  golangci-lint) module=lint package=sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter ;;
  *) usage ;;
esac
shift

# The key changes with the pins and with Go, because a linter must not be older than the Go that it reads.
key=$({ cat "$HACK_DIR/$module"/go.{mod,sum} && go env GOVERSION; } | cksum | cut -d ' ' -f 1)
binary="$WARREN_CACHE/tools/$module-$key/$name"

build() {
  local begin=$SECONDS note="" cgo=0
  [[ ! -x $binary ]] || return 0 # another process was faster
  [[ $module != lint && $module != site ]] || note=", usually 2 minutes on 2 cores"
  [[ $module != vale ]] || cgo=1 # its parsers are written in C
  [[ $module != flux ]] || note=", usually 5 minutes on 2 cores"
  say "building $name (once per machine$note)…"
  quietly "$WARREN_CACHE/logs/build-$name.log" env CGO_ENABLED=$cgo GOWORK=off GOFLAGS= \
    go -C "$HACK_DIR/$module" build -trimpath -ldflags '-s -w' -o "$binary.$$" "$package" ||
    die "cannot build $name; this machine needs access to a Go module proxy"
  mv "$binary.$$" "$binary"
  say "built $name in $((SECONDS - begin)) s"
}

[[ -x $binary ]] || alone "tool-$name" build
exec "$binary" "$@"
