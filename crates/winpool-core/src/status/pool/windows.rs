//! Flags about Windows: the compatibility of host and containers, and the support of the Windows version.

use std::collections::BTreeMap;

use jiff::civil::Date;
use winpool_api::{
    conditions::ConditionStatus,
    facts::{
        Build, ContainerRuntime, ContainerdVersion, Minor, OsVersion, builds, containerd::HYPERV_HANDLER, pause,
        support, windows_updates,
    },
    names::{condition, reason},
};

use super::{
    input::{NodeMessages, ReportInput, unreadable, worst_of},
    workloads::image_mismatches,
};
use crate::{
    node::WindowsNode,
    pool::{Spec, plan::Member},
    profile::Profile,
    render::{self, Variant},
    status::condition::ComputedCondition,
    text::{agree, counted, some_of},
};

/// Whether a node runs another build than its pool.
pub fn is_mismatched(spec: &Spec, node: &WindowsNode) -> bool {
    node.build().is_some_and(|build| build != spec.build)
}

/// `OSMismatch`.
pub fn os_mismatch(input: &ReportInput) -> ComputedCondition {
    let of_nodes = [builds_that_differ(input), pause_images_that_cannot_run(input), revisions_too_old(input)];
    let unknown = unknown_builds(input);
    let about_nodes = of_nodes.iter().chain([&unknown]).any(Option::is_some);
    let images = image_mismatches(input).into_iter();
    let images =
        images.map(|(kind, message, count)| mismatch(ConditionStatus::True, kind.reason(), message).about(count));
    match worst_of(of_nodes.into_iter().flatten().chain(images).chain(unknown).collect()) {
        Some(worst) if about_nodes => {
            ComputedCondition { message: format!("{}. {}", worst.message, input.list()), ..worst }
        }
        Some(worst) => worst,
        None => {
            mismatch(ConditionStatus::False, reason::MATCHED, format!("every node runs build {}", input.spec.build))
        }
    }
}

fn mismatch(status: ConditionStatus, reason: &'static str, message: String) -> ComputedCondition {
    ComputedCondition::new(condition::OS_MISMATCH, status, reason, message)
}

fn builds_that_differ(input: &ReportInput) -> Option<ComputedCondition> {
    let wanted = input.spec.build;
    let differs = input.active.members.iter().filter_map(|Member { node, .. }| {
        let build = node.build().filter(|build| *build != wanted)?;
        Some(format!("{} ({build})", node.name))
    });
    let differs: Vec<String> = differs.collect();
    let message = || {
        format!(
            "{} {} another build than {wanted}: {}. Replace {}, or move {} to a pool for that build",
            counted(differs.len(), "node"),
            agree(differs.len(), "runs", "run"),
            some_of(&differs),
            agree(differs.len(), "it", "them"),
            agree(differs.len(), "it", "them"),
        )
    };
    (!differs.is_empty())
        .then(|| mismatch(ConditionStatus::True, reason::NODE_BUILD_DIFFERS, message()).about(differs.len()))
}

fn pause_images_that_cannot_run(input: &ReportInput) -> Option<ComputedCondition> {
    let profile = input.profile()?;
    // Grouped, because many nodes are equal.
    let mut groups: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for Member { node, .. } in &input.active.members {
        if let (Ok(kubelet), Some(build)) = (&node.kubelet, node.build()) {
            groups.entry((kubelet.minor, build, node.containerd())).or_default().push(&node.name);
        }
    }
    let vm = input.spec.runtime_classes.iter().find(|class| class.handler == HYPERV_HANDLER);
    let mut messages = NodeMessages::default();
    for ((kubelet, build, containerd), nodes) in groups {
        let host = OsVersion { build, revision: None };
        let unfit = vm.and_then(|class| Some((class, unfit_for_vm(profile, kubelet, build, containerd?)?)));
        if let Some(image) = render::pause::incompatible_image(profile, kubelet, host, containerd) {
            let runtime = containerd.map_or_else(String::new, |version| format!(" under containerd {version}"));
            let message = format!(
                "no pod can start, because pause image {image} has no entry that {build}{runtime} can run. Set \
                 spec.pauseImage.tag of the profile to a tag that has one, or remove it"
            );
            messages.add(message, nodes);
        } else if let Some((class, image)) = unfit {
            let message = format!(
                "no image of {build} starts with RuntimeClass {}, because its utility VM boots an older build: pause image \
                 {image} has no entry for {build}. Set spec.pauseImage.tag of the profile to a tag that has one, or remove it",
                class.name
            );
            messages.add(message, nodes);
        }
    }
    let condition = || {
        mismatch(ConditionStatus::True, reason::PAUSE_IMAGE_CANNOT_RUN, messages.to_string()).about(messages.count())
    };
    (!messages.is_empty()).then(condition)
}

/// The pause image of a configuration, if a utility VM of its build cannot run images of the host's build.
fn unfit_for_vm(profile: &Profile, kubelet: Minor, host: Build, containerd: ContainerdVersion) -> Option<String> {
    let variant = Variant { kubelet, runtime: ContainerRuntime::Containerd(containerd.line()), host };
    let image = render::pause::image(profile, &variant).ok()?;
    let (repository, tag) = image.rsplit_once(':')?;
    // Version 23H2 has no images of its own, so it needs no entry.
    let has_images = builds::release(host).is_some_and(|release| release.channel != builds::Channel::Annual);
    (has_images && pause::has_build(repository, tag, host) == Some(false)).then_some(image)
}

/// Nodes with an earlier revision than `spec.minRevision`.
fn revisions_too_old(input: &ReportInput) -> Option<ComputedCondition> {
    let wanted = input.spec.min_revision;
    let too_old = input.active.members.iter().filter_map(|Member { node, .. }| {
        let os = node.os.as_ref().ok().filter(|os| os.build == input.spec.build)?;
        os.revision.is_some_and(|revision| revision < wanted).then(|| format!("{} ({os})", node.name))
    });
    let too_old: Vec<String> = too_old.collect();
    let message = || {
        let wanted = OsVersion { build: input.spec.build, revision: Some(wanted) };
        format!(
            "{} {} an earlier revision than {} of spec.minRevision: {}. Install Windows updates on {}, or replace {}",
            counted(too_old.len(), "node"),
            agree(too_old.len(), "runs", "run"),
            windows_updates::described(wanted),
            some_of(&too_old),
            agree(too_old.len(), "it", "them"),
            agree(too_old.len(), "it", "them"),
        )
    };
    (!too_old.is_empty())
        .then(|| mismatch(ConditionStatus::True, reason::REVISION_TOO_OLD, message()).about(too_old.len()))
}

fn unknown_builds(input: &ReportInput) -> Option<ComputedCondition> {
    let mut messages = NodeMessages::default();
    for Member { node, .. } in input.active.members.iter().filter(|member| member.node.build().is_none()) {
        let text = node.os.as_ref().err().map_or("", String::as_str);
        messages.add(unreadable("Windows version", text), [node.name.as_str()]);
    }
    let condition =
        || mismatch(ConditionStatus::Unknown, reason::UNKNOWN_VERSION, messages.to_string()).about(messages.count());
    (!messages.is_empty()).then(condition)
}

/// The support of a Windows version, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Support {
    EndOfLife,
    NotSupportedByKubernetes,
    UnknownVersion,
    EndingSoon,
    ExtendedSupportOnly,
    Supported,
}

impl Support {
    fn status_and_reason(self) -> (ConditionStatus, &'static str) {
        match self {
            Self::EndOfLife => (ConditionStatus::False, reason::END_OF_LIFE),
            Self::NotSupportedByKubernetes => (ConditionStatus::False, reason::NOT_SUPPORTED_BY_KUBERNETES),
            Self::UnknownVersion => (ConditionStatus::Unknown, reason::UNKNOWN_VERSION),
            Self::EndingSoon => (ConditionStatus::True, reason::ENDING_SOON),
            Self::ExtendedSupportOnly => (ConditionStatus::True, reason::EXTENDED_SUPPORT_ONLY),
            Self::Supported => (ConditionStatus::True, reason::SUPPORTED),
        }
    }
}

/// `OSSupported`.
pub fn os_supported(input: &ReportInput) -> ComputedCondition {
    let mut found: BTreeMap<Support, NodeMessages> = BTreeMap::new();
    for ((build, kubelet), nodes) in combinations(input) {
        for (support, message) in support_of(build, kubelet, input.today()) {
            // Supported nodes are not named.
            let about = if support == Support::Supported { &[][..] } else { &nodes };
            found.entry(support).or_default().add(message, about.iter().copied());
        }
    }
    let worst = found.keys().next().copied().unwrap_or(Support::Supported);
    let count = found.get(&worst).map_or(0, NodeMessages::count);
    // Microsoft and Kubernetes may both have ended their support.
    let ended = |support: Support| support.status_and_reason().0 == ConditionStatus::False;
    let reported = found.into_iter().filter(|(support, _)| *support == worst || ended(*support));
    let mut all = NodeMessages::default();
    reported.for_each(|(_, messages)| all.extend(messages));
    let (status, reason) = worst.status_and_reason();
    ComputedCondition::new(condition::OS_SUPPORTED, status, reason, input.with_list(&all)).about(count)
}

/// The known combinations of build and kubelet in the pool, with the names of the nodes. A pool without nodes has the
/// build of its spec and the minor of the API server.
fn combinations<'a>(input: &'a ReportInput) -> BTreeMap<(Option<Build>, Option<Minor>), Vec<&'a str>> {
    let mut found: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for Member { node, .. } in &input.active.members {
        let kubelet = node.kubelet.as_ref().ok().map(|kubelet| kubelet.minor);
        found.entry((node.build(), kubelet)).or_default().push(&node.name);
    }
    if found.is_empty() {
        found.insert((Some(input.spec.build), input.snapshot.api_server), Vec::new());
    }
    found
}

/// The support of a build by Microsoft and by Kubernetes.
fn support_of(build: Option<Build>, kubelet: Option<Minor>, today: Date) -> Vec<(Support, String)> {
    let Some(build) = build else {
        return vec![(Support::UnknownVersion, "the Windows version is not known. See OSMismatch".to_owned())];
    };
    let Some(release) = builds::release(build) else {
        return vec![(
            Support::UnknownVersion,
            format!("build {build} is not in the tables of winpool. Upgrade winpool"),
        )];
    };
    [Some(by_microsoft(release, today)), by_kubernetes(build, kubelet)].into_iter().flatten().collect()
}

fn by_microsoft(release: &builds::Release, today: Date) -> (Support, String) {
    let builds::SupportState { lifecycle, until } = builds::support_on(release, today);
    let product = release.product;
    match lifecycle {
        builds::Lifecycle::Ended => {
            let remedy = "Move the workloads to nodes with a supported Windows";
            (Support::EndOfLife, format!("support of {product} ended on {until}. {remedy}"))
        }
        builds::Lifecycle::EndingSoon => (Support::EndingSoon, format!("support of {product} ends on {until}")),
        builds::Lifecycle::Extended => {
            (Support::ExtendedSupportOnly, format!("{product} has extended support only, until {until}"))
        }
        builds::Lifecycle::Mainstream => (Support::Supported, format!("{product} is supported until {until}")),
    }
}

/// The problem with a build according to the support by Kubernetes, if any.
fn by_kubernetes(build: Build, kubelet: Option<Minor>) -> Option<(Support, String)> {
    let Some(minor) = kubelet else {
        return Some((Support::UnknownVersion, "the version of Kubernetes is not known. See VersionSkew".to_owned()));
    };
    if support::builds_supported_by(minor).is_some_and(|builds| builds.contains(&build)) {
        return None;
    }
    let bound = match (support::first_minor_supporting(build), support::last_minor_supporting(build)) {
        (Some(first), _) if minor < first => format!(" (from {first})"),
        (_, Some(last)) => format!(" (up to {last})"),
        _ => String::new(),
    };
    let message =
        format!("Kubernetes {minor} does not support build {build}{bound}. Use nodes with a Windows that it supports");
    Some((Support::NotSupportedByKubernetes, message))
}
