//! The flag about the container runtime. It is not part of Ready.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::{Case, Stories, unreadable};
use crate::{
    api::{
        RuntimeClassIsolation,
        names::{annotation, condition, reason},
    },
    domain::{
        conditions::{Truth, Verdict},
        node::ContainerRuntime,
        pool::{delivery, plan::Member},
    },
    facts::{
        Build, ContainerdVersion, Minor, OsVersion,
        compatibility::{self, Fit, Isolation},
        containerd, kubelet_flags, runtimes,
    },
};

/// What can be wrong with a container runtime, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    HandlerUnavailable,
    TooOld,
    EndOfLife,
    UnknownVersion,
    TooOldForNextMinor,
}

impl Fault {
    fn status(self) -> Truth {
        match self {
            Self::HandlerUnavailable | Self::TooOld | Self::EndOfLife => Truth::False,
            Self::UnknownVersion => Truth::Unknown,
            Self::TooOldForNextMinor => Truth::True,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::HandlerUnavailable => reason::HANDLER_UNAVAILABLE,
            Self::TooOld => reason::TOO_OLD,
            Self::EndOfLife => reason::END_OF_LIFE,
            Self::UnknownVersion => reason::UNKNOWN_VERSION,
            Self::TooOldForNextMinor => reason::TOO_OLD_FOR_NEXT_MINOR,
        }
    }
}

/// `RuntimeSupported`.
pub fn runtime_supported(case: &Case) -> Verdict {
    let mut found: BTreeMap<Fault, Stories> = BTreeMap::new();
    for member in &case.active.members {
        let told = missing_handler(case, member).map(|story| (Fault::HandlerUnavailable, story));
        for (fault, story) in told.into_iter().chain(fault_of_version(case.today(), member)) {
            found.entry(fault).or_default().add(story, [member.node.name.as_str()]);
        }
    }
    match found.first_key_value() {
        Some((fault, stories)) => {
            let message = case.tell(stories);
            Verdict::new(condition::RUNTIME_SUPPORTED, fault.status(), fault.reason(), message).about(stories.count())
        }
        None => {
            let message = "every container runtime fits its kubelet";
            Verdict::new(condition::RUNTIME_SUPPORTED, true, reason::SUPPORTED, message)
        }
    }
}

/// A handler that a class of the pool names and the node's runtime does not have.
fn missing_handler(case: &Case, member: &Member) -> Option<String> {
    let runtime = &member.node.runtime;
    // Only the node's own numbers show that it runs what we render.
    let rendered = member.delivery == Some(delivery::State::InEffect);
    let available = runtime.handlers(rendered)?;
    let docker = *runtime == ContainerRuntime::Docker;
    // Whoever configures a containerd by hand may give it handlers of their own; Docker cannot be given any.
    let unavailable =
        |handler: &str| (docker || runtimes::HANDLERS.contains(&handler)) && !available.contains(&handler);
    let class = case.spec.runtime_classes.iter().find(|class| unavailable(&class.handler))?;
    let would_have = runtime.handlers(true).is_some_and(|rendered| rendered.contains(&class.handler.as_str()));
    let remedy = if case.profile().is_some() && would_have {
        format!("put the files of its ConfigMap on the node ({})", annotation::CONFIG)
    } else {
        "write one that it has in spec.runtimeClasses, or move the node to another pool".to_owned()
    };
    Some(format!(
        "{} has no handler {} for RuntimeClass {}{}, only {}: {remedy}",
        if docker { "Docker" } else { "containerd" },
        class.handler,
        class.name,
        if class.isolation == RuntimeClassIsolation::HyperV { " of isolation HyperV" } else { "" },
        available.join(", ")
    ))
}

/// What is wrong with the version of a node's runtime.
fn fault_of_version(today: Date, member: &Member) -> Option<(Fault, String)> {
    let node = &member.node;
    let unknown = |what, text| Some((Fault::UnknownVersion, unreadable(what, text)));
    match (&node.runtime, &node.kubelet) {
        (ContainerRuntime::Unknown(text), _) => unknown("container runtime", text),
        (_, Err(text)) => unknown("kubelet version", text),
        (ContainerRuntime::Docker, Ok(_)) => None,
        (ContainerRuntime::Containerd(version), Ok(kubelet)) => {
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
        containerd::needed_to_pin(version).filter(|_| kubelet > kubelet_flags::LAST_TO_SPARE_POD_INFRA_IMAGE);
    if let Some(least) = for_kubelet.max(for_images).max(for_pause) {
        let wrong = match (for_kubelet, for_images) {
            (Some(_), _) => format!("is too old for kubelet {kubelet}"),
            (None, Some(_)) => "does not find the older images that this Windows can run".to_owned(),
            (None, None) => format!(
                "does not pin the pause image: kubelet {kubelet} removes it when the disk fills up, and no pod starts \
                 where the registry cannot be reached"
            ),
        };
        return Some((Fault::TooOld, format!("containerd {version} {wrong}: upgrade containerd to {least} or later")));
    }
    let Some(end) = containerd::end_of_life(version) else {
        let story = format!("containerd {version} is not in the tables of winpool: upgrade winpool");
        return Some((Fault::UnknownVersion, story));
    };
    if end < today {
        let remedy = match longest_supported(kubelet, today) {
            Some(line) => format!("to {} or later, supported until {}", line.newest, line.end_of_life),
            None => "to a line that is supported".to_owned(),
        };
        let story = format!("support of containerd {version} ended on {end}: upgrade containerd {remedy}");
        return Some((Fault::EndOfLife, story));
    }
    let next = Minor(kubelet.0 + 1);
    let least = containerd::minimum_for(next, version)?;
    let story = format!(
        "containerd {version} is too old for kubelet {next}: upgrade containerd to {least} or later before the kubelet"
    );
    Some((Fault::TooOldForNextMinor, story))
}

/// The least containerd that runs every image which this host can run, where this one does not.
fn minimum_for_images(host: Build, version: ContainerdVersion) -> Option<ContainerdVersion> {
    let os = |build| OsVersion { build, revision: None };
    let oldest = os(compatibility::oldest_image(host));
    match compatibility::fit(os(host), Some(oldest), Isolation::Process, Some(version)) {
        Fit::RuntimeTooOld { needs } => Some(needs),
        Fit::Runs | Fit::BuildDiffers { .. } | Fit::RevisionDiffers { .. } => None,
    }
}

/// The line of containerd that fits a kubelet and is supported longest from today on.
fn longest_supported(kubelet: Minor, today: Date) -> Option<&'static containerd::Generation> {
    let fits = |line: &&containerd::Generation| {
        line.end_of_life >= today
            && containerd::minimum_for(kubelet, line.newest).is_none()
            && !containerd::too_new_for(kubelet, line.newest)
    };
    containerd::GENERATIONS.iter().filter(fits).max_by_key(|line| line.end_of_life)
}
