#!/usr/bin/env bash
# Prints the folder with a C compiler and linker for Windows, x86_64-w64-mingw32-gcc: that of the PATH, or else that of this machine's
# release of Debian, which is unpacked into ~/.cache/winpool/mingw without root (50 MB).
set -euo pipefail

. "$(dirname "$(realpath "$0")")/debian.sh"

prefix=x86_64-w64-mingw32
if gcc=$(command -v $prefix-gcc); then dirname "$gcc"; exit 0; fi
out=${XDG_CACHE_HOME:-$HOME/.cache}/winpool/mingw
if [[ ! -x $out/bin/$prefix-gcc ]]; then
  is_debian || fail "$prefix-gcc is missing: install mingw-w64. Without it this needs Debian 12 or later on x86-64"
  need_space "$out" 2
  lock "$out"
fi
if [[ ! -x $out/bin/$prefix-gcc ]]; then
  say "fetching the compiler for Windows of Debian $VERSION_CODENAME (50 MB)…"
  work=$(mktemp -d "$out.fetching.XXXXXX")
  trap 'rm -rf -- "$work"' EXIT
  use_release "$VERSION_CODENAME" "$work/apt"
  unpack "$work" gcc-mingw-w64-x86-64-win32 gcc-mingw-w64-x86-64-win32-runtime gcc-mingw-w64-base \
    binutils-mingw-w64-x86-64 mingw-w64-x86-64-dev mingw-w64-common
  # Debian's package makes these links when it is installed.
  for program in "$work/root/usr/bin/$prefix"-*-win32; do ln -s "${program##*/}" "${program%-win32}"; done
  mv "$work/root/usr" "$work/new"
  rm -rf -- "$out"
  mv "$work/new" "$out"
fi
echo "$out/bin"
