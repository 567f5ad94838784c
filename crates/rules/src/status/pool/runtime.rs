//! The flag about the container runtime.

use std::collections::BTreeMap;

use jiff::civil::Date;
use winpool_api::{
    RuntimeClassIsolation,
    conditions::{ComputedCondition, RUNTIME_SUPPORTED},
    names::reason,
};
use winpool_core::{
    ForeignText,
    node::{Handlers, WindowsNode},
    text::some_of,
};
use winpool_facts::{
    Build, ContainerRuntime, ContainerdVersion, Minor, OsVersion, containerd,
    version_compatibility::{self, Isolation, VersionCompatibility},
};

use super::input::{NodeMessages, ReportInput, unreadable};

/// The reasons of `RuntimeSupported`, worst first.
const WORST_FIRST: [&str; 5] = [
    reason::HANDLER_UNAVAILABLE,
    reason::TOO_OLD,
    reason::END_OF_LIFE,
    reason::UNKNOWN_VERSION,
    reason::TOO_OLD_FOR_NEXT_MINOR,
];

/// A reason of the condition, and the message.
type Fault = (&'static str, String);

/// The container runtime of a node, or what it reports.
type Runtime = Result<ContainerRuntime<ContainerdVersion>, ForeignText>;

/// What is wrong with the container runtimes of the nodes, by reason.
pub fn faults<'a>(input: &'a ReportInput) -> BTreeMap<&'static str, NodeMessages<'a>> {
    let mut found: BTreeMap<&str, NodeMessages> = BTreeMap::new();
    let versions = |node: &'a WindowsNode| {
        (&node.runtime, &node.handlers, node.kubelet.as_ref().map(|kubelet| kubelet.minor), node.build())
    };
    for ((runtime, handlers, kubelet, host), nodes) in input.groups(versions) {
        let handler =
            missing_handler(input, runtime, handlers.as_ref()).map(|message| (reason::HANDLER_UNAVAILABLE, message));
        for (reason, message) in handler.into_iter().chain(fault_of_version(runtime, kubelet, host, input.today())) {
            found.entry(reason).or_default().add(message, nodes.iter().copied());
        }
    }
    found
}

/// `RuntimeSupported`, unless every container runtime fits.
pub fn runtime_supported(input: &ReportInput) -> Option<ComputedCondition> {
    let found = faults(input);
    let (reason, messages) = WORST_FIRST.into_iter().find_map(|reason| Some((reason, found.get(reason)?)))?;
    Some(RUNTIME_SUPPORTED.because(reason, input.with_list(messages)).about(messages.count()))
}

/// A handler that a class of the pool names and the nodes do not have.
fn missing_handler(input: &ReportInput, runtime: &Runtime, available: Option<&Handlers>) -> Option<String> {
    let (runtime, available) = (runtime.as_ref().ok()?, available?);
    let class = input.spec.runtime_classes.iter().find(|class| available.lack(&class.handler))?;
    let docker = *runtime == ContainerRuntime::CriDockerd;
    Some(format!(
        "{} has no handler {} for RuntimeClass {}{}, only {}. Use one of these in spec.runtimeClasses, {}or move the node to \
         another pool",
        if docker { "Docker" } else { "containerd" },
        class.handler,
        class.name,
        if class.isolation == RuntimeClassIsolation::HyperV { " with isolation HyperV" } else { "" },
        some_of(available.names()),
        if docker { "" } else { "add it to containerd.extraConfig of the profile, " }
    ))
}

/// The problem with the version of a runtime.
fn fault_of_version(
    runtime: &Runtime,
    kubelet: Result<Minor, &ForeignText>,
    host: Option<Build>,
    today: Date,
) -> Option<Fault> {
    let unknown = |what, text| Some((reason::UNKNOWN_VERSION, unreadable(what, text)));
    match (runtime, kubelet) {
        (Err(text), _) => unknown("container runtime", text),
        (_, Err(text)) => unknown("kubelet version", text),
        (Ok(ContainerRuntime::CriDockerd), Ok(_)) => None,
        (Ok(ContainerRuntime::Containerd(version)), Ok(kubelet)) => fault_of_containerd(*version, kubelet, host, today),
    }
}

fn fault_of_containerd(version: ContainerdVersion, kubelet: Minor, host: Option<Build>, today: Date) -> Option<Fault> {
    let for_kubelet = containerd::minimum_for(kubelet, version);
    let for_images = host.and_then(|host| minimum_for_images(host, version));
    let for_pause = containerd::minimum_to_pin(version);
    if let Some(least) = for_kubelet.max(for_images).max(for_pause) {
        let wrong = match (for_kubelet, for_images) {
            _ if version < containerd::OLDEST => {
                format!("is older than {}, the oldest that winpool supports", containerd::OLDEST)
            }
            (Some(_), _) => format!("is too old for kubelet {kubelet}"),
            (None, Some(_)) => "does not run the older images that this Windows can run".to_owned(),
            (None, None) => format!(
                "does not pin the pause image: kubelet {kubelet} removes it when the disk is full, and then no pod starts \
                 while the registry cannot be reached"
            ),
        };
        return Some((
            reason::TOO_OLD,
            format!("containerd {version} {wrong}. Upgrade containerd to {least} or later"),
        ));
    }
    let Some(end) = containerd::end_of_life(version) else {
        let message = format!("containerd {version} is not in the tables of winpool. Upgrade winpool");
        return Some((reason::UNKNOWN_VERSION, message));
    };
    if end < today {
        let remedy = match longest_supported(kubelet, today) {
            Some(line) => format!("to {} or later, supported until {}", line.newest, line.end_of_life),
            None => "to a supported release".to_owned(),
        };
        let message = format!("support of containerd {version} ended on {end}. Upgrade containerd {remedy}");
        return Some((reason::END_OF_LIFE, message));
    }
    let next = Minor(kubelet.0 + 1);
    let least = containerd::minimum_for(next, version)?;
    let message = format!(
        "containerd {version} is too old for kubelet {next}. Upgrade containerd to {least} or later before the kubelet"
    );
    Some((reason::TOO_OLD_FOR_NEXT_MINOR, message))
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
        line.end_of_life >= today && containerd::minimum_for(kubelet, line.newest).is_none()
    };
    containerd::RELEASE_LINES.iter().filter(fits).max_by_key(|line| line.end_of_life)
}
