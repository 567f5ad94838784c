# Pool web-2022: AKS takes 3 of 23 settings; not: systemReserved, kubeReserved, evictionHard, featureGates, priorityClass, logging.verbosity, registryPullQPS, clusterDNS, nodeStatusReportFrequency, contentType, pauseImage, registryMirrors, cni, imagePullProgressTimeout, root, extraConfig, kubeProxy, proxy, taints, labels
# systemReserved: AKS reserves 2 GB for the system processes of Windows, which cannot be changed
# kubeReserved: AKS sets its own, computed from the size of the machine and the maximum of pods; its preview setting is for Linux only
# evictionHard: AKS sets its own: memory.available<100Mi from 1.29 on; its preview setting is for Linux only
# featureGates: AKS configures only image garbage collection and container logs of a Windows kubelet, and uses its own value
# priorityClass: AKS always uses AboveNormal
# logging.verbosity: AKS configures only image garbage collection and container logs of a Windows kubelet, and uses its own value
# registryPullQPS: AKS configures only image garbage collection and container logs of a Windows kubelet, and uses its own value
# clusterDNS: AKS configures only image garbage collection and container logs of a Windows kubelet, and uses its own value
# nodeStatusReportFrequency: AKS configures only image garbage collection and container logs of a Windows kubelet, and uses its own value
# contentType: AKS configures only image garbage collection and container logs of a Windows kubelet, and uses its own value
# pauseImage: AKS writes the configuration of containerd itself, from its own template
# registryMirrors: AKS writes the configuration of containerd itself, from its own template
# cni: AKS writes the configuration of containerd itself, from its own template
# imagePullProgressTimeout: AKS writes the configuration of containerd itself, from its own template
# root: AKS always uses C:\ProgramData\containerd\root
# extraConfig: AKS writes the configuration of containerd itself, from its own template
# kubeProxy: AKS configures kube-proxy itself
# proxy: AKS does not support HTTP proxies in clusters with Windows node pools
# taints: without batch=:NoExecute, because each taint needs a value: the operator sets it after the node has joined
# labels: without example.kubernetes.io/tier, because the domain is reserved: the operator sets it after the node has joined
# Windows 10.0.20348 is not supported from 2028-06-30 on, and has no images from 2029-06-30 on; its last minor is 1.36
# Set RESOURCE_GROUP, CLUSTER and NODE_POOL before. The name of a Windows node pool has at most six characters.
: "${RESOURCE_GROUP:?}" "${CLUSTER:?}" "${NODE_POOL:?}"
cat >kubelet-config.json <<'EOF'
{
  "imageGcHighThreshold": 70,
  "imageGcLowThreshold": 60,
  "containerLogMaxSizeMB": 20,
  "containerLogMaxFiles": 3
}
EOF
az aks nodepool add \
  --resource-group "$RESOURCE_GROUP" \
  --cluster-name "$CLUSTER" \
  --name "$NODE_POOL" \
  --os-type Windows \
  --os-sku Windows2022 \
  --max-pods 60 \
  --node-taints os=windows:NoSchedule \
  --labels team=web \
  --kubelet-config kubelet-config.json
