//! Text that nodes, agents, pods, registries and API servers write, in everything that is computed from it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::SignedDuration;
use serde_json::{Value, json};
use winpool_check::{
    add_ons::{self, AddOnFit},
    migrate::{MigrationPlanner, MigrationTarget},
    upgrade,
};
use winpool_core::image::{
    Compatibility, EvidenceSource, HostNode, ImageEvidence, ImagePlatform, ImagePlatforms, Lookup, RuntimeReport,
};
use winpool_facts::{Minor, version_compatibility::Isolation};
use winpool_rules::{
    operation::{Action, Denial, DeniedPart, Done, Outcome, Write},
    pool::{
        Snapshot,
        nodes::RevertedField,
        plan::{Plan, plan},
    },
    revert::RevertDetector,
    status::{pool::report, rollout},
};
use winpool_workload::{Container, Template, WorkloadName, Workloads};

use winpool_model::{
    CLASS, Model, NODE, NODE_CONFIG, POOL, PROFILE, node, profile, web,
    workloads::{container, one_pool, read_pod, tolerated, waiting},
};

/// How each text begins when it is printed.
const PRINTED: &str = "\\u{1b}[31mred\\u{202e} line";
/// The longest text from outside.
const MAX: usize = 1024;

fn hostile() -> String {
    format!("\u{1b}[31mred\u{202e}\nline{}", "x".repeat(10_000))
}

/// A pool `web` with one node.
fn model() -> Model {
    let mut model = Model::new();
    model.put(PROFILE, "standard", profile(json!({})));
    model.put(NODE, "win-1", node(20348, "containerd://2.2.10", &json!({"agentpool": "web"}), &json!([])));
    let fields =
        json!({"labels": {"team": "web"}, "profileRef": {"name": "standard"}, "delivery": {"method": "Agent"}});
    model.put(POOL, "web", web(fields));
    model.now += SignedDuration::from_hours(1);
    model
}

fn reconcile(model: &mut Model) {
    model.reconcile_until("web", usize::MAX, |_| {});
    model.now += SignedDuration::from_secs(2);
}

/// What the operator writes and prints after a reconcile in which these writes have another outcome.
fn reconciled(snapshot: &Snapshot, outcome: impl Fn(&Write) -> Option<Outcome>) -> Vec<String> {
    let plan = plan(snapshot, "web").unwrap();
    let result = |write: &Write| (write.clone(), outcome(write).unwrap_or(Outcome::Done));
    let done = Done { results: plan.steps.iter().flatten().map(result).collect(), complete: true };
    texts(snapshot, &plan.with_outcomes(&done), &done)
}

fn texts(snapshot: &Snapshot, plan: &Plan, done: &Done) -> Vec<String> {
    let report = report(snapshot, plan, done);
    let status = serde_json::to_value(&report.status).unwrap();
    let events =
        report.events.into_iter().chain(rollout::failed(snapshot, plan).into_iter().map(|failed| failed.event));
    let events = events.flat_map(|event| [event.reason, event.message]);
    let obstacles = plan.members().iter().flat_map(|member| &member.plan.obstacles).map(ToString::to_string);
    strings(&status).into_iter().chain(events).chain(obstacles).chain(done.failures()).collect()
}

/// All strings of a value.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => {
            fields.iter().flat_map(|(key, value)| [vec![key.clone()], strings(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}

fn of_node_info(field: &str) -> Vec<String> {
    let mut model = model();
    model.edit(NODE, "win-1", |node| {
        node["status"]["nodeInfo"][field] = json!(hostile());
        if field == "kernelVersion" {
            node["metadata"]["labels"].as_object_mut().unwrap().remove("node.kubernetes.io/windows-build");
        }
    });
    let snapshot = model.snapshot();
    let nodes: Vec<_> = snapshot.nodes.values().map(AsRef::as_ref).collect();
    let issues = upgrade::issues(&snapshot, snapshot.pools.get("web").map(AsRef::as_ref), &nodes, Minor(35));
    let issues = issues.into_iter().map(|affected| affected.message);
    reconciled(&snapshot, |_| None).into_iter().chain(issues).collect()
}

fn of_agent(field: &str, phase: &str) -> Vec<String> {
    let mut model = model();
    while model.get(NODE_CONFIG, "win-1").is_none() {
        reconcile(&mut model);
    }
    model.edit(NODE_CONFIG, "win-1", |config| {
        let spec = config["spec"].clone();
        config["status"] = json!({
            "phase": phase, "reason": "Reason", "message": "", "observedDigest": spec["digest"],
            "observedAttempt": spec["attempt"],
        });
        config["status"][field] = match field {
            "facts" => json!({
                "directories": [{"path": hostile(), "readers": [hostile()], "encrypted": false}],
                "services": [{"name": hostile(), "start": "Manual", "restarts": false}],
            }),
            _ => json!(hostile()),
        };
    });
    reconciled(&model.snapshot(), |_| None)
}

fn of_denial() -> Vec<String> {
    let mut model = model();
    let denial = Denial { message: hostile().into(), part: DeniedPart::Taints };
    model.denials = [("win-1".to_owned(), denial)].into();
    reconciled(&model.snapshot(), |_| None)
}

/// What is printed if these writes fail, in a reconcile of the rollout.
fn of_failed_write(is_failed: impl Fn(&Write) -> bool) -> Vec<String> {
    let mut model = model();
    let mut texts = Vec::new();
    while model.get(NODE_CONFIG, "win-1").is_none() {
        let refused = |write: &Write| is_failed(write).then(|| Outcome::Refused(hostile().into()));
        texts.extend(reconciled(&model.snapshot(), refused));
        reconcile(&mut model);
    }
    texts
}

fn of_field_manager_of_class() -> Vec<String> {
    let mut model = model();
    let mut reverts = RevertDetector::default();
    for _ in 0..8 {
        let snapshot = Snapshot { reverts: Arc::new(reverts.clone()), ..model.snapshot() };
        for write in plan(&snapshot, "web").unwrap().steps.iter().flatten() {
            reverts.note(&write.identity(), &write.field_writes(), model.now);
        }
        model.reconcile_until("web", usize::MAX, |_| {});
        model.now += SignedDuration::from_secs(30);
        model.edit(CLASS, "windows-ltsc2022", |class| {
            class["scheduling"]["tolerations"] = json!([]);
            class["metadata"]["managedFields"] = json!([{"manager": hostile(), "time": "2026-06-01T12:00:00Z"}]);
        });
    }
    reconciled(&Snapshot { reverts: Arc::new(reverts), ..model.snapshot() }, |_| None)
}

fn of_field_manager_of_node(field: &str) -> Vec<String> {
    let mut model = model();
    let fields = match field {
        "taints" => json!({"f:spec": {"f:taints": {}}}),
        _ => json!({"f:metadata": {"f:labels": {}}}),
    };
    model.edit(NODE, "win-1", |node| {
        node["metadata"]["managedFields"] = json!([{"manager": hostile(), "fieldsV1": fields}])
    });
    let node = model.snapshot().nodes.get("win-1").unwrap().clone();
    let writer = if field == "taints" { node.taints_writer.clone() } else { node.labels_writer.clone() };
    vec![RevertedField { field: "label team".to_owned(), writer, paused_until: None }.to_string()]
}

/// What the operator reports of a pod whose image and container have these texts.
fn of_pod(status: Value, report: Option<RuntimeReport>) -> Vec<String> {
    let mut cluster = one_pool(json!({}));
    let fields = json!({
        "containers": [container("example.com/app:1")], "nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated(),
    });
    cluster.pod_on("app", "web-1", fields, status);
    cluster.sandboxes.extend(report.map(|report| (("shop/app".to_owned(), "event".to_owned()), report)));
    let workloads = Workloads::Known([("web".to_owned(), Arc::new(cluster.summary("web")))].into());
    let snapshot = Snapshot { workloads, ..cluster.model.snapshot() };
    cluster.messages().into_iter().chain(reconciled(&snapshot, |_| None)).collect()
}

/// A plan to migrate a pod with this image.
fn of_image(image: &str, lookup: Option<Lookup>) -> Vec<String> {
    let mut cluster = one_pool(json!({}));
    let fields = json!({"containers": [container(image)], "nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()});
    cluster.pod_on("app", "web-1", fields, json!({}));
    let snapshot = cluster.model.snapshot();
    let pods = cluster.pods.values().map(read_pod).collect();
    let planner = MigrationPlanner { snapshot: &snapshot, pods, controllers: Vec::new() };
    let lookups: HashMap<String, Arc<Lookup>> =
        lookup.map(|lookup| (image.to_owned(), Arc::new(lookup))).into_iter().collect();
    let target = MigrationTarget::Version { name: "ltsc2025".to_owned(), build: "10.0.26100".parse().unwrap() };
    let migration = planner.plan("web", &target, &lookups).unwrap();
    migration.workloads.into_iter().map(|workload| workload.message).collect()
}

/// What is said of the image of a DaemonSet.
fn of_add_on(image: &str) -> Vec<String> {
    let name = WorkloadName { kind: "DaemonSet".to_owned(), namespace: "shop".to_owned(), name: "agent".to_owned() };
    let containers = vec![Container { image: image.into(), ..Container::default() }];
    let template = Template { containers, ..Template::default() };
    let hosts = BTreeSet::from(["10.0.20348".parse().unwrap()]);
    add_ons::of([(&name, &template)].into_iter(), &hosts, None).iter().map(AddOnFit::message).collect()
}

fn of_registry_platform() -> Vec<String> {
    let platform = ImagePlatform { os: hostile(), architecture: "amd64".to_owned(), os_version: None };
    let text = platform.to_string();
    let lookup = Lookup::Found(ImagePlatforms { platforms: vec![platform] });
    let host = HostNode { os: "10.0.20348".parse().unwrap(), architecture: "amd64".to_owned(), containerd: None };
    let reference = "example.com/app:1".parse().unwrap();
    let evidence = ImageEvidence { report: None, lookup: Some(&lookup), reference: &reference };
    let found = evidence.compatibility(&host, Isolation::Process, false);
    let Compatibility::Incompatible(EvidenceSource::Registry, incompatibility) = found else { panic!("{found:?}") };
    vec![text, incompatibility.to_string()]
}

#[test]
fn no_text_from_outside_is_printed_as_it_was_written() {
    // The operator quotes only the end of a long error.
    let mismatch = "no match for platform in manifest \u{1b}[31mred\u{202e}\nline";
    let long = waiting(&format!("{mismatch}{}", hostile()));
    let is_of = |action: Action| move |write: &Write| write.action == action;
    let fields = [
        ("Node: kernelVersion", of_node_info("kernelVersion")),
        ("Node: kubeletVersion", of_node_info("kubeletVersion")),
        ("Node: containerRuntimeVersion", of_node_info("containerRuntimeVersion")),
        ("Node: manager of taints", of_field_manager_of_node("taints")),
        ("Node: manager of labels", of_field_manager_of_node("labels")),
        ("RuntimeClass: manager", of_field_manager_of_class()),
        ("WindowsNodeConfig: reason of a rollback", of_agent("reason", "RolledBack")),
        ("WindowsNodeConfig: reason of a refusal", of_agent("reason", "Refused")),
        ("WindowsNodeConfig: message", of_agent("message", "RolledBack")),
        ("WindowsNodeConfig: facts", of_agent("facts", "Applied")),
        ("API server: denial", of_denial()),
        ("API server: error of a node", of_failed_write(|write| write.node_edit().is_some())),
        ("API server: error of a RuntimeClass", of_failed_write(is_of(Action::ApplyRuntimeClass))),
        ("API server: error of a ConfigMap", of_failed_write(is_of(Action::CreateConfigMap))),
        ("API server: error of a WindowsNodeConfig", of_failed_write(is_of(Action::ApplyNodeConfig))),
        ("Pod: message of a container", of_pod(waiting(mismatch), None)),
        ("Event: message of a sandbox", of_pod(json!({}), Some(RuntimeReport::incompatible(mismatch)))),
        ("Pod: image", of_image(&hostile(), None)),
        ("DaemonSet: image", of_add_on(&hostile())),
        ("registry: error", of_image("example.com/app:1", Some(Lookup::Failed(hostile().into())))),
        ("registry: platform", of_registry_platform()),
    ];
    for (field, texts) in &fields {
        texts.iter().for_each(|text| assert_printable(field, text));
        assert!(texts.iter().any(|text| text.contains(PRINTED)), "{field} is not printed");
    }
    of_pod(long, None).iter().for_each(|text| assert_printable("Pod: long message of a container", text));
}

fn assert_printable(field: &str, text: &str) {
    let is_interpreted = |char: char| char.is_control() || ('\u{202a}'..='\u{202e}').contains(&char);
    assert!(!text.contains(is_interpreted), "{field}: {text:?}");
    assert!(!text.contains(&"x".repeat(MAX)), "{field} is not bounded");
}
