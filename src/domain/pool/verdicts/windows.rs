//! The flags about Windows: whether host and containers fit, and whether it is supported. They are not part of Ready.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::{Case, Stories, unreadable, workloads::images_that_cannot_run, worst_of};
use crate::{
    api::names::{condition, reason},
    domain::{
        conditions::{Truth, Verdict, some_of},
        node::WindowsNode,
        pool::{Spec, plan::Member},
        profile::Profile,
        render::{self, Runtime, Variant},
    },
    facts::{Build, ContainerdVersion, Minor, OsVersion, builds, containerd::HYPERV_HANDLER, pause, support},
};

/// Whether a node runs another build than its pool's.
pub fn is_mismatched(spec: &Spec, node: &WindowsNode) -> bool {
    node.build().is_some_and(|build| build != spec.build)
}

/// `OSMismatch`: true is a problem.
pub fn os_mismatch(case: &Case) -> Verdict {
    let of_nodes = [builds_that_differ(case), pause_images_that_cannot_run(case)];
    let unknown = unknown_builds(case);
    let about_nodes = of_nodes.iter().chain([&unknown]).any(Option::is_some);
    let images = images_that_cannot_run(case)
        .map(|(story, count)| mismatch(Truth::True, reason::IMAGES_CANNOT_RUN, story).about(count));
    match worst_of(of_nodes.into_iter().chain([images, unknown]).flatten().collect()) {
        Some(worst) if about_nodes => Verdict { message: format!("{}; {}", worst.message, case.list()), ..worst },
        Some(worst) => worst,
        None => mismatch(Truth::False, reason::MATCHED, format!("every node runs {}", case.spec.build)),
    }
}

fn mismatch(status: Truth, reason: &'static str, message: String) -> Verdict {
    Verdict::new(condition::OS_MISMATCH, status, reason, message)
}

fn builds_that_differ(case: &Case) -> Option<Verdict> {
    let wanted = case.spec.build;
    let differs = case.active.members.iter().filter_map(|Member { node, .. }| {
        let build = node.build().filter(|build| *build != wanted)?;
        Some(format!("{} ({build})", node.name))
    });
    let differs: Vec<String> = differs.collect();
    let message =
        || format!("{} do not run {wanted}: replace them, or move them to a pool of their build", some_of(&differs));
    (!differs.is_empty()).then(|| mismatch(Truth::True, reason::NODE_BUILD_DIFFERS, message()).about(differs.len()))
}

fn pause_images_that_cannot_run(case: &Case) -> Option<Verdict> {
    let profile = case.profile()?;
    // Many nodes are alike.
    let mut kinds: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for Member { node, .. } in &case.active.members {
        if let (Ok(kubelet), Some(build)) = (&node.kubelet, node.build()) {
            kinds.entry((kubelet.minor, build, node.runtime.containerd())).or_default().push(&node.name);
        }
    }
    let vm = case.spec.runtime_classes.iter().find(|class| class.handler == HYPERV_HANDLER);
    let mut stories = Stories::default();
    for ((kubelet, build, containerd), nodes) in kinds {
        let host = OsVersion { build, revision: None };
        let unfit = vm.and_then(|class| Some((class, unfit_for_vm(profile, kubelet, build, containerd?)?)));
        if let Some(image) = render::pause::cannot_run(profile, kubelet, host, containerd) {
            let runtime = containerd.map_or_else(String::new, |version| format!(" under containerd {version}"));
            let story = format!(
                "no pod can start, because pause image {image} has no entry that {build}{runtime} can run: write a tag \
                 that has one in spec.pauseImage.tag of the profile, or remove the tag"
            );
            stories.add(story, nodes);
        } else if let Some((class, image)) = unfit {
            let story = format!(
                "no image of {build} starts with RuntimeClass {}, because its utility VM boots an older build: pause image \
                 {image} has no entry for {build}: write a tag that has one in spec.pauseImage.tag of the profile, or remove \
                 the tag",
                class.name
            );
            stories.add(story, nodes);
        }
    }
    let told = || mismatch(Truth::True, reason::PAUSE_IMAGE_CANNOT_RUN, stories.to_string()).about(stories.count());
    (!stories.is_empty()).then(told)
}

/// The pause image of a configuration, where it keeps a utility VM from running images of its host's build.
fn unfit_for_vm(
    profile: &Profile,
    kubelet: Minor,
    host: Build,
    ContainerdVersion { major, minor, .. }: ContainerdVersion,
) -> Option<String> {
    let variant = Variant { kubelet, runtime: Runtime::Containerd { major, minor }, host };
    let image = render::pause::image(profile, &variant).ok()?;
    let (repository, tag) = image.rsplit_once(':')?;
    // Version 23H2 has no images of its own, so no entry for it is missed.
    let has_images = builds::release(host).is_some_and(|release| release.channel != builds::Channel::Annual);
    (has_images && pause::has_entry_of(repository, tag, host) == Some(false)).then_some(image)
}

fn unknown_builds(case: &Case) -> Option<Verdict> {
    let mut stories = Stories::default();
    for Member { node, .. } in case.active.members.iter().filter(|member| member.node.build().is_none()) {
        let text = node.os.as_ref().err().map_or("", String::as_str);
        stories.add(unreadable("Windows version", text), [node.name.as_str()]);
    }
    let told = || mismatch(Truth::Unknown, reason::UNKNOWN_VERSION, stories.to_string()).about(stories.count());
    (!stories.is_empty()).then(told)
}

/// How well a Windows is supported, worst first.
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
    fn status(self) -> Truth {
        match self {
            Self::EndOfLife | Self::NotSupportedByKubernetes => Truth::False,
            Self::UnknownVersion => Truth::Unknown,
            Self::EndingSoon | Self::ExtendedSupportOnly | Self::Supported => Truth::True,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::EndOfLife => reason::END_OF_LIFE,
            Self::NotSupportedByKubernetes => reason::NOT_SUPPORTED_BY_KUBERNETES,
            Self::UnknownVersion => reason::UNKNOWN_VERSION,
            Self::EndingSoon => reason::ENDING_SOON,
            Self::ExtendedSupportOnly => reason::EXTENDED_SUPPORT_ONLY,
            Self::Supported => reason::SUPPORTED,
        }
    }
}

/// `OSSupported`.
pub fn os_supported(case: &Case) -> Verdict {
    let mut found: BTreeMap<Support, Stories> = BTreeMap::new();
    for ((build, kubelet), nodes) in meetings(case) {
        for (support, story) in judge(build, kubelet, case.today()) {
            // Where all is well, the nodes are not worth naming.
            let about = if support == Support::Supported { &[][..] } else { &nodes };
            found.entry(support).or_default().add(story, about.iter().copied());
        }
    }
    let worst = found.keys().next().copied().unwrap_or(Support::Supported);
    let count = found.get(&worst).map_or(0, Stories::count);
    // Microsoft and Kubernetes may both have ended their support.
    let told = found.into_iter().filter(|(support, _)| *support == worst || support.status() == Truth::False);
    let mut all = Stories::default();
    told.for_each(|(_, stories)| all.0.extend(stories.0));
    Verdict::new(condition::OS_SUPPORTED, worst.status(), worst.reason(), case.tell(&all)).about(count)
}

/// The builds of the nodes and the kubelets that meet them, as far as they can be read, with the names of the nodes. A
/// pool without nodes stands for its build on this Kubernetes.
fn meetings<'a>(case: &'a Case) -> BTreeMap<(Option<Build>, Option<Minor>), Vec<&'a str>> {
    let mut met: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for Member { node, .. } in &case.active.members {
        let kubelet = node.kubelet.as_ref().ok().map(|kubelet| kubelet.minor);
        met.entry((node.build(), kubelet)).or_default().push(&node.name);
    }
    if met.is_empty() {
        met.insert((Some(case.spec.build), case.snapshot.api_server), Vec::new());
    }
    met
}

/// What Microsoft and Kubernetes say of a build.
fn judge(build: Option<Build>, kubelet: Option<Minor>, today: Date) -> Vec<(Support, String)> {
    let Some(build) = build else {
        return vec![(Support::UnknownVersion, "the Windows version cannot be read; see OSMismatch".to_owned())];
    };
    let Some(release) = builds::release(build) else {
        return vec![(Support::UnknownVersion, format!("{build} is not in the tables of winpool: upgrade winpool"))];
    };
    [Some(by_microsoft(release, today)), by_kubernetes(build, kubelet)].into_iter().flatten().collect()
}

fn by_microsoft(release: &builds::Release, today: Date) -> (Support, String) {
    let builds::SupportState { lifecycle, until } = builds::support_on(release, today);
    let product = release.product;
    match lifecycle {
        builds::Lifecycle::Ended => {
            let remedy = "move the workloads to nodes with a Windows that is supported";
            (Support::EndOfLife, format!("support of {product} ended on {until}: {remedy}"))
        }
        builds::Lifecycle::EndingSoon => (Support::EndingSoon, format!("support of {product} ends on {until}")),
        builds::Lifecycle::Extended => {
            (Support::ExtendedSupportOnly, format!("{product} has extended support only, until {until}"))
        }
        builds::Lifecycle::Mainstream => (Support::Supported, format!("{product} is supported until {until}")),
    }
}

/// What Kubernetes has against a build, if anything.
fn by_kubernetes(build: Build, kubelet: Option<Minor>) -> Option<(Support, String)> {
    let Some(minor) = kubelet else {
        return Some((Support::UnknownVersion, "the version of Kubernetes cannot be read; see VersionSkew".to_owned()));
    };
    if support::builds_supported_by(minor).is_some_and(|builds| builds.contains(&build)) {
        return None;
    }
    let bound = match (support::first_minor_supporting(build), support::last_minor_supporting(build)) {
        (Some(first), _) if minor < first => format!(" (from {first})"),
        (_, Some(last)) => format!(" (up to {last})"),
        _ => String::new(),
    };
    let story = format!(
        "Kubernetes {minor} does not support {build}{bound}: use nodes with a Windows that this Kubernetes supports"
    );
    Some((Support::NotSupportedByKubernetes, story))
}
