#!/usr/bin/env bash
# Builds all files of a release twice, the second time from a copy of the sources in another folder with a target folder of its
# own, and fails unless they are equal byte by byte: what `make test-long` runs. The files of the first build stay in dist/.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. e2e/debian.sh

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
need_space "$target" 8
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
mkdir -p "$target"
copy=$(mktemp -d "$target/copy.XXXXXX")
trap 'rm -rf -- "$copy"' EXIT

make --no-print-directory release
git ls-files -z --cached --others --exclude-standard --deduplicate | xargs -0 cp --parents -t "$copy"
# What lists the bills of materials is built once.
mkdir "$copy/target"
cp -r "$target/tools" "$copy/target"
CARGO_TARGET_DIR=$copy/target make --no-print-directory -C "$copy" release

diff --brief --recursive dist "$copy/dist" || fail "the files of a release depend on the folder, or on the run"
(cd dist && sha256sum --check --strict --quiet SHA256SUMS)
say "$(ls dist | wc -l) files are equal byte by byte"
