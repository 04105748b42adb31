#!/usr/bin/env bash
# Provides a headless Chromium for the tests of `kubectl warren ui`, and prints its path.
#
#   hack/chromium.sh path
#
# The first source that works is used: WARREN_CHROMIUM (a program), the cache, Debian's packages (unpacked into the cache, without root
# and without an installation), the machine's own.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/debian.sh
. "$HACK_DIR/debian.sh"

FOLDER="$WARREN_CACHE/debian/chromium-bookworm"

provide() {
  local name
  if [[ ! -x $FOLDER/chromium ]] && debian_available && [[ -n $(debian_mirror) ]]; then
    unpack
  fi
  if [[ -x $FOLDER/chromium ]]; then
    echo "$FOLDER/chromium"
    return
  fi
  for name in chromium chromium-browser google-chrome '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'; do
    command -v "$name" && return
  done
  die "Chromium cannot be provided here: install Chromium or Chrome, or name the program in WARREN_CHROMIUM"
}

# unpack leaves out the C library, because the program loader is the machine's. All other libraries and the fonts are unpacked.
unpack() {
  local work="$FOLDER.work" begin=$SECONDS
  rm -rf "$work"
  mkdir -p "$work"/apt/{lists,archives}/partial "$work/root"
  say "unpacking Chromium from Debian bookworm (once per machine, usually under a minute)…"
  quietly "$WARREN_CACHE/logs/chromium.log" download "$work/apt" ||
    die "cannot download Chromium from $(debian_mirror); check that mirror, or choose another with WARREN_DEBIAN_MIRROR"
  rm -f "$work"/apt/archives/libc{6,-bin}_*.deb
  debian_extract "$work/root" "$work"/apt/archives/*.deb
  write_launcher >"$work/root/chromium"
  chmod +x "$work/root/chromium"
  rm -rf "$FOLDER"
  mv "$work/root" "$FOLDER"
  rm -rf "$work"
  say "unpacked Chromium in $((SECONDS - begin)) s"
}

download() {
  debian_apt bookworm "$1" update && debian_apt bookworm "$1" install -y --download-only chromium fonts-dejavu-core
}

write_launcher() {
  local libraries
  libraries=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
  cat <<LAUNCHER
#!/bin/sh
root=\$(dirname "\$0")
export LD_LIBRARY_PATH="\$root/usr/lib/$libraries:\$root/lib/$libraries:\$root/usr/lib/$libraries/pulseaudio"
export FONTCONFIG_FILE="\$root/fonts.conf"
exec "\$root/usr/lib/chromium/chromium" "\$@"
LAUNCHER
  cat >"$FOLDER.work/root/fonts.conf" <<FONTS
<fontconfig><dir>$FOLDER/usr/share/fonts</dir><cachedir>$FOLDER/var/cache/fontconfig</cachedir></fontconfig>
FONTS
}

case ${1:-} in
  path)
    if [[ -n ${WARREN_CHROMIUM:-} ]]; then
      echo "$WARREN_CHROMIUM"
    else
      alone chromium provide
    fi
    ;;
  *) usage ;;
esac
