//! The conditions of a pool: status, reason, and a message with a remedy.

mod ready;
mod refusals;

use serde_json::{Value, json};
use winpool_facts::Minor;
use winpool_rules::{
    operation::Done,
    pool::{Snapshot, plan::plan},
    status::profile::report,
};

use winpool_model::{Model, NODE, POD, POOL, PROFILE, condition, node, pod, pool, profile, status, taints, web};

const LIST: &str = "kubectl get nodes -l winpool.dev/pool=web";
/// In place of a status.
const ABSENT: &str = "absent";
const BY_SELECTOR: &str = "kubectl get nodes -l kubernetes.io/os=windows,agentpool=web";

/// A pool `web` for Windows Server 2022 on Kubernetes 1.34 with one node, with changes.
struct Row {
    expected: [&'static str; 4],
    date: &'static str,
    api_server: u32,
    nodes: Vec<Value>,
    pool: Value,
    profile: Option<Value>,
}

/// The expected status and reason of a condition, and a part of its message.
fn row(condition: &'static str, status: &'static str, reason: &'static str, part: &'static str) -> Row {
    Row { expected: [condition, status, reason, part], ..base() }
}

/// A flag that has nothing to report.
fn absent(condition: &'static str) -> Row {
    row(condition, ABSENT, "", "")
}

/// The row without changes.
fn base() -> Row {
    Row {
        expected: [""; 4],
        date: "2026-06-01",
        api_server: 34,
        nodes: vec![web_node(20348, "v1.34.1", "containerd://2.3.7")],
        pool: json!({}),
        profile: None,
    }
}

impl Row {
    fn on(self, date: &'static str) -> Self {
        Self { date, ..self }
    }

    fn api_server(self, minor: u32) -> Self {
        Self { api_server: minor, ..self }
    }

    fn nodes(self, nodes: impl Into<Vec<Value>>) -> Self {
        Self { nodes: nodes.into(), ..self }
    }

    fn pool(self, spec: Value) -> Self {
        Self { pool: spec, ..self }
    }

    /// Adds a profile that the pool names.
    fn profile(self, spec: Value) -> Self {
        let mut named = self.pool.clone();
        named["profileRef"] = json!({"name": "standard"});
        Self { pool: named, profile: Some(spec), ..self }
    }

    fn model(&self) -> Model {
        let mut model = Model::new();
        model.now = format!("{}T12:00:00Z", self.date).parse().unwrap();
        model.api_server = Minor(self.api_server);
        for (index, node) in self.nodes.iter().enumerate() {
            model.put(NODE, &format!("win-{}", index + 1), node.clone());
        }
        if let Some(spec) = &self.profile {
            model.put(PROFILE, "standard", profile(spec.clone()));
        }
        model.put(POOL, "web", web(self.pool.clone()));
        model.converge();
        model
    }

    fn check(&self) {
        let status = status(&self.model(), "web");
        let [condition, expected, reason, part] = self.expected;
        if expected == ABSENT {
            let found = status.conditions.iter().find(|found| found.type_ == condition);
            assert_eq!(found, None, "{condition}");
            return;
        }
        assert!(!part.is_empty(), "{condition} {reason}: a row without a part of the message checks nothing");
        let found = status.conditions.iter().find(|found| found.type_ == condition).unwrap();
        assert_eq!(
            (found.status.as_str(), found.reason.as_str()),
            (expected, reason),
            "{condition}: {}",
            found.message
        );
        assert!(found.message.contains(part), "{condition} {reason} does not contain {part:?}: {}", found.message);
        // The nodes of a pool in mode Observe do not have its label.
        let list = if self.pool["mode"] == "Observe" { BY_SELECTOR } else { LIST };
        for found in &status.conditions {
            assert!(
                !found.message.contains("win-") || found.message.ends_with(list),
                "{} {} names nodes and does not list them: {}",
                found.type_,
                found.reason,
                found.message
            );
        }
    }
}

fn web_node(build: u32, kubelet: &str, runtime: &str) -> Value {
    let mut node = node(build, runtime, &json!({"agentpool": "web"}), &json!([]));
    node["status"]["nodeInfo"]["kubeletVersion"] = json!(kubelet);
    node
}

/// A node without a status.
fn without_status() -> Value {
    let mut node = node(20348, "", &json!({"agentpool": "web", "node.kubernetes.io/windows-build": null}), &json!([]));
    node["status"] = json!({});
    node
}

/// A node with this kernel version, without the label of the build.
fn with_kernel(kernel: &str) -> Value {
    let mut node = without_status();
    node["status"] = web_node(20348, "v1.34.1", "containerd://2.3.7")["status"].clone();
    node["status"]["nodeInfo"]["kernelVersion"] = json!(kernel);
    node
}

/// A node with these allocatable resources of 16Gi and 100Gi.
fn with_allocatable(runtime: &str, memory: &str, disk: &str) -> Value {
    let mut node = web_node(20348, "v1.34.1", runtime);
    node["status"]["allocatable"] = json!({"cpu": "4", "memory": memory, "ephemeral-storage": disk, "pods": "110"});
    node
}

/// A node with the configuration of an empty profile: 2Gi are reserved for the system, and 500Mi and a tenth of the
/// disk by the eviction thresholds.
fn configured(runtime: &str) -> Value {
    with_allocatable(runtime, "14168064Ki", "96636764160")
}

/// A node with the default eviction thresholds.
fn unconfigured(runtime: &str) -> Value {
    with_allocatable(runtime, "16265216Ki", "96636764160")
}

fn message(model: &Model, pool: &str, type_: &str) -> String {
    condition(model, pool, type_).2
}

#[test]
fn a_windows_version_is_supported_by_microsoft_and_by_kubernetes() {
    let row = |status, reason, part| row("OSSupported", status, reason, part);
    let of = |build, kubelet| [web_node(build, kubelet, "containerd://2.3.7")];
    let table = [
        absent("OSSupported"),
        row("True", "ExtendedSupportOnly", "win-1: Windows Server 2019 has extended support only, until 2029-01-09")
            .nodes(of(17763, "v1.34.1")),
        row("True", "EndingSoon", "win-1: support of Windows Server 2019 ends on 2029-01-09")
            .nodes(of(17763, "v1.34.1"))
            .on("2028-10-01"),
        row("False", "EndOfLife", "win-1: support of Windows Server 2019 ended on 2029-01-09. Move the workloads to")
            .nodes(of(17763, "v1.34.1"))
            .on("2029-01-10"),
        row(
            "False",
            "NotSupportedByKubernetes",
            "win-1: Kubernetes 1.35 does not support build 10.0.17763 (up to 1.34). Use",
        )
        .nodes(of(17763, "v1.35.0"))
        .api_server(35),
        row(
            "False",
            "NotSupportedByKubernetes",
            "Kubernetes 1.31 does not support build 10.0.26100 (from 1.32). Use nodes",
        )
        .nodes(of(26100, "v1.31.4")),
        row("False", "EndOfLife", "win-1: Kubernetes 1.34 does not support build 10.0.19042 (up to 1.25)")
            .nodes(of(19042, "v1.34.1")),
        row("False", "EndOfLife", "Windows Server, version 20H2 ended on 2022-08-09. Move").nodes(of(19042, "v1.34.1")),
        row("Unknown", "UnknownVersion", "win-1: build 10.0.27000 is not in the tables of winpool. Upgrade winpool")
            .nodes(of(27000, "v1.34.1")),
        row("Unknown", "UnknownVersion", "win-2: the Windows version is not known. See OSMismatch")
            .nodes([of(20348, "v1.34.1")[0].clone(), without_status()]),
        row("Unknown", "UnknownVersion", "win-1: the version of Kubernetes is not known. See VersionSkew")
            .nodes(of(20348, "latest")),
        row("False", "EndOfLife", "win-2: support of").nodes([without_status(), of(19042, "v1.34.1")[0].clone()]),
        // A pool without nodes has its own build and the minor of the API server.
        row("False", "NotSupportedByKubernetes", "Kubernetes 1.31 does not support build 10.0.26100 (from 1.32)")
            .nodes([])
            .pool(json!({"windowsVersion": "ltsc2025"}))
            .api_server(31),
    ];
    table.iter().for_each(Row::check);
}

#[test]
fn a_container_runtime_supports_its_kubelet_its_host_and_the_classes() {
    let row = |status, reason, part| row("RuntimeSupported", status, reason, part);
    let of = |build, kubelet, runtime| [web_node(build, kubelet, runtime)];
    let class = |name: &str, value: &str| json!({"runtimeClasses": [{"name": "special", name: value}]});
    let hyperv = || class("isolation", "HyperV");
    let table = [
        absent("RuntimeSupported"),
        row("True", "TooOldForNextMinor", "too old for kubelet 1.36. Upgrade containerd to 2.2.0 or later before the")
            .nodes(of(20348, "v1.35.0", "containerd://1.7.28"))
            .api_server(35),
        row("False", "TooOld", "win-1: containerd 1.7.20 is too old for kubelet 1.34. Upgrade containerd to 1.7.28 or")
            .nodes(of(20348, "v1.34.1", "containerd://1.7.20")),
        row(
            "False",
            "TooOld",
            "win-1: containerd 1.7.5 does not run the older images that this Windows can run. Upgrade containerd to 1.7.6 or later",
        )
        .nodes(of(26100, "v1.31.0", "containerd://1.7.5")),
        row(
            "False",
            "TooOld",
            "win-1: containerd 1.6.39 is older than 1.7.0, the oldest that winpool supports. Upgrade containerd to 1.7.28 or later",
        )
        .nodes(of(20348, "v1.34.1", "containerd://1.6.39")),
        // The minimum for the images is higher than that for the kubelet.
        row("False", "TooOld", "the oldest that winpool supports. Upgrade containerd to 1.7.6 or later")
            .nodes(of(26100, "v1.31.0", "containerd://1.6.39")),
        row("False", "TooOld", "win-1: containerd 1.7.2 does not pin the pause image: kubelet 1.31 removes it when the disk")
            .nodes(of(20348, "v1.31.1", "containerd://1.7.2"))
            .api_server(31),
        row(
            "False",
            "EndOfLife",
            "win-1: support of containerd 1.7.34 ended on 2026-09-30. Upgrade containerd to 2.3.7 or later, supported until",
        )
        .nodes(of(20348, "v1.34.1", "containerd://1.7.34"))
        .on("2026-10-01"),
        row("False", "EndOfLife", "Upgrade containerd to a supported release")
            .nodes(of(20348, "v1.34.1", "containerd://2.3.7"))
            .on("2031-01-01"),
        row(
            "False",
            "HandlerUnavailable",
            "win-1: Docker has no handler runhcs-wcow-process for RuntimeClass windows-",
        )
        .nodes(of(20348, "v1.34.1", "docker://24.0.7")),
        row("False", "HandlerUnavailable", "Docker has no handler mine for RuntimeClass special, only docker. Use one")
            .nodes(of(20348, "v1.34.1", "docker://24.0.7"))
            .pool(class("handler", "mine")),
        absent("RuntimeSupported").nodes(of(20348, "v1.34.1", "docker://24.0.7")).pool(class("handler", "docker")),
        row(
            "False",
            "HandlerUnavailable",
            "containerd has no handler docker for RuntimeClass special, only runhcs-wcow-",
        )
        .pool(class("handler", "docker")),
        // containerd may be configured with other handlers.
        absent("RuntimeSupported").pool(class("handler", "mine")),
        absent("RuntimeSupported").pool(class("handler", "runhcs-large")),
        // It reports all of them from 2.0 on.
        row(
            "False",
            "HandlerUnavailable",
            "win-1: containerd has no handler runhcs-large for RuntimeClass special, only runhcs-wcow-process. Use one of these in \
             spec.runtimeClasses, add it to containerd.extraConfig of the profile, or move the node",
        )
        .pool(class("handler", "runhcs-large"))
        .nodes(reporting(&["runhcs-wcow-process"])),
        row("False", "HandlerUnavailable", "with isolation HyperV, only runhcs-wcow-process")
            .pool(hyperv())
            .nodes(reporting(&["runhcs-wcow-process"])),
        absent("RuntimeSupported")
            .pool(class("handler", "runhcs-large"))
            .nodes(reporting(&["runhcs-large", "runhcs-wcow-process"])),
        absent("RuntimeSupported").pool(hyperv()),
        row("Unknown", "UnknownVersion", "win-1: containerd 99.1.0 is not in the tables of winpool. Upgrade winpool")
            .nodes(of(20348, "v1.34.1", "containerd://99.1.0")),
        row("Unknown", "UnknownVersion", r#"win-1: container runtime "cri-o://1.30.0" is not known. Upgrade winpool"#)
            .nodes(of(20348, "v1.34.1", "cri-o://1.30.0")),
        row("Unknown", "UnknownVersion", r#"win-1: kubelet version "latest" is not known. Upgrade winpool"#).nodes(of(
            20348,
            "latest",
            "containerd://2.3.7",
        )),
        row("Unknown", "UnknownVersion", "win-1: no container runtime is reported. Check that the kubelet runs")
            .nodes([without_status()]),
        row("False", "HandlerUnavailable", "win-2: Docker has no handler")
            .nodes([without_status(), web_node(20348, "latest", "docker://24.0.7")]),
    ];
    table.iter().for_each(Row::check);
}

/// A node with these handlers, and the default one, which has no name.
fn reporting(handlers: &[&str]) -> [Value; 1] {
    let mut node = web_node(20348, "v1.34.1", "containerd://2.3.7");
    node["status"]["runtimeHandlers"] = [""].iter().chain(handlers).map(|name| json!({ "name": name })).collect();
    [node]
}

#[test]
fn a_class_has_a_handler_of_windows_or_one_that_a_node_of_the_pool_reports() {
    let row = |status, reason, part| row("RuntimeClassReady", status, reason, part);
    let class = |handler: &str| json!({"runtimeClasses": [{"name": "special", "handler": handler}]});
    let missing = "RuntimeClass special is not created, because no node of the pool reports handler mine, and its name is not \
                   that of a handler of Windows. Use another handler in spec.runtimeClasses, or add a node that has it";
    let table = [
        row("False", "NotForWindows", missing).pool(class("mine")),
        row("False", "NotForWindows", missing).pool(class("mine")).nodes(reporting(&["other"])),
        row("True", "Applied", "special").pool(class("mine")).nodes(reporting(&["mine"])),
        row("True", "Applied", "special").pool(class("runhcs-wcow-process")),
    ];
    table.iter().for_each(Row::check);
}

#[test]
fn kubelets_are_within_the_version_skew_policy() {
    let row = |status, reason, part| row("VersionSkew", status, reason, part);
    let of = |kubelets: &[&str]| -> Vec<Value> {
        kubelets.iter().map(|kubelet| web_node(20348, kubelet, "containerd://2.3.7")).collect()
    };
    let table = [
        absent("VersionSkew"),
        absent("VersionSkew").nodes([]),
        row("False", "TablesEndAt", "win-1: the tables of this winpool end at Kubernetes 1.37, so 1.38 is treated as 1.37")
            .nodes(of(&["v1.38.0"]))
            .api_server(38),
        row(
            "True",
            "KubeletNewerThanAPIServer",
            "Upgrade the control plane first. win-2: the tables of this winpool end at Kubernetes 1.37, so 1.38 is treated as 1.37, \
             its feature gates too. Upgrade winpool",
        )
        .nodes(of(&["v1.34.0", "v1.38.0"])),
        row("True", "KubeletTooOld", "1 node runs a kubelet that is too old for API server 1.34: win-1 (v1.30.2, oldest allowed 1.31). Upgrade or")
            .nodes(of(&["v1.30.2", "v1.31.0"])),
        row("True", "KubeletNewerThanAPIServer", "1 node runs a kubelet that is newer than API server 1.34: win-1 (v1.35.0). Upgrade")
            .nodes(of(&["v1.35.0", "v1.34.0"])),
        row(
            "True",
            "KubeletNewerThanAPIServer",
            "1 node runs a kubelet that is newer than API server 1.34: win-2 (v1.35.0). Upgrade the control plane first. \
             1 node runs a kubelet that is too old for API server 1.34: win-1 (v1.30.2, oldest allowed 1.31). Upgrade or \
             replace the nodes. List the nodes: kubectl",
        )
        .nodes(of(&["v1.30.2", "v1.35.0"])),
        row("Unknown", "UnknownVersion", r#"win-2: kubelet version "latest" is not known. Upgrade winpool"#)
            .nodes(of(&["v1.34.1", "latest"])),
        row("Unknown", "UnknownVersion", "win-1: no kubelet version is reported. Check that the kubelet runs")
            .nodes([without_status()]),
        row("True", "KubeletTooOld", "win-2 (v1.30.2").nodes(of(&["latest", "v1.30.2"])),
    ];
    table.iter().for_each(Row::check);
}

#[test]
fn the_windows_version_of_nodes_matches_the_pool_and_the_pause_image() {
    let row = |status, reason, part| row("OSMismatch", status, reason, part);
    let hyperv_2025 =
        || json!({"windowsVersion": "ltsc2025", "runtimeClasses": [{"name": "special", "isolation": "HyperV"}]});
    let pause = |tag: &str| json!({"pauseImage": {"source": "Upstream", "tag": tag}});
    let table = [
        absent("OSMismatch"),
        row("True", "NodeBuildDiffers", "1 node runs another build than 10.0.20348: win-2 (10.0.26100). Replace it, or move it to a pool")
            .nodes([
                web_node(20348, "v1.34.1", "containerd://2.3.7"),
                web_node(26100, "v1.34.1", "containerd://2.3.7"),
            ]),
        row(
            "True",
            "PauseImageCannotRun",
            "win-1: no pod can start, because pause image registry.k8s.io/pause:3.5 has no entry that 10.0.20348 under \
             containerd 2.3.7 can run. Set spec.pauseImage.tag of the profile to a tag that has one, or remove it",
        )
        .profile(pause("3.5")),
        absent("OSMismatch").profile(pause("3.6")),
        row(
            "True",
            "PauseImageCannotRun",
            "win-1: no image of 10.0.26100 starts with RuntimeClass special, because its utility VM boots an older build: \
             pause image registry.k8s.io/pause:3.10.1 has no entry for 10.0.26100. Set spec.pauseImage.tag of the profile to a tag that has one",
        )
        .pool(hyperv_2025())
        .nodes([web_node(26100, "v1.34.1", "containerd://2.3.7")])
        .profile(pause("3.10.1")),
        absent("OSMismatch")
            .pool(hyperv_2025())
            .nodes([web_node(26100, "v1.34.1", "containerd://2.3.7")])
            .profile(pause("3.10.2")),
        absent("OSMismatch")
            .pool(hyperv_2025())
            .nodes([web_node(26100, "v1.34.1", "containerd://2.3.7")])
            .profile(json!({"pauseImage": {"source": "Upstream"}})),
        row("True", "NodeBuildDiffers", "for that build. win-1: no pod can start, because pause image")
            .nodes([web_node(26100, "v1.34.1", "containerd://2.3.7")])
            .profile(pause("3.5")),
        row("Unknown", "UnknownVersion", "win-2: no Windows version is reported. Check that the kubelet runs")
            .nodes([web_node(20348, "v1.34.1", "containerd://2.3.7"), without_status()]),
        row("Unknown", "UnknownVersion", r#"win-1: Windows version "6.3.9600" is not known. Upgrade winpool"#)
            .nodes([with_kernel("6.3.9600")]),
        row("True", "NodeBuildDiffers", "win-2 (10.0.26100)")
            .nodes([without_status(), web_node(26100, "v1.34.1", "containerd://2.3.7")]),
    ];
    table.iter().for_each(Row::check);
}

#[test]
fn a_configuration_is_in_effect_if_the_reported_resources_match() {
    const CONTAINERD: &str = "containerd://2.3.7";
    let row = |status, reason, part| row("ConfigInEffect", status, reason, part);
    let with = |nodes: &[Value], row: Row| row.nodes(nodes).profile(json!({}));
    let mut observed =
        row("Unknown", "NotDelivered", "The pool does not write, so its nodes cannot have the rendered configuration")
            .nodes([unconfigured(CONTAINERD)])
            .profile(json!({}));
    observed.pool["mode"] = json!("Observe");
    let table = [
        with(&[configured(CONTAINERD)], row("True", "InEffect", "the reported resources of 1 node are those of the")),
        with(
            &[configured(CONTAINERD), unconfigured(CONTAINERD)],
            row(
                "Unknown",
                "NotDelivered",
                "1 node runs a kubelet without the rendered configuration: win-2. Deliver the files of",
            ),
        ),
        with(
            &[unconfigured(CONTAINERD), with_allocatable(CONTAINERD, "16Gi", "100Gi")],
            row("False", "Differs", "on 1 node: win-2 (allocatable memory is 16Gi instead of at most 13836Mi"),
        ),
        with(
            &[configured(CONTAINERD), without_status()],
            row(
                "Unknown",
                "NotDelivered",
                "1 node cannot be compared, because the kubelet version is not known: win-2. See",
            ),
        ),
        observed,
    ];
    table.iter().for_each(Row::check);
}

#[test]
fn a_profile_is_resolved_and_rendered_for_every_node() {
    let nowhere = || json!({"profileRef": {"name": "nowhere"}});
    let broken = || json!({"kubelet": {"systemReserved": {"memory": "plenty"}}});
    let greedy = || json!({"kubelet": {"systemReserved": {"memory": "20Gi"}}});
    let table = [
        row("ProfileResolved", "True", "Resolved", "WindowsRuntimeProfile standard is valid").profile(json!({})),
        row(
            "ProfileResolved",
            "False",
            "NotFound",
            "WindowsRuntimeProfile nowhere does not exist. Apply it, or correct spec.profileRef.name",
        )
        .pool(nowhere()),
        row("ProfileResolved", "False", "Invalid", "spec.kubelet.systemReserved").profile(broken()),
        row("ConfigRendered", "True", "Rendered", "1 configuration rendered for 1 node").profile(json!({})),
        row("ConfigRendered", "True", "TablesEndAt", "1 configuration rendered for 1 node. win-1: the tables of this winpool end at Kubernetes 1.37, so 1.38 is treated as 1.37")
            .profile(json!({}))
            .nodes([web_node(20348, "v1.38.0", "containerd://2.3.7")]),
        row(
            "ConfigRendered",
            "True",
            "Rendered",
            "1 configuration rendered, none for 1 node of unknown version: win-2. List",
        )
        .nodes([web_node(20348, "v1.34.1", "containerd://2.3.7"), without_status()])
        .profile(json!({})),
        row("ConfigRendered", "False", "Failed", "win-1, win-2: spec.kubelet.systemReserved.memory: ")
            .nodes([unconfigured("containerd://2.3.7"), unconfigured("containerd://2.2.7")])
            .profile(greedy()),
        row("ConfigRendered", "False", "Failed", "the node has only 16Gi: reserve less, or use another profile for")
            .profile(greedy()),
        row("ConfigRendered", "False", "Failed", "win-2: for kubelet 1.34, containerd 99.1, Windows 10.0.20348: ")
            .nodes(["containerd://2.3.7", "containerd://99.1.0"].map(|runtime| web_node(20348, "v1.34.1", runtime)))
            .profile(json!({})),
        row("ConfigRendered", "False", "Failed", "win-1: for kubelet 1.29, containerd 2.2, Windows 10.0.20348: status.nodeInfo.kubeletVersion: kubelet 1.29 is older than 1.30, the oldest that winpool configures: upgrade")
            .nodes([web_node(20348, "v1.29.1", "containerd://2.2.9")])
            .api_server(31)
            .profile(json!({})),
        row("ConfigRendered", "False", "Failed", "containerd 1.6.0 is older than 1.7.0, the oldest that winpool configures: install a")
            .nodes([web_node(20348, "v1.34.1", "containerd://1.6.39")])
            .profile(json!({})),
    ];
    table.iter().for_each(Row::check);
}

#[test]
fn the_configuration_name_is_mentioned_if_every_node_has_one() {
    let table = [
        row("NodesTainted", "True", "Applied", "1 node has its labels and taints"),
        row("NodesTainted", "True", "Applied", "1 node has its labels, taints and configuration name")
            .profile(json!({})),
        row("NodesTainted", "True", "Applied", "1 node has its labels and taints")
            .pool(json!({"profileRef": {"name": "nowhere"}})),
        row("NodesTainted", "True", "Applied", "2 nodes have their labels and taints")
            .nodes([web_node(20348, "v1.34.1", "containerd://2.3.7"), without_status()])
            .profile(json!({})),
    ];
    table.iter().for_each(Row::check);

    let mut model = base().profile(json!({})).model();
    model.delete(PROFILE, "standard");
    model.converge();
    assert_eq!(
        message(&model, "web", "NodesTainted"),
        "1 node has its labels, taints and configuration name",
        "it is kept"
    );
}

#[test]
fn a_condition_that_does_not_apply_or_has_nothing_to_report_is_absent() {
    const OF_PROFILES: [&str; 3] = ["ProfileResolved", "ConfigRendered", "ConfigInEffect"];
    const ALWAYS: [&str; 5] = ["Ready", "NodesAssigned", "NodesTainted", "RuntimeClassReady", "SpecValid"];
    let node = || base().nodes;
    let table = [
        ("without a profile", base(), node(), &[][..]),
        ("with a profile", base().profile(json!({})), node(), &OF_PROFILES[..]),
        ("without nodes", base().profile(json!({})), vec![], &OF_PROFILES[..2]),
        ("without that profile", base().pool(json!({"profileRef": {"name": "nowhere"}})), node(), &OF_PROFILES[..1]),
        ("broken", base().profile(json!({"kubelet": {"maxPods": "many"}})), node(), &OF_PROFILES[..1]),
    ];
    for (case, row, nodes, further) in table {
        let mut expected: Vec<&str> = ALWAYS.iter().chain(further).copied().collect();
        expected.sort_by_key(|name| (*name != "Ready", *name));
        let conditions = status(&row.nodes(nodes).model(), "web").conditions;
        let of_summary = ["Reconciling", "Stalled"];
        let types = conditions.iter().map(|found| found.type_.as_str()).filter(|name| !of_summary.contains(name));
        assert_eq!(types.collect::<Vec<_>>(), expected, "{case}");
    }
}

#[test]
fn a_status_has_as_many_lines_for_thousands_of_equal_nodes_as_for_one() {
    let lines = |node: fn(&str) -> Value, count: usize| {
        let row = base().profile(json!({})).nodes(vec![node("containerd://2.3.7"); count]);
        lines_of(&json!(status(&row.model(), "web")))
    };
    assert_eq!([lines(configured, 1), lines(configured, 5_000)], [65, 65]);
    // One more problem, of all nodes.
    assert_eq!([lines(unconfigured, 4), lines(unconfigured, 5_000)], [73, 73]);
}

/// The lines of `kubectl describe` for a value in the map of another one.
fn lines_of(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(lines_of).sum::<usize>(),
        Value::Array(items) => {
            1 + items.iter().map(|item| lines_of(item).saturating_sub(usize::from(item.is_object()))).sum::<usize>()
        }
        _ => 1,
    }
}

#[test]
fn the_worst_problem_is_that_which_harms_most() {
    let open = |runtime: &str| web_node(20348, "v1.34.1", runtime);
    let tainted_by_others = || {
        let mut node = open("containerd://2.3.7");
        node["spec"]["taints"] = json!([{"key": "vendor", "effect": "NoSchedule"}]);
        node
    };
    let without_taints = || base().pool(json!({"taints": []}));
    let old = "containerd://1.7.20";
    let table = [
        (base(), "-", "1/1"),
        (base().nodes([open(old), open(old), open(old)]), "Runtime/TooOld(3) +1", "3/3"),
        (without_taints(), "Nodes/OpenToLinuxPods(1)", "-"),
        (without_taints().nodes([open(old), open(old)]), "Nodes/OpenToLinuxPods(2) +2", "-"),
        (without_taints().nodes([tainted_by_others()]), "-", "-"),
        (without_taints().nodes([]), "-", "-"),
        (base().nodes([web_node(20348, "v1.30.2", "containerd://2.3.7")]), "Kubelet/TooOld(1) +1", "1/1"),
        (base().nodes([web_node(26100, "v1.34.1", old)]), "Runtime/WouldStrand(1) +3", "1/1"),
        (base().pool(json!({"profileRef": {"name": "nowhere"}})), "Config/NotFound", "1/1"),
        (base().pool(json!({"paused": true})), "Paused", "0/1"),
        (base().pool(json!({"paused": true})).nodes([open(old)]), "Paused, Runtime/TooOld(1) +1", "0/1"),
        (base().pool(json!({"nodeSelector": {}})), "Spec/Invalid", ""),
    ];
    for (row, problem, tainted) in table {
        let columns = status(&row.model(), "web").columns;
        assert_eq!((columns.problem.as_str(), columns.tainted.as_str()), (problem, tainted), "{}", row.pool);
    }
}

#[test]
fn a_selector_that_matches_only_linux_nodes_is_a_problem() {
    let mut model = base().nodes([]).model();
    let count = |model: &Model, linux_nodes| {
        let snapshot = Snapshot { linux_nodes, ..model.snapshot() };
        let plan = plan(&snapshot, "web").unwrap();
        assert_eq!(plan.selector_without_nodes().as_deref(), Some("agentpool=web"));
        winpool_rules::status::pool::report(&snapshot, &plan, &Done { complete: true, ..Done::default() }).status
    };
    let found = count(&model, 3);
    let assigned = found.conditions.iter().find(|found| found.type_ == "NodesAssigned").unwrap();
    assert_eq!((assigned.status.as_str(), assigned.reason.as_str()), ("True", "OnlyLinuxNodes"));
    assert!(
        assigned.message.starts_with("no Windows node matches, but 3 Linux nodes match this selector: agentpool=web. "),
        "{}",
        assigned.message
    );
    assert_eq!(found.columns.problem, "Nodes/OnlyLinuxNodes(3)");
    assert_eq!(count(&model, 0).columns.problem, "-", "scaled to zero");
    model.put(NODE, "win-1", web_node(20348, "v1.34.1", "containerd://2.3.7"));
    assert_eq!(plan(&model.snapshot(), "web").unwrap().selector_without_nodes(), None);
}

#[test]
fn a_node_is_counted_once_in_the_problem_of_its_pool() {
    let old = || web_node(17763, "v1.34.1", "containerd://2.3.7");
    let row = base().pool(json!({"windowsVersion": "ltsc2019"})).on("2029-02-01");
    assert_eq!(status(&row.nodes([old(), old(), old()]).model(), "web").columns.problem, "Windows/EndOfLife(3) +1");
    let pause = json!({"pauseImage": {"source": "Upstream", "tag": "3.5"}});
    let new = |runtime| web_node(20348, "v1.34.1", runtime);
    let row = base().nodes([new("containerd://2.3.7"), new("containerd://2.2.9")]).profile(pause);
    assert_eq!(status(&row.model(), "web").columns.problem, "Pods/PauseImageCannotRun(2) +1");
}

#[test]
fn a_held_eviction_is_reported_with_the_command_that_allows_it() {
    let mut model = base().model();
    model.put(POD, "default/web", pod("win-1", &json!([])));
    let drain =
        json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}, {"key": "drain", "effect": "NoExecute"}]);
    model.edit(POOL, "web", |pool| pool["spec"]["taints"] = drain);
    model.converge();
    assert_eq!(taints(model.get(NODE, "win-1").unwrap()), ["os=windows:NoSchedule"]);
    let message = message(&model, "web", "NodesTainted");
    assert!(
        message.contains("allow it: kubectl annotate wnp web winpool.dev/allow-evict=drain --overwrite. "),
        "{message}"
    );
    assert!(message.ends_with(LIST), "{message}");
}

#[test]
fn nodes_that_two_pools_select_are_listed_by_the_selector() {
    let mut model = base().model();
    let expressions = json!({"matchLabels": {"agentpool": "web"}, "matchExpressions": [
        {"key": "agentpool", "operator": "In", "values": ["web", "batch"]},
        {"key": "zone", "operator": "NotIn", "values": ["a"]},
        {"key": "kubernetes.io/arch", "operator": "Exists"},
        {"key": "gpu", "operator": "DoesNotExist"},
    ]});
    model.put(POOL, "late", pool(json!({"windowsVersion": "ltsc2022", "nodeSelector": expressions})));
    model.converge();
    for (pool, list) in [
        ("web", BY_SELECTOR),
        (
            "late",
            "kubectl get nodes -l 'kubernetes.io/os=windows,agentpool=web,agentpool in (web,batch),zone notin (a),\
             kubernetes.io/arch,!gpu'",
        ),
    ] {
        let message = message(&model, pool, "NodesAssigned");
        assert!(
            message.starts_with(
                "1 node matches more than one pool (late, web) and stays in the pool that it belongs to: win-1. Narrow"
            ),
            "{message}"
        );
        assert!(message.ends_with(&format!(". List the nodes: {list}")), "{message}");
    }
}

#[test]
fn a_profile_is_valid_invalid_or_valid_with_warnings() {
    let reserving = |memory: &str| json!({"kubelet": {"systemReserved": {"memory": memory}}});
    let table = [
        (json!({}), "True", "Valid", "the profile can be rendered"),
        (reserving("1Gi"), "True", "ValidWithWarnings", "spec.kubelet.systemReserved.memory: "),
        (reserving("plenty"), "False", "Invalid", "spec.kubelet.systemReserved.memory: "),
    ];
    for (spec, status, reason, part) in table {
        let model = base().profile(spec).model();
        let conditions = report(&model.snapshot(), "standard").unwrap().status.conditions;
        let valid = conditions.iter().find(|found| found.type_ == "Valid").unwrap();
        assert_eq!((valid.status.as_str(), valid.reason.as_str()), (status, reason));
        assert!(valid.message.contains(part), "{}", valid.message);
    }
}
