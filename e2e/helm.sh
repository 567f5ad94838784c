#!/usr/bin/env bash
# Runs helm: its engine, Helm 4, from a package of PyPI that is pinned by its digests, with the commands and options of
# helm.py. Without arguments it only installs it.
#
#   helm.sh [COMMAND [ARGUMENT…]]
#
# Needs Python 3.10 or later: see venv.sh.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
. "$here/venv.sh"

package="helm-python-sdk==0.2.2
  --hash=sha256:28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578
  --hash=sha256:078bac2464ea2f4b5af24cf7873e8f78ee3f3c216766fcdea41b7c61f47275b1"

virtual_environment helm 4.2.3 "75 MB" --requirement <(echo "${package//$'\n'/ }")
if (($#)); then exec "$out/bin/python" "$here/helm.py" "$@"; fi
