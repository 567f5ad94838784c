//! A node with the real `kubelet.exe` and `containerd.exe`: what a profile and a pool say is what they report, and the real scheduler
//! acts on it.

use std::{collections::BTreeMap, fs, time::Duration};

use e2e::{
    cluster::{Cluster, SOON, create, pool_spec},
    control_plane::{Options, User},
    operator::{Operator, winpool},
    wait::{eventually, size, until},
    windows_node::{Programs, Release, Setup, WindowsNode},
};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    node::v1::RuntimeClass,
};
use serde_json::{Value, json};
use winpool_api::{Taint, TaintEffect};
use winpool_check::recommend::{Basis, Sample};
use winpool_core::kubernetes::quantity::Quantity;
use winpool_facts::{
    Build, ContainerRuntime, ContainerdLine, Minor,
    containerd::{BUILT_IN_HANDLERS, minimum_for},
};
use winpool_render::{CONTAINERD_TOML, KUBELET_ARGS, KUBELET_YAML, Variant, profile, render};

use crate::agent_programs::stripped_programs;

const NODE: &str = "win-1";
const POOL: &str = "web";
/// The newest containerd.
const NEWEST: (ContainerdLine, &str) = (ContainerdLine::new(2, 4), "containerd.exe");
/// Until a node is ready, on a busy machine.
pub(crate) const READY: Duration = Duration::from_secs(600);

/// A cluster with a pool, and a node that was installed with the layer of its profile.
pub(crate) struct Fixture {
    pub(crate) cluster: Cluster,
    pub(crate) operator: Operator,
    setup: Setup<'static>,
    // It ends before the API server.
    pub(crate) node: WindowsNode,
}

/// Waits until a node registers, and this is true of it.
pub(crate) async fn until_node(cluster: &Cluster, name: &str, what: &str, holds: impl Fn(&Node) -> bool) -> Node {
    let read = || async { Ok(cluster.nodes().get_opt(name).await?) };
    let node = until(&format!("node {name}: {what}"), READY, read, |node| node.as_ref().is_some_and(&holds)).await;
    node.unwrap().unwrap()
}

impl Fixture {
    pub(crate) async fn start(profile: Value, operator_arguments: &[&str]) -> Self {
        let cluster = Cluster::start_with(Options::default()).await.unwrap();
        cluster.apply_profile("standard", profile.clone()).await.unwrap();
        let operator = cluster.start_operator(operator_arguments, &[]).await.unwrap();
        cluster.apply_pool(POOL, pool_spec(POOL, json!({"profileRef": {"name": "standard"}}))).await.unwrap();
        let setup = configured(&profile, Minor(cluster.control_plane.version().minor), NEWEST);
        let node = WindowsNode::start(&cluster.control_plane, &setup).unwrap();
        let fixture = Self { cluster, operator, setup, node };
        fixture.until_node("it is ready", |node| condition(node, "Ready") == "True").await;
        fixture
    }

    pub(crate) async fn until_node(&self, what: &str, holds: impl Fn(&Node) -> bool) -> Node {
        until_node(&self.cluster, NODE, what, holds).await
    }

    pub(crate) async fn create_pod(&self, name: &str, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "app", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}]},
        });
        json_patch::merge(&mut pod["spec"], &spec);
        create(&self.cluster.namespaced::<Pod>("default"), pod).await.unwrap();
    }

    /// Waits for an event about a pod, whose message has this text.
    pub(crate) async fn until_event(&self, pod: &str, reason: &str, text: &str) {
        let events = || async { self.cluster.events("default", pod).await };
        let is_expected = |message: &str| message.contains(text);
        let what = format!("pod {pod}: {reason} {text}");
        let found = until(&what, READY, events, |events| {
            events.iter().any(|event| {
                event.reason.as_deref() == Some(reason) && event.message.as_deref().is_some_and(is_expected)
            })
        });
        found.await.unwrap();
    }

    /// Checks that `winpool doctor` finds a symptom of a pod or a node.
    pub(crate) fn doctor_finds(&self, object: &str, symptom: &str) {
        let output = winpool(&self.cluster.control_plane, User::Admin, &["doctor", object, "-o", "json"]).unwrap();
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found: Vec<_> = printed["found"].as_array().unwrap().iter().map(|found| found["id"].clone()).collect();
        assert!(found.contains(&json!(symptom)), "{object}: {found:?}");
    }
}

/// A node that has been installed with the layer of a profile.
fn configured(spec: &Value, minor: Minor, (line, containerd): (ContainerdLine, &'static str)) -> Setup<'static> {
    let programs = Programs::Upstream { containerd };
    let setup = Setup { programs, ..Setup::new(stripped_programs(), NODE, POOL) };
    let runtime = ContainerRuntime::Containerd(line);
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

pub(crate) fn amount(
    resources: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
    name: &str,
) -> Quantity {
    resources.unwrap()[name].0.parse().unwrap()
}

/// The status of a condition that the kubelet reports.
pub(crate) fn condition<'a>(node: &'a Node, name: &str) -> &'a str {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == name).map_or("", |condition| &condition.status)
}

fn profile() -> Value {
    json!({"kubelet": {
        "systemReserved": {"cpu": "500m", "memory": "2Gi"},
        // No pressure, however full the disk of this machine is.
        "evictionHard": {"memory.available": "500Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "maxPods": 60,
        "imageGC": {"highThresholdPercent": 90, "lowThresholdPercent": 75},
        "containerLogs": {"maxSize": "100Mi", "maxFiles": 3},
        "priorityClass": "High",
        "extra": {"serializeImagePulls": false, "registryPullQPS": 10},
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_registers_the_node_that_its_profile_describes_and_takes_the_pods_of_its_class() {
    let fixture = Fixture::start(profile(), &[]).await;
    let Fixture { cluster, setup, .. } = &fixture;

    let node = cluster.nodes().get(NODE).await.unwrap();
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
    cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await.unwrap();
    cluster.until_taints(NODE, &["os=windows:NoSchedule"]).await.unwrap();

    uses_the_configuration(&fixture.node).await;
    is_measured(&fixture, &node).await;
    pods_are_judged_by_the_scheduler_and_the_kubelet(&fixture).await;
    fixture.operator.stop().await.unwrap();
}

/// Each value of the profile is one that the kubelet says that it uses.
async fn uses_the_configuration(node: &WindowsNode) {
    let configz = eventually("the kubelet returns its configuration", SOON, || node.configz()).await.unwrap();
    for (field, value) in [
        ("maxPods", json!(60)),
        ("systemReserved", json!({"cpu": "500m", "memory": "2Gi"})),
        ("evictionHard", json!({"memory.available": "500Mi", "nodefs.available": "1%", "imagefs.available": "1%"})),
        ("imageGCHighThresholdPercent", json!(90)),
        ("imageGCLowThresholdPercent", json!(75)),
        ("containerLogMaxSize", json!("100Mi")),
        ("containerLogMaxFiles", json!(3)),
        ("serializeImagePulls", json!(false)),
        ("registryPullQPS", json!(10)),
    ] {
        assert_eq!(configz[field], value, "{field}");
    }
}

/// What the kubelet measures is a sample, of which one is too few.
async fn is_measured(fixture: &Fixture, node: &Node) {
    let capacity = winpool_core::node::WindowsNode::from(node.clone()).capacity;
    let read = || async {
        let summary = fixture.node.of_kubelet("/stats/summary").await?.to_string();
        Sample::of_summary(NODE, &capacity, summary.as_bytes()).map_err(anyhow::Error::msg)
    };
    let sample = eventually("the kubelet has measured the node", SOON, read).await.unwrap();
    let (memory, basis) = sample.system_memory();
    assert!(memory > 0 && sample.system_cpu().is_some() && basis == Basis::Commit, "{sample:?}");
    let control_plane = &fixture.cluster.control_plane;
    let file = control_plane.directory().join("samples.jsonl");
    let minor = control_plane.version().minor;
    fs::write(&file, format!("{}\n{}\n", json!({"pool": POOL, "minor": minor}), json!(sample))).unwrap();
    let output =
        winpool(control_plane, User::Admin, &["recommend", POOL, "--samples", file.to_str().unwrap()]).unwrap();
    let refusal = format!(
        "too little was measured of pool web: {}: 1 of at least 2 nodes, 1 of at least 60 samples",
        sample.size()
    );
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains(&refusal), "{error}");
}

/// Servers of 1.30 drop the handlers that a node reports.
fn reports_handlers(cluster: &Cluster) -> bool {
    cluster.control_plane.version().minor > 30
}

async fn pods_are_judged_by_the_scheduler_and_the_kubelet(fixture: &Fixture) {
    let cluster = &fixture.cluster;
    let class = json!({"metadata": {"name": "unknown-handler"}, "handler": "runhcs-unknown"});
    create(&cluster.api::<RuntimeClass>(), class).await.unwrap();
    let tolerations = json!([{"operator": "Exists"}]);
    for (name, spec, reason, text) in [
        // It is scheduled, and the node has no CNI.
        (
            "of-the-class",
            json!({"runtimeClassName": "windows-ltsc2022"}),
            "FailedCreatePodSandBox",
            "failed to find plugin",
        ),
        (
            "of-a-handler-that-containerd-does-not-have",
            json!({"runtimeClassName": "unknown-handler", "nodeName": NODE}),
            "FailedCreatePodSandBox",
            "no runtime for \"runhcs-unknown\" is configured",
        ),
        ("without-a-class", json!({}), "FailedScheduling", "untolerated taint"),
        (
            "for-linux",
            json!({"nodeName": NODE, "tolerations": tolerations, "os": {"name": "linux"}}),
            "PodOSNotSupported",
            "the OS field doesn't match node OS",
        ),
    ] {
        fixture.create_pod(name, spec).await;
        fixture.until_event(name, reason, text).await;
    }
    fixture.doctor_finds("pod/of-a-handler-that-containerd-does-not-have", "handler-unknown");
    verify_reports_the_pods_that_the_node_got(cluster);
    // The handlers of the node are those that containerd has reported to the kubelet.
    let conditions =
        [("special", "RuntimeClassReady", "NotForWindows"), ("runhcs-large", "RuntimeSupported", "HandlerUnavailable")];
    for &(handler, condition, reason) in &conditions[..if reports_handlers(cluster) { 2 } else { 1 }] {
        let classes = json!([{"name": "special", "handler": handler}]);
        let pool = pool_spec(POOL, json!({"profileRef": {"name": "standard"}, "runtimeClasses": classes}));
        cluster.apply_pool(POOL, pool).await.unwrap();
        cluster.until_condition(POOL, condition, "False", reason).await.unwrap();
    }
}

/// The Job of the servers is scheduled, and removed at the end.
fn verify_reports_the_pods_that_the_node_got(cluster: &Cluster) {
    let verify = ["verify", POOL, "--timeout", "12s", "-o", "json"];
    let output = winpool(&cluster.control_plane, User::Admin, &verify).unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["checks"].as_array().unwrap();
    let [result] = results.as_slice() else { panic!("nothing else is checked: {results:#?}") };
    assert_eq!((&result["check"], &result["from"]), (&json!("pods-run"), &json!(NODE)));
    let message = result["message"].as_str().unwrap();
    assert!(message.starts_with("0 of 2 pods run: "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_follows_an_update_of_windows_and_a_runtime_that_has_stopped() {
    let fixture = Fixture::start(profile(), &[]).await;
    let updated = Release { revision: fixture.setup.release.revision + 100, ..fixture.setup.release };
    let spec = json!({"profileRef": {"name": "standard"}, "minRevision": updated.revision});
    fixture.cluster.apply_pool(POOL, pool_spec(POOL, spec)).await.unwrap();
    fixture.cluster.until_condition(POOL, "OSMismatch", "True", "RevisionTooOld").await.unwrap();
    let boot_id = |node: &Node| node.status.as_ref()?.node_info.as_ref().map(|info| info.boot_id.clone());
    let before = fixture.cluster.nodes().get(NODE).await.unwrap();
    fixture.node.reboot(updated, 2).unwrap();
    fixture.until_node("it has another boot ID", |node| boot_id(node) != boot_id(&before)).await;
    fixture.cluster.until_absent(POOL, "OSMismatch").await.unwrap();

    fixture.node.stop_service("containerd").unwrap();
    fixture.until_node("its kubelet misses containerd", |node| condition(node, "Ready") == "False").await;
    fixture.node.start_services().unwrap();
    fixture.until_node("it is ready again", |node| condition(node, "Ready") == "True").await;
    fixture.operator.stop().await.unwrap();
}

/// Nodes with an older containerd: whether they report handlers, and what the status says of their containerd.
#[tokio::test(flavor = "multi_thread")]
async fn the_older_release_lines_of_containerd_are_nodes_too() {
    let cluster = Cluster::start_with(Options::default()).await.unwrap();
    let minor = Minor(cluster.control_plane.version().minor);
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_pool(POOL, pool_spec(POOL, json!({}))).await.unwrap();
    let lines = [
        ("win-1-7", ContainerdLine::new(1, 7), "containerd-1.7.exe", false),
        ("win-2-3", ContainerdLine::new(2, 3), "containerd-2.3.exe", true),
    ];
    for &(name, line, program, reports) in &lines[..size(1, 2)] {
        let setup = Setup { name, ..configured(&profile(), minor, (line, program)) };
        let _node = WindowsNode::start(&cluster.control_plane, &setup).unwrap();
        let read = || async { Ok(cluster.nodes().get_opt(name).await?) };
        let ready = |node: &Option<Node>| node.as_ref().is_some_and(|node| condition(node, "Ready") == "True");
        let node = until(&format!("{name} is ready"), READY, read, ready).await.unwrap().unwrap();
        let status = node.status.unwrap();
        let version = status.node_info.unwrap().container_runtime_version;
        assert!(version.starts_with(&format!("containerd://{line}.")), "{version}");
        // A kubelet works with a containerd that is too old for it by the release notes.
        if let Some(least) = minimum_for(minor, version["containerd://".len()..].parse().unwrap()) {
            let condition = cluster.until_condition(POOL, "RuntimeSupported", "False", "TooOld").await.unwrap();
            assert!(condition.message.contains(&format!("Upgrade containerd to {least}")), "{}", condition.message);
        }
        let handlers: Vec<_> =
            status.runtime_handlers.into_iter().flatten().filter_map(|handler| handler.name).collect();
        assert_eq!(
            BUILT_IN_HANDLERS.iter().all(|name| handlers.iter().any(|own| own == name)),
            reports && reports_handlers(&cluster),
            "{handlers:?}"
        );
    }
    operator.stop().await.unwrap();
}
