# Pool web-2022: GKE takes 1 of 23 settings; not: systemReserved, kubeReserved, evictionHard, imageGC, containerLogs, featureGates, priorityClass, logging.verbosity, registryPullQPS, clusterDNS, nodeStatusReportFrequency, contentType, pauseImage, registryMirrors, cni, imagePullProgressTimeout, root, extraConfig, kubeProxy, proxy, taints, labels
# systemReserved: GKE has no node system configuration for Windows Server nodes, and uses its own value
# kubeReserved: GKE has no node system configuration for Windows Server nodes, and uses its own value
# evictionHard: GKE has no node system configuration for Windows Server nodes, and uses its own value
# imageGC: GKE has no node system configuration for Windows Server nodes, and uses its own value
# containerLogs: GKE has no node system configuration for Windows Server nodes, and uses its own value
# featureGates: GKE has no node system configuration for Windows Server nodes, and uses its own value
# priorityClass: GKE has no node system configuration for Windows Server nodes, and uses its own value
# logging.verbosity: GKE has no node system configuration for Windows Server nodes, and uses its own value
# registryPullQPS: GKE has no node system configuration for Windows Server nodes, and uses its own value
# clusterDNS: GKE has no node system configuration for Windows Server nodes, and uses its own value
# nodeStatusReportFrequency: GKE has no node system configuration for Windows Server nodes, and uses its own value
# contentType: GKE has no node system configuration for Windows Server nodes, and uses its own value
# pauseImage: GKE has no containerd configuration for Windows node images, and uses its own value
# registryMirrors: GKE has no containerd configuration for Windows node images, and uses its own value
# cni: GKE has no containerd configuration for Windows node images, and uses its own value
# imagePullProgressTimeout: GKE has no containerd configuration for Windows node images, and uses its own value
# root: GKE has no containerd configuration for Windows node images, and uses its own value
# extraConfig: GKE has no containerd configuration for Windows node images, and uses its own value
# kubeProxy: GKE has no setting for kube-proxy on Windows Server nodes
# proxy: the platform has no setting for it: set the variables on the node before its services start
# taints: without batch=:NoExecute, because each taint needs a value and its own key: the operator sets it after the node has joined
# labels: without example.kubernetes.io/tier, because the domain is reserved: the operator sets it after the node has joined
# Set CLUSTER, LOCATION and NODE_POOL before.
: "${CLUSTER:?}" "${LOCATION:?}" "${NODE_POOL:?}"
gcloud container node-pools create "$NODE_POOL" \
  --cluster "$CLUSTER" \
  --location "$LOCATION" \
  --image-type WINDOWS_LTSC_CONTAINERD \
  --windows-os-version ltsc2022 \
  --max-pods-per-node 60 \
  --node-taints os=windows:NoSchedule \
  --node-labels team=web
