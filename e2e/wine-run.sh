#!/usr/bin/env bash
# Runs a Windows program under Wine, for instance as the runner of cargo:
#
#   wine-run.sh PROGRAM [ARGUMENT…]
#   CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$PWD/e2e/wine-run.sh cargo test --target x86_64-pc-windows-gnu -p …
#
# The program gets a new prefix, in which nothing is left running afterwards and which is removed. With WINEPREFIX it gets
# that one, which is made when it does not exist; other programs in it are not ended.
# A prefix is a copy of one that is made once, beside Wine.
# Wine is the one that wine.sh installs. Its own messages are off, unless WINEDEBUG is set.
set -euo pipefail

(($#)) || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
wine=$("$(dirname "$(realpath "$0")")/wine.sh")
export WINEDEBUG=${WINEDEBUG:--all} WINESERVER=$wine/bin/wineserver PATH=$wine/bin:$PATH
# No questions, no entries in menus, and no engines for web pages and .NET: they are not installed.
export WINEDLLOVERRIDES=${WINEDLLOVERRIDES:-winemenubuilder.exe,mscoree,mshtml=}

own=
if [[ ! ${WINEPREFIX:-} ]]; then
  own=1
  WINEPREFIX=$(mktemp -d "${TMPDIR:-/tmp}/winpool-wine.XXXXXX")
fi
export WINEPREFIX=$(realpath -m -- "$WINEPREFIX")
finish() {
  wineserver -k || true
  wineserver -w || true
  rm -rf -- "$WINEPREFIX"
}
if [[ $own ]]; then
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
fi

# The prefix of which all others are copies: it takes seconds to make. Another version of this script makes another one.
template=$wine/prefix-$(sha256sum < "$(realpath "$0")" | cut -c1-12)
make_template() (
  rm -rf -- "$wine"/prefix-*
  export WINEPREFIX=$template.new
  # It reports that there is no system for 32-bit programs.
  log=$(wine64 wineboot -i 2>&1) || { echo "$log" >&2; exit 1; }
  # A service has 10 s to connect and to answer, which a busy machine can exceed. In milliseconds, as text.
  wine64 reg add 'HKLM\System\CurrentControlSet\Control' /v ServicesPipeTimeout /d 300000 /f > /dev/null
  # The service manager of the first session would end with it, and the next one reads the limit.
  wineserver -w
  mv "$WINEPREFIX" "$template"
)

if [[ ! -e $WINEPREFIX/initialized ]]; then
  mkdir -p "$WINEPREFIX"
  exec 8>"$wine/prefix.lock" 9>"$WINEPREFIX/lock"
  flock 8
  if [[ ! -d $template ]]; then make_template 8>&- 9>&-; fi
  flock --unlock 8
  flock 9
  if [[ ! -e $WINEPREFIX/initialized ]]; then
    # The files of Windows, nearly a gigabyte, are links: programs read them. Wine writes to its registry.
    cp -alT "$template" "$WINEPREFIX" 2>/dev/null || cp -aT --reflink=auto "$template" "$WINEPREFIX"
    cp -a --remove-destination "$template"/*.reg "$WINEPREFIX"
    touch "$WINEPREFIX/initialized"
  fi
  exec 8>&- 9>&-
fi

if [[ $own ]]; then
  wine64 "$@"
else
  exec wine64 "$@"
fi
