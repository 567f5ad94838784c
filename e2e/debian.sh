# Sourced by the other scripts of this folder: messages, and packages of any release of Debian without installing them.

say() { echo "$*" >&2; }
fail() { say "${0##*/}: $*"; exit 1; }

# Runs a command, and shows its output only if it fails. usage: quietly COMMAND…
quietly() {
  local output
  output=$("$@" 2>&1 9>&-) || { say "$output"; fail "$1 failed"; }
}

# Sets `out` to the folder that the arguments of a script name, or to its default in the folder of caches; answers --help by
# `usage` of the script. usage: read_out DEFAULT [ARGUMENT…]
read_out() {
  local default=$1
  shift
  case ${1:-} in
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; fail "unknown option $1" ;;
  esac
  (($# <= 1)) || { usage >&2; fail "more than one OUT"; }
  out=$(realpath -m -- "${1:-${XDG_CACHE_HOME:-$HOME/.cache}/winpool/$default}")
}

# Fails unless the folder's file system has room. usage: need_space FOLDER GIGABYTES
need_space() {
  local folder=$1 free
  while [[ ! -d $folder ]]; do folder=$(dirname -- "$folder"); done
  free=$(($(df --output=avail -k -- "$folder" | tail -n 1) / 1000000))
  ((free >= $2)) || fail "needs $2 GB of free disk in $folder, which has $free GB"
}

# Waits for another run that fills the same folder, and keeps it from the next one until this shell ends. usage: lock FOLDER
lock() {
  mkdir -p "${1%/*}"
  exec 9>"$1.lock"
  flock -n 9 || { say "another run is filling $1; waiting for it…"; flock 9; }
}

# Sets `apt` to the options with which apt-get and apt-cache know only one release of Debian, from the mirror that this
# machine uses, and reads its lists into FOLDER: those of the machine stay as they are. Installed packages do not count.
# usage: use_release RELEASE FOLDER
use_release() {
  local release=$1 folder=$2 list
  mkdir -p "$folder"/{parts,lists/partial,archives/partial}
  {
    sed -nE "s/^(deb (\[[^]]*\] )?[^ ]+) $VERSION_CODENAME .*/\1 $release main/p" /etc/apt/sources.list 2>/dev/null || true
    for list in /etc/apt/sources.list.d/debian*.sources; do
      [[ -e $list ]] || continue
      awk -v RS= -v release="$release" -v own="$VERSION_CODENAME" '$0 ~ "(^|\n)Suites:[^\n]* " own "( |\n|$)" {
        uri = signed = ""
        for (i = 1; i <= split($0, lines, "\n"); i++) {
          if (lines[i] ~ /^URIs:/) { split(lines[i], parts, " "); uri = parts[2] }
          if (lines[i] ~ /^Signed-By: *\//) { split(lines[i], parts, " "); signed = "[signed-by=" parts[2] "] " }
        }
        print "deb " signed uri " " release " main"
      }' "$list"
    done
  } >"$folder/sources.list"
  [[ -s $folder/sources.list ]] || fail "no mirror of Debian $VERSION_CODENAME in /etc/apt"
  : >"$folder/status"
  apt=(-o "Dir::Etc::SourceList=$folder/sources.list" -o "Dir::Etc::SourceParts=$folder/parts"
    -o "Dir::State=$folder" -o "Dir::State::Lists=$folder/lists" -o "Dir::State::status=$folder/status"
    -o "Dir::Cache=$folder" -o APT::Architecture=amd64 -o Debug::NoLocking=1 -o APT::Sandbox::User=root
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::Languages=none -o Acquire::Retries=3)
  apt-get "${apt[@]}" update -qq 9>&- >&2 || fail "cannot read the package lists of Debian $release"
}

# Downloads packages of the release of use_release into FOLDER. usage: download FOLDER PACKAGE…
download() {
  local folder=$1
  shift
  mkdir -p "$folder"
  (cd "$folder" && apt-get "${apt[@]}" download -qq "$@" 9>&- >&2) || fail "cannot download $*"
}

# Unpacks packages of the release of use_release into FOLDER/root, without installing them. usage: unpack FOLDER PACKAGE…
unpack() {
  local folder=$1 deb
  shift
  download "$folder/debs" "$@"
  for deb in "$folder"/debs/*.deb; do dpkg-deb -x "$deb" "$folder/root"; done
}

. /etc/os-release 2>/dev/null || true
is_debian() { [[ ${ID:-} == debian && ${VERSION_CODENAME:-} && $(uname -m) == x86_64 ]]; }
