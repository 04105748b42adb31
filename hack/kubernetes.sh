#!/usr/bin/env bash
# Provides the programs of Kubernetes for envtest and `make run`.
#
#   hack/kubernetes.sh [path]       provide kube-apiserver, etcd and kubectl; prints their folder (KUBEBUILDER_ASSETS)
#   hack/kubernetes.sh node         provide the other programs of a node, which are one binary; prints its path
#   hack/kubernetes.sh pin VERSION  move hack/kubernetes to another Kubernetes, such as v1.37.0
#
# The first source that works is used: KUBEBUILDER_ASSETS, the cache, setup-envtest's archive, a build from the published Go modules.
# No archive has the binary of a node, so it is always built.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# required MODULE GO_MOD prints the version that a go.mod requires.
required() {
  sed -nE "s|^(require)?[[:space:]]*$1 (v[^ ]+).*|\\2|p" "$2"
}

KUBERNETES=$(required k8s.io/kubernetes "$HACK_DIR/kubernetes/go.mod")
ETCD=$(required go.etcd.io/etcd/server/v3 "$HACK_DIR/etcd/go.mod")
CACHE="$WARREN_CACHE/kubernetes/$KUBERNETES-etcd-$ETCD"
BINARIES=(kube-apiserver kubectl etcd)

# missing FOLDER prints the first binary that a folder lacks.
missing() {
  local name
  for name in "${BINARIES[@]}"; do
    [[ -x $1/$name ]] || {
      echo "$name"
      return
    }
  done
}

path() {
  if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
    [[ -z $(missing "$KUBEBUILDER_ASSETS") ]] ||
      die "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no $(missing "$KUBEBUILDER_ASSETS"); add it or unset the variable"
    echo "$KUBEBUILDER_ASSETS"
    return
  fi
  [[ -z $(missing "$CACHE") ]] || alone kubernetes provide
  echo "$CACHE"
}

provide() {
  [[ -n $(missing "$CACHE") ]] || return 0 # another process was faster
  have go || die "building kube-apiserver and etcd needs Go; install it, or set KUBEBUILDER_ASSETS to a folder that has ${BINARIES[*]}"
  mkdir -p "$CACHE"
  rm -f "$CACHE"/.*.[0-9]* # the files of killed builds
  download || build
}

# download gets setup-envtest's archive. It lists the archives first, to find out within seconds whether the server can be reached. It
# checks each command, because errexit has no effect on the left of ||.
download() {
  local version=${KUBERNETES#v} folder="$WARREN_CACHE/envtest" from name
  say "searching the envtest archive of Kubernetes $version"
  "$HACK_DIR/tool.sh" setup-envtest version >/dev/null || return 1 # builds the tool without the time limit
  if ! limited 10 "$HACK_DIR/tool.sh" setup-envtest --bin-dir "$folder" list "$version" >/dev/null 2>&1; then
    say "the envtest archives cannot be reached from here"
    return 1
  fi
  if ! from=$(limited 600 "$HACK_DIR/tool.sh" setup-envtest --bin-dir "$folder" use "$version" -p path 2>/dev/null) || [[ -n $(missing "$from") ]]; then
    say "there is no envtest archive of Kubernetes $version"
    return 1
  fi
  for name in "${BINARIES[@]}"; do
    cp "$from/$name" "$CACHE/.$name.$$" && mv "$CACHE/.$name.$$" "$CACHE/$name" || return 1
  done
}

# node prints the binary with kubelet, kube-proxy, kube-controller-manager and kube-scheduler; see hack/kubernetes/main.go.
node() {
  [[ -x $CACHE/kubernetes ]] || alone kubernetes provide_node
  echo "$CACHE/kubernetes"
}

provide_node() {
  have go || die "building the kubelet needs Go; install it, or start Docker, which needs no such build"
  mkdir -p "$CACHE"
  build_one kubernetes "$KUBERNETES" "3-5 minutes" kubernetes . "$(version_flags)"
}

build() {
  local set
  set=$(version_flags)
  build_one kube-apiserver "$KUBERNETES" "4-8 minutes" kubernetes k8s.io/kubernetes/cmd/kube-apiserver "$set"
  build_one kubectl "$KUBERNETES" "under a minute" kubernetes k8s.io/kubernetes/cmd/kubectl "$set"
  build_one etcd "$ETCD" "under a minute" etcd go.etcd.io/etcd/server/v3 ""
}

version_flags() {
  local set="" key minor=${KUBERNETES#v1.}
  minor=${minor%%.*}
  for key in gitVersion="$KUBERNETES" gitMajor=1 gitMinor="$minor" gitTreeState=clean; do
    set+=" -X k8s.io/component-base/version.$key -X k8s.io/client-go/pkg/version.$key"
  done
  echo "$set"
}

# build_one NAME VERSION USUALLY MODULE PACKAGE LDFLAGS
build_one() {
  local name=$1 version=$2 usually=$3 module=$4 package=$5 ldflags=$6 begin=$SECONDS
  [[ ! -x $CACHE/$name ]] || return 0
  say "building $name $version from Go modules (once per machine, usually $usually on 2 cores)…"
  quietly "$WARREN_CACHE/logs/build-$name.log" env CGO_ENABLED=0 GOWORK=off GOFLAGS= \
    go -C "$HACK_DIR/$module" build -trimpath -ldflags "-s -w$ldflags" -o "$CACHE/.$name.$$" "$package" ||
    die "cannot build $name; set KUBEBUILDER_ASSETS to a folder that has ${BINARIES[*]}, or give this machine access to a Go module proxy"
  mv "$CACHE/.$name.$$" "$CACHE/$name"
  say "built $name $version in $((SECONDS - begin)) s"
}

# pin VERSION rewrites the replacements in go.mod. The go.mod of k8s.io/kubernetes replaces the modules of Kubernetes by local folders; here
# they are replaced by the published modules of the same release.
pin() {
  local version=$1 gomod=$HACK_DIR/kubernetes/go.mod source
  [[ $version =~ ^v1\.[0-9]+\.[0-9]+$ ]] || die "not a version of Kubernetes: $version"
  (cd "$(mktemp -d)" && GOWORK=off go mod init pin 2>/dev/null && go mod download "k8s.io/kubernetes@$version") ||
    die "k8s.io/kubernetes $version cannot be downloaded"
  source=$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/$version.mod
  {
    sed -n '1,/^)$/p' "$gomod"
    printf '\nrequire k8s.io/kubernetes %s\n\nreplace (\n' "$version"
    awk -v version="v0.${version#v1.}" '$2 == "=>" { print "\t" $1 " => " $1 " " version }' "$source"
    echo ")"
  } >"$gomod.new"
  mv "$gomod.new" "$gomod"
  GOWORK=off go -C "$HACK_DIR/kubernetes" mod tidy
}

case ${1:-path} in
  path) path ;;
  node) node ;;
  pin) pin "${2:-}" ;;
  *) usage ;;
esac
