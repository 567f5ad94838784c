#!/usr/bin/env bash
# Runs containerd and the kubelet of a Linux node, as the first process of namespaces for networks, mounts and processes: with it,
# everything in them ends.
#
#   start.sh FOLDER GROUP
#
# FOLDER has containerd.toml, kubelet.json, kubeconfig, the folder logs, and images: in each line a repository, and an archive with an
# image of it. GROUP is the name of the control groups. The PATH has the programs.
set -euo pipefail

folder=$1 group=$2
fail() { echo "$*"; exit 1; }

# The disk of this machine gets nothing but the logs.
for path in /run /var/lib; do mount -t tmpfs tmpfs "$path" || fail "cannot mount"; done
mount --bind "$folder/logs" /var/log

# The kubelet changes these for the whole machine: here it changes copies.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  copy=/run/settings/$setting
  mkdir -p "${copy%/*}"
  cat "/proc/sys/$setting" >"$copy"
  mount --bind "$copy" "/proc/sys/$setting"
done

hierarchies=(/sys/fs/cgroup/*/cgroup.procs)
if [[ -e /sys/fs/cgroup/cgroup.procs ]]; then hierarchies=(/sys/fs/cgroup/cgroup.procs); fi
for procs in "${hierarchies[@]}"; do mkdir "${procs%/*}/$group" || fail "cannot make control groups"; done
[[ -e /dev/kmsg ]] || fail "no /dev/kmsg, which the kubelet reads"

# Pods find the API server at the address of the Service `kubernetes`, without kube-proxy.
busybox ip link set lo up
busybox ip address add 10.96.0.1/32 dev lo

containerd --config "$folder/containerd.toml" &>/var/log/containerd.log &
until ctr version &>/dev/null; do
  jobs -r | grep -q . || fail "containerd has ended"
  sleep 0.1
done
kubelet --config "$folder/kubelet.json" --kubeconfig "$folder/kubeconfig" --hostname-override=localhost --node-ip=10.96.0.1 \
  &>/var/log/kubelet.log &
while read -r repository archive; do
  ctr --namespace k8s.io images import --digests --base-name "$repository" "$archive"
done <"$folder/images"
touch "$folder/imported"
wait -n || true
fail "containerd or the kubelet has ended"
