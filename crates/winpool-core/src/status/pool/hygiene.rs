//! The flag about the hygiene of nodes, from the facts that their agents report. A fact that is not known is no finding.
//!
//! Sources, read in 2026-11: kubernetes/website, `concepts/security/windows-security.md` (Secrets are files in clear text: limit
//! who can read them, and encrypt the volume with BitLocker); kubernetes/kubernetes, `pkg/util/filesystem/util_windows.go`
//! (ContainerUser has the rights of BUILTIN\Users).

use std::{collections::BTreeMap, fmt};

use winpool_api::{
    NodeFacts,
    conditions::{ComputedCondition, NODE_HYGIENE},
    names::reason,
};

use super::input::{NodeMessages, ReportInput, worst_of};
use crate::ForeignText;

/// The reasons, worst first.
const WORST_FIRST: [&str; 3] = [reason::SECRETS_READABLE, reason::VOLUME_NOT_ENCRYPTED, reason::SERVICE_NOT_RESTARTED];

/// What a node lacks.
enum Finding {
    /// The Secrets below a directory can be read by others than SYSTEM and Administrators.
    Readable { path: ForeignText, readers: ForeignText },
    /// BitLocker does not protect the volumes of directories with Secrets.
    NotEncrypted { paths: ForeignText },
    /// A service is not started again when it fails.
    NotRestarted { service: ForeignText },
}

impl Finding {
    fn reason(&self) -> &'static str {
        match self {
            Self::Readable { .. } => reason::SECRETS_READABLE,
            Self::NotEncrypted { .. } => reason::VOLUME_NOT_ENCRYPTED,
            Self::NotRestarted { .. } => reason::SERVICE_NOT_RESTARTED,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Readable { path, readers } => write!(
                f,
                "{path} has Secrets of pods in clear text, and {readers} can read it. Give access to SYSTEM and Administrators \
                 only; if pods run as ContainerUser, which has the rights of BUILTIN\\Users, let only administrators log on"
            ),
            Self::NotEncrypted { paths } => write!(
                f,
                "BitLocker does not protect {paths} with Secrets of pods in clear text. Turn it on, unless the platform encrypts \
                 the disk"
            ),
            Self::NotRestarted { service } => write!(
                f,
                "the service {service} is not started again when it fails. Run: sc.exe failure {service} reset= 86400 actions= \
                 restart/15000"
            ),
        }
    }
}

fn findings_of(facts: &NodeFacts) -> impl Iterator<Item = Finding> {
    let readable = facts.directories.iter().filter_map(|directory| {
        let readers = directory.readers.as_ref().filter(|readers| !readers.is_empty())?;
        Some(Finding::Readable { path: directory.path.as_str().into(), readers: readers.join(", ").into() })
    });
    let unprotected = facts.directories.iter().filter(|directory| directory.encrypted == Some(false));
    let paths = unprotected.map(|directory| directory.path.as_str()).collect::<Vec<_>>().join(" and ");
    let encryption = Some(Finding::NotEncrypted { paths: paths.as_str().into() }).filter(|_| !paths.is_empty());
    let ending = facts.services.iter().filter(|service| service.restarts == Some(false));
    let ending = ending.map(|service| Finding::NotRestarted { service: service.name.as_str().into() });
    readable.chain(encryption).chain(ending)
}

/// The messages about the nodes of the pool, by reason.
pub fn findings<'a>(input: &'a ReportInput) -> BTreeMap<&'static str, NodeMessages<'a>> {
    let mut found: BTreeMap<_, NodeMessages> = BTreeMap::new();
    let configs = input.snapshot.node_configs.as_ref();
    for node in input.active.members.iter().map(|member| member.node.as_ref()) {
        let assigned = configs.and_then(|configs| configs.get(&node.name)?.assigned(node));
        for finding in assigned.and_then(|assigned| assigned.status.facts.as_ref()).into_iter().flat_map(findings_of) {
            found.entry(finding.reason()).or_default().add(finding.to_string(), [node.name.as_str()]);
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
