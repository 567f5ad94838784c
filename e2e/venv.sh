# Sourced by the scripts that run a package of PyPI, each in a virtual environment of its own below ~/.cache/winpool.

say() { echo "$*" >&2; }

# Sets `out` to the environment with a package in this version, and installs it once. Two runs at once do not disturb each other.
# Needs Python with venv and pip; as root on Debian it installs them. usage: virtual_environment NAME VERSION SIZE PIP_ARGUMENT…
virtual_environment() {
  local name=$1 version=$2 size=$3
  shift 3
  out=$(realpath -m -- "${XDG_CACHE_HOME:-$HOME/.cache}/winpool/$name/$version")
  if [[ -e $out/complete ]]; then return; fi
  mkdir -p "${out%/*}"
  exec 9>"$out.lock"
  flock 9
  if [[ ! -e $out/complete ]]; then install_environment "$name $version ($size)" "$@" 9>&-; fi
  exec 9>&-
}

# usage: install_environment TITLE PIP_ARGUMENT…
install_environment() {
  if ! python3 -c 'import ensurepip' 2>/dev/null; then
    say "installing python3-venv from Debian…"
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; } >&2
  fi
  say "installing $1…"
  shift
  rm -rf -- "$out"
  python3 -m venv "$out"
  "$out/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes "$@" >&2
  touch "$out/complete"
}
