#!/usr/bin/env bash
# Names the newer releases of what the tables of facts are compared with: the modules that e2e/programs pins. Needs the proxy for Go
# modules. The exit status is 1 if there is one: then raise its version in go.mod, and the tests say what the tables lack. The next minor of
# Kubernetes counts from its first pre-release on.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/programs"

# Folder, module, and how the releases begin that count.
modules="kubernetes k8s.io/kubernetes v
containerd github.com/containerd/containerd/v2 v
containerd-2.3 github.com/containerd/containerd/v2 v2.3.
containerd-1.7 github.com/containerd/containerd v1.7.
cluster-api sigs.k8s.io/cluster-api v"

status=0
while read -r folder module line; do
  pinned=$(cd "$folder" && ../../go.sh list -m -f '{{.Version}}' "$module")
  newest=$(cd "$folder" && ../../go.sh list -m -versions "$module" | tr ' ' '\n' | grep -F "$line" | grep -E '^v[0-9.]+$' | sort -V | tail -n 1)
  [[ $newest == "$pinned" ]] || { echo "e2e/programs/$folder/go.mod: $module $pinned is pinned, $newest is the newest"; status=1; }
done <<<"$modules"
read=$(sed -n 's/^pub const RELEASE: &str = "\(.*\)";$/v\1/p' ../../crates/facts/src/feature_gates/announced.rs)
next=$(cd kubernetes && ../../go.sh list -m -versions k8s.io/kubernetes | tr ' -' '\n~' | sort -V | tail -n 1 | tr '~' '-')
[[ $next != *-* || $next == "$read" ]] || { echo "crates/facts/src/feature_gates/announced.rs: $read was read, $next is the newest"; status=1; }
exit $status
