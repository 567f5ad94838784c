#!/usr/bin/env bash
# Builds two programs that check our CRDs and policies, from the packages of Kubernetes in Debian unstable, with the Go of there:
#
#   crd-server  upstream's CustomResourceDefinition server (k8s.io/apiextensions-apiserver): CEL with its types and costs,
#               strict fields, ratcheting
#   policies    our program e2e/policies around the admission plugins of kube-apiserver for policies
#
#   upstream.sh [--update] [OUT]
#
# Needs Debian 12 or later on x86-64, without root. Leaves both and the file `version` in OUT, with the packages that
# policies is built from, and prints OUT. Default: ~/.cache/winpool/upstream
#   --update  fetch and build what Debian has today, even if OUT is complete
# What is built is used as it is: only policies is built again, after a change of its sources. Two runs at once do not
# disturb each other, and a failed or interrupted one leaves OUT as it was.
set -euo pipefail

package=golang-k8s-apiextensions-apiserver-dev
server=k8s.io/apiextensions-apiserver

usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; }
here=$(dirname "$(realpath "$0")")
. "$here/debian.sh"

update=
if [[ ${1:-} == --update ]]; then update=1; shift; fi
read_out upstream "$@"
sources=$(cd "$here/policies" && sha256sum ./*.go | sha256sum | cut -c 1-16)
has_server() { [[ -x $out/crd-server && -d $out/go && -d $out/src ]]; }
is_complete() { has_server && [[ -x $out/policies && $(cat "$out/policies.sources") == "$sources" ]]; }
finish() { echo "$out"; exit 0; }
if [[ ! $update ]] && is_complete; then finish; fi

# The way out where it cannot be built.
instead="Or set KUBEBUILDER_ASSETS to the programs of a control plane of Kubernetes 1.30 or later, which checks CRDs and \
policies itself; the tables of requests in tests/all/policy_tables are not checked then."
is_debian || fail "needs Debian 12 or later on x86-64; this is ${PRETTY_NAME:-an unknown system}, $(uname -m). $instead"
need_space "$out" 4
lock "$out"
if [[ ! $update ]] && is_complete; then finish; fi
# Beside OUT, which is replaced as a whole.
work=$(mktemp -d "$out.building.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
log=$out.log
new=$work/new

# Go of Debian unstable without its module mode: the packages are a GOPATH.
go() {
  env GO111MODULE=off GOPATH="$new" GOROOT="$new/go" GOCACHE="$work/cache" GOTOOLCHAIN=local GOENV=off GOFLAGS=-trimpath \
    CGO_ENABLED=0 "$new/go/bin/go" "$@"
}
build() { # NAME, then arguments of go build
  local name=$1
  shift
  go build -ldflags '-s -w' -o "$new/$name" "$@" 9>&- >"$log" 2>&1 \
    || fail "building $name from $(cat "$new/version") failed: $log has the errors, of which the first is: \
$(grep -m 1 -v '^#' "$log"). $instead"
}
our_sources() {
  cp -r "$here/policies" "$new/src/policies"
  echo "$sources" >"$new/policies.sources"
}

if has_server && [[ ! $update ]]; then
  say "building policies for $(cat "$out/version"), because its sources have changed (about 3 minutes on two cores)…"
  # Links, so that OUT stays as it is until the program is built.
  cp -al "$out" "$new"
  rm -rf "$new/src/policies" "$new"/policies{,.sources}
  our_sources
  build policies policies
else
  say "fetching Kubernetes' packages and Go of Debian unstable (270 MB)…"
  use_release sid "$work/apt"
  # golang-go names the newest Go; what else the packages recommend for building is not needed.
  wanted=$(apt-get "${apt[@]}" install -s --no-install-recommends golang-go "$package" 2>&1) \
    || fail "Debian unstable cannot install $package: $(grep -m 1 -E '^E:|Depends:' <<<"$wanted")"
  mapfile -t names < <(sed -nE 's/^Inst (golang-[^ ]+) .*/\1/p' <<<"$wanted" | grep -E -- '(-dev|[0-9]-go|[0-9]-src)$')
  download "$work/debs" "${names[@]}"
  say "unpacking them…"
  mkdir -p "$work/root"
  for deb in "$work"/debs/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" \
      | tar -x -C "$work/root" --exclude '*_test.go' --exclude testdata --exclude './usr/share/go-*/test' \
        --exclude './usr/share/doc' --exclude './usr/share/man' --exclude './usr/bin' \
      || fail "cannot unpack ${deb##*/}"
  done
  mkdir -p "$new"
  mv "$work/root/usr/share/gocode/src" "$new/src"
  # Go's two folders link to each other.
  mv "$work/root/usr" "$new/usr"
  ln -s "$(cd "$new" && echo usr/lib/go-*)" "$new/go"
  deb=$(ls "$work/debs/${package}"_*.deb)
  echo "Kubernetes $(dpkg-deb -f "$deb" Version) of Debian unstable (k8s.io/apiextensions-apiserver), $("$new/go/bin/go" version)" \
    >"$new/version"
  our_sources
  say "building crd-server and policies of $(cat "$new/version") (about 5 minutes on two cores)…"
  build crd-server "$server"
  build policies policies
  # Of the packages only those stay that the programs consist of. Some folders are links to others.
  go list -deps -f '{{if not .Standard}}folder {{.Dir}}{{range .EmbedFiles}}{{"\n"}}file {{$.Dir}}/{{.}}{{end}}{{end}}' \
    "$server" policies | sed "s# $new/# #; /^$/d" | sort -u >"$work/kept"
  while read -r folder; do
    mkdir -p "$work/trimmed/$folder"
    find -H "$new/$folder" -maxdepth 1 -type f -exec cp -l -t "$work/trimmed/$folder" {} +
  done < <(sed -n 's/^folder //p' "$work/kept")
  # By go.mod Go finds a package with a version in its path, such as cbor/v2, in a folder without it; others embed files.
  (cd "$new" && find src -name go.mod -exec cp -l --parents -t "$work/trimmed" {} +)
  (cd "$new" && sed -n 's/^file //p' "$work/kept" | xargs cp -lf --parents -t "$work/trimmed")
  rm -rf "$new/src"
  mv "$work/trimmed/src" "$new/src"
  # It builds from these alone.
  build policies policies
fi
if [[ -e $out ]]; then mv "$out" "$work/old"; fi
mv "$new" "$out"
rm -f "$log"
finish
