# shellcheck shell=bash
# Shared by the scripts in hack/ that build releases: the version of Go, the commit of CHECKOUT, and the linker flags with its version.

# The Dockerfile names the version of Go. A go command of another version downloads that version, so a commit gives the same bytes on each
# machine.
GOTOOLCHAIN=$(sed -n 's/^FROM .*golang:\([0-9.]*\) .*/go\1/p' "$HACK_DIR/../Dockerfile")
export GOTOOLCHAIN

in_checkout() { git -C "$CHECKOUT" "$@" 2>/dev/null; }

# describe sets the variables that describe the commit. A checkout without git, such as an archive, needs VERSION. The variables do not
# depend on the history of the clone, or on tags of other commits.
describe() {
  REVISION=$(in_checkout rev-parse HEAD || echo unknown)
  EPOCH=${SOURCE_DATE_EPOCH:-$(in_checkout log -1 --format=%ct || echo 0)}
  if [[ -z ${VERSION:-} ]]; then
    VERSION=$(in_checkout describe --tags --exact-match ||
      echo "v0.0.0-$(TZ=UTC0 in_checkout log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd || echo 0)-${REVISION:0:12}")
    [[ -z $(in_checkout status --porcelain) ]] || VERSION+=-dirty
  fi
}

flags() {
  local package=github.com/warren-mq/warren/internal/buildinfo
  echo "-s -w -X $package.version=$VERSION -X $package.revision=$REVISION"
}
