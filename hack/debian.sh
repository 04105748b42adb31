# shellcheck shell=bash
# Programs from Debian's packages, unpacked into a folder: neither root nor an installation is needed, and no package manager's
# database is touched. Sourced by the scripts that provide them.

debian_available() { [[ $(uname) == Linux ]] && have apt-get && have dpkg-deb; }

# The machine's own mirror, where it is one of Debian; nothing where there is none.
debian_mirror() {
  local sources
  sources=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
  sources=$(sed -nE 's#^(URIs:|deb( \[[^]]*\])?)[[:space:]]+([a-z]+://[^[:space:]]*/debian)/?([[:space:]].*)?$#\3#p' <<<"$sources" | head -n 1)
  echo "${WARREN_DEBIAN_MIRROR:-$sources}"
}

# debian_apt SUITE FOLDER ARGUMENT…: an apt-get that knows nothing but that suite, keeps everything in the folder and believes
# that nothing is installed.
debian_apt() {
  local suite=$1 dir=$2 keyring
  shift 2
  keyring=$(find /usr/share/keyrings -name 'debian-archive-keyring.*' | sort | head -n 1)
  [[ -n $keyring ]] || {
    echo "the package debian-archive-keyring is missing: apt-get install debian-archive-keyring"
    return 1
  }
  echo "deb [signed-by=$keyring] $(debian_mirror) $suite main" >"$dir/sources.list"
  : >"$dir/status"
  apt-get -q -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State="$dir" -o Dir::State::Lists="$dir/lists" \
    -o Dir::State::status="$dir/status" -o Dir::Cache="$dir" -o Dir::Cache::Archives="$dir/archives" \
    -o APT::Default-Release= -o APT::Sandbox::User= -o APT::Install-Recommends=false \
    -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# debian_programs NAME FOLDER PACKAGE[=VERSION]…: unpacks packages of bookworm, and none that they depend on, into the folder.
debian_programs() {
  local name=$1 folder=$2 work="$2.work" begin=$SECONDS
  shift 2
  rm -rf "$work"
  mkdir -p "$work"/apt/{lists,archives}/partial "$work/root"
  say "unpacking $name from Debian bookworm (once per machine, usually under a minute)…"
  quietly "$WARREN_CACHE/logs/$name.log" debian_packages "$work/apt" "$@" ||
    die "$name (${*//\*/}) cannot be fetched from $(debian_mirror); check that mirror, or choose another by WARREN_DEBIAN_MIRROR"
  debian_extract "$work/root" "$work"/apt/*.deb
  rm -rf "$folder"
  mv "$work/root" "$folder"
  rm -rf "$work"
  say "unpacked $name in $((SECONDS - begin)) s"
}

# debian_extract ROOT FILE…: unpacks package files.
debian_extract() {
  local root=$1 package
  shift
  for package in "$@"; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --no-same-owner
  done
}

# debian_packages FOLDER PACKAGE…: the files alone.
debian_packages() {
  local folder=$1
  shift
  debian_apt bookworm "$folder" update && (cd "$folder" && debian_apt bookworm "$folder" download "$@")
}
