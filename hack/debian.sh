# shellcheck shell=bash
# Functions that unpack programs from Debian's packages into a folder, without root and without an installation. Sourced.

debian_available() { [[ $(uname) == Linux ]] && have apt-get && have dpkg-deb; }

# debian_mirror prints WARREN_DEBIAN_MIRROR, or else the machine's mirror of Debian; nothing if there is none.
debian_mirror() {
  local sources
  sources=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
  echo "${WARREN_DEBIAN_MIRROR:-$(debian_mirror_in <<<"$sources")}"
}

# debian_mirror_in prints the mirror among the sources of apt on standard input. It prefers the path /debian, because archives of others,
# such as https://download.docker.com/linux/debian, have longer paths.
debian_mirror_in() {
  local mirrors
  mirrors=$(sed -nE 's#^(URIs:|deb( \[[^]]*\])?)[[:space:]]+([a-z]+://[^[:space:]]*/debian)/?([[:space:]].*)?$#\3#p')
  mirrors=$(grep -E '://[^/]+/debian$' <<<"$mirrors" || echo "$mirrors")
  echo "${mirrors%%$'\n'*}"
}

# debian_apt SUITE FOLDER ARGUMENT… runs an apt-get that uses only that suite, writes only to the folder, and treats no package as
# installed.
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

# debian_programs NAME FOLDER PACKAGE[=VERSION]… unpacks packages of bookworm into the folder, without their dependencies.
debian_programs() {
  local name=$1 folder=$2 work="$2.work" begin=$SECONDS
  shift 2
  rm -rf "$work"
  mkdir -p "$work"/apt/{lists,archives}/partial "$work/root"
  say "unpacking $name from Debian bookworm (once per machine, usually under a minute)…"
  quietly "$WARREN_CACHE/logs/$name.log" debian_packages "$work/apt" "$@" ||
    die "cannot download $name (${*//\*/}) from $(debian_mirror); check that mirror, or choose another with WARREN_DEBIAN_MIRROR"
  debian_extract "$work/root" "$work"/apt/*.deb
  rm -rf "$folder"
  mv "$work/root" "$folder"
  rm -rf "$work"
  say "unpacked $name in $((SECONDS - begin)) s"
}

# debian_extract ROOT FILE… unpacks package files.
debian_extract() {
  local root=$1 package
  shift
  for package in "$@"; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --no-same-owner
  done
}

# debian_packages FOLDER PACKAGE… downloads package files.
debian_packages() {
  local folder=$1
  shift
  debian_apt bookworm "$folder" update && (cd "$folder" && debian_apt bookworm "$folder" download "$@")
}
