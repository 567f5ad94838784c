#!/usr/bin/env bash
# Installs Wine 10 of Debian 13 beside what the system has: packages unpacked with a loader and a C library of their own.
#
#   wine.sh [OUT]
#
# Needs Debian 12 or later on x86-64, without root. Leaves wine64 and wineserver in OUT/bin, and prints OUT. Wine runs
# 64-bit programs without a display; it has no prefix yet. The path of OUT becomes part of the programs: it cannot be moved.
# Default: ~/.cache/winpool/wine/10.0
# A complete OUT is not changed. Two runs at once do not disturb each other, and an interrupted run leaves no OUT.
set -euo pipefail

version=10.0
# Wine, and the libraries that its loader is linked with.
packages=(wine64 libwine libz-mingw-w64 libc6 libunwind8 liblzma5)
libraries=(ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libnss_files.so.2
  libnss_dns.so.2 libunwind.so.8 liblzma.so.5)

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0"; }
. "$(dirname "$(realpath "$0")")/debian.sh"

is_complete() { [[ -x $out/bin/wine64 && -e $out/share/wine/wine ]]; }
read_out "wine/$version" "$@"
if is_complete; then echo "$out"; exit 0; fi

is_debian || fail "needs Debian 12 or later on x86-64; this is ${PRETTY_NAME:-an unknown system}, $(uname -m)"
need_space "$out" 3

lock "$out"
if is_complete; then echo "$out"; exit 0; fi
work=$(mktemp -d "$out.unpacking.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

fetch() {
  local release=$1
  shift
  use_release "$release" "$work/$release/apt"
  unpack "$work/$release" "$@"
}

say "fetching Wine of Debian trixie (115 MB)…"
fetch trixie "${packages[@]}"
patchelf=$(command -v patchelf || true)
if [[ ! $patchelf ]]; then
  # Of this release, so that it runs with the libraries of the system.
  fetch "$VERSION_CODENAME" patchelf
  patchelf=$work/$VERSION_CODENAME/root/usr/bin/patchelf
fi

usr=$work/trixie/root/usr
arch=x86_64-linux-gnu
new=$work/new
mkdir -p "$new"/{bin,glibc,share,"lib/$arch"}
cp -a "$usr/lib/wine" "$new/lib/"
cp -a "$usr/lib/$arch/wine" "$new/lib/$arch/"
cp -a "$usr/share/wine" "$new/share/"
# wineserver searches share/wine/wine/nls, and then the folders of the system, which may have no Wine.
ln -s . "$new/share/wine/wine"
for name in "${libraries[@]}"; do cp -L "$usr/lib/$arch/$name" "$new/glibc/"; done

# As the package of libwine does when it is installed: zlib gets the mark of Wine's own libraries.
windows=$new/lib/$arch/wine/x86_64-windows
zlib=$usr/x86_64-w64-mingw32/lib/zlib1.dll
{
  head -c 64 "$zlib"
  printf 'Wine builtin DLL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  tail -c +97 "$zlib"
} >"$windows/zlib1.dll"

# 32-bit programs are not run, and debug information is two thirds of the size. strip keeps Wine's mark.
rm -rf "$new/lib/$arch/wine/i386-windows"
if command -v x86_64-w64-mingw32-strip >/dev/null; then
  find "$windows" -type f -print0 | xargs -0 -n 50 x86_64-w64-mingw32-strip --strip-debug 2>/dev/null || true
fi

for name in wine64 wineserver64; do
  "$patchelf" --set-interpreter "$out/glibc/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$out/glibc" \
    "$new/lib/wine/$name"
done
# It ends with the last program of a prefix, instead of some seconds later.
printf '#!/bin/sh\nexec "%s/lib/wine/wineserver64" -p0 "$@"\n' "$out" >"$new/lib/wine/wineserver"
chmod +x "$new/lib/wine/wineserver"
ln -s ../lib/wine/wine64 ../lib/wine/wineserver "$new/bin/"

rm -rf -- "$out"
mv -- "$new" "$out"
echo "$out"
