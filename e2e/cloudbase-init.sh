#!/usr/bin/env bash
# Prints what cloudbase-init does with user data, as JSON: the files that it would write, and the script that it would run. It is
# cloudbase-init's own package from PyPI, pinned by its digests, without Windows: see cloudbase_init.py. Without arguments it only
# installs it.
#
#   cloudbase-init.sh [USER_DATA]
#
# Needs Python 3.11: see venv.sh.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
. "$here/venv.sh"

virtual_environment cloudbase-init 1.1.9 "20 MB" --no-deps --requirement "$here/cloudbase-init.txt"
if (($#)); then exec "$out/bin/python" "$here/cloudbase_init.py" "$@"; fi
