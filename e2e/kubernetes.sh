#!/usr/bin/env bash
# Fetches the programs of a control plane that Kubernetes has published, and etcd of Debian unstable.
#
#   kubernetes.sh VERSION [OUT]
#
# VERSION is a release (1.36.2), a minor for its newest release (1.36), or `stable` for the newest of all. Leaves etcd,
# kube-apiserver, kube-controller-manager, kube-scheduler and kubectl in OUT, the layout that KUBEBUILDER_ASSETS names, and prints
# OUT. Default: ~/.cache/winpool/control-plane/v<release>
# Needs curl, access to dl.k8s.io or to the mirror of it that KUBERNETES_DOWNLOADS names, and for etcd Debian 12 or later on
# x86-64, without root.
# What is there already is not fetched again. Two runs at once do not disturb each other.
set -euo pipefail

downloads=${KUBERNETES_DOWNLOADS:-https://dl.k8s.io}
components=(kube-apiserver kube-controller-manager kube-scheduler kubectl)

usage() { sed -n '2,13s/^# \{0,1\}//p' "$0"; }
. "$(dirname "$(realpath "$0")")/debian.sh"

fetch() { curl --fail --silent --show-error --location --retry 3 "$@"; }

release= newest=
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  stable) newest=stable ;;
  *.*.*) release=v${1#v} ;;
  *.*) newest=stable-${1#v} ;;
  *) usage >&2; fail "not a version of Kubernetes such as 1.36.2, 1.36 or stable: ${1:-(none)}" ;;
esac
shift
if [[ $newest ]]; then
  release=$(fetch "$downloads/release/$newest.txt") || fail "cannot fetch $downloads/release/$newest.txt, which names the release"
fi
read_out "control-plane/$release" "$@"
missing() {
  local name
  for name in etcd "${components[@]}"; do [[ -x $out/$name ]] || echo "$name"; done
}
if [[ ! $(missing) ]]; then echo "$out"; exit 0; fi

[[ -x $out/etcd ]] || is_debian \
  || fail "needs Debian 12 or later on x86-64 for etcd; this is ${PRETTY_NAME:-an unknown system}, $(uname -m). Or put etcd into $out"
command -v curl >/dev/null || fail "needs curl"
need_space "$out" 1
lock "$out"
mkdir -p "$out"
# Beside OUT, so that a finished program is moved there by one rename.
work=$(mktemp -d "$out.fetching.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

for name in $(missing); do
  if [[ $name == etcd ]]; then
    say "fetching etcd of Debian unstable…"
    use_release sid "$work/apt"
    download "$work/debs" etcd-server
    dpkg-deb -x "$work"/debs/etcd-server_*.deb "$work/etcd-server"
    mv "$work/etcd-server/usr/bin/etcd" "$work/etcd"
  else
    say "fetching $name $release…"
    url=$downloads/$release/bin/linux/amd64/$name
    fetch --output "$work/$name" "$url" || fail "cannot fetch $url"
    digest=$(fetch "$url.sha256") || fail "cannot fetch $url.sha256"
    sha256sum --check --status <<<"$digest  $work/$name" || fail "$url does not have the digest in $url.sha256"
    chmod +x "$work/$name"
  fi
  mv "$work/$name" "$out/$name"
done
echo "$out"
