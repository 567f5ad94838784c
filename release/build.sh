#!/usr/bin/env bash
# Builds the programs of a release and writes its files to dist/; `make release` calls it.
#
#   build.sh REPOSITORY
#
# The files depend only on the sources, the compilers, the trusted certificates of this machine, and SOURCE_DATE_EPOCH (the time of
# the release, in seconds since 1970). They contain no path of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

repository=${1:?the name of the image without a tag, such as registry.example/winpool}
cargo=${CARGO:-cargo}
target=${TARGET:-$PWD/target}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:?}

home=${CARGO_HOME:-$HOME/.cargo}
rust_paths="--remap-path-prefix=$home=/cargo --remap-path-prefix=$PWD=/winpool"
c_paths="-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$PWD=/winpool"
export CC_x86_64_unknown_linux_musl=musl-gcc CFLAGS_x86_64_unknown_linux_musl=$c_paths
export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc CFLAGS_aarch64_unknown_linux_musl=$c_paths
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc
export CFLAGS_x86_64_pc_windows_gnu=$c_paths

build() {
  local triple=$1 flags=$2
  shift 2
  RUSTFLAGS="$rust_paths $flags" "$cargo" build --locked --release --bins --target "$triple" "${@/#/--package=}"
}
build x86_64-unknown-linux-musl "" winpool
build aarch64-unknown-linux-musl "" winpool
# Otherwise the header of a Windows program has the time at which it was linked.
build x86_64-pc-windows-gnu "-C link-arg=-Wl,--no-insert-timestamp" winpool winpool-agent

# The bills of materials of the operator for Linux and the agent, which the tool writes beside each Cargo.toml of the workspace.
"$cargo" install --quiet --locked --root "$target/tools" cargo-cyclonedx@0.5.9
bill_of_materials() {
  local triple=$1 folder=$2 out=$3
  PATH=$target/tools/bin:$PATH "$cargo" cyclonedx --quiet --format json --target "$triple" --no-build-deps \
    --spec-version 1.5 --override-filename sbom.cdx
  sed "s#file://$PWD#file:///winpool#" "$folder/sbom.cdx.json" >"$out"
  rm -f sbom.cdx.json ./*/sbom.cdx.json ./*/*/sbom.cdx.json
}
bill_of_materials x86_64-unknown-linux-musl . "$target/operator-sbom.cdx.json"
bill_of_materials x86_64-pc-windows-gnu crates/agent "$target/agent-sbom.cdx.json"

rm -rf dist
"$cargo" run --quiet -p release -- all \
  --repository "$repository" \
  --linux-amd64 "$target/x86_64-unknown-linux-musl/release/winpool" \
  --linux-arm64 "$target/aarch64-unknown-linux-musl/release/winpool" \
  --windows-amd64 "$target/x86_64-pc-windows-gnu/release/winpool.exe" \
  --agent "$target/x86_64-pc-windows-gnu/release/winpool-agent.exe" \
  --certificates /etc/ssl/certs/ca-certificates.crt \
  --sbom "$target/operator-sbom.cdx.json" \
  --agent-sbom "$target/agent-sbom.cdx.json" \
  --out "$PWD/dist"
