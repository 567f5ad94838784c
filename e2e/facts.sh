#!/usr/bin/env bash
# Fetches the upstream files that `make facts DIR=FOLDER` compares with our tables of facts:
#
#   facts.sh FOLDER [MINOR…]
#
# Needs curl, git and access to GitHub. Of each MINOR of Kubernetes, such as 1.36, the branches are fetched in which its patch
# releases are made; default: the newest one in the tables. A file that upstream does not have is named on stderr; then the exit status
# is 1 at the end, because its address in the comparison may be out of date.
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }
if [[ $# -eq 0 || $1 == -* ]]; then
  usage >&2
  exit 2
fi
mkdir -p "$1"
folder=$(realpath "$1")
shift
cd "$(dirname "$(realpath "$0")")/.."
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

"${CARGO:-cargo}" run --quiet -p winpool-api --example facts -- --files "$@" >"$work/files"
status=0
while read -r name address; do
  curl -fsSL --retry 3 --create-dirs -o "$folder/$name" "$address" || { echo "not fetched: $name" >&2; status=1; }
done <"$work/files"

git clone --quiet --bare --filter blob:none https://github.com/containerd/containerd "$work/containerd"
containerd() { git -C "$work/containerd" "$@"; }
containerd tag >"$folder/containerd-tags.txt"
containerd for-each-ref --format '%(refname)%0a%(contents)' 'refs/tags/v*' >"$folder/containerd-notes.txt"
# Earlier releases have no go.mod.
mapfile -t releases < <(grep -E '^v(1\.[5-9]|[2-9])[0-9.]*$' "$folder/containerd-tags.txt")
containerd grep -E '[Mm]icrosoft/hcsshim v|containerd/platforms v' "${releases[@]}" -- go.mod >"$folder/containerd-modules.txt"
exit $status
