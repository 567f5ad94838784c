//! A node with the real `kubelet.exe` and `containerd.exe`: what a profile and a pool say is what the kubelet reports.

use std::{collections::BTreeMap, time::Duration};

use crate::agent_programs::stripped_programs;
use e2e::{
    cluster::{Cluster, SOON, create, pool_spec},
    control_plane::Options,
    wait::until,
    windows_node::{Setup, WindowsNode},
};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::{Value, json};
use winpool_api::{Taint, TaintEffect};
use winpool_core::kubernetes::quantity::Quantity;
use winpool_facts::{Build, ContainerRuntime, ContainerdLine, Minor};
use winpool_render::{CONTAINERD_TOML, KUBELET_ARGS, KUBELET_YAML, Variant, profile, render};

const NODE: &str = "win-1";
const POOL: &str = "web";
/// Until the node is ready, on a busy machine.
const READY: Duration = Duration::from_secs(180);

/// A node that has been installed with the layer of a profile.
fn configured(spec: &Value, minor: Minor) -> Setup<'static> {
    let setup = Setup::new(stripped_programs(), NODE, POOL);
    let runtime = ContainerRuntime::Containerd(ContainerdLine::new(2, 4));
    let variant = Variant { kubelet: minor, runtime, host: Build(setup.release.build) };
    let taint = Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule };
    let profile = profile::check(&serde_json::from_value(spec.clone()).unwrap()).unwrap();
    let layer = render(&[taint], &profile, &variant).unwrap().files;
    Setup {
        kubelet: serde_saphyr::from_str(&layer[KUBELET_YAML]).unwrap(),
        kubelet_args: layer[KUBELET_ARGS].lines().map(str::to_owned).collect(),
        containerd_toml: Some(layer[CONTAINERD_TOML].clone()),
        ..setup
    }
}

fn amount(
    resources: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
    name: &str,
) -> Quantity {
    resources.unwrap()[name].0.parse().unwrap()
}

/// Whether the kubelet reports that a condition is true.
fn has(node: &Node, condition: &str) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|reported| reported.type_ == condition && reported.status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_registers_the_node_that_its_profile_describes_and_runs_the_pods_of_its_class() {
    let cluster = Cluster::start_with(Options::default()).await.unwrap();
    let spec = json!({"kubelet": {
        "systemReserved": {"cpu": "500m", "memory": "2Gi"},
        // No pressure, however full the disk of this machine is.
        "evictionHard": {"memory.available": "500Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "maxPods": 60,
    }});
    cluster.apply_profile("standard", spec.clone()).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_pool(POOL, pool_spec(POOL, json!({"profileRef": {"name": "standard"}}))).await.unwrap();

    let minor = Minor(cluster.control_plane.version().minor);
    let setup = configured(&spec, minor);
    let _machine = WindowsNode::start(&cluster.control_plane, &setup).unwrap();
    let read = || async { Ok(cluster.nodes().get_opt(NODE).await?) };
    let node =
        until("the node is ready", READY, read, |node| node.as_ref().is_some_and(|node| has(node, "Ready"))).await;
    let node = node.unwrap().unwrap();

    let status = node.status.as_ref().unwrap();
    let info = status.node_info.as_ref().unwrap();
    assert_eq!(info.kernel_version, setup.release.kernel());
    assert_eq!((info.os_image.as_str(), info.operating_system.as_str()), (setup.release.product, "windows"));
    assert!(info.container_runtime_version.starts_with("containerd://2."), "{}", info.container_runtime_version);
    assert_eq!(node.metadata.labels.as_ref().unwrap()["node.kubernetes.io/windows-build"], "10.0.20348");
    let (capacity, allocatable) = (status.capacity.as_ref(), status.allocatable.as_ref());
    for (name, reserved) in [("cpu", Quantity::of_milli(500)), ("memory", Quantity::of_bytes((2 << 30) + (500 << 20)))]
    {
        let rest = amount(capacity, name).milli() - reserved.milli();
        assert_eq!(amount(allocatable, name).milli(), rest, "{name}");
    }
    assert_eq!(amount(allocatable, "pods").milli(), 60_000);

    let condition = cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await;
    condition.unwrap();
    cluster.until_taints(NODE, &["os=windows:NoSchedule"]).await.unwrap();

    // A pod of the pool's class is scheduled to the node, and its sandbox ends where Wine has no host compute service.
    let pod = json!({
        "metadata": {"name": "app"},
        "spec": {
            "runtimeClassName": "windows-ltsc2022",
            "containers": [{"name": "app", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}],
        },
    });
    create(&cluster.namespaced::<Pod>("default"), pod).await.unwrap();
    let events = || async { Ok(cluster.namespaced::<Event>("default").list(&Default::default()).await?.items) };
    let is_of_sandbox = |event: &Event| event.reason.as_deref() == Some("FailedCreatePodSandBox");
    let events = until("the kubelet reports that containerd made no sandbox", SOON, events, |events| {
        events.iter().any(is_of_sandbox)
    })
    .await;
    events.unwrap();
    operator.stop().await.unwrap();
}
