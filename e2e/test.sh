#!/usr/bin/env bash
# All tests, step by step, each with its seconds: what `make test` runs. The first run builds upstream's programs, unless it can fetch
# them (program.sh).
#
#   test.sh [--long]
#
#   --long  only the tests of test.sh that take long, at their full size: a thousand nodes, twenty rounds under Wine
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. e2e/debian.sh

if [[ ${KUBERNETES:-} ]]; then unset KUBEBUILDER_ASSETS; fi
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
windows=x86_64-pc-windows-gnu
# Incremental compilation takes a fifth of the time of a build: only where somebody edits. Cargo creates its folder in every build.
compgen -G "$target/debug/incremental/*" >/dev/null || export CARGO_INCREMENTAL=0

# Tests that only --long runs.
long_only=(agent_on_windows::layouts a_windows_node::the_older_release_lines installation::pods)
# Tests of what an older KUBERNETES cannot do. kubeadm.exe of 1.34 looks for an address of the machine, which a program of Go does not get
# from Wine (`getadaptersaddresses: Invalid data`); that of 1.37 does not, and those in between were not tried. Kubelets up to 1.31 do not
# have the feature gate WindowsCPUAndMemoryAffinity.
not_in_this_version=()
if [[ ${KUBERNETES:-} =~ ^v?1\.(3[0-6])(\.|$) ]]; then
  not_in_this_version=(a_windows_join a_windows_machine)
  if ((BASH_REMATCH[1] < 32)); then not_in_this_version+=(a_rollout_changes_one_node_after_the_other_and_stops); fi
fi

# usage: step NAME COMMAND…
step() {
  local name=$1 begin=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "== $name: $((SECONDS - begin)) s"
}

# Without those that only long tests use.
programs() {
  local names
  mapfile -t names < <(e2e/program.sh --list | grep -v -e '-1\.13$' -e '^kubelet$' -e '^containerd-shim-runc-v2$')
  e2e/program.sh "${names[@]}"
  e2e/wine.sh
  e2e/cloudbase-init.sh
}

linux_node() {
  e2e/program.sh kubelet containerd-shim-runc-v2
  e2e/runc.sh
}

build_windows() {
  make --no-print-directory windows-packages
  PATH=$(e2e/mingw.sh):$PATH
  # Without traces, which no test of these programs needs.
  "$cargo" build --quiet --package winpool --package winpool-agent --package e2e-windows --no-default-features --bins \
    --target $windows --target-dir "$target"
  "$cargo" test --quiet --package e2e-windows --test adapter --no-run --target $windows --target-dir "$target"
}

# The programs of the workspace are built together with the tests, so that every crate is built once; clippy reads the same build.
tests() {
  # Two more tests run while two wait for a condition. With more, so many servers start at once that nodes under Wine miss their limits
  # where memory is slow.
  RUST_TEST_THREADS=${RUST_TEST_THREADS:-4} WINPOOL_BINARY=$(realpath "$target" 2>/dev/null || echo "$PWD/target")/debug/winpool \
    RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ \
    "$cargo" test --workspace --no-fail-fast "$@"
}

# Benchmarks too: nothing else compiles them.
build() {
  tests --no-run
  tests --no-run --bench '*'
}

step "upstream's programs" programs
if [[ ${1:-} == --long ]]; then
  step "build" tests --no-run
  step "build for Windows" build_windows
  export WINPOOL_TEST_LONG=1
  step "programs of a Linux node" linux_node
  step "a release, built twice" e2e/release.sh
  step "long tests" tests --test all -- --nocapture properties:: workloads::index lint::fuzz powershell:: agents::scale documents:: installation::removal leadership:: a_windows_node:: agent_on_windows::failures agent_on_windows::interruptions agent_on_windows::rounds "${long_only[@]}" "${not_in_this_version[@]/#/--skip=}"
  CLUSTER_API=1.13 step "tests of Cluster API, with its former release" tests --test all -- cluster_api a_windows_machine
  exit
fi
step "rustfmt" "$cargo" fmt --all --check
step "build, with clippy" build
step "build for Windows" build_windows
echo "== test"
skipped=("${long_only[@]}" "${not_in_this_version[@]}")
tests -- "${skipped[@]/#/--skip=}"
