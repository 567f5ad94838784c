#!/usr/bin/env bash
# Builds a real Kubernetes control plane (v1.20.2) from Debian 12's own packages, for tests that need a true API server.
#
#   control-plane.sh [--no-servers] [--windows-kubelet] [OUT]
#
# Leaves etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl in OUT, the layout that
# KUBEBUILDER_ASSETS names, and prints OUT. Default: ~/.cache/winpool/control-plane/v1.20.2
#   --windows-kubelet  also kubelet.exe, which runs far enough under Wine (wine.sh) to check a configuration
#   --no-servers       only what another option names, for a control plane of KUBEBUILDER_ASSETS
# What is there already is not made again. Two runs at once do not disturb each other, and one that is interrupted leaves
# nothing half-made in OUT.
set -euo pipefail

version=1.20.2
servers=1 windows_kubelet= out=

usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; }
. "$(dirname "$(realpath "$0")")/debian.sh"

while (($#)); do
  case $1 in
    --windows-kubelet) windows_kubelet=1 ;;
    --no-servers) servers= ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; fail "unknown option $1" ;;
    *) [[ ! $out ]] || fail "more than one OUT: $out and $1"; out=$1 ;;
  esac
  shift
done
out=$(realpath -m -- "${out:-${XDG_CACHE_HOME:-$HOME/.cache}/winpool/control-plane/v$version}")

components=(${servers:+kube-apiserver kube-controller-manager kube-scheduler kubectl})

missing() {
  local name
  for name in ${servers:+etcd} "${components[@]}" ${windows_kubelet:+kubelet.exe}; do
    [[ -x $out/$name ]] || echo "$name"
  done
}
wants() { grep -qx -- "$1" <<<"$todo"; }

todo=$(missing)
if [[ ! $todo ]]; then echo "$out"; exit 0; fi

instead="Or set KUBEBUILDER_ASSETS to a directory that holds etcd, kube-apiserver, kubectl, kube-scheduler and \
kube-controller-manager of another version."
is_debian && [[ $VERSION_ID == 12 ]] \
  || fail "needs Debian 12 on x86-64 to build Kubernetes $version from; this is ${PRETTY_NAME:-an unknown system}. $instead"
[[ $EUID == 0 ]] || fail "needs root to install Go and etcd with apt-get; run it once as root with HOME=$HOME. $instead"
need_space "$out" 4

lock "$out"
todo=$(missing)
if [[ ! $todo ]]; then echo "$out"; exit 0; fi

# Beside OUT, so that a finished program is moved there by one rename.
work=$(mktemp -d "$out.building.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
mkdir -p "$work/bin" "$out"
export DEBIAN_FRONTEND=noninteractive
finish() { mv -- "$work/bin/$1" "$out/$1"; }

packages=()
if wants etcd; then packages+=(etcd-server); fi
building=
for name in "${components[@]}" kubelet.exe; do
  if wants "$name"; then building=1; fi
done
if [[ $building ]]; then packages+=(golang-go golang-github-modern-go-reflect2-dev dpkg-dev); fi

if [[ $building ]]; then say "building Kubernetes $version once from Debian's source, about 6 minutes on two cores, more beside other builds"; fi
say "reading Debian's package lists…"
quietly apt-get update -qq
if ((${#packages[@]})); then
  say "installing ${packages[*]} from Debian (up to 1 minute)…"
  # Debian would start etcd as a service where there is systemd; the programs here are started by the tests alone.
  RUNLEVEL=1 quietly apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "${packages[@]}"
fi

if wants etcd; then
  ln -s "$(command -v etcd)" "$work/bin/etcd"
  finish etcd
fi

if [[ $building ]]; then
  say "fetching the source of Kubernetes $version from Debian…"
  # Through apt, with source lists of our own: the machine's lists stay as they are.
  mkdir -p "$work/apt/parts" "$work/apt/lists/partial"
  sed -n 's/^deb /deb-src /p' /etc/apt/sources.list 2>/dev/null >"$work/apt/sources.list" || true
  for list in /etc/apt/sources.list.d/debian*.sources; do
    if [[ -e $list ]]; then sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/apt/parts/${list##*/}"; fi
  done
  apt=(-o "Dir::Etc::SourceList=$work/apt/sources.list" -o "Dir::Etc::SourceParts=$work/apt/parts"
    -o "Dir::State::Lists=$work/apt/lists" -o APT::Sandbox::User=root)
  quietly apt-get "${apt[@]}" update -qq
  cd "$work"
  quietly apt-get "${apt[@]}" source -qq kubernetes

  tree=$(find "$work" -maxdepth 1 -type d -name "kubernetes-*$version")
  [[ $tree ]] || fail "Debian's source of Kubernetes is no longer $version: $(cd "$work" && ls -d kubernetes*)"
  mkdir -p "$work/go/src/k8s.io"
  ln -s "$tree" "$work/go/src/k8s.io/kubernetes"
  # Trimmed paths let Go's cache serve a run that takes up an interrupted one; openapi-gen then has to be told GOROOT.
  export GO111MODULE=off GOPATH=$work/go GOFLAGS=-trimpath CGO_ENABLED=0 GOROOT
  GOROOT=$(go env GOROOT)
  cd "$work/go/src/k8s.io/kubernetes"

  # The vendored reflect2 reads map iterators in a way that Go 1.18 changed: the server would crash on its first apply.
  rm -rf vendor/github.com/modern-go/reflect2
  cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/reflect2

  if wants kube-apiserver; then
    say "generating the API server's OpenAPI definitions (about 30 seconds)…"
    # Upstream generates them at build time too; the source package does not carry them.
    go build -o "$work/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
    inputs=$(grep -rlE --include='*.go' '^// \+k8s:openapi-gen=true' pkg staging/src/k8s.io plugin cmd \
      | xargs -n1 dirname | sort -u | grep -vE 'test|sample-' \
      | sed -e 's#^staging/src/#k8s.io/kubernetes/vendor/#' -e 's#^\(pkg\|plugin\|cmd\)/#k8s.io/kubernetes/\1/#' | paste -sd,)
    "$work/openapi-gen" -O zz_generated.openapi -h hack/boilerplate/boilerplate.generatego.txt \
      -i "$inputs" -p k8s.io/kubernetes/pkg/generated/openapi -o "$work/go/src" >"$work/openapi-gen.log" 2>&1 \
      || { tail -n 20 "$work/openapi-gen.log" >&2; fail "openapi-gen failed"; }
  fi

  flags="-s -w"
  for package in component-base/version client-go/pkg/version; do
    prefix=k8s.io/kubernetes/vendor/k8s.io/$package
    flags+=" -X $prefix.gitVersion=v$version -X $prefix.gitMajor=1 -X $prefix.gitMinor=20 -X $prefix.gitTreeState=clean"
  done
  declare -A duration=([kube-apiserver]="2 to 3 minutes" [kube-controller-manager]="about 1 minute"
    [kube-scheduler]="some seconds" [kubectl]="some seconds")
  for name in "${components[@]}"; do
    if wants "$name"; then
      say "building $name $version from Debian's source (${duration[$name]} on two cores)…"
      go build -o "$work/bin/$name" -ldflags "$flags" "k8s.io/kubernetes/cmd/$name" 9>&-
      finish "$name"
    fi
  done
  if wants kubelet.exe; then
    say "building kubelet.exe $version from Debian's source (2 to 3 minutes on two cores)…"
    GOOS=windows go build -o "$work/bin/kubelet.exe" -ldflags "$flags" k8s.io/kubernetes/cmd/kubelet 9>&-
    finish kubelet.exe
  fi
fi

todo=$(missing)
[[ ! $todo ]] || fail "still missing: $todo"
echo "$out"
