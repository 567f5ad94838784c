//! Symptoms of nodes and pools.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::core::DynamicObject;
use winpool_api::{conditions::READY, names::label};
use winpool_core::{Objects, kind::Kind, node::WindowsNode, text::some_of};
use winpool_facts::node_lifecycle::{DRAIN_IN_PROGRESS, lifecycle};
use winpool_rules::{
    known_issues::{self, FoundIssue},
    network,
    pool::Pool,
    status::overview::{MachineObject, machine_problems},
};
use winpool_workload::PoolWorkloads;

use crate::doctor::{
    case::{Case, Checked, Observation, Undetermined, conditions, contains_one, name, unless_unknown},
    evidence::DiagnosisSubject,
};

/// A kubelet that runs renews its Lease every 10 seconds, and a node without a renewal is Unknown after 40.
const LEASE: SignedDuration = SignedDuration::from_secs(40);
/// How long a machine may need to join.
const JOIN: SignedDuration = SignedDuration::from_mins(20);
/// What the message of a node that is not ready contains if the container runtime is slow.
pub const PLEG: &[&str] = &["pleg is not healthy"];
/// The same, if its network plugin is not initialized.
pub const NO_CNI: &[&str] = &["cni plugin not initialized", "cni config uninitialized", "networkpluginnotready"];
/// The conditions that a kubelet or the node controller writes.
const KNOWN_CONDITIONS: &[&str] = &["Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"];

/// The annotations with the address to which other nodes send the packets for pods, with the length of its network in that of Calico.
const CNI_ADDRESSES: [&str; 2] = ["flannel.alpha.coreos.com/public-ip", "projectcalico.org/IPv4Address"];
/// The annotations that set this address.
const SET_ADDRESSES: [&str; 2] =
    ["flannel.alpha.coreos.com/public-ip-overwrite", "flannel.alpha.coreos.com/node-public-ip"];

/// Nodes whose CNI uses the address of another node. An address that no node has may be that of another network of the machine.
pub fn cni_address(case: &Case<'_>) -> Checked {
    let nodes = case.evidence.nodes()?;
    let (mut observed, mut unknown) = (Vec::new(), Vec::new());
    for node in nodes.iter().filter(|node| !SET_ADDRESSES.iter().any(|set| annotation(node, set).is_some())) {
        let used = CNI_ADDRESSES.iter().filter_map(|of| Some((of, annotation(node, of)?.split('/').next()?)));
        for (of, address) in used.filter(|(_, address)| !has_address(node, address)) {
            let own = name(&node.metadata);
            match nodes.iter().find(|other| has_address(other, address)) {
                Some(other) => {
                    let text = format!("{address} is the address of {}", name(&other.metadata));
                    observed.push(Observation::of_node(own, format!("annotation {of}"), text));
                }
                None => unknown.push(format!("the CNI of {own} uses {address}, which {own} does not report")),
            }
        }
    }
    unless_unknown(observed, unknown, |what| {
        Undetermined::NotShown(format!("{what}. If the address has changed, restart the CNI on the node"))
    })
}

fn annotation<'n>(node: &'n Node, of: &str) -> Option<&'n str> {
    node.metadata.annotations.as_ref()?.get(of).map(String::as_str)
}

fn has_address(node: &Node, address: &str) -> bool {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
    addresses.into_iter().flatten().any(|one| one.address == address)
}

/// Nodes that are not ready, by whether the kubelet renews its Lease.
fn not_ready(case: &Case<'_>, renewed: bool) -> Checked {
    let conditions = case.conditions()?.into_iter();
    let not_ready: Vec<_> = conditions.filter(|(_, of)| of.type_ == "Ready" && of.status != "True").collect();
    if not_ready.is_empty() {
        return Ok(Vec::new());
    }
    let leases = case.evidence.leases()?;
    let renewals: BTreeMap<&str, Timestamp> = leases
        .iter()
        .filter_map(|lease| {
            let MicroTime(at) = lease.spec.as_ref()?.renew_time.as_ref()?;
            Some((name(&lease.metadata), *at))
        })
        .collect();
    let observed = not_ready.into_iter().filter_map(|(node, condition)| {
        let at = renewals.get(name(&node.metadata));
        let is_renewed = at.is_some_and(|at| case.now().duration_since(*at) <= LEASE);
        let lease = at.map_or_else(|| "no Lease".to_owned(), |at| format!("Lease renewed at {at}"));
        let mut observed = Observation::of_condition(node, condition);
        observed.place = format!("{}, {lease}", observed.place);
        (is_renewed == renewed).then_some(observed)
    });
    Ok(observed.collect())
}

/// Nodes that are not ready although the kubelet runs, for a reason that no other row has.
pub fn renewed_lease(case: &Case<'_>) -> Checked {
    let has_other_row = |text: &str| contains_one(text, PLEG) || contains_one(text, NO_CNI);
    let observed = not_ready(case, true)?.into_iter().filter(|observed| !has_other_row(&observed.text));
    Ok(observed.collect())
}

/// Nodes whose kubelet does not reach the API server.
pub fn expired_lease(case: &Case<'_>) -> Checked {
    not_ready(case, false)
}

/// Conditions of nodes that neither the kubelet nor the node controller writes.
pub fn other_conditions(case: &Case<'_>) -> Checked {
    let others = case
        .conditions()?
        .into_iter()
        .filter(|(_, of)| !KNOWN_CONDITIONS.contains(&of.type_.as_str()) && lifecycle(&of.type_).is_none());
    let others: BTreeSet<_> =
        others.filter(|(_, of)| of.status != "False").map(|(_, of)| format!("{}={}", of.type_, of.status)).collect();
    match others.is_empty() {
        true => Ok(Vec::new()),
        false => Err(Undetermined::NotShown(format!(
            "another program writes these conditions, and only it defines which status is a problem: {}",
            some_of(others)
        ))),
    }
}

/// Nodes on which somebody works or plans to work, by the conditions of their lifecycle.
pub fn lifecycle_conditions(case: &Case<'_>) -> Checked {
    let present = case.conditions()?.into_iter().filter(|(_, of)| of.status == "True");
    let observed = present.filter_map(|(node, of)| {
        let row = lifecycle(&of.type_)?;
        let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
        let stale = if row.name == DRAIN_IN_PROGRESS && !is_cordoned {
            ", but it is not cordoned: the condition may be old"
        } else {
            ""
        };
        let mut observed = Observation::of_condition(node, of);
        let said = if observed.text.is_empty() { String::new() } else { format!(": {}", observed.text) };
        observed.text = format!("{}{stale}{said}", row.meaning);
        Some(observed)
    });
    Ok(observed.collect())
}

/// The problems of HNS that agents report by themselves.
pub fn network_problems(case: &Case<'_>) -> Checked {
    let configs = case.node_configs()?;
    let (mut observed, mut unknown) = (Vec::new(), Vec::new());
    for node in case.evidence.nodes()?.iter().map(|node| name(&node.metadata)) {
        let facts = configs.get(node).and_then(|config| config.status.facts.as_ref());
        match facts.and_then(|facts| facts.network.as_ref()) {
            None => unknown.push(node),
            Some(network) => {
                observed.extend(network::problems(network).into_iter().filter_map(|(reason, shown, remedy)| {
                    Some(Observation::of_node(
                        node,
                        format!("facts of the agent ({reason})"),
                        format!("{}. {remedy}", shown?),
                    ))
                }))
            }
        }
    }
    let unknown = unknown.into_iter().map(|node| format!("no agent reports the network of {node}")).collect();
    unless_unknown(observed, unknown, Undetermined::NotShown)
}

/// Machines without a node.
pub fn machines(case: &Case<'_>) -> Checked {
    let observed = case.evidence.machines()?.iter().filter_map(|machine| {
        let created: Timestamp = machine["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
        let is_late = case.now().duration_since(created) > JOIN && machine["metadata"]["deletionTimestamp"].is_null();
        let phase = machine["status"]["phase"].as_str().unwrap_or("unknown");
        let part = |field: &str| machine["metadata"][field].as_str().unwrap_or_default();
        (is_late && machine["status"]["nodeRef"]["name"].is_null()).then(|| Observation {
            object: format!("Machine {}/{}", part("namespace"), part("name")),
            place: format!("phase {phase}"),
            text: format!("has no node, and was created at {created}"),
        })
    });
    Ok(observed.collect())
}

/// What Cluster API reports about the groups of machines of the pools.
pub fn held_machines(case: &Case<'_>) -> Checked {
    let evidence = case.evidence;
    let groups = [
        (Kind::MACHINE_DEPLOYMENT, evidence.machine_deployments()?),
        (Kind::MACHINE_POOL, evidence.machine_pools()?),
        (Kind::MACHINE_SET, evidence.machine_sets()?),
    ];
    let read = |(kind, objects): (Kind, &[DynamicObject])| -> Vec<_> {
        objects.iter().map(|object| MachineObject::from_object(kind, object)).collect()
    };
    let objects: Vec<_> = groups.into_iter().flat_map(read).collect();
    let is_subject = |pool: &&DynamicObject| matches!(&evidence.subject, DiagnosisSubject::Pool { name: of } if of == name(&pool.metadata));
    let Some(pool) = evidence.pools()?.iter().find(is_subject).cloned().map(Pool::from_object) else {
        return Ok(Vec::new());
    };
    let observed = machine_problems(&pool, &objects).map(|problem| Observation {
        object: problem.object.unwrap_or_default(),
        place: format!("condition {} ({})", problem.condition, problem.reason),
        text: problem.message,
    });
    Ok(observed.collect())
}

/// Known issues of the versions on the nodes.
pub fn known_defects(case: &Case<'_>) -> Checked {
    let nodes: Vec<_> = case.evidence.nodes()?.iter().cloned().map(WindowsNode::from).collect();
    let used = used(case.evidence.pods()?);
    let findings = known_issues::check(&nodes, Some(&used));
    let pools: Objects<Pool> =
        case.evidence.pools().unwrap_or_default().iter().cloned().map(Pool::from_object).collect();
    let pool_of: BTreeMap<&str, &Arc<Pool>> =
        nodes.iter().filter_map(|node| Some((&*node.name, pools.get(node.labelled_pool()?)?))).collect();
    let acknowledges =
        |node: &str, issue: &str| pool_of.get(node).is_some_and(|pool| pool.consents.acknowledges(issue));
    let is_open =
        |finding: &&FoundIssue<'_>| !finding.nodes.iter().all(|node| acknowledges(node, finding.issue.entry.code));
    let reported = findings.iter().filter(|finding| finding.is_reported()).filter(is_open);
    let observed = reported.map(|finding| Observation {
        object: format!("Node {}", some_of(&finding.nodes)),
        place: "versions".into(),
        text: finding.message(Some(&used)),
    });
    Ok(observed.collect())
}

/// What known issues depend on in these pods.
fn used(pods: &[Pod]) -> PoolWorkloads {
    let (mut used, mut shared) = (PoolWorkloads::default(), winpool_workload::Shared::default());
    for pod in pods.iter().cloned().map(|pod| winpool_workload::Pod::read(pod, &mut shared)) {
        for feature in pod.template.features.iter() {
            used.features.entry(feature).or_default().insert(pod.workload.clone());
        }
        used.components.extend(&pod.template.components);
    }
    used
}

/// Pools that are not ready by their status.
pub fn pools(case: &Case<'_>) -> Checked {
    let labels = case.evidence.nodes()?.iter().filter_map(|node| node.metadata.labels.as_ref()?.get(label::POOL));
    let mut names: BTreeSet<&str> = labels.map(String::as_str).collect();
    if let DiagnosisSubject::Pool { name } = &case.evidence.subject {
        names.insert(name);
    }
    let pools = case.evidence.pools()?.iter().filter(|pool| names.contains(name(&pool.metadata)));
    let observed = pools.filter_map(|pool| {
        let pool = Pool::from_object(pool.clone());
        let ready = pool.status.condition(&READY).filter(|ready| ready.status == "False")?;
        Some(Observation {
            object: format!("WindowsNodePool {}", pool.name),
            place: format!("condition Ready=False ({})", ready.reason),
            text: ready.message.clone(),
        })
    });
    Ok(observed.collect())
}

/// Conditions that are Unknown on nodes whose kubelet reports.
pub fn unknown_conditions(case: &Case<'_>) -> Checked {
    let is_unreported = |node: &Node| conditions(node).any(|of| of.type_ == "Ready" && of.status == "Unknown");
    let conditions = case.conditions()?.into_iter().filter(|(node, _)| !is_unreported(node));
    let is_unknown = |type_: &str, status: &str| status == "Unknown" && KNOWN_CONDITIONS.contains(&type_);
    let unknown = conditions.filter(|(_, of)| is_unknown(&of.type_, &of.status));
    Ok(unknown.map(|(node, condition)| Observation::of_condition(node, condition)).collect())
}
