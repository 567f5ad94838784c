//! Snapshots of pools with many nodes.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use serde_json::{Value, json};
use winpool_core::node::WindowsNode;
use winpool_core::record::OwnershipKey;
use winpool_facts::Minor;
use winpool_rules::{
    operation::Action,
    ownership::Ownership,
    pool::{
        ConfigMapView, Pool, ProfileView, RuntimeClassView, Snapshot,
        plan::{Planner, plan},
    },
};

pub fn time_on_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).map_or(Duration::ZERO, Duration::from_nanos)
}

/// Pools `pool-0`, `pool-1` … with new nodes, and the same after they have been reconciled.
pub fn new_and_settled(pools: usize, nodes: usize) -> (Snapshot, Snapshot) {
    let mut pools_now: BTreeMap<String, Value> =
        (0..pools).map(|number| (format!("pool-{number}"), pool(number))).collect();
    let profile = json!({
        "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsRuntimeProfile", "metadata": {"name": "standard"},
        "spec": {},
    });
    let mut objects: Vec<Value> = (0..nodes).map(|number| node(number, number % pools)).collect();
    let indexes: BTreeMap<String, usize> = (0..nodes).map(|number| (format!("win-{number}"), number)).collect();
    let snapshot = |pools: &BTreeMap<String, Value>, nodes: &[Value]| Snapshot {
        namespace: "winpool-system".to_owned(),
        pools: pools.values().map(|pool| Pool::from_object(read(pool))).collect(),
        profiles: [ProfileView::from_object(read(&profile))].into_iter().collect(),
        nodes: nodes.iter().map(|node| WindowsNode::from(read::<k8s_openapi::api::core::v1::Node>(node))).collect(),
        api_server: Some(Minor(34)),
        ownership: Arc::new(Ownership::signed(OwnershipKey::new(&[7; OwnershipKey::LENGTH]))),
        ..Snapshot::default()
    };
    let new = snapshot(&pools_now, &objects);
    let mut converged = new.clone();
    let names: Vec<String> = pools_now.keys().cloned().collect();
    let planner = Planner::new(&new);
    for write in names.iter().flat_map(|name| planner.plan(name).unwrap().steps.into_writes()) {
        let (name, body) = (&write.object.name, write.body());
        match write.action {
            Action::PatchNode => json_patch::merge(&mut objects[indexes[name]], &body),
            Action::RecordApplied => pools_now.get_mut(name).unwrap()["status"] = body["status"].clone(),
            Action::ApplyRuntimeClass => {
                let class = read::<k8s_openapi::api::node::v1::RuntimeClass>(&body);
                converged.runtime_classes.insert(RuntimeClassView::from(class));
            }
            Action::CreateConfigMap => {
                let map = read::<k8s_openapi::api::core::v1::ConfigMap>(&body);
                converged.config_maps.insert(ConfigMapView::from(map));
            }
            _ => {}
        }
    }
    let after = snapshot(&pools_now, &objects);
    converged = Snapshot { pools: after.pools, nodes: after.nodes, ..converged };
    for name in &names {
        assert!(plan(&converged, name).unwrap().steps.is_empty(), "nothing is left to do");
    }
    (new, converged)
}

fn pool(number: usize) -> Value {
    let name = format!("pool-{number}");
    json!({
        "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": name, "generation": 1},
        "spec": {
            "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": name}},
            "profileRef": {"name": "standard"}, "labels": {"team": name},
        },
    })
}

fn node(number: usize, pool: usize) -> Value {
    let kubelet = ["v1.34.2", "v1.33.5"][number % 2];
    let containerd = ["containerd://2.1.5", "containerd://1.7.28"][number / 2 % 2];
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("win-{number}"), "uid": format!("uid-{number}"), "resourceVersion": number.to_string(),
            "labels": {
                "agentpool": format!("pool-{pool}"), "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": format!("win-{number}"), "node.kubernetes.io/windows-build": "10.0.20348",
                "topology.kubernetes.io/zone": "zone-1", "node.kubernetes.io/instance-type": "large",
            },
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"cpu": "4", "memory": "16776752Ki", "pods": "110", "ephemeral-storage": "133703676Ki"},
            "allocatable": {"cpu": "4", "memory": "16674352Ki", "pods": "110", "ephemeral-storage": "133703676Ki"},
            "nodeInfo": {
                "kernelVersion": "10.0.20348.4529", "kubeletVersion": kubelet, "containerRuntimeVersion": containerd,
            },
        },
    })
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}
