#!/usr/bin/env bash
# Builds a real Kubernetes control plane (v1.20.2) from Debian 12's own packages, for tests that need a true API server.
#
#   control-plane.sh [--windows-kubelet] [--containerd] [--registry] [--prometheus] [OUT]
#
# Leaves etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl in OUT, the layout that
# KUBEBUILDER_ASSETS names, and prints OUT. Default: ~/.cache/winpool/control-plane/v1.20.2
#   --windows-kubelet  also kubelet.exe, which runs far enough under Wine (wine.sh) to judge a configuration
#   --containerd       also containerd of Debian 12 (1.6), and of the releases after it as containerd-trixie (1.7) and
#                      containerd-forky (2.1 or later); no service is installed or started
#   --registry         also Debian's docker-registry; no service is installed or started
#   --prometheus       also Debian's prometheus and promtool; no service is installed or started
# What is there already is not made again. Two runs at once do not disturb each other, and one that is interrupted leaves
# nothing half-made in OUT.
set -euo pipefail

version=1.20.2
components=(kube-apiserver kube-controller-manager kube-scheduler kubectl)
# The releases of Debian after this one whose containerd is wanted too.
suites=(trixie forky)
windows_kubelet= containerd= registry= prometheus= out=

usage() { sed -n '2,14s/^# \{0,1\}//p' "$0"; }
say() { echo "$*" >&2; }
fail() { say "control-plane.sh: $*"; exit 1; }

while (($#)); do
  case $1 in
    --windows-kubelet) windows_kubelet=1 ;;
    --containerd) containerd=1 ;;
    --registry) registry=1 ;;
    --prometheus) prometheus=1 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; fail "unknown option $1" ;;
    *) [[ ! $out ]] || fail "more than one OUT: $out and $1"; out=$1 ;;
  esac
  shift
done
out=$(realpath -m -- "${out:-${XDG_CACHE_HOME:-$HOME/.cache}/winpool/control-plane/v$version}")

missing() {
  local name
  for name in etcd "${components[@]}" ${windows_kubelet:+kubelet.exe} ${registry:+docker-registry} \
    ${prometheus:+prometheus promtool} ${containerd:+containerd "${suites[@]/#/containerd-}"}; do
    [[ -x $out/$name ]] || echo "$name"
  done
}
wants() { grep -qx -- "$1" <<<"$todo"; }

todo=$(missing)
if [[ ! $todo ]]; then echo "$out"; exit 0; fi

instead="Or set KUBEBUILDER_ASSETS to a directory that holds etcd, kube-apiserver and kubectl (and, for the tests that place \
Pods, kube-scheduler and kube-controller-manager), for instance the one that 'setup-envtest use -p path' prints."
debian=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}" || true)
[[ $debian == "debian 12" ]] || fail "needs Debian 12 to build Kubernetes $version from; this is ${debian:-an unknown system}. $instead"
[[ $EUID == 0 ]] || fail "needs root to install Go and etcd with apt-get; run it once as root with HOME=$HOME. $instead"

mkdir -p "${out%/*}"
exec 9>"$out.lock"
if ! flock -n 9; then
  say "another run is building into $out; waiting for it…"
  flock 9
  todo=$(missing)
  if [[ ! $todo ]]; then echo "$out"; exit 0; fi
fi

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

say "reading Debian's package lists…"
apt-get update -qq 9>&- >&2
if ((${#packages[@]})); then
  say "installing ${packages[*]} from Debian (up to 1 minute)…"
  # Debian would start etcd as a service where there is systemd; the programs here are started by the tests alone.
  RUNLEVEL=1 apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "${packages[@]}" 9>&- >&2
fi

if wants etcd; then
  ln -s "$(command -v etcd)" "$work/bin/etcd"
  finish etcd
fi

# Programs of one of Debian's packages, without installing it: that would start a service. The first has its name.
fetch() {
  local package=$1 name
  for name; do
    if command -v "$name" >/dev/null; then
      ln -s "$(command -v "$name")" "$work/bin/$name"
    else
      if [[ ! -e $work/$package ]]; then
        say "fetching $package from Debian…"
        (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package" 9>&- >&2)
        dpkg-deb -x "$work/$package"_*.deb "$work/$package"
      fi
      mv "$work/$package/usr/bin/$name" "$work/bin/$name"
    fi
    finish "$name"
  done
}
for name in containerd docker-registry; do
  if wants "$name"; then fetch "$name"; fi
done
if wants prometheus || wants promtool; then fetch prometheus promtool; fi

# containerd of later releases of Debian, from where this machine gets its own: with lists that are only for this.
later=()
for suite in "${suites[@]}"; do
  if wants "containerd-$suite"; then later+=("$suite"); fi
done
if ((${#later[@]})); then
  say "fetching containerd of Debian ${later[*]}…"
  mkdir -p "$work/later/parts" "$work/later/lists/partial"
  sed -nE "s/^(deb (\[[^]]*\] )?[^ ]+) bookworm .*/\1/p" /etc/apt/sources.list 2>/dev/null >"$work/later/from" || true
  for list in /etc/apt/sources.list.d/debian*.sources; do
    if [[ -e $list ]]; then
      awk -v RS= -v suites="${later[*]}" '/(^|\n)Suites:[^\n]* bookworm( |\n|$)/ {
        gsub(/(^|\n)#[^\n]*/, ""); sub(/Types:[^\n]*/, "Types: deb"); sub(/Suites:[^\n]*/, "Suites: " suites)
        sub(/Components:[^\n]*/, "Components: main"); print $0 "\n"
      }' "$list" >"$work/later/parts/${list##*/}"
    fi
  done
  while read -r line; do printf "$line %s main\n" "${later[@]}"; done <"$work/later/from" >"$work/later/sources.list"
  later_apt=(-o "Dir::Etc::SourceList=$work/later/sources.list" -o "Dir::Etc::SourceParts=$work/later/parts"
    -o "Dir::State::Lists=$work/later/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::Languages=none -o APT::Sandbox::User=root)
  apt-get "${later_apt[@]}" update -qq 9>&- >&2
  for suite in "${later[@]}"; do
    mkdir "$work/later/$suite"
    (cd "$work/later/$suite" && apt-get "${later_apt[@]}" download -qq "containerd/$suite" 9>&- >&2)
    dpkg-deb -x "$work/later/$suite"/containerd_*.deb "$work/later/$suite"
    mv "$work/later/$suite/usr/bin/containerd" "$work/bin/containerd-$suite"
    finish "containerd-$suite"
  done
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
  apt-get "${apt[@]}" update -qq 9>&- >&2
  (cd "$work" && apt-get "${apt[@]}" source -qq kubernetes 9>&- >&2)

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
