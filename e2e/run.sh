#!/usr/bin/env bash
# Builds winpool and a control plane, both at once, and runs the demonstration: what `make run` does.
#
#   run.sh [ARGUMENT…]
#
# The arguments are those of the demonstration; for --windows-node it also fetches or builds the programs of that node. The control plane
# is that of KUBEBUILDER_ASSETS, if it is set, or else of the version in KUBERNETES, by default the pinned one (program.sh).
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. e2e/debian.sh

if [[ ${KUBERNETES:-} ]]; then unset KUBEBUILDER_ASSETS; fi
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
# What a build keeps for the next edit costs a fifth of its time: only where somebody edits.
[[ -d $target/debug/incremental ]] || export CARGO_INCREMENTAL=0

jobs=()
finish() {
  # Each job has a process group of its own.
  for job in "${jobs[@]}"; do kill -- "-$job" 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts a part of the work, and says at its end how long it took. usage: start NAME COMMAND…
start() {
  local name=$1
  shift
  (
    begin=$SECONDS
    "$@" || { say "$name: failed"; exit 1; }
    ((SECONDS - begin < 2)) || say "$name: done after $((SECONDS - begin)) s"
  ) &
  jobs+=($!)
}

control_plane() {
  e2e/program.sh etcd kube-apiserver kube-controller-manager kube-scheduler kubectl >/dev/null 2> >(sed -u 's/^/control plane: /' >&2)
}

# Upstream's programs, Wine, and the program that runs containerd as a service: without debug information, and with sections that begin at
# pages, so that Wine maps it.
windows_node() {
  local windows=x86_64-pc-windows-gnu compiler
  local folder=$target/$windows/debug
  e2e/program.sh kubelet-for-wine.exe kube-log-runner.exe containerd.exe >/dev/null \
    && e2e/wine.sh >/dev/null \
    && make --no-print-directory windows-packages \
    && compiler=$(e2e/mingw.sh) \
    && PATH=$compiler:$PATH "$cargo" build --package e2e-windows --no-default-features --bin helper --target $windows \
    && mkdir -p "$folder/stripped" \
    && "$compiler/x86_64-w64-mingw32-objcopy" --strip-all --file-alignment=4096 "$folder/helper.exe" "$folder/stripped/helper.new" \
    && mv "$folder/stripped/helper.new" "$folder/stripped/helper.exe"
}

[[ -x $target/debug/demo ]] || say "winpool: building it and the demonstration once, about 4 minutes on two cores, more beside other builds"
set -m
if [[ ! ${KUBEBUILDER_ASSETS:-} ]]; then start "control plane" control_plane; fi
if [[ " $* " == *" --windows-node "* ]]; then start "Windows node" windows_node; fi
start "winpool" "$cargo" build --workspace --bin winpool --bin demo
set +m
for _ in "${jobs[@]}"; do wait -n || exit 1; done
jobs=()

export WINPOOL_BINARY=$target/debug/winpool
exec "$target/debug/demo" "$@"
