//! The Kubernetes versions of Cluster API's machines in the manifests.

use std::collections::BTreeMap;

use serde_json::Value;
use winpool_core::text::some_of;
use winpool_facts::{
    KubeletVersion, Minor,
    cluster_api::is_synced_to_nodes,
    known_issues::{ComponentVersion, KNOWN_ISSUES, KnownIssue, NodeComponent, Precondition},
    skew::{Skew, skew},
};
use winpool_rules::{
    known_issues::{Version, affected, heading, is_reported, remedy},
    pool::{
        Consents, Members, Pool, Snapshot,
        cluster_api::{GroupKind, MachineGroup},
    },
};

use super::{Code, Finding, finding::title, linted_nodes::finding};

/// The field with the version of the machines.
const VERSION: &str = "spec.template.spec.version";

/// Kind, namespace and name of an object.
type Key = (String, String, String);

/// The MachineDeployments and MachinePools for Windows in the manifests.
#[derive(Debug, Default)]
pub struct LintedMachines {
    groups: BTreeMap<Key, Machines>,
    /// Machines whose version is not compared: the object, and why.
    unjudged: Vec<(String, String)>,
}

/// Machines that a pool in the manifests selects.
#[derive(Debug)]
struct Machines {
    version: KubeletVersion,
    /// The pool, and what it acknowledges.
    pool: String,
    consents: Consents,
    /// The object with the version of their control plane, and its minor.
    control_plane: Option<(String, Minor)>,
}

impl LintedMachines {
    /// The machines among the objects of Cluster API, with the pools of a snapshot. `api_server` is the minor of the API server, if
    /// it was given.
    pub fn new(snapshot: &Snapshot, objects: &[Value], api_server: Option<Minor>) -> Self {
        let mut own = Self::default();
        for object in objects {
            let Some(group) = read_group(object) else { continue };
            let pool = snapshot.pools.values().find(|pool| selects(pool, &group));
            if pool.is_none() && !is_for_windows(object, objects) {
                continue;
            }
            let title = title(object);
            let version = text(&object["spec"]["template"]["spec"]["version"]);
            match (version.parse::<KubeletVersion>(), pool) {
                (Err(_), _) => {
                    let why = if version.is_empty() {
                        format!("{title} has no version")
                    } else {
                        format!("{version:?} of {title} is no version")
                    };
                    own.unjudged.push((title, why));
                }
                (Ok(_), None) => {
                    let why = format!("no pool in the manifests selects {title}");
                    own.unjudged.push((title, why));
                }
                (Ok(version), Some(pool)) => {
                    let given = || Some(("--kubernetes".to_owned(), api_server?));
                    let control_plane = control_plane(&group, objects).or_else(given);
                    let (pool, consents) = (pool.name.clone(), pool.consents.clone());
                    own.groups.insert(key(object), Machines { version, pool, consents, control_plane });
                }
            }
        }
        own.unjudged.sort();
        own
    }

    /// The machines whose version is not compared, with the reason, by object.
    pub fn unjudged(&self) -> Vec<String> {
        self.unjudged.iter().map(|(_, why)| why.clone()).collect()
    }

    /// The findings of a MachineDeployment or MachinePool: its version, and what it depends on alone.
    pub fn findings(&self, object: &Value) -> Vec<Finding> {
        let Some(machines) = self.groups.get(&key(object)) else { return Vec::new() };
        let always = KNOWN_ISSUES.iter().filter(|issue| issue.precondition == Precondition::Always);
        let found = always.filter_map(|issue| Some((issue, machines.affected(issue)?)));
        let reported = found.filter(|(issue, version)| is_reported(issue, [version]));
        let known = reported.map(|(issue, version)| of_versions(VERSION, issue, &[version]));
        known.chain(machines.skewed()).collect()
    }

    /// The versions of the kubelets of these pools; empty if the manifests do not have them.
    fn of_pools<'m>(&'m self, pools: &'m [&str]) -> impl Iterator<Item = &'m Machines> {
        self.groups.values().filter(|machines| pools.contains(&machines.pool.as_str()))
    }

    /// Whether the manifests have the version of the kubelets of these pools.
    pub(super) fn are_known(&self, pools: &[&str]) -> bool {
        self.of_pools(pools).next().is_some()
    }

    /// The versions of the kubelets of these pools that have an issue.
    pub(super) fn affected(&self, pools: &[&str], issue: &KnownIssue) -> Vec<Version> {
        let mut versions: Vec<_> = self.of_pools(pools).filter_map(|machines| machines.affected(issue)).collect();
        versions.sort();
        versions.dedup();
        versions
    }
}

impl Machines {
    fn affected(&self, issue: &KnownIssue) -> Option<Version> {
        let applies = issue.component == NodeComponent::Kubelet && !self.consents.acknowledges(issue.entry.code);
        affected(issue, ComponentVersion::from(self.version)).filter(|_| applies)
    }

    fn skewed(&self) -> Option<Finding> {
        let (control_plane, minor) = self.control_plane.as_ref()?;
        let version = NodeComponent::Kubelet.version_text(self.version.into());
        let (problem, remedy) = match skew(self.version.minor, *minor) {
            Skew::Within => return None,
            Skew::KubeletNewer => (
                format!("kubelet {version} is newer than the API server"),
                "upgrade the control plane first".to_owned(),
            ),
            Skew::KubeletTooOld { oldest } => (
                format!("kubelet {version} is too old for the API server"),
                format!("upgrade the machines to {oldest} or later first"),
            ),
        };
        let problem = format!("{problem}: {control_plane} has {minor}");
        Some(Finding::new(Code::VersionSkew, VERSION, problem).with_remedy(remedy))
    }
}

/// An issue of versions in the manifests.
pub fn of_versions(path: impl Into<String>, issue: &KnownIssue, versions: &[Version]) -> Finding {
    let component = issue.component;
    let texts = some_of(versions.iter().map(|version| component.version_text(version.installed)));
    let problem = format!("{}. The manifests have {component} {texts}", heading(issue));
    finding(path, problem, remedy(issue, versions.iter().map(|version| version.fixed)))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn key(object: &Value) -> Key {
    let metadata = &object["metadata"];
    [&object["kind"], &metadata["namespace"], &metadata["name"]].map(|part| text(part).to_owned()).into()
}

/// A MachineDeployment or MachinePool.
fn read_group(object: &Value) -> Option<MachineGroup> {
    let kind = GroupKind::ALL.into_iter().find(|kind| object["kind"] == kind.kind().name)?;
    let mut object = object.clone();
    // It may be a placeholder, and is not used.
    object["spec"].as_object_mut()?.remove("replicas");
    Some(MachineGroup::from_object(kind, serde_json::from_value(object).ok()?))
}

/// Whether the machines become nodes of a pool: by the selector for them, or by labels that Cluster API copies to their nodes.
fn selects(pool: &Pool, group: &MachineGroup) -> bool {
    let Ok(spec) = &pool.spec else { return false };
    if let Some(rules) = &spec.cluster_api {
        let mut group = group.clone();
        if group.namespace.is_empty() {
            // It is that in which the manifest is applied.
            group.namespace.clone_from(&rules.namespace);
        }
        return rules.selects(&group);
    }
    let Members::Selector(selector) = &spec.members else { return false };
    let synced = group.machine_labels.iter().filter(|(label, _)| is_synced_to_nodes(label));
    let labels: BTreeMap<_, _> = synced.map(|(label, value)| (label.clone(), value.clone())).collect();
    // A selector that needs no label of the machines says nothing about them.
    selector.matches(&labels) && !selector.matches(&BTreeMap::new())
}

/// Whether the template of the machines at their provider is for Windows, by any text in it.
fn is_for_windows(object: &Value, objects: &[Value]) -> bool {
    let template = referenced(&object["spec"]["template"]["spec"]["infrastructureRef"], objects);
    template.is_some_and(|template| template["spec"].to_string().to_ascii_lowercase().contains("windows"))
}

/// The object of a reference by kind and name.
fn referenced<'o>(reference: &Value, objects: impl IntoIterator<Item = &'o Value>) -> Option<&'o Value> {
    let mut objects = objects.into_iter().filter(|_| reference.is_object());
    objects.find(|one| one["kind"] == reference["kind"] && one["metadata"]["name"] == reference["name"])
}

/// The object with the version of the control plane of a group, and its minor.
fn control_plane(group: &MachineGroup, objects: &[Value]) -> Option<(String, Minor)> {
    let is_of_namespace = |object: &&Value| text(&object["metadata"]["namespace"]) == group.namespace;
    let of_namespace = || objects.iter().filter(is_of_namespace);
    let cluster = of_namespace().find(|one| one["kind"] == "Cluster" && one["metadata"]["name"] == *group.cluster)?;
    let object = referenced(&cluster["spec"]["controlPlaneRef"], of_namespace())?;
    Some((title(object), text(&object["spec"]["version"]).parse::<KubeletVersion>().ok()?.minor))
}
