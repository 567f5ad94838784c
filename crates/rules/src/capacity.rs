//! What the nodes of a pool have left for pods, by requests, as the scheduler counts them.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use winpool_core::{
    kubernetes::quantity::Quantity,
    node::WindowsNode,
    text::{counted, some_of},
};
use winpool_workload::{Amount, Requests};

/// The capacity of the nodes that are ready and not cordoned. Whether a pod fits depends on the scheduler too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    pub nodes: usize,
    /// What pods may request. Of the pods of each node, its addresses if these are fewer.
    pub allocatable: Amount,
    /// The pods on the nodes that have not finished.
    pub used: i64,
    pub free: Amount,
    /// The nodes with fewer addresses in `podCIDRs` than allocatable pods.
    pub short_of_addresses: Vec<String>,
    /// The kind of pod with the largest requests on any node, without DaemonSets; `None` without pods.
    pub largest: Option<LargestKind>,
    /// The most volumes that each CSI driver attaches to a node: the lowest of its nodes. Empty if they are not known.
    pub attach_limits: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LargestKind {
    pub workload: String,
    pub request: Amount,
    /// How many more such pods the nodes have room for.
    pub fits: i64,
}

impl Capacity {
    /// That of these nodes, with these pods.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a WindowsNode>, requests: &Requests) -> Self {
        let mut capacity = Self::default();
        let mut free = Vec::new();
        for node in nodes.into_iter().filter(|node| node.is_schedulable()) {
            let (allocatable, used) = (allocatable(node), requests.on(&node.name));
            if node.allocatable.pods.is_some_and(|pods| allocatable.pods < pods) {
                capacity.short_of_addresses.push(node.name.clone());
            }
            capacity.nodes += 1;
            capacity.allocatable = capacity.allocatable.plus(allocatable);
            capacity.used += used.pods;
            free.push(allocatable.minus(used));
        }
        capacity.largest = requests.largest().map(|(workload, request)| LargestKind {
            workload: workload.to_string(),
            request,
            fits: free.iter().map(|free| free.room_for(request)).fold(0, i64::saturating_add),
        });
        capacity.free = free.into_iter().fold(Amount::default(), Amount::plus);
        capacity
    }

    /// How many nodes of the same size have room for this much; `None` without nodes.
    pub fn nodes_for(&self, required: Amount) -> Option<i64> {
        let nodes = i64::try_from(self.nodes).ok().filter(|nodes| *nodes > 0)?;
        let all = self.allocatable;
        let parts = [(required.memory, all.memory), (required.cpu_milli, all.cpu_milli), (required.pods, all.pods)];
        let of = |(required, all): (i64, i64)| {
            let size = (all / nodes).max(1);
            required.saturating_add(size - 1) / size
        };
        parts.into_iter().filter(|(_, all)| *all > 0).map(of).max()
    }
}

fn allocatable(node: &WindowsNode) -> Amount {
    let pods = node.allocatable.pods.unwrap_or_default();
    Amount {
        memory: node.allocatable.memory.unwrap_or_default(),
        cpu_milli: node.allocatable.cpu_milli.unwrap_or_default(),
        pods: node.pod_addresses.map_or(pods, |addresses| pods.min(addresses)),
    }
}

/// In one line.
impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} pods on {}", self.used, self.allocatable.pods, counted(self.nodes, "schedulable node"))?;
        if !self.short_of_addresses.is_empty() {
            write!(f, ", fewer addresses than pods on {}", some_of(&self.short_of_addresses))?;
        }
        if let Some(LargestKind { workload, request, fits }) = &self.largest {
            let (memory, cpu) = (Quantity::of_bytes(request.memory), Quantity::of_milli(request.cpu_milli));
            write!(f, "; {fits} more of the largest kind fit: {workload} ({memory} memory, {cpu} CPU)")?;
        }
        for (driver, limit) in &self.attach_limits {
            write!(f, "; {driver} attaches at most {limit} volumes to a node")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use winpool_workload::{Pod, Shared};

    use super::*;

    fn node(name: &str, allocatable: Value, more: Value) -> WindowsNode {
        let mut node = json!({
            "metadata": {"name": name}, "spec": {},
            "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (path, value) in more.as_object().into_iter().flatten() {
            node["spec"][path] = value.clone();
        }
        WindowsNode::from(serde_json::from_value::<k8s_openapi::api::core::v1::Node>(node).unwrap())
    }

    fn pod(name: &str, node: &str, kind: &str, requests: Value) -> Arc<Pod> {
        let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
        let object = json!({
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": owner},
            "spec": {"nodeName": node, "containers": [{"name": "a", "image": "a", "resources": {"requests": requests}}]},
        });
        Arc::new(Pod::read(serde_json::from_value(object).unwrap(), &mut Shared::default()))
    }

    #[test]
    fn the_capacity_is_what_the_schedulable_nodes_have_left() {
        let size = || json!({"memory": "8Gi", "cpu": "4", "pods": "100"});
        let cordoned = json!({"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]});
        let nodes = [
            node("win-1", size(), json!({})),
            node("win-2", size(), json!({"podCIDRs": ["10.244.2.0/27"]})),
            node("win-3", size(), cordoned),
        ];
        let pods = [
            pod("cart", "win-1", "StatefulSet", json!({"memory": "3Gi", "cpu": "500m"})),
            pod("logs", "win-2", "DaemonSet", json!({"memory": "4Gi"})),
            pod("stock", "win-2", "StatefulSet", json!({"memory": "1Gi", "cpu": "3900m"})),
            pod("gone", "win-3", "StatefulSet", json!({"memory": "2Gi"})),
        ];
        let mut capacity = Capacity::of(&nodes, &Requests::of(&pods));
        // 5 GiB on the first node have room for one of 3 GiB, and 3 GiB on the second for one, but not its CPU.
        capacity.attach_limits.insert("disk.csi.azure.com".to_owned(), 8);
        assert_eq!(
            capacity.to_string(),
            "3 of 129 pods on 2 schedulable nodes, fewer addresses than pods on win-2; 1 more of the largest kind fit: StatefulSet \
             shop/cart (3Gi memory, 500m CPU); disk.csi.azure.com attaches at most 8 volumes to a node"
        );
        assert_eq!(capacity.free, Amount { memory: 8 << 30, cpu_milli: 3600, pods: 126 });
        let required = Amount { memory: 17 << 30, cpu_milli: 8000, pods: 10 };
        assert_eq!(
            (capacity.nodes_for(required), Capacity::of(&[], &Requests::default()).nodes_for(required)),
            (Some(3), None)
        );
        assert_eq!(Capacity::of(&[], &Requests::default()).to_string(), "0 of 0 pods on 0 schedulable nodes");
    }
}
