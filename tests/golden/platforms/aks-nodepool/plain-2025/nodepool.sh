# Pool plain-2025: AKS takes 1 of 1 settings
# Set RESOURCE_GROUP, CLUSTER and NODE_POOL before. The name of a Windows node pool has at most six characters.
: "${RESOURCE_GROUP:?}" "${CLUSTER:?}" "${NODE_POOL:?}"
az aks nodepool add \
  --resource-group "$RESOURCE_GROUP" \
  --cluster-name "$CLUSTER" \
  --name "$NODE_POOL" \
  --os-type Windows \
  --os-sku Windows2025 \
  --enable-fips-image \
  --node-taints os=windows:NoSchedule
