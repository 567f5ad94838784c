//! Parses and validates the specs of pools and profiles, and reports all problems at once.
//!
//! An API server with CEL already rejects most of them. The checks are for other API servers and for files. The schema
//! is not checked again: every API server validates it, and `manifests` does so for files.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde_json::Value;
use winpool_api::{
    Delivery, DeliveryMethod, DriftPolicy, LabelSelector, QuantityText, RuntimeClassIsolation, RuntimeClassSpec,
    SelectorOperator, SelectorRequirement, Taint, TaintKey, Toleration, TolerationOperator, WindowsNodePoolSpec,
    WindowsRuntimeProfileSpec, names::label, pattern::UP_TO_A_DAY,
};
use winpool_core::{
    Problem, decode,
    kubernetes::{duration, quantity::Quantity, syntax},
    text::did_you_mean,
};
use winpool_facts::{Build, builds, containerd, taints};
use winpool_render::profile::{self, Profile};

use super::{
    Members, RuntimeClass, Spec,
    cluster_api::ClusterApiRules,
    maintenance::MaintenanceWindows,
    rollout::RolloutRules,
    selector::{check_key, check_label_value, check_selector},
};

/// The maximum length of a pool's name, because it becomes a label value.
const LONGEST_NAME: usize = 63;

/// The labels that a pool must not set, in addition to those of winpool.
const RESERVED_LABELS: [&str; 4] = [label::OS, label::ARCH, label::HOSTNAME, label::WINDOWS_BUILD];

/// The labels of a node that the kubelet or the cloud-controller-manager sets from what a cloud provider says. Source:
/// kubernetes/website, `docs/reference/labels-annotations-taints/_index.md` (at 00a7fc2e, of 2023).
const LABELS_OF_MACHINES: [&str; 6] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];

/// Parses the spec of the pool with this name.
pub fn spec(name: &str, spec: Value) -> Result<Spec, Vec<Problem>> {
    let mut written: WindowsNodePoolSpec = decode("spec", spec).map_err(|problem| vec![problem])?;
    let mut refused: Vec<_> = written.node_selector.iter().flat_map(other_systems).collect();
    refused.extend(labels_of_machines(&mut written.labels));
    let mut problems = Vec::new();
    if name.len() > LONGEST_NAME {
        problems.push(Problem::new(
            "metadata.name",
            format!("{name:?} is longer than {LONGEST_NAME} characters, and it becomes a label value on nodes"),
            "choose a shorter name",
        ));
    }
    let build = windows_build(&written.windows_version, &mut problems);
    let members = members(written.node_selector, written.fallback, &mut problems);
    check_taints("spec.taints", &written.taints, &mut problems);
    replaced_taints(&written.replaces_taints, &written.taints, &mut problems);
    labels(&written.labels, &mut problems);
    let runtime_classes =
        written.runtime_classes.unwrap_or_else(|| vec![default_class(build, &written.windows_version)]);
    let runtime_classes = classes(runtime_classes, &mut problems);
    let profile = written.profile_ref.as_ref().map(|profile| &profile.name);
    if let Some(name) = profile.filter(|name| !syntax::is_dns_subdomain(name)) {
        problems.push(Problem::new(
            "spec.profileRef.name",
            format!("{name:?} is not the name of an object"),
            "write the name of a WindowsRuntimeProfile, or remove spec.profileRef",
        ));
    }
    let delivery = written.delivery.unwrap_or_default();
    let rollout = rollout(&delivery, &mut problems);
    let cluster_api = ClusterApiRules::parse(&delivery, profile.is_some(), &mut problems);
    let maintenance = MaintenanceWindows::parse(&delivery, &mut problems);
    if written.paused == Some(true) {
        let wrong = "it was replaced by spec.mode, so nothing is written for this pool";
        problems.push(Problem::new("spec.paused", wrong, "write mode: Observe, and remove paused"));
    }
    match (build, members) {
        (Some(build), Some(members)) if problems.is_empty() => Ok(Spec {
            windows_version: written.windows_version,
            build,
            members,
            profile: written.profile_ref.map(|profile| profile.name),
            taints: written.taints,
            replaces_taints: written.replaces_taints,
            min_revision: written.min_revision,
            labels: written.labels,
            refused,
            runtime_classes,
            rollout,
            cluster_api,
            maintenance,
            mode: written.mode,
            deletion_policy: written.deletion_policy,
        }),
        _ => Err(problems),
    }
}

pub fn profile(spec: Value) -> Result<Profile, Vec<Problem>> {
    let written: WindowsRuntimeProfileSpec = decode("spec", spec).map_err(|problem| vec![problem])?;
    profile::check(&written)
}

/// Parses a stored status, without fields that do not match the current schema.
pub fn status<T: DeserializeOwned + Default>(stored: Option<&Value>) -> T {
    let Some(Value::Object(fields)) = stored else { return T::default() };
    serde_json::from_value(Value::Object(fields.clone())).unwrap_or_else(|_| {
        let readable = fields.iter().filter(|(key, value)| {
            let alone = serde_json::Map::from_iter([((*key).clone(), (*value).clone())]);
            serde_json::from_value::<T>(Value::Object(alone)).is_ok()
        });
        let readable = readable.map(|(key, value)| (key.clone(), value.clone())).collect();
        serde_json::from_value(Value::Object(readable)).unwrap_or_default()
    })
}

fn windows_build(version: &str, problems: &mut Vec<Problem>) -> Option<Build> {
    // A build that is not in the tables may be a future one; otherwise it is a mistake.
    let known = |build: &Build| builds::release(*build).is_some() || builds::FUTURE.contains(&build.0);
    let build = version.parse().ok().filter(|build: &Build| known(build) && build.to_string() == version);
    let build = build.or_else(|| builds::named(version));
    if build.is_none() {
        let names: Vec<_> = builds::names().collect();
        let similar = did_you_mean(version, builds::names());
        problems.push(Problem::new(
            "spec.windowsVersion",
            format!("unknown Windows version {version:?}"),
            format!("{similar}write one of {}, or a build such as \"10.0.20348\"", names.join(", ")),
        ));
    }
    build
}

fn members(selector: Option<LabelSelector>, fallback: bool, problems: &mut Vec<Problem>) -> Option<Members> {
    match (selector, fallback) {
        (Some(selector), false) => {
            let before = problems.len();
            check_selector("spec.nodeSelector", &selector, problems);
            (problems.len() == before).then_some(Members::Selector(selector))
        }
        (None, true) => Some(Members::Fallback),
        (selector, _) => {
            let wrong =
                if selector.is_some() { "both nodeSelector and fallback are set" } else { "no nodes are selected" };
            problems.push(Problem::new(
                "spec.nodeSelector",
                wrong,
                "write either spec.nodeSelector, or spec.fallback: true for the nodes that no other pool matches",
            ));
            None
        }
    }
}

fn check_taints(field: &str, taints: &[Taint], problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = format!("{field}[{index}]");
        check_taint(&path, taint, problems);
        let key = TaintKey::from(taint);
        if seen.contains(&key) {
            problems.push(Problem::new(&path, format!("a node can have one taint {key}"), "remove the duplicate"));
        }
        seen.insert(key);
    }
}

/// Checks the key of a taint, which no other component may manage.
fn check_taint(path: &str, taint: &Taint, problems: &mut Vec<Problem>) {
    check_key(&format!("{path}.key"), &taint.key, problems);
    if let Some(manager) = taints::manager(&taint.key) {
        problems.push(Problem::new(
            format!("{path}.key"),
            format!("taints with the key {} are added and removed by {manager}", taint.key),
            "use a key of your own, such as os",
        ));
    }
}

fn replaced_taints(replaced: &[Taint], own: &[Taint], problems: &mut Vec<Problem>) {
    for (index, taint) in replaced.iter().enumerate() {
        let path = format!("spec.replacesTaints[{index}]");
        check_taint(&path, taint, problems);
        if replaced[..index].contains(taint) {
            problems.push(Problem::new(&path, format!("{taint} is a duplicate"), "remove it"));
        }
        if own.contains(taint) {
            problems.push(Problem::new(
                &path,
                format!("{taint} is also in spec.taints, so it would be removed from the nodes"),
                "remove it from one of the two",
            ));
        }
    }
    if own.is_empty() && !replaced.is_empty() {
        problems.push(Problem::new(
            "spec.replacesTaints",
            "spec.taints is empty, so the nodes would have no taint, and Linux pods could be scheduled to them",
            "write the new taint in spec.taints, or remove spec.replacesTaints",
        ));
    }
}

fn labels(labels: &BTreeMap<String, String>, problems: &mut Vec<Problem>) {
    for key in labels.keys() {
        let path = format!("spec.labels[{key}]");
        check_key(&path, key, problems);
        if key.starts_with("winpool.dev/") || key.starts_with(label::RUNS) || RESERVED_LABELS.contains(&key.as_str()) {
            problems.push(Problem::new(&path, format!("{key} is set by winpool or the kubelet"), "remove it"));
        }
    }
}

/// Removes the labels that a cloud provider sets from the machine of each node.
fn labels_of_machines(labels: &mut BTreeMap<String, String>) -> Vec<Problem> {
    let removed: Vec<_> = LABELS_OF_MACHINES.iter().filter(|key| labels.remove(**key).is_some()).collect();
    let problem = |key: &&str| {
        let wrong =
            format!("{key} says where and on which machine a node runs, and a cloud provider sets it on its nodes");
        Problem::new(format!("spec.labels[{key}]"), wrong, "remove it: this label is not written, all others are")
    };
    removed.into_iter().map(problem).collect()
}

/// The entries of a selector with which it selects no Windows node.
fn other_systems(selector: &LabelSelector) -> Vec<Problem> {
    let problem = |path: String| {
        let wrong = format!("{} is windows on every node of a pool, so the pool has no nodes", label::OS);
        Problem::new(path, wrong, "write windows, or remove it")
    };
    let is_windows = |value: &String| value == "windows";
    let labels = selector.match_labels.iter().filter(|(key, value)| *key == label::OS && !is_windows(value));
    let labels = labels.map(|(key, _)| problem(format!("spec.nodeSelector.matchLabels[{key}]")));
    let excludes = |requirement: &SelectorRequirement| match requirement.operator {
        SelectorOperator::In => !requirement.values.iter().any(is_windows),
        SelectorOperator::NotIn => requirement.values.iter().any(is_windows),
        SelectorOperator::Exists => false,
        SelectorOperator::DoesNotExist => true,
    };
    let expressions = selector.match_expressions.iter().enumerate();
    let expressions = expressions.filter(|(_, requirement)| requirement.key == label::OS && excludes(requirement));
    labels
        .chain(expressions.map(|(index, _)| problem(format!("spec.nodeSelector.matchExpressions[{index}]"))))
        .collect()
}

/// The rules of the rollout; `None` without agents.
fn rollout(delivery: &Delivery, problems: &mut Vec<Problem>) -> Option<RolloutRules> {
    let settings = &delivery.rollout;
    if delivery.drift == Some(DriftPolicy::Reapply) && delivery.method != DeliveryMethod::Agent {
        let remedy = "write method: Agent, or remove drift";
        problems.push(Problem::new("spec.delivery.drift", "Reapply needs agents", remedy));
    }
    let timeout = up_to_a_day("spec.delivery.rollout.timeout", &settings.timeout, problems)?;
    (delivery.method == DeliveryMethod::Agent).then(|| RolloutRules {
        max_unavailable: settings.max_unavailable,
        max_failures: usize::try_from(settings.max_failures).unwrap_or(usize::MAX),
        timeout,
        drain: settings.drain,
        attempt: settings.attempt,
        paused: settings.paused,
        drift: delivery.drift.unwrap_or_default(),
    })
}

/// A duration from one minute to one day.
pub(super) fn up_to_a_day(path: &str, text: &str, problems: &mut Vec<Problem>) -> Option<SignedDuration> {
    let parsed = duration::parse(text).map(SignedDuration::from_nanos);
    let limits = SignedDuration::from_mins(1)..=SignedDuration::from_hours(24);
    let duration = parsed.filter(|duration| limits.contains(duration));
    if duration.is_none() {
        let wrong = format!("{text:?} is not {}", UP_TO_A_DAY.description);
        problems.push(Problem::new(path, wrong, UP_TO_A_DAY.remedy));
    }
    duration
}

/// The RuntimeClass of a pool that names none. All names of a release result in the same class: 1809 in
/// windows-ltsc2019.
fn default_class(build: Option<Build>, windows_version: &str) -> RuntimeClassSpec {
    let release = build.and_then(builds::release).map_or(windows_version, |release| release.names[0]);
    RuntimeClassSpec {
        name: format!("windows-{}", release.to_lowercase()),
        isolation: RuntimeClassIsolation::Process,
        handler: String::new(),
        scope: winpool_api::RuntimeClassScope::Build,
        tolerations: Vec::new(),
        overhead: BTreeMap::new(),
        adopt: false,
    }
}

fn classes(classes: Vec<RuntimeClassSpec>, problems: &mut Vec<Problem>) -> Vec<RuntimeClass> {
    let mut names = BTreeSet::new();
    let mut parsed = Vec::new();
    for (index, class) in classes.into_iter().enumerate() {
        let path = format!("spec.runtimeClasses[{index}]");
        if !names.insert(class.name.clone()) {
            problems.push(Problem::new(
                format!("{path}.name"),
                format!("{:?} is a duplicate", class.name),
                "rename it",
            ));
        }
        for (number, toleration) in class.tolerations.iter().enumerate() {
            check_toleration(&format!("{path}.tolerations[{number}]"), toleration, problems);
        }
        let overhead = overhead(&path, &class, problems);
        parsed.push(RuntimeClass {
            handler: handler(&class),
            name: class.name,
            isolation: class.isolation,
            scope: class.scope,
            tolerations: class.tolerations,
            overhead,
            adopt: class.adopt,
        });
    }
    parsed
}

fn handler(class: &RuntimeClassSpec) -> String {
    match (class.handler.as_str(), class.isolation) {
        ("", RuntimeClassIsolation::Process) => containerd::PROCESS_HANDLER.to_owned(),
        ("", RuntimeClassIsolation::HyperV) => containerd::HYPERV_HANDLER.to_owned(),
        (written, _) => written.to_owned(),
    }
}

fn check_toleration(path: &str, toleration: &Toleration, problems: &mut Vec<Problem>) {
    let exists = toleration.operator == TolerationOperator::Exists;
    if !toleration.key.is_empty() {
        check_key(&format!("{path}.key"), &toleration.key, problems);
    } else if !exists {
        problems.push(Problem::new(
            path,
            "a toleration with operator Equal needs a key",
            "write a key, or operator: Exists to tolerate all taints",
        ));
    }
    if exists && !toleration.value.is_empty() {
        problems.push(Problem::new(
            format!("{path}.value"),
            "operator Exists takes no value",
            "remove the value, or write operator: Equal",
        ));
    }
    check_label_value(&format!("{path}.value"), &toleration.value, problems);
}

fn overhead(path: &str, class: &RuntimeClassSpec, problems: &mut Vec<Problem>) -> BTreeMap<String, Quantity> {
    let written = match class.isolation {
        RuntimeClassIsolation::HyperV if class.overhead.is_empty() => hyperv_overhead(),
        _ => class.overhead.clone(),
    };
    let mut parsed = BTreeMap::new();
    for (resource, text) in written {
        if !syntax::is_resource(&resource) {
            problems.push(Problem::new(
                format!("{path}.overhead.{resource}"),
                format!("{resource:?} is not a resource"),
                "write cpu, memory, ephemeral-storage, or a name with a DNS prefix: example.com/device",
            ));
            continue;
        }
        match text.0.parse::<Quantity>() {
            Ok(quantity) if quantity.milli() >= 0 => drop(parsed.insert(resource, quantity)),
            _ => problems.push(Problem::new(
                format!("{path}.overhead.{resource}"),
                format!("{:?} is not a quantity", text.0),
                "write a quantity such as 100m or 512Mi",
            )),
        }
    }
    parsed
}

/// The overhead of a pod with Hyper-V isolation.
///
/// Source: kubernetes-sigs/windows-testing `helpers/helm/values-hyperv.yaml` (2026-07-29).
pub fn hyperv_overhead() -> BTreeMap<String, QuantityText> {
    BTreeMap::from([("cpu".to_owned(), "100m".into()), ("memory".to_owned(), "512Mi".into())])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(key: &str, value: Value) -> Value {
        let mut spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}});
        spec[key] = value;
        spec
    }

    #[test]
    fn a_pool_with_a_version_and_a_selector_has_defaults() {
        let parsed = spec("web", with("windowsVersion", json!("20H2"))).unwrap();
        assert_eq!(parsed.build, Build(19042));
        assert_eq!(
            parsed.taints.iter().map(|taint| TaintKey::from(taint).to_string()).collect::<Vec<_>>(),
            ["os:NoSchedule"]
        );
        assert_eq!(parsed.runtime_classes[0].name, "windows-20h2");
        assert_eq!(parsed.runtime_classes[0].handler, "runhcs-wcow-process");
        assert!(parsed.runtime_classes[0].overhead.is_empty());
    }

    #[test]
    fn hyperv_classes_have_their_handler_and_overhead() {
        let parsed = spec("web", with("runtimeClasses", json!([{"name": "hv", "isolation": "HyperV"}]))).unwrap();
        assert_eq!(parsed.runtime_classes[0].handler, "runhcs-wcow-hypervisor");
        assert_eq!(parsed.runtime_classes[0].overhead["memory"], "512Mi".parse().unwrap());
    }

    #[test]
    fn an_entry_of_another_component_is_refused_alone() {
        let labels = json!({"topology.kubernetes.io/zone": "a", "team": "web"});
        let parsed = spec("web", with("labels", labels)).unwrap();
        let refused: Vec<_> = parsed.refused.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(refused, ["spec.labels[topology.kubernetes.io/zone]"]);
        assert_eq!(parsed.labels.keys().collect::<Vec<_>>(), ["team"]);
        let select = |operator: &str, values: Value| {
            let expression = json!({"key": "kubernetes.io/os", "operator": operator, "values": values});
            let parsed = spec("web", with("nodeSelector", json!({"matchExpressions": [expression]}))).unwrap();
            parsed.refused.len()
        };
        let table = [
            ("In", json!(["windows", "linux"]), 0),
            ("In", json!(["linux"]), 1),
            ("NotIn", json!(["windows"]), 1),
            ("NotIn", json!(["linux"]), 0),
            ("Exists", json!([]), 0),
            ("DoesNotExist", json!([]), 1),
        ];
        for (operator, values, expected) in table {
            assert_eq!(select(operator, values.clone()), expected, "{operator} {values}");
        }
        let linux = spec("web", with("nodeSelector", json!({"matchLabels": {"kubernetes.io/os": "linux"}}))).unwrap();
        assert_eq!(linux.refused[0].path, "spec.nodeSelector.matchLabels[kubernetes.io/os]");
    }

    #[test]
    fn a_status_of_another_schema_keeps_the_fields_that_can_be_parsed() {
        let stored = json!({"applied": {"taints": ["os:NoSchedule"]}, "nodes": "many", "observedGeneration": 3});
        let status: winpool_api::WindowsNodePoolStatus = status(Some(&stored));
        assert_eq!(status.applied.taints, ["os:NoSchedule"]);
        assert_eq!(status.observed_generation, Some(3));
    }
}
