#!/usr/bin/env bash
# Fetches the programs of Debian that tests run beside a control plane: containerd and ctr of three releases, docker-registry,
# Prometheus and the kubectl of today. Nothing is installed, so no service starts.
#
#   programs.sh [OUT]
#
# Needs Debian 12 or later on x86-64, without root. Leaves containerd-bookworm (1.6), containerd-trixie (1.7),
# containerd-forky (2.1 or later), the ctr of each, docker-registry, prometheus, promtool and kubectl-sid (1.36 or later) in OUT,
# and prints OUT.
# Default: ~/.cache/winpool/programs
# What is there already is not fetched again. Two runs at once do not disturb each other.
set -euo pipefail

# Release, package, the program in the package, its name in OUT.
programs="bookworm containerd containerd containerd-bookworm
bookworm containerd ctr ctr-bookworm
bookworm docker-registry docker-registry docker-registry
bookworm prometheus prometheus prometheus
bookworm prometheus promtool promtool
trixie containerd containerd containerd-trixie
trixie containerd ctr ctr-trixie
forky containerd containerd containerd-forky
forky containerd ctr ctr-forky
sid kubectl kubectl kubectl-sid"

usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; }
. "$(dirname "$(realpath "$0")")/debian.sh"

read_out programs "$@"
missing() { while read -r line; do [[ -x $out/${line##* } ]] || echo "$line"; done <<<"$programs"; }
if [[ ! $(missing) ]]; then echo "$out"; exit 0; fi

is_debian || fail "needs Debian 12 or later on x86-64; this is ${PRETTY_NAME:-an unknown system}, $(uname -m)"
need_space "$out" 1
lock "$out"
mkdir -p "$out"
# Beside OUT, so that a finished program is moved there by one rename.
work=$(mktemp -d "$out.fetching.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

known=
while read -r release package program name; do
  [[ $release ]] || continue
  folder=$work/$release
  if [[ $release != "$known" ]]; then
    use_release "$release" "$folder"
    known=$release
  fi
  if [[ ! -d $folder/$package ]]; then
    say "fetching $package of Debian ${release}…"
    download "$folder/debs" "$package"
    dpkg-deb -x "$folder/debs/${package}"_*.deb "$folder/$package"
  fi
  mv "$folder/$package/usr/bin/$program" "$out/$name"
done < <(missing)
[[ ! $(missing) ]] || fail "still missing: $(missing)"
echo "$out"
