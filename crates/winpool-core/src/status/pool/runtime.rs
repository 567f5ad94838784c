//! The flag about the container runtime.

use std::collections::BTreeMap;

use jiff::civil::Date;
use winpool_api::{
    RuntimeClassIsolation,
    conditions::ConditionStatus,
    facts::{
        Build, ContainerRuntime, ContainerdVersion, Minor, OsVersion, containerd, kubelet_flags, runtimes,
        version_compatibility::{self, Isolation, VersionCompatibility},
    },
    names::{annotation, condition, reason},
};

use super::input::{NodeMessages, ReportInput, unreadable};
use crate::{pool::plan::Member, render::reserve::ConfigState, status::condition::ComputedCondition};

/// The problems of a container runtime, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    HandlerUnavailable,
    TooOld,
    EndOfLife,
    UnknownVersion,
    TooOldForNextMinor,
}

impl Fault {
    fn status_and_reason(self) -> (ConditionStatus, &'static str) {
        match self {
            Self::HandlerUnavailable => (ConditionStatus::False, reason::HANDLER_UNAVAILABLE),
            Self::TooOld => (ConditionStatus::False, reason::TOO_OLD),
            Self::EndOfLife => (ConditionStatus::False, reason::END_OF_LIFE),
            Self::UnknownVersion => (ConditionStatus::Unknown, reason::UNKNOWN_VERSION),
            Self::TooOldForNextMinor => (ConditionStatus::True, reason::TOO_OLD_FOR_NEXT_MINOR),
        }
    }
}

/// `RuntimeSupported`.
pub fn runtime_supported(input: &ReportInput) -> ComputedCondition {
    let mut found: BTreeMap<Fault, NodeMessages> = BTreeMap::new();
    for member in &input.active.members {
        let handler = missing_handler(input, member).map(|message| (Fault::HandlerUnavailable, message));
        for (fault, message) in handler.into_iter().chain(fault_of_version(input.today(), member)) {
            found.entry(fault).or_default().add(message, [member.node.name.as_str()]);
        }
    }
    match found.first_key_value() {
        Some((fault, messages)) => {
            let (status, reason) = fault.status_and_reason();
            let message = input.with_list(messages);
            ComputedCondition::new(condition::RUNTIME_SUPPORTED, status, reason, message).about(messages.count())
        }
        None => {
            let message = "every container runtime fits its kubelet";
            ComputedCondition::new(condition::RUNTIME_SUPPORTED, true, reason::SUPPORTED, message)
        }
    }
}

/// A handler that a class of the pool names and the node's runtime does not have.
fn missing_handler(input: &ReportInput, member: &Member) -> Option<String> {
    let node = &member.node;
    // Only the reported resources prove that the rendered configuration is in effect.
    let rendered = member.config_state == Some(ConfigState::InEffect);
    let available = node.handlers(rendered)?;
    let docker = node.containerd().is_none();
    // containerd can have other handlers in its configuration, Docker cannot.
    let unavailable =
        |handler: &str| (docker || runtimes::HANDLERS.contains(&handler)) && !available.contains(&handler);
    let class = input.spec.runtime_classes.iter().find(|class| unavailable(&class.handler))?;
    let would_have = node.handlers(true).is_some_and(|rendered| rendered.contains(&class.handler.as_str()));
    let remedy = if input.profile().is_some() && would_have {
        format!("Deliver the files of the ConfigMap in annotation {}", annotation::CONFIG)
    } else {
        "Use one of these in spec.runtimeClasses, or move the node to another pool".to_owned()
    };
    Some(format!(
        "{} has no handler {} for RuntimeClass {}{}, only {}. {remedy}",
        if docker { "Docker" } else { "containerd" },
        class.handler,
        class.name,
        if class.isolation == RuntimeClassIsolation::HyperV { " with isolation HyperV" } else { "" },
        available.join(", ")
    ))
}

/// The problem with the version of a node's runtime.
fn fault_of_version(today: Date, member: &Member) -> Option<(Fault, String)> {
    let node = &member.node;
    let unknown = |what, text| Some((Fault::UnknownVersion, unreadable(what, text)));
    match (&node.runtime, &node.kubelet) {
        (Err(text), _) => unknown("container runtime", text),
        (_, Err(text)) => unknown("kubelet version", text),
        (Ok(ContainerRuntime::Dockershim | ContainerRuntime::CriDockerd), Ok(_)) => None,
        (Ok(ContainerRuntime::Containerd(version)), Ok(kubelet)) => {
            fault_of_containerd(*version, kubelet.minor, node.build(), today)
        }
    }
}

fn fault_of_containerd(
    version: ContainerdVersion,
    kubelet: Minor,
    host: Option<Build>,
    today: Date,
) -> Option<(Fault, String)> {
    let for_kubelet = containerd::minimum_for(kubelet, version);
    let for_images = host.and_then(|host| minimum_for_images(host, version));
    let for_pause =
        containerd::minimum_to_pin(version).filter(|_| kubelet > kubelet_flags::LAST_TO_KEEP_POD_INFRA_IMAGE);
    if let Some(least) = for_kubelet.max(for_images).max(for_pause) {
        let wrong = match (for_kubelet, for_images) {
            (Some(_), _) => format!("is too old for kubelet {kubelet}"),
            (None, Some(_)) => "does not run the older images that this Windows can run".to_owned(),
            (None, None) => format!(
                "does not pin the pause image: kubelet {kubelet} removes it when the disk is full, and then no pod starts \
                 while the registry cannot be reached"
            ),
        };
        return Some((Fault::TooOld, format!("containerd {version} {wrong}. Upgrade containerd to {least} or later")));
    }
    let Some(end) = containerd::end_of_life(version) else {
        let message = format!("containerd {version} is not in the tables of winpool. Upgrade winpool");
        return Some((Fault::UnknownVersion, message));
    };
    if end < today {
        let remedy = match longest_supported(kubelet, today) {
            Some(line) => format!("to {} or later, supported until {}", line.newest, line.end_of_life),
            None => "to a supported release".to_owned(),
        };
        let message = format!("support of containerd {version} ended on {end}. Upgrade containerd {remedy}");
        return Some((Fault::EndOfLife, message));
    }
    let next = Minor(kubelet.0 + 1);
    let least = containerd::minimum_for(next, version)?;
    let message = format!(
        "containerd {version} is too old for kubelet {next}. Upgrade containerd to {least} or later before the kubelet"
    );
    Some((Fault::TooOldForNextMinor, message))
}

/// The minimum containerd that runs every image that this host can run, if this version does not.
fn minimum_for_images(host: Build, version: ContainerdVersion) -> Option<ContainerdVersion> {
    let os = |build| OsVersion { build, revision: None };
    let oldest = os(version_compatibility::oldest_image(host));
    match version_compatibility::check(os(host), Some(oldest), Isolation::Process, Some(version)) {
        VersionCompatibility::RuntimeTooOld { needs } => Some(needs),
        VersionCompatibility::Compatible
        | VersionCompatibility::BuildDiffers { .. }
        | VersionCompatibility::RevisionDiffers { .. } => None,
    }
}

/// The release line of containerd that fits a kubelet and has the latest end of support after today.
fn longest_supported(kubelet: Minor, today: Date) -> Option<&'static containerd::ReleaseLine> {
    let fits = |line: &&containerd::ReleaseLine| {
        line.end_of_life >= today
            && containerd::minimum_for(kubelet, line.newest).is_none()
            && !containerd::too_new_for(kubelet, line.newest)
    };
    containerd::RELEASE_LINES.iter().filter(fits).max_by_key(|line| line.end_of_life)
}
