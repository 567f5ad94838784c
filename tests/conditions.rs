//! What a pool's conditions say of its nodes: status, reason, and the message with its remedy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod model;
#[path = "conditions/ready.rs"]
mod ready;

use model::{NODE, POD, POOL, PROFILE, World, node, pod, pool, profile, taints};
use serde_json::{Value, json};
use winpool::{api::WindowsNodePoolStatus, domain::profile::status::report, facts::Minor};

const LIST: &str = "kubectl get nodes -l winpool.dev/pool=web";
const BY_SELECTOR: &str = "kubectl get nodes -l kubernetes.io/os=windows,agentpool=web";

/// A pool `web` for Windows Server 2022 on Kubernetes 1.34 with one node, of which a row of a table changes what matters.
struct Row {
    expected: [&'static str; 4],
    date: &'static str,
    api_server: u32,
    nodes: Vec<Value>,
    pool: Value,
    profile: Option<Value>,
}

/// What a condition should say: its status, its reason, and a part of its message.
fn says(condition: &'static str, status: &'static str, reason: &'static str, part: &'static str) -> Row {
    Row {
        expected: [condition, status, reason, part],
        date: "2026-06-01",
        api_server: 34,
        nodes: vec![web_node(20348, "v1.34.1", "containerd://2.3.4")],
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

    /// The pool names a profile, which is this one.
    fn profile(self, spec: Value) -> Self {
        let mut named = self.pool.clone();
        named["profileRef"] = json!({"name": "standard"});
        Self { pool: named, profile: Some(spec), ..self }
    }

    fn world(&self) -> World {
        let mut world = World::new();
        world.now = format!("{}T12:00:00Z", self.date).parse().unwrap();
        world.api_server = Minor(self.api_server);
        for (index, node) in self.nodes.iter().enumerate() {
            world.put(NODE, &format!("win-{}", index + 1), node.clone());
        }
        if let Some(spec) = &self.profile {
            world.put(PROFILE, "standard", profile(spec.clone()));
        }
        let mut spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}});
        spec.as_object_mut().unwrap().extend(self.pool.as_object().unwrap().clone());
        world.put(POOL, "web", pool(spec));
        world.settle();
        world
    }

    fn judge(&self) {
        let status = status(&self.world(), "web");
        let [condition, expected, reason, part] = self.expected;
        let told = status.conditions.iter().find(|told| told.type_ == condition).unwrap();
        assert_eq!((told.status.as_str(), told.reason.as_str()), (expected, reason), "{condition}: {}", told.message);
        assert!(told.message.contains(part), "{condition} {reason} does not say {part:?}: {}", told.message);
        // Where nothing is written, the nodes have no label of the pool.
        let list = if self.pool["mode"] == "Observe" { BY_SELECTOR } else { LIST };
        for told in &status.conditions {
            assert!(
                !told.message.contains("win-") || told.message.ends_with(list),
                "{} {} names nodes and does not list them: {}",
                told.type_,
                told.reason,
                told.message
            );
        }
    }
}

fn web_node(build: u32, kubelet: &str, runtime: &str) -> Value {
    let mut node = node(build, runtime, &json!({"agentpool": "web"}), &json!([]));
    node["status"]["nodeInfo"]["kubeletVersion"] = json!(kubelet);
    node
}

/// A node of which nothing but its labels is known.
fn silent() -> Value {
    let mut node = node(20348, "", &json!({"agentpool": "web", "node.kubernetes.io/windows-build": null}), &json!([]));
    node["status"] = json!({});
    node
}

/// A node of this kernel, which did not label itself.
fn of_kernel(kernel: &str) -> Value {
    let mut node = silent();
    node["status"] = web_node(20348, "v1.34.1", "containerd://2.3.4")["status"].clone();
    node["status"]["nodeInfo"]["kernelVersion"] = json!(kernel);
    node
}

/// A node that offers this much memory and disk of the 16Gi and 100Gi that it has.
fn offering(runtime: &str, memory: &str, disk: &str) -> Value {
    let mut node = web_node(20348, "v1.34.1", runtime);
    node["status"]["allocatable"] = json!({"cpu": "4", "memory": memory, "ephemeral-storage": disk, "pods": "110"});
    node
}

/// A node that runs the configuration of an empty profile: 2Gi are kept for the system, and 500Mi and a tenth of the
/// disk by the eviction thresholds.
fn configured(runtime: &str) -> Value {
    offering(runtime, "14168064Ki", "96636764160")
}

/// A node with the thresholds of a kubelet that nobody configured.
fn unconfigured(runtime: &str) -> Value {
    offering(runtime, "16265216Ki", "96636764160")
}

fn status(world: &World, pool: &str) -> WindowsNodePoolStatus {
    serde_json::from_value(world.get(POOL, pool).unwrap()["status"].clone()).unwrap()
}

fn message(world: &World, pool: &str, condition: &str) -> String {
    status(world, pool).conditions.into_iter().find(|told| told.type_ == condition).unwrap().message
}

#[test]
fn a_windows_is_supported_by_microsoft_and_by_kubernetes() {
    let says = |status, reason, part| says("OSSupported", status, reason, part);
    let of = |build, kubelet| [web_node(build, kubelet, "containerd://2.3.4")];
    let table = [
        says("True", "Supported", "Windows Server 2022 is supported until 2026-10-13"),
        says("True", "ExtendedSupportOnly", "win-1: Windows Server 2019 has extended support only, until 2029-01-09")
            .nodes(of(17763, "v1.34.1")),
        says("True", "EndingSoon", "win-1: support of Windows Server 2019 ends on 2029-01-09")
            .nodes(of(17763, "v1.34.1"))
            .on("2028-10-01"),
        says("False", "EndOfLife", "win-1: support of Windows Server 2019 ended on 2029-01-09: move the workloads to")
            .nodes(of(17763, "v1.34.1"))
            .on("2029-01-10"),
        says(
            "False",
            "NotSupportedByKubernetes",
            "win-1: Kubernetes 1.35 does not support 10.0.17763 (up to 1.34): use",
        )
        .nodes(of(17763, "v1.35.0"))
        .api_server(35),
        says("False", "NotSupportedByKubernetes", "Kubernetes 1.31 does not support 10.0.26100 (from 1.32): use nodes")
            .nodes(of(26100, "v1.31.4")),
        says("False", "EndOfLife", "win-1: Kubernetes 1.34 does not support 10.0.19042 (up to 1.25)")
            .nodes(of(19042, "v1.34.1")),
        says("False", "EndOfLife", "Windows Server, version 20H2 ended on 2022-08-09: move")
            .nodes(of(19042, "v1.34.1")),
        says("Unknown", "UnknownVersion", "win-1: 10.0.27000 is not in the tables of winpool: upgrade winpool")
            .nodes(of(27000, "v1.34.1")),
        says("Unknown", "UnknownVersion", "win-2: the Windows version cannot be read; see OSMismatch")
            .nodes([of(20348, "v1.34.1")[0].clone(), silent()]),
        says("Unknown", "UnknownVersion", "win-1: the version of Kubernetes cannot be read; see VersionSkew")
            .nodes(of(20348, "latest")),
        says("False", "EndOfLife", "win-2: support of").nodes([silent(), of(19042, "v1.34.1")[0].clone()]),
        // A pool without nodes stands for its build on this Kubernetes.
        says("False", "NotSupportedByKubernetes", "Kubernetes 1.22 does not support 10.0.20348 (from 1.23)")
            .nodes([])
            .api_server(22),
    ];
    table.iter().for_each(Row::judge);
}

#[test]
fn a_container_runtime_fits_its_kubelet_its_host_and_the_classes() {
    let says = |status, reason, part| says("RuntimeSupported", status, reason, part);
    let of = |build, kubelet, runtime| [web_node(build, kubelet, runtime)];
    let class = |name: &str, value: &str| json!({"runtimeClasses": [{"name": "special", name: value}]});
    let hyperv = || class("isolation", "HyperV");
    let table = [
        says("True", "Supported", "every container runtime fits its kubelet"),
        says("True", "TooOldForNextMinor", "too old for kubelet 1.36: upgrade containerd to 2.2.0 or later before the")
            .nodes(of(20348, "v1.35.0", "containerd://1.7.28"))
            .api_server(35),
        says(
            "False",
            "TooOld",
            "win-1: containerd 1.7.20 is too old for kubelet 1.34: upgrade containerd to 1.7.28 or",
        )
        .nodes(of(20348, "v1.34.1", "containerd://1.7.20")),
        says("False", "TooOld", "win-1: containerd 1.7.5 does not find the older images that this Windows can run")
            .nodes(of(26100, "v1.31.0", "containerd://1.7.5")),
        says("False", "TooOld", "upgrade containerd to 1.7.6 or later").nodes(of(
            26100,
            "v1.31.0",
            "containerd://1.7.5",
        )),
        // What the kubelet asks for would not be enough for the images.
        says("False", "TooOld", "containerd 1.6.10 is too old for kubelet 1.31: upgrade containerd to 1.6.23 or later")
            .nodes(of(26100, "v1.31.0", "containerd://1.6.10")),
        says(
            "False",
            "EndOfLife",
            "win-1: support of containerd 1.6.39 ended on 2025-08-23: upgrade containerd to 2.3.4",
        )
        .nodes(of(20348, "v1.34.1", "containerd://1.6.39")),
        says(
            "False",
            "TooOld",
            "win-1: containerd 1.6.20 does not pin the pause image: kubelet 1.29 removes it when the disk",
        )
        .nodes(of(20348, "v1.29.1", "containerd://1.6.20"))
        .api_server(31),
        says("False", "EndOfLife", "").nodes(of(20348, "v1.28.1", "containerd://1.6.20")).api_server(31),
        // Containerd 2 does not speak the CRI of so old a kubelet.
        says("False", "EndOfLife", "upgrade containerd to 1.7.34 or later, supported until 2026-09-30").nodes(of(
            20348,
            "v1.22.1",
            "containerd://1.6.39",
        )),
        says("False", "EndOfLife", "upgrade containerd to a line that is supported")
            .nodes(of(20348, "v1.34.1", "containerd://2.3.4"))
            .on("2031-01-01"),
        says(
            "False",
            "HandlerUnavailable",
            "win-1: Docker has no handler runhcs-wcow-process for RuntimeClass windows-",
        )
        .nodes(of(20348, "v1.34.1", "docker://24.0.7")),
        says(
            "False",
            "HandlerUnavailable",
            "Docker has no handler mine for RuntimeClass special, only docker: write one",
        )
        .nodes(of(20348, "v1.34.1", "docker://24.0.7"))
        .pool(class("handler", "mine")),
        says("True", "Supported", "").nodes(of(20348, "v1.34.1", "docker://24.0.7")).pool(class("handler", "docker")),
        says(
            "False",
            "HandlerUnavailable",
            "containerd has no handler docker for RuntimeClass special, only runhcs-wcow-",
        )
        .pool(class("handler", "docker")),
        // A containerd may have been given handlers that nobody else knows.
        says("True", "Supported", "").pool(class("handler", "mine")),
        says("True", "Supported", "").pool(hyperv()),
        // 1.6 has no handler for Hyper-V before it is configured.
        says(
            "False",
            "HandlerUnavailable",
            "handler runhcs-wcow-hypervisor for RuntimeClass special of isolation HyperV",
        )
        .nodes(of(20348, "v1.34.1", "containerd://1.6.39"))
        .pool(hyperv()),
        says("False", "HandlerUnavailable", "only runhcs-wcow-process: put the files of its ConfigMap on the node")
            .nodes([unconfigured("containerd://1.6.39")])
            .pool(hyperv())
            .profile(json!({})),
        says("True", "TooOldForNextMinor", "containerd 1.6.39 is too old for kubelet 1.35")
            .nodes([configured("containerd://1.6.39")])
            .pool(hyperv())
            .profile(json!({}))
            .on("2025-06-01"),
        says("Unknown", "UnknownVersion", "win-1: containerd 99.1.0 is not in the tables of winpool: upgrade winpool")
            .nodes(of(20348, "v1.34.1", "containerd://99.1.0")),
        says(
            "Unknown",
            "UnknownVersion",
            r#"win-1: container runtime "cri-o://1.30.0" cannot be read: upgrade winpool"#,
        )
        .nodes(of(20348, "v1.34.1", "cri-o://1.30.0")),
        says("Unknown", "UnknownVersion", r#"win-1: kubelet version "latest" cannot be read: upgrade winpool"#)
            .nodes(of(20348, "latest", "containerd://2.3.4")),
        says("Unknown", "UnknownVersion", "win-1: no container runtime is reported: look whether the kubelet runs")
            .nodes([silent()]),
        says("False", "HandlerUnavailable", "win-2: Docker has no handler")
            .nodes([silent(), web_node(20348, "latest", "docker://24.0.7")]),
    ];
    table.iter().for_each(Row::judge);
}

#[test]
fn kubelets_are_within_the_version_skew_policy() {
    let says = |status, reason, part| says("VersionSkew", status, reason, part);
    let of = |kubelets: &[&str]| -> Vec<Value> {
        kubelets.iter().map(|kubelet| web_node(20348, kubelet, "containerd://2.3.4")).collect()
    };
    let table = [
        says("False", "WithinPolicy", "every kubelet is within the policy for API server 1.34"),
        says("False", "WithinPolicy", "").nodes([]),
        says(
            "True",
            "KubeletNewerThanAPIServer",
            "upgrade the control plane first. win-2: the tables of this winpool end at Kubernetes 1.36: 1.37 is answered as 1.36, and its feature gates are \
             not checked: upgrade winpool",
        )
        .nodes(of(&["v1.34.0", "v1.37.0"])),
        says("True", "KubeletTooOld", "win-1 (v1.30.2, oldest allowed 1.31) run a kubelet too old for API server 1.34")
            .nodes(of(&["v1.30.2", "v1.31.0"])),
        says("True", "KubeletNewerThanAPIServer", "win-1 (v1.35.0) run a kubelet newer than API server 1.34: upgrade")
            .nodes(of(&["v1.35.0", "v1.34.0"])),
        says(
            "True",
            "KubeletNewerThanAPIServer",
            "win-2 (v1.35.0) run a kubelet newer than API server 1.34: upgrade the control plane first. \
             win-1 (v1.30.2, oldest allowed 1.31) run a kubelet too old for API server 1.34: replace the nodes; kubectl",
        )
        .nodes(of(&["v1.30.2", "v1.35.0"])),
        says("Unknown", "UnknownVersion", r#"win-2: kubelet version "latest" cannot be read: upgrade winpool"#)
            .nodes(of(&["v1.34.1", "latest"])),
        says("Unknown", "UnknownVersion", "win-1: no kubelet version is reported: look whether the kubelet runs")
            .nodes([silent()]),
        says("True", "KubeletTooOld", "win-2 (v1.30.2").nodes(of(&["latest", "v1.30.2"])),
    ];
    table.iter().for_each(Row::judge);
}

#[test]
fn the_windows_of_nodes_fits_the_pool_and_the_pause_image() {
    let says = |status, reason, part| says("OSMismatch", status, reason, part);
    let hyperv_2025 =
        || json!({"windowsVersion": "ltsc2025", "runtimeClasses": [{"name": "special", "isolation": "HyperV"}]});
    let pause = |tag: &str| json!({"pauseImage": {"source": "Upstream", "tag": tag}});
    let table = [
        says("False", "Matched", "every node runs 10.0.20348"),
        says("True", "NodeBuildDiffers", "win-2 (10.0.26100) do not run 10.0.20348: replace them, or move them to a")
            .nodes([
                web_node(20348, "v1.34.1", "containerd://2.3.4"),
                web_node(26100, "v1.34.1", "containerd://2.3.4"),
            ]),
        says(
            "True",
            "PauseImageCannotRun",
            "win-1: no pod can start, because pause image registry.k8s.io/pause:3.5 has no entry that 10.0.20348 under \
             containerd 2.3.4 can run: write a tag that has one in spec.pauseImage.tag of the profile, or remove the tag",
        )
        .profile(pause("3.5")),
        says("False", "Matched", "").profile(pause("3.6")),
        says(
            "True",
            "PauseImageCannotRun",
            "win-1: no image of 10.0.26100 starts with RuntimeClass special, because its utility VM boots an older build: \
             pause image registry.k8s.io/pause:3.10.1 has no entry for 10.0.26100: write a tag that has one",
        )
        .pool(hyperv_2025())
        .nodes([web_node(26100, "v1.34.1", "containerd://2.3.4")])
        .profile(pause("3.10.1")),
        says("False", "Matched", "")
            .pool(hyperv_2025())
            .nodes([web_node(26100, "v1.34.1", "containerd://2.3.4")])
            .profile(pause("3.10.2")),
        says("False", "Matched", "")
            .pool(hyperv_2025())
            .nodes([web_node(26100, "v1.34.1", "containerd://2.3.4")])
            .profile(json!({"pauseImage": {"source": "Upstream"}})),
        says("True", "NodeBuildDiffers", "of their build. win-1: no pod can start, because pause image")
            .nodes([web_node(26100, "v1.34.1", "containerd://2.3.4")])
            .profile(pause("3.5")),
        says("Unknown", "UnknownVersion", "win-2: no Windows version is reported: look whether the kubelet runs")
            .nodes([web_node(20348, "v1.34.1", "containerd://2.3.4"), silent()]),
        says("Unknown", "UnknownVersion", r#"win-1: Windows version "6.3.9600" cannot be read: upgrade winpool"#)
            .nodes([of_kernel("6.3.9600")]),
        says("True", "NodeBuildDiffers", "win-2 (10.0.26100)")
            .nodes([silent(), web_node(26100, "v1.34.1", "containerd://2.3.4")]),
    ];
    table.iter().for_each(Row::judge);
}

#[test]
fn a_configuration_is_in_effect_where_the_nodes_own_numbers_say_so() {
    const CONTAINERD: &str = "containerd://2.3.4";
    let says = |status, reason, part| says("ConfigInEffect", status, reason, part);
    let with = |nodes: &[Value], row: Row| row.nodes(nodes).profile(json!({}));
    let mut observed = says("Unknown", "NotDelivered", "nothing is written for this pool")
        .nodes([unconfigured(CONTAINERD)])
        .profile(json!({}));
    observed.pool["mode"] = json!("Observe");
    let table = [
        says("True", "NotUsed", "no profile is named"),
        with(&[configured(CONTAINERD)], says("True", "InEffect", "the numbers of 1 node are those of their")),
        with(
            &[configured(CONTAINERD), unconfigured(CONTAINERD)],
            says(
                "Unknown",
                "NotDelivered",
                "win-2 show a kubelet without the rendered configuration: put the files of",
            ),
        ),
        with(
            &[unconfigured(CONTAINERD), offering(CONTAINERD, "16Gi", "100Gi")],
            says("False", "Differs", "win-2 (allocatable memory is 16Gi, the configuration leaves at most 13836Mi"),
        ),
        with(
            &[configured(CONTAINERD), silent()],
            says(
                "Unknown",
                "NotDelivered",
                "win-2 cannot be compared, because no kubelet version of theirs can be read",
            ),
        ),
        with(&[], says("Unknown", "NotDelivered", "the pool has no nodes yet")),
        says("Unknown", "NotDelivered", "the profile cannot be used; see ProfileResolved")
            .pool(json!({"profileRef": {"name": "nowhere"}})),
        observed,
    ];
    table.iter().for_each(Row::judge);
}

#[test]
fn a_profile_is_resolved_and_rendered_for_every_node() {
    let nowhere = || json!({"profileRef": {"name": "nowhere"}});
    let broken = || json!({"kubelet": {"systemReserved": {"memory": "plenty"}}});
    let greedy = || json!({"kubelet": {"systemReserved": {"memory": "20Gi"}}});
    let table = [
        says("ProfileResolved", "True", "NotUsed", "no profile is named, so no configuration is rendered"),
        says("ProfileResolved", "True", "Resolved", "WindowsRuntimeProfile standard is valid").profile(json!({})),
        says("ProfileResolved", "False", "NotFound", "Apply the profile, or correct spec.profileRef.name")
            .pool(nowhere()),
        says("ProfileResolved", "False", "Invalid", "spec.kubelet.systemReserved").profile(broken()),
        says("ConfigRendered", "True", "NotUsed", "no profile is named"),
        says("ConfigRendered", "True", "Rendered", "every node has its configuration, of 1 in all").profile(json!({})),
        says(
            "ConfigRendered",
            "True",
            "Rendered",
            "1 configuration rendered; none for win-2, whose versions cannot be",
        )
        .nodes([web_node(20348, "v1.34.1", "containerd://2.3.4"), silent()])
        .profile(json!({})),
        says("ConfigRendered", "False", "Failed", "the profile cannot be used; see ProfileResolved").pool(nowhere()),
        says("ConfigRendered", "False", "Failed", "the profile cannot be used; see ProfileResolved").profile(broken()),
        says("ConfigRendered", "False", "Failed", "win-1, win-2: spec.kubelet.systemReserved.memory: ")
            .nodes([unconfigured("containerd://2.3.4"), unconfigured("containerd://2.2.7")])
            .profile(greedy()),
        says(
            "ConfigRendered",
            "False",
            "Failed",
            "the node has 16Gi: write less, or give these nodes a profile of their",
        )
        .profile(greedy()),
        says("ConfigRendered", "False", "Failed", "win-2: for kubelet 1.34, containerd 99.1, Windows 10.0.20348: ")
            .nodes(["containerd://2.3.4", "containerd://99.1.0"].map(|runtime| web_node(20348, "v1.34.1", runtime)))
            .profile(json!({})),
    ];
    table.iter().for_each(Row::judge);
}

#[test]
fn the_config_name_is_told_where_every_node_has_one() {
    let table = [
        says("NodesConfigured", "True", "Applied", "labels and taints are on 1 node"),
        says("NodesConfigured", "True", "Applied", "labels, taints and config name are on 1 node").profile(json!({})),
        says("NodesConfigured", "True", "Applied", "labels and taints are on 1 node")
            .pool(json!({"profileRef": {"name": "nowhere"}})),
        says("NodesConfigured", "True", "Applied", "labels and taints are on 2 nodes")
            .nodes([web_node(20348, "v1.34.1", "containerd://2.3.4"), silent()])
            .profile(json!({})),
    ];
    table.iter().for_each(Row::judge);

    let mut world = says("", "", "", "").profile(json!({})).world();
    world.delete(PROFILE, "standard");
    world.settle();
    assert_eq!(message(&world, "web", "NodesConfigured"), "labels, taints and config name are on 1 node", "it is kept");
}

#[test]
fn a_node_is_counted_once_in_the_problem_of_its_pool() {
    let old = || web_node(17763, "v1.34.1", "containerd://2.3.4");
    let row = says("", "", "", "").pool(json!({"windowsVersion": "ltsc2019"})).on("2029-02-01");
    assert_eq!(status(&row.nodes([old(), old(), old()]).world(), "web").columns.problem, "EndOfLife(3)");
    let pause = json!({"pauseImage": {"source": "Upstream", "tag": "3.5"}});
    let new = |runtime| web_node(20348, "v1.34.1", runtime);
    let row = says("", "", "", "").nodes([new("containerd://2.3.4"), new("containerd://2.2.7")]).profile(pause);
    assert_eq!(status(&row.world(), "web").columns.problem, "PauseImageCannotRun(2)");
}

#[test]
fn an_eviction_waits_for_the_command_that_the_message_has() {
    let mut world = says("", "", "", "").world();
    world.put(POD, "default/web", pod("win-1", &json!([])));
    let drain =
        json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}, {"key": "drain", "effect": "NoExecute"}]);
    world.edit(POOL, "web", |pool| pool["spec"]["taints"] = drain);
    world.settle();
    assert_eq!(taints(world.get(NODE, "win-1").unwrap()), ["os=windows:NoSchedule"]);
    let message = message(&world, "web", "NodesConfigured");
    assert!(message.contains("kubectl annotate wnp web winpool.dev/allow-evict=2 --overwrite; "), "{message}");
    assert!(message.ends_with(LIST), "{message}");
}

#[test]
fn nodes_that_two_pools_match_are_listed_by_the_selector() {
    let mut world = says("", "", "", "").world();
    let expressions = json!({"matchLabels": {"agentpool": "web"}, "matchExpressions": [
        {"key": "agentpool", "operator": "In", "values": ["web", "batch"]},
        {"key": "zone", "operator": "NotIn", "values": ["a"]},
        {"key": "kubernetes.io/arch", "operator": "Exists"},
        {"key": "gpu", "operator": "DoesNotExist"},
    ]});
    world.put(POOL, "late", pool(json!({"windowsVersion": "ltsc2022", "nodeSelector": expressions})));
    world.settle();
    for (pool, list) in [
        ("web", BY_SELECTOR),
        (
            "late",
            "kubectl get nodes -l 'kubernetes.io/os=windows,agentpool=web,agentpool in (web,batch),zone notin (a),\
             kubernetes.io/arch,!gpu'",
        ),
    ] {
        let message = message(&world, pool, "NodesAssigned");
        assert!(message.starts_with("win-1 match more than one pool (late, web); "), "{message}");
        assert!(message.ends_with(&format!("; {list}")), "{message}");
    }
}

#[test]
fn a_profile_says_whether_it_can_be_rendered_and_what_is_known_to_hurt() {
    let reserving = |memory: &str| json!({"kubelet": {"systemReserved": {"memory": memory}}});
    let table = [
        (json!({}), "True", "Valid", "the profile can be rendered"),
        (reserving("1Gi"), "True", "ValidWithWarnings", "spec.kubelet.systemReserved.memory: "),
        (reserving("plenty"), "False", "Invalid", "spec.kubelet.systemReserved.memory: "),
    ];
    for (spec, status, reason, part) in table {
        let world = says("", "", "", "").profile(spec).world();
        let body = report(&world.snapshot(), "standard").unwrap().body.unwrap();
        let conditions = body["status"]["conditions"].as_array().unwrap();
        let valid = conditions.iter().find(|told| told["type"] == "Valid").unwrap();
        assert_eq!((&valid["status"], &valid["reason"]), (&json!(status), &json!(reason)));
        assert!(valid["message"].as_str().unwrap().contains(part), "{valid}");
    }
}
