#!/usr/bin/env bash
# Prints what cloudbase-init does with user data, as JSON: the files that it would write, and the script that it would run. It is
# cloudbase-init's own package from PyPI, pinned by its digests, without Windows: see cloudbase_init.py. Without arguments it only
# installs it.
#
#   cloudbase-init.sh [USER_DATA]
#
# Needs Python 3.11 with venv and pip; as root on Debian 12 it installs them. The package is kept in
# ~/.cache/winpool/cloudbase-init. Two runs at once do not disturb each other.
set -euo pipefail

version=1.1.9

say() { echo "$*" >&2; }

here=$(dirname "$(realpath "$0")")
out=$(realpath -m -- "${XDG_CACHE_HOME:-$HOME/.cache}/winpool/cloudbase-init/$version")

install() {
  if ! python3 -c 'import ensurepip' 2>/dev/null; then
    say "installing python3-venv from Debian…"
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; } >&2
  fi
  say "installing cloudbase-init $version (20 MB)…"
  rm -rf -- "$out"
  python3 -m venv "$out"
  "$out/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes --no-deps \
    --requirement "$here/cloudbase-init.txt" >&2
  touch "$out/complete"
}

if [[ ! -e $out/complete ]]; then
  mkdir -p "${out%/*}"
  exec 9>"$out.lock"
  flock 9
  if [[ ! -e $out/complete ]]; then install 9>&-; fi
  exec 9>&-
fi
if (($#)); then exec "$out/bin/python" "$here/cloudbase_init.py" "$@"; fi
