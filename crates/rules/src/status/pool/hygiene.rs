//! The flag about the hygiene of nodes, from their versions and the facts that their agents report. A fact that is not known is no
//! finding.
//!
//! Sources, read in 2026-11: kubernetes/website, `concepts/security/windows-security.md` (Secrets are files in clear text: limit
//! who can read them, and encrypt the volume with BitLocker); kubernetes/kubernetes, `pkg/util/filesystem/util_windows.go`
//! (ContainerUser has the rights of BUILTIN\Users).

use std::{collections::BTreeMap, sync::LazyLock};

use winpool_api::{
    NodeFacts,
    conditions::{ComputedCondition, NODE_HYGIENE},
    names::reason,
};
use winpool_core::{ForeignText, node::WindowsNode};

use super::input::{NodeMessages, ReportInput, worst_of};
use crate::{
    network,
    upgrade::{EndedSetting, ended_settings},
};

const WORST_FIRST: [&str; 7] = [
    reason::ENDPOINTS_DUPLICATE,
    reason::LOAD_BALANCERS_LOST,
    reason::SECRETS_READABLE,
    reason::ENDS_WITH_UPGRADE,
    reason::VOLUME_NOT_ENCRYPTED,
    reason::SERVICE_NOT_RESTARTED,
    reason::ENDPOINTS_LOST,
];

/// What a node lacks: a reason of the condition, and the message.
type Finding = (&'static str, String);

fn findings_of(facts: &NodeFacts, ended: Vec<EndedSetting>) -> impl Iterator<Item = Finding> {
    let foreign = |text: &str| ForeignText::from(text);
    let readable = facts.directories.iter().filter_map(move |directory| {
        let readers = directory.readers.as_ref().filter(|readers| !readers.is_empty())?;
        let (path, readers) = (foreign(&directory.path), foreign(&readers.join(", ")));
        let message = format!(
            "{path} has Secrets of pods in clear text, and {readers} can read it. Give access to SYSTEM and Administrators \
             only; if pods run as ContainerUser, which has the rights of BUILTIN\\Users, let only administrators log on"
        );
        Some((reason::SECRETS_READABLE, message))
    });
    let unprotected = facts.directories.iter().filter(|directory| directory.encrypted == Some(false));
    let paths = unprotected.map(|directory| directory.path.as_str()).collect::<Vec<_>>().join(" and ");
    let encryption = (!paths.is_empty()).then(|| {
        let message = format!(
            "BitLocker does not protect {} with Secrets of pods in clear text. Turn it on, unless the platform encrypts the disk",
            foreign(&paths)
        );
        (reason::VOLUME_NOT_ENCRYPTED, message)
    });
    let ending = facts.services.iter().filter(|service| service.restarts == Some(false));
    let ending = ending.map(move |service| {
        let service = foreign(&service.name);
        let message = format!(
            "the service {service} is not started again when it fails. Run: sc.exe failure {service} reset= 86400 actions= \
             restart/15000"
        );
        (reason::SERVICE_NOT_RESTARTED, message)
    });
    let ended = ended.into_iter().map(|EndedSetting { problem, remedy }| {
        let message = format!("{problem}. {remedy}");
        (reason::ENDS_WITH_UPGRADE, message)
    });
    let network = facts.network.iter().flat_map(network::problems);
    let network = network.filter_map(|(reason, shown, remedy)| Some((reason, format!("{}. {remedy}", shown?))));
    network.chain(readable).chain(ended).chain(encryption).chain(ending)
}

/// The facts about a node without an agent.
static UNKNOWN: LazyLock<NodeFacts> = LazyLock::new(NodeFacts::default);

fn of_node<'a>(input: &'a ReportInput, node: &'a WindowsNode) -> impl Iterator<Item = Finding> {
    let facts = input.snapshot.facts(node).unwrap_or(&UNKNOWN);
    findings_of(facts, ended_settings(node, facts, input.snapshot.api_server))
}

/// The messages about the nodes of the pool, by reason.
pub fn findings<'a>(input: &'a ReportInput) -> BTreeMap<&'static str, NodeMessages<'a>> {
    let mut found: BTreeMap<_, NodeMessages> = BTreeMap::new();
    for node in input.active.members.iter().map(|member| member.node.as_ref()) {
        for (reason, message) in of_node(input, node) {
            found.entry(reason).or_default().add(message, [node.name.as_str()]);
        }
    }
    found
}

/// `NodeHygiene`, if there is something to report.
pub fn node_hygiene(input: &ReportInput) -> Option<ComputedCondition> {
    let found = findings(input);
    let worst = worst_of(WORST_FIRST.map(|reason| found.get(reason)?.because(&NODE_HYGIENE, reason)))?;
    Some(ComputedCondition { message: format!("{}. {}", worst.message, input.list()), ..worst })
}
