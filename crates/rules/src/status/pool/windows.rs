//! Flags about Windows: the compatibility of host and containers, and the support of the Windows version.

use std::collections::BTreeMap;

use jiff::civil::Date;
use winpool_api::{
    conditions::{ComputedCondition, OS_MISMATCH, OS_SUPPORTED},
    names::reason,
};
use winpool_core::node::WindowsNode;
use winpool_facts::{
    Build, ContainerRuntime, ContainerdVersion, Minor, OsVersion, builds, containerd::HYPERV_HANDLER, pause, support,
    windows_updates,
};
use winpool_render::{Variant, profile::Profile};

use super::{
    input::{NodeMessages, ReportInput, about, unreadable, worst_of},
    workloads::image_mismatches,
};
use crate::pool::{Spec, plan::Member};

/// Whether a node runs another build than its pool.
pub fn is_mismatched(spec: &Spec, node: &WindowsNode) -> bool {
    node.build().is_some_and(|build| build != spec.build)
}

/// `OSMismatch`, if there is one or it is not known.
pub fn os_mismatch(input: &ReportInput) -> Option<ComputedCondition> {
    let of_nodes = [builds_that_differ(input), pause_images_that_cannot_run(input), revisions_too_old(input)];
    let unknown = unknown_builds(input);
    let about_nodes = of_nodes.iter().chain([&unknown]).any(Option::is_some);
    let images = image_mismatches(input).into_iter();
    let images = images.map(|(kind, message, count)| Some(OS_MISMATCH.because(kind.name(), message).about(count)));
    let worst = worst_of(of_nodes.into_iter().chain(images).chain([unknown]))?;
    let list = if about_nodes { format!(". {}", input.list()) } else { String::new() };
    Some(ComputedCondition { message: format!("{}{list}", worst.message), ..worst })
}

fn builds_that_differ(input: &ReportInput) -> Option<ComputedCondition> {
    let wanted = input.spec.build;
    let differs = input.active.members.iter().filter_map(|Member { node, .. }| {
        let build = node.build().filter(|build| *build != wanted)?;
        Some(format!("{} ({build})", node.name))
    });
    let differs: Vec<String> = differs.collect();
    about(&OS_MISMATCH, reason::NODE_BUILD_DIFFERS, &differs, |nodes, names| {
        let (run, them) = (nodes.agree("runs", "run"), nodes.agree("it", "them"));
        format!(
            "{nodes} {run} another build than {wanted}: {names}. Replace {them}, or move {them} to a pool for that build"
        )
    })
}

fn pause_images_that_cannot_run(input: &ReportInput) -> Option<ComputedCondition> {
    let profile = input.profile()?;
    let vm = input.spec.runtime_classes.iter().find(|class| class.handler == HYPERV_HANDLER);
    let mut messages = NodeMessages::default();
    let versions = |node: &WindowsNode| (node.kubelet_minor(), node.build(), node.containerd());
    for ((kubelet, build, containerd), nodes) in input.groups(versions) {
        let (Some(kubelet), Some(build)) = (kubelet, build) else { continue };
        let host = OsVersion { build, revision: None };
        let unfit = vm.and_then(|class| Some((class, unfit_for_vm(profile, kubelet, build, containerd?)?)));
        if let Some(image) = winpool_render::pause::incompatible_image(profile, kubelet, host, containerd) {
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
    messages.because(&OS_MISMATCH, reason::PAUSE_IMAGE_CANNOT_RUN)
}

/// The pause image of a configuration, if a utility VM of its build cannot run images of the host's build.
fn unfit_for_vm(profile: &Profile, kubelet: Minor, host: Build, containerd: ContainerdVersion) -> Option<String> {
    let variant = Variant { kubelet, runtime: ContainerRuntime::Containerd(containerd.line()), host };
    let image = winpool_render::pause::image(profile, &variant).ok()??;
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
    about(&OS_MISMATCH, reason::REVISION_TOO_OLD, &too_old, |nodes, names| {
        let (run, them) = (nodes.agree("runs", "run"), nodes.agree("it", "them"));
        let wanted = windows_updates::described(OsVersion { build: input.spec.build, revision: Some(wanted) });
        format!(
            "{nodes} {run} an earlier revision than {wanted} of spec.minRevision: {names}. Install Windows updates on {them}, \
             or replace {them}"
        )
    })
}

fn unknown_builds(input: &ReportInput) -> Option<ComputedCondition> {
    let mut messages = NodeMessages::default();
    for Member { node, .. } in input.active.members.iter().filter(|member| member.node.build().is_none()) {
        let text = node.os.as_ref().err().cloned().unwrap_or_default();
        messages.add(unreadable("Windows version", &text), [node.name.as_str()]);
    }
    messages.because(&OS_MISMATCH, reason::UNKNOWN_VERSION)
}

/// The reasons of `OSSupported`, worst first.
const WORST_FIRST: [&str; 5] = [
    reason::END_OF_LIFE,
    reason::NOT_SUPPORTED_BY_KUBERNETES,
    reason::UNKNOWN_VERSION,
    reason::ENDING_SOON,
    reason::EXTENDED_SUPPORT_ONLY,
];

/// A reason of `OSSupported`, and the message.
type Support = (&'static str, String);

/// The messages about the support of the Windows versions of the nodes, by reason.
pub fn support<'a>(input: &'a ReportInput) -> BTreeMap<&'static str, NodeMessages<'a>> {
    let mut found: BTreeMap<&str, NodeMessages> = BTreeMap::new();
    let mut groups = input.groups(|node| (node.build(), node.kubelet_minor()));
    if groups.is_empty() {
        // A pool without nodes has the build of its spec and the minor of the API server.
        groups.insert((Some(input.spec.build), input.snapshot.api_server), Vec::new());
    }
    for ((build, kubelet), nodes) in groups {
        for (reason, message) in support_of(build, kubelet, input.today()) {
            found.entry(reason).or_default().add(message, nodes.iter().copied());
        }
    }
    found
}

/// `OSSupported`, unless Kubernetes and Microsoft's mainstream support cover every node.
pub fn os_supported(input: &ReportInput) -> Option<ComputedCondition> {
    let mut found = support(input);
    let (worst, count) = WORST_FIRST.into_iter().find_map(|reason| Some((reason, found.get(reason)?.count())))?;
    // Microsoft and Kubernetes may both have ended their support.
    let reported = [worst, reason::END_OF_LIFE, reason::NOT_SUPPORTED_BY_KUBERNETES];
    let mut all = NodeMessages::default();
    reported.into_iter().filter_map(|reason| found.remove(reason)).for_each(|messages| all.extend(messages));
    Some(OS_SUPPORTED.because(worst, input.with_list(&all)).about(count))
}

fn support_of(build: Option<Build>, kubelet: Option<Minor>, today: Date) -> Vec<Support> {
    let unknown = |message| vec![(reason::UNKNOWN_VERSION, message)];
    let Some(build) = build else {
        return unknown("the Windows version is not known. See OSMismatch".to_owned());
    };
    let Some(release) = builds::release(build) else {
        return unknown(format!("build {build} is not in the tables of winpool. Upgrade winpool"));
    };
    [by_microsoft(release, today), by_kubernetes(build, kubelet)].into_iter().flatten().collect()
}

fn by_microsoft(release: &builds::Release, today: Date) -> Option<Support> {
    let builds::SupportState { lifecycle, until } = builds::support_on(release, today);
    let product = release.product;
    match lifecycle {
        builds::Lifecycle::Ended => {
            let remedy = "Move the workloads to nodes with a supported Windows";
            Some((reason::END_OF_LIFE, format!("support of {product} ended on {until}. {remedy}")))
        }
        builds::Lifecycle::EndingSoon => Some((reason::ENDING_SOON, format!("support of {product} ends on {until}"))),
        builds::Lifecycle::Extended => {
            Some((reason::EXTENDED_SUPPORT_ONLY, format!("{product} has extended support only, until {until}")))
        }
        builds::Lifecycle::Mainstream => None,
    }
}

/// The problem with a build according to the support by Kubernetes, if any.
fn by_kubernetes(build: Build, kubelet: Option<Minor>) -> Option<Support> {
    let Some(minor) = kubelet else {
        return Some((reason::UNKNOWN_VERSION, "the version of Kubernetes is not known. See VersionSkew".to_owned()));
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
    Some((reason::NOT_SUPPORTED_BY_KUBERNETES, message))
}
