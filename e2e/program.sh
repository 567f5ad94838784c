#!/usr/bin/env bash
# Prints the paths of upstream's programs that tests and the demonstration run, in the order of the names:
#
#   program.sh NAME…
#
# The go.mod of each folder in e2e/programs pins a version, and its go.sum the checksums. A program that is not there yet is fetched as
# upstream has published it, if that can be reached within seconds; else Go builds it (go.sh). Nothing needs root.
#
#   --list  the names
#
# KUBERNETES names another version for the programs of Kubernetes: a release (1.34.0), a minor for its newest release (1.34), or stable.
# KUBERNETES_DOWNLOADS and RELEASE_DOWNLOADS name mirrors of https://dl.k8s.io and https://github.com; `none` builds everything.
# Programs are in ~/.cache/winpool/programs. Two runs at once do not disturb each other, and one that is interrupted leaves nothing
# half-made.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
. "$here/debian.sh"
usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; }

# Program, folder in e2e/programs, package. Programs of `.` are one file that acts by its name: they share most of their code, and it links
# once.
programs="kube-apiserver kubernetes .
kube-controller-manager kubernetes .
kube-scheduler kubernetes .
kubectl kubernetes k8s.io/kubernetes/cmd/kubectl
kubeadm kubernetes k8s.io/kubernetes/cmd/kubeadm
kubelet.exe kubernetes k8s.io/kubernetes/cmd/kubelet
kubelet-for-wine.exe kubernetes k8s.io/kubernetes/cmd/kubelet
kubeadm.exe kubernetes k8s.io/kubernetes/cmd/kubeadm
kubelet kubernetes k8s.io/kubernetes/cmd/kubelet
kube-log-runner.exe kubernetes k8s.io/component-base/logs/kube-log-runner
etcd etcd go.etcd.io/etcd/server/v3
containerd containerd github.com/containerd/containerd/v2/cmd/containerd
containerd.exe containerd github.com/containerd/containerd/v2/cmd/containerd
containerd-shim-runc-v2 containerd github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
ctr containerd github.com/containerd/containerd/v2/cmd/ctr
containerd-2.3 containerd-2.3 github.com/containerd/containerd/v2/cmd/containerd
containerd-2.3.exe containerd-2.3 github.com/containerd/containerd/v2/cmd/containerd
ctr-2.3 containerd-2.3 github.com/containerd/containerd/v2/cmd/ctr
containerd-1.7 containerd-1.7 github.com/containerd/containerd/cmd/containerd
containerd-1.7.exe containerd-1.7 github.com/containerd/containerd/cmd/containerd
ctr-1.7 containerd-1.7 github.com/containerd/containerd/cmd/ctr
cluster-api cluster-api sigs.k8s.io/cluster-api/core
cluster-api-kubeadm cluster-api sigs.k8s.io/cluster-api/bootstrap/kubeadm
cluster-api-1.13 cluster-api-1.13 sigs.k8s.io/cluster-api
cluster-api-kubeadm-1.13 cluster-api-1.13 sigs.k8s.io/cluster-api/bootstrap/kubeadm
helm helm helm.sh/helm/v4/cmd/helm
prometheus prometheus github.com/prometheus/prometheus/cmd/prometheus
promtool prometheus github.com/prometheus/prometheus/cmd/promtool
registry registry github.com/distribution/distribution/v3/cmd/registry
kstatus kstatus ."

# Folder, module whose version counts, minutes of its first build on two idle cores, and its variable with the version, which is in no source.
modules="kubernetes k8s.io/kubernetes 8 k8s.io/component-base/version.gitVersion
etcd go.etcd.io/etcd/server/v3 1
containerd github.com/containerd/containerd/v2 2 github.com/containerd/containerd/v2/version.Version
containerd-2.3 github.com/containerd/containerd/v2 2 github.com/containerd/containerd/v2/version.Version
containerd-1.7 github.com/containerd/containerd 1 github.com/containerd/containerd/version.Version
cluster-api sigs.k8s.io/cluster-api 3
cluster-api-1.13 sigs.k8s.io/cluster-api 3
helm helm.sh/helm/v4 1 helm.sh/helm/v4/internal/version.version
prometheus github.com/prometheus/prometheus 2 github.com/prometheus/common/version.Version
registry github.com/distribution/distribution/v3 1 github.com/distribution/distribution/v3/version.version
kstatus sigs.k8s.io/cli-utils 1"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/winpool/programs
kubernetes=${KUBERNETES_DOWNLOADS:-https://dl.k8s.io}
github=${RELEASE_DOWNLOADS:-https://github.com}
case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) fail "needs x86-64 or arm64; this is $(uname -m)" ;;
esac

fetch() { curl --fail --silent --show-error --location --connect-timeout 5 --retry 2 "$@"; }
go() { "$here/go.sh" "$@" 9>&-; }

# usage: row TABLE KEY, which sets `row` to the fields
row() { read -ra row < <(grep -E -- "^${2//./\\.} " <<<"$1") || fail "no program of the name $2; program.sh --list has the names"; }

# Whether published files can be reached, which is tried once. usage: reaches BASE
declare -A reached
reaches() {
  if [[ ! ${reached[$1]:-} ]]; then
    reached[$1]=no
    if [[ $1 != none ]] && curl --silent --head --max-time 5 --output /dev/null "$1/" 2>/dev/null; then reached[$1]=yes; fi
  fi
  [[ ${reached[$1]} == yes ]]
}

# The version that a folder pins. usage: pinned FOLDER MODULE
pinned() { awk -v module="$2" '{sub(/^require /, "")} $1 == module && $2 ~ /^v/ {print substr($2, 2); exit}' "$here/programs/$1/go.mod"; }

# The release that KUBERNETES names.
wanted_release() {
  local wanted=${KUBERNETES#v} newest
  case $wanted in
    [0-9]*.*.*) echo "$wanted"; return ;;
    stable) newest=(stable latest) ;;
    [0-9]*.*) newest=("stable-$wanted" "v$wanted") ;;
    *) fail "not a version of Kubernetes such as 1.34.0, 1.34 or stable: $KUBERNETES" ;;
  esac
  if reaches "$kubernetes"; then
    fetch "$kubernetes/release/${newest[0]}.txt" || fail "cannot fetch $kubernetes/release/${newest[0]}.txt, which names the release"
  else
    go list -m -f '{{.Version}}' "k8s.io/kubernetes@${newest[1]}" || fail "Go knows no release of Kubernetes $wanted"
  fi | sed 's/^v//'
}

# Sets `address` of the published program, `sums` of the file with its checksum, and `member` if it is an archive. Fails if there is none.
# usage: published FOLDER VERSION NAME
published() {
  local releases
  member=
  case $1 in
    kubernetes)
      if [[ $3 == kubelet-for-wine.exe ]]; then return 1; fi
      reaches "$kubernetes" || return
      local system=linux
      if [[ $3 == *.exe ]]; then system=windows; fi
      address=$kubernetes/v$2/bin/$system/$architecture/$3 sums=$address.sha256
      ;;
    etcd)
      releases=$github/etcd-io/etcd/releases/download/v$2
      address=$releases/etcd-v$2-linux-$architecture.tar.gz sums=$releases/SHA256SUMS member=etcd-v$2-linux-$architecture/etcd
      ;;
    containerd*)
      address=$github/containerd/containerd/releases/download/v$2/containerd-static-$2-linux-$architecture.tar.gz
      member=bin/${3%%[-.][0-9e]*}
      if [[ $3 == *.exe ]]; then address=${address/static-$2-linux/$2-windows} member+=.exe; fi
      sums=$address.sha256sum
      ;;
    prometheus)
      # Module v0.316.0 is release 3.16.0.
      local release
      release=$(sed -E 's/^0\.([0-9]+)([0-9]{2})\./\1.\2./; s/\.0([0-9])/.\1/' <<<"$2")
      releases=$github/prometheus/prometheus/releases/download/v$release
      address=$releases/prometheus-$release.linux-$architecture.tar.gz sums=$releases/sha256sums.txt
      member=prometheus-$release.linux-$architecture/$3
      ;;
    registry)
      address=$github/distribution/distribution/releases/download/v$2/registry_$2_linux_$architecture.tar.gz
      sums=$address.sha256 member=registry
      ;;
    *) return 1 ;;
  esac
  [[ $1 == kubernetes ]] || reaches "$github"
}

# Fetches what `published` found. usage: fetch_published NAME
fetch_published() {
  local file=$work/${address##*/} digest
  say "fetching ${address}…"
  [[ -f $file ]] || fetch --output "$file" "$address" || fail "cannot fetch $address"
  digest=$(fetch "$sums") || fail "cannot fetch $sums"
  # The file has one digest, or a line with the name for each file.
  digest=$(awk -v name="${address##*/}" 'NF == 1 || $2 == name || $2 == "*" name {print $1; exit}' <<<"$digest")
  sha256sum --check --status <<<"$digest  $file" || fail "$address does not have the digest in $sums"
  # Without an archive, the file is the program.
  if [[ $member ]]; then tar -xzf "$file" -C "$work" --transform "s|.*|$1|" "$member"; fi
  chmod +x "$work/$1"
}

# Makes FOLDER, the module of another version of Kubernetes than the pinned one: its staging modules are named in its go.mod, and Go's checksum
# database has their checksums. usage: module_of VERSION FOLDER
module_of() {
  local source
  say "reading the modules of Kubernetes $1…"
  source=$(cd "$work" && go mod download -json "k8s.io/kubernetes@v$1" | sed -n 's/^\t"GoMod": "\(.*\)",*$/\1/p') \
    || fail "Go cannot fetch k8s.io/kubernetes@v$1"
  mkdir -p "$2"
  cp "$here/programs/kubernetes/main.go" "$2"
  {
    echo "module winpool.dev/e2e/programs/kubernetes"
    sed -nE '/^go [0-9]|^godebug /p' "$source"
    echo "require k8s.io/kubernetes v$1"
    sed -nE "s#^\t(k8s.io/[^ ]+) => ./staging.*#replace \1 => \1 v0.${1#1.}#p" "$source"
    sed -nE 's#^(\tk8s.io/kubernetes/cmd/[a-z-]+)$#tool \1#p' "$here/programs/kubernetes/go.mod"
  } >"$2/go.mod"
  (cd "$2" && quietly go mod tidy)
}

# Makes FOLDER, a module of Kubernetes whose kubelet has its socket for device plugins on loopback: Wine has no sockets of UNIX, without which a
# kubelet ends. usage: module_for_wine MODULE FOLDER
module_for_wine() {
  local source server=pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go
  source=$(cd "$1" && go list -m -f '{{.Dir}}' k8s.io/kubernetes)
  cp -r "$1" "$2"
  cp -r "$source" "$2/kubernetes"
  chmod -R u+w "$2"
  sed -i 's|net.Listen("unix", s.SocketPath())|net.Listen("tcp", "127.0.0.1:0")|' "$2/kubernetes/$server"
  # That of 1.30 also ends without its pipe for pod resources, which it gets from Windows, and not from Wine.
  sed -i 's|winio.ListenPipe(addr, nil)|net.Listen("tcp", "127.0.0.1:0")|' "$2/kubernetes/pkg/kubelet/util/util_windows.go"
  grep -q '127.0.0.1:0' "$2/kubernetes/$server" || fail "the kubelet does not listen in $server any more"
  (cd "$2" && go mod edit -replace "k8s.io/kubernetes=./kubernetes")
}

# Builds one program. usage: build FOLDER VERSION NAME PACKAGE VARIABLE MINUTES
build() {
  local folder=$here/programs/$1 flags="-s -w" log=$work/log name=$3
  if [[ $1 == kubernetes && $2 != "$(pinned kubernetes k8s.io/kubernetes)" ]]; then
    folder=$cache/$1-$2/module
    if [[ ! -d $folder ]]; then
      module_of "$2" "$work/module"
      mv "$work/module" "$folder"
    fi
  fi
  if [[ $1$4 == kubernetes. ]]; then name=control-plane; fi
  if [[ $name == kubelet-for-wine.exe ]]; then
    module_for_wine "$folder" "$work/for-wine"
    folder=$work/for-wine
  fi
  say "building $name $2 by Go (the first program of this version takes about $6 minutes on two cores, a second one less)…"
  if [[ $5 ]]; then flags+=" -X $5=v$2"; fi
  if [[ $1 == kubernetes ]]; then
    local minor=${2#1.}
    flags+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
  fi
  if [[ $name == *.exe ]]; then local -x GOOS=windows; fi
  (cd "$folder" && go build -v -trimpath -tags remove_all_sd,no_btrfs,no_devmapper,no_zfs -ldflags "$flags" -o "$work/$name" "$4") 2>&1 \
    | tee "$log" | awk -v name="$name" 'NR % 250 == 0 {print name ": " NR " packages built"; fflush()}' >&2 \
    || { grep -v '^[a-z0-9./_-]*$' "$log" >&2 || tail -n 5 "$log" >&2; fail "building $name $2 failed"; }
}

# usage: provide NAME, which prints its path
provide() {
  local name=$1 folder package module minutes variable version out row link
  row "$programs" "$name"
  folder=${row[1]} package=${row[2]}
  row "$modules" "$folder"
  module=${row[1]} minutes=${row[2]} variable=${row[3]:-}
  version=$(pinned "$folder" "$module")
  if [[ $folder == kubernetes && ${KUBERNETES:-} ]]; then version=$KUBERNETES; fi
  out=$cache/$folder-$version
  if [[ ! -x $out/$name ]]; then
    need_space "$out" 4
    lock "$out"
    if [[ ! -x $out/$name ]]; then
      mkdir -p "$out"
      if [[ ! $work ]]; then
        # Beside OUT, so that a finished program is moved there by one rename.
        work=$(mktemp -d "$cache/building.XXXXXX")
        trap 'rm -rf -- "$work"' EXIT
      fi
      if published "$folder" "$version" "$name"; then
        fetch_published "$name"
        mv "$work/$name" "$out/$name"
      else
        build "$folder" "$version" "$name" "$package" "$variable" "$minutes"
        if [[ $folder$package == kubernetes. ]]; then
          mv "$work/control-plane" "$out/control-plane"
          for link in $(sed -n "s/ kubernetes \.$//p" <<<"$programs"); do ln -sf control-plane "$out/$link"; done
        else
          mv "$work/$name" "$out/$name"
        fi
      fi
    fi
  fi
  echo "$out/$name"
}

work=
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  --list) cut -d ' ' -f 1 <<<"$programs"; exit 0 ;;
  -*) usage >&2; fail "unknown option $1" ;;
  "") usage >&2; fail "which program?" ;;
esac
if [[ ${KUBERNETES:-} ]]; then KUBERNETES=$(wanted_release); fi
for name; do provide "$name"; done
