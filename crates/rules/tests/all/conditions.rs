//! The conditions of a pool: status, reason, and a message with a remedy.

mod consents;
mod ready;
mod refusals;
mod selection;

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use winpool_facts::Minor;
use winpool_rules::{
    operation::Done,
    pool::{Snapshot, plan::plan},
    status::profile::report,
};

use winpool_model::{Model, NODE, POD, POOL, PROFILE, condition, node, pod, pool, profile, status, taints, web};

const CONTAINERD: &str = "containerd://2.3.7";
const LIST: &str = "kubectl get nodes -l winpool.dev/pool=web";
const BY_SELECTOR: &str = "kubectl get nodes -l kubernetes.io/os=windows,agentpool=web";

/// The cases by condition.
static CASES: LazyLock<BTreeMap<String, Vec<Row>>> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("conditions.yaml")).unwrap());

/// A pool `web` for Windows Server 2022 on Kubernetes 1.34 with one node, with changes.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Row {
    /// Status, reason, and a part of the message.
    is: Option<[String; 3]>,
    date: String,
    api_server: u32,
    #[serde(deserialize_with = "nodes")]
    nodes: Vec<Value>,
    pool: Value,
    /// The profile that the pool names.
    profile: Option<Value>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            is: None,
            date: "2026-06-01".to_owned(),
            api_server: 34,
            nodes: vec![web_node(20348, "v1.34.1", CONTAINERD)],
            pool: json!({}),
            profile: None,
        }
    }
}

/// The row without changes.
fn base() -> Row {
    Row::default()
}

fn nodes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    Ok(Vec::<String>::deserialize(deserializer)?.iter().map(|text| described(text)).collect())
}

/// A node by its build, kubelet and runtime, or by what is special about it.
fn described(text: &str) -> Value {
    match text.split(' ').collect::<Vec<_>>()[..] {
        ["no-status"] => without_status(),
        ["kernel", version] => with_kernel(version),
        ["configured", runtime] => configured(runtime),
        ["unconfigured", runtime] => unconfigured(runtime),
        ["unreserved", runtime] => with_allocatable(runtime, "16Gi", "100Gi"),
        ["reporting", ref handlers @ ..] => reporting(handlers),
        [build, kubelet, runtime] => web_node(build.parse().unwrap(), kubelet, runtime),
        _ => panic!("{text}"),
    }
}

impl Row {
    fn nodes(self, nodes: impl Into<Vec<Value>>) -> Self {
        Self { nodes: nodes.into(), ..self }
    }

    fn pool(self, spec: Value) -> Self {
        Self { pool: spec, ..self }
    }

    fn profile(self, spec: Value) -> Self {
        Self { profile: Some(spec), ..self }
    }

    fn model(&self) -> Model {
        let mut model = Model::new();
        model.now = format!("{}T12:00:00Z", self.date).parse().unwrap();
        model.api_server = Minor(self.api_server);
        for (index, node) in self.nodes.iter().enumerate() {
            model.put(NODE, &format!("win-{}", index + 1), node.clone());
        }
        let mut spec = self.pool.clone();
        if let Some(standard) = &self.profile {
            model.put(PROFILE, "standard", profile(standard.clone()));
            spec["profileRef"] = json!({"name": "standard"});
        }
        model.put(POOL, "web", web(spec));
        model.converge();
        model
    }

    fn check(&self, condition: &str) {
        let status = status(&self.model(), "web");
        let found = status.conditions.iter().find(|found| found.type_ == condition);
        let Some([expected, reason, part]) = &self.is else {
            assert_eq!(found, None, "{condition}");
            return;
        };
        let found = found.unwrap();
        assert_eq!((&found.status, &found.reason), (expected, reason), "{condition}: {}", found.message);
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
    node["status"] = web_node(20348, "v1.34.1", CONTAINERD)["status"].clone();
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

/// A node with these handlers, and the default one, which has no name.
fn reporting(handlers: &[&str]) -> Value {
    let mut node = web_node(20348, "v1.34.1", CONTAINERD);
    node["status"]["runtimeHandlers"] = [""].iter().chain(handlers).map(|name| json!({ "name": name })).collect();
    node
}

fn check(conditions: &[&str]) {
    for condition in conditions {
        CASES[*condition].iter().for_each(|row| row.check(condition));
    }
}

#[test]
fn a_windows_version_is_supported_by_microsoft_and_by_kubernetes() {
    check(&["OSSupported"]);
}

#[test]
fn a_container_runtime_supports_its_kubelet_its_host_and_the_classes() {
    check(&["RuntimeSupported"]);
}

#[test]
fn a_class_has_a_handler_of_windows_or_one_that_a_node_of_the_pool_reports() {
    check(&["RuntimeClassReady"]);
}

#[test]
fn kubelets_are_within_the_version_skew_policy() {
    check(&["VersionSkew"]);
}

#[test]
fn the_windows_version_of_nodes_matches_the_pool_and_the_pause_image() {
    check(&["OSMismatch"]);
}

#[test]
fn a_configuration_is_in_effect_if_the_reported_resources_match() {
    check(&["ConfigInEffect"]);
}

#[test]
fn a_profile_is_resolved_and_rendered_for_every_node() {
    check(&["ProfileResolved", "ConfigRendered"]);
}

#[test]
fn the_configuration_name_is_mentioned_if_every_node_has_one() {
    check(&["NodesTainted"]);

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
        let row = base().profile(json!({})).nodes(vec![node(CONTAINERD); count]);
        lines_of(&json!(status(&row.model(), "web")))
    };
    assert_eq!([lines(configured, 1), lines(configured, 5_000)], [66, 66]);
    // One more problem, of all nodes.
    assert_eq!([lines(unconfigured, 4), lines(unconfigured, 5_000)], [74, 74]);
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
        let mut node = open(CONTAINERD);
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
        (base().nodes([web_node(20348, "v1.30.2", CONTAINERD)]), "Kubelet/TooOld(1) +1", "1/1"),
        (base().nodes([web_node(26100, "v1.34.1", old)]), "Runtime/WouldStrand(1) +3", "1/1"),
        (base().pool(json!({"profileRef": {"name": "nowhere"}})), "Config/NotFound", "1/1"),
        (base().pool(json!({"mode": "Observe"})).nodes([open(old)]), "Runtime/TooOld(1) +1", "0/1"),
        (base().pool(json!({"paused": true})), "Spec/Invalid", ""),
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
    model.put(NODE, "win-1", web_node(20348, "v1.34.1", CONTAINERD));
    assert_eq!(plan(&model.snapshot(), "web").unwrap().selector_without_nodes(), None);
}

#[test]
fn a_node_is_counted_once_in_the_problem_of_its_pool() {
    let old = || web_node(17763, "v1.34.1", CONTAINERD);
    let row = Row { date: "2029-02-01".to_owned(), ..base() }.pool(json!({"windowsVersion": "ltsc2019"}));
    assert_eq!(status(&row.nodes([old(), old(), old()]).model(), "web").columns.problem, "Windows/EndOfLife(3) +1");
    let pause = json!({"pauseImage": {"source": "Upstream", "tag": "3.5"}});
    let new = |runtime| web_node(20348, "v1.34.1", runtime);
    let row = base().nodes([new(CONTAINERD), new("containerd://2.2.10")]).profile(pause);
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
