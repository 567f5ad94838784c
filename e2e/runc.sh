#!/usr/bin/env bash
# Prints the folder with runc, the plugins bridge and host-local for networks of pods, and busybox, which has `ip`: those of this machine's
# release of Debian, which are unpacked into ~/.cache/winpool/runc without root (15 MB).
set -euo pipefail

. "$(dirname "$(realpath "$0")")/debian.sh"

out=${XDG_CACHE_HOME:-$HOME/.cache}/winpool/runc
if [[ ! -x $out/runc ]]; then
  is_debian || fail "needs Debian 12 or later on x86-64; this is ${PRETTY_NAME:-an unknown system}"
  need_space "$out" 1
  lock "$out"
fi
if [[ ! -x $out/runc ]]; then
  say "fetching runc of Debian $VERSION_CODENAME (15 MB)…"
  work=$(mktemp -d "$out.fetching.XXXXXX")
  trap 'rm -rf -- "$work"' EXIT
  use_release "$VERSION_CODENAME" "$work/apt"
  unpack "$work" runc containernetworking-plugins busybox-static
  mkdir "$work/new"
  mv "$work"/root/usr/sbin/runc "$work"/root/usr/lib/cni/{bridge,host-local} "$work/root/bin/busybox" "$work/new"
  rm -rf -- "$out"
  mv "$work/new" "$out"
fi
echo "$out"
