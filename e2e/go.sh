#!/usr/bin/env bash
# Runs Go as the scripts and tests of this folder need it: that of this machine, from 1.21 on, or else that of Debian unstable, which needs
# no root. Where a module asks for a newer Go, Go fetches that by itself.
#
#   go.sh ARGUMENT…
#
# Go of Debian is in ~/.cache/winpool/go, where Debian 12 or later on x86-64 fetches it once (70 MB).
set -euo pipefail

. "$(dirname "$(realpath "$0")")/debian.sh"

out=${XDG_CACHE_HOME:-$HOME/.cache}/winpool/go

# From 1.21 on, Go fetches the toolchain that a module asks for.
is_enough() {
  local version
  version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21))
}

from_debian() {
  is_debian || fail "needs Go 1.21 or later on the PATH, or Debian 12 or later on x86-64 to fetch it; this is ${PRETTY_NAME:-an unknown system}"
  need_space "$out" 1
  lock "$out"
  [[ ! -x $out/bin/go ]] || return 0
  say "fetching Go of Debian unstable (70 MB)…"
  # Beside OUT, which is put in place by one rename.
  work=$(mktemp -d "$out.fetching.XXXXXX")
  trap 'rm -rf -- "$work"' EXIT
  use_release sid "$work/apt"
  wanted=$(apt-get "${apt[@]}" install -s --no-install-recommends golang-go 2>&1) \
    || fail "Debian unstable cannot install golang-go: $(grep -m 1 -E '^E:|Depends:' <<<"$wanted")"
  mapfile -t names < <(sed -nE 's/^Inst (golang-[0-9.]+-(go|src)) .*/\1/p' <<<"$wanted")
  unpack "$work" "${names[@]}"
  # Go's two folders, below lib and share, link to each other.
  mv "$work/root/usr" "$work/usr"
  ln -s "usr/$(cd "$work/usr" && echo lib/go-*)/bin" "$work/bin"
  rm -rf "$work"/{apt,debs,root}
  mv "$work" "$out"
  trap - EXIT
  exec 9>&-
}

go=$(command -v go || true)
if ! { [[ $go ]] && is_enough "$go"; }; then
  [[ -x $out/bin/go ]] || from_debian
  go=$(realpath "$out/bin/go")
  GOROOT=$(dirname "$(dirname "$go")")
  export GOROOT
fi
# Programs for tests need no debug information, and the compiler runs shortly: without both, a build takes 0.6 of its time.
export GOTOOLCHAIN=auto GOFLAGS="-trimpath -buildvcs=false -gcflags=all=-dwarf=false" GOWORK=off CGO_ENABLED=0 GOGC=${GOGC:-400}
exec "$go" "$@"
