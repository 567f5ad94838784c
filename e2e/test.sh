#!/usr/bin/env bash
# All tests, step by step, each with its seconds: what `make test` runs. The first run builds the servers (about 10 minutes).
#
#   test.sh [--long]
#
#   --long  only the tests of test.sh that take long, at their full size: a thousand nodes, twenty rounds under Wine, both kubectl
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. e2e/debian.sh

if [[ ${KUBERNETES:-} ]]; then
  KUBEBUILDER_ASSETS=$(e2e/kubernetes.sh "$KUBERNETES")
  export KUBEBUILDER_ASSETS
fi
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
windows=x86_64-pc-windows-gnu
# Incremental compilation takes a fifth of the time of a build: only where somebody edits. Cargo creates its folder in every build.
compgen -G "$target/debug/incremental/*" >/dev/null || export CARGO_INCREMENTAL=0

# usage: step NAME COMMAND…
step() {
  local name=$1 begin=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "== $name: $((SECONDS - begin)) s"
}

servers() {
  e2e/control-plane.sh ${KUBEBUILDER_ASSETS:+--no-servers} --windows-kubelet
  e2e/programs.sh
  e2e/wine.sh
  command -v helm || e2e/helm.sh
  e2e/cloudbase-init.sh
  if [[ ${KUBEBUILDER_ASSETS:-} ]]; then
    echo "control plane: $("$KUBEBUILDER_ASSETS/kube-apiserver" --version) of KUBEBUILDER_ASSETS"
  else
    echo "control plane: Kubernetes v1.20.2"
  fi
}

# Upstream's CRD server and evaluator of policies. A newer API server can take the place of the former only.
skip=()
upstream() {
  local folder minor
  if folder=$(e2e/upstream.sh); then
    echo "CRD server and policies: $(cat "$folder/version")"
    return
  fi
  minor=$("${KUBEBUILDER_ASSETS:-/nonexistent}/kube-apiserver" --version 2>/dev/null | sed -nE 's/^Kubernetes v1\.([0-9]+).*/\1/p') || true
  [[ ${minor:-0} -ge 30 ]] || fail "not checked without them: the CRDs, their rules in CEL, and the policies"
  say "not checked: the tables of requests in tests/all/policy_tables, and what the policies do to the operator's plans"
  skip=(--skip policy_tables:: --skip properties::guard_rails)
}

build_windows() {
  make --no-print-directory windows-packages
  # Without traces, which no test of these programs needs.
  "$cargo" build --quiet --package winpool --package winpool-agent --package e2e-windows --no-default-features --bins \
    --target $windows --target-dir "$target"
  "$cargo" test --quiet --package e2e-windows --test adapter --no-run --target $windows --target-dir "$target"
}

# The programs of the workspace are built together with the tests, so that every crate is built once; clippy reads the same build.
tests() {
  # Six more tests run while two wait for a condition.
  RUST_TEST_THREADS=${RUST_TEST_THREADS:-8} WINPOOL_BINARY=$(realpath "$target" 2>/dev/null || echo "$PWD/target")/debug/winpool \
    RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ \
    "$cargo" test --workspace --no-fail-fast "$@"
}

# Benchmarks too: nothing else compiles them.
build() {
  tests --no-run
  tests --no-run --bench '*'
}

step "servers" servers
step "upstream's checks" upstream
if [[ ${1:-} == --long ]]; then
  step "build" tests --no-run
  step "build for Windows" build_windows
  export WINPOOL_TEST_LONG=1
  step "a release, built twice" e2e/release.sh
  step "long tests" tests --test all -- --nocapture properties:: workloads::index lint::fuzz powershell:: agents::scale documents:: installation::removal leadership:: agent_on_windows::failures agent_on_windows::rounds
  exit
fi
step "rustfmt" "$cargo" fmt --all --check
step "build, with clippy" build
step "build for Windows" build_windows
echo "== test"
tests -- "${skip[@]}"
