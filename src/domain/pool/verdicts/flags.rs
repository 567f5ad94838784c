//! The conditions that flag a mismatch before a pod fails. They are not part of Ready.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, by_story, workloads::images_that_cannot_run};
use crate::{
    api::{
        RuntimeClassIsolation,
        names::{annotation, condition, reason},
    },
    domain::{
        conditions::{Truth, Verdict, counted, distinct, some_of, some_stories},
        node::{ContainerRuntime, WindowsNode},
        pool::{Snapshot, Spec, delivery, plan::Member},
        render,
    },
    facts::{
        Build, ContainerdVersion, Minor, OsVersion, builds, compatibility, containerd, runtimes,
        skew::{Skew, skew},
        support,
    },
};

/// `VersionSkew`: true is a problem.
pub fn version_skew(case: &Case) -> Verdict {
    let verdict = |status: Truth, reason, message| Verdict::new(condition::VERSION_SKEW, status, reason, message);
    let Some(api_server) = case.snapshot.api_server else {
        return verdict(Truth::Unknown, reason::UNKNOWN_VERSION, "no API server has said its version yet".to_owned());
    };
    let (mut newer, mut older) = (Vec::new(), Vec::new());
    for member in &case.active.members {
        let Ok(kubelet) = &member.node.kubelet else { continue };
        match skew(kubelet.minor, api_server) {
            Skew::Within => {}
            Skew::KubeletNewer => newer.push(format!("{} ({kubelet})", member.node.name)),
            Skew::KubeletTooOld { oldest } => {
                older.push(format!("{} ({kubelet}, oldest allowed {oldest})", member.node.name))
            }
        }
    }
    if !newer.is_empty() {
        let message = format!(
            "{} run a kubelet newer than API server {api_server}: upgrade the control plane first; {}",
            some_of(&newer),
            case.list()
        );
        return verdict(Truth::True, reason::KUBELET_NEWER_THAN_API_SERVER, message).about(newer.len() + older.len());
    }
    if !older.is_empty() {
        let message = format!(
            "{} run a kubelet too old for API server {api_server}: replace the nodes; {}",
            some_of(&older),
            case.list()
        );
        return verdict(Truth::True, reason::KUBELET_TOO_OLD, message).about(older.len());
    }
    let message = format!("every kubelet is within the policy for API server {api_server}");
    verdict(Truth::False, reason::WITHIN_POLICY, message)
}

/// Whether a kubelet is outside the policy.
pub fn is_skewed(snapshot: &Snapshot, node: &WindowsNode) -> bool {
    match (&node.kubelet, snapshot.api_server) {
        (Ok(kubelet), Some(api_server)) => skew(kubelet.minor, api_server) != Skew::Within,
        _ => false,
    }
}

/// Whether a node runs another build than its pool's.
pub fn is_mismatched(spec: &Spec, node: &WindowsNode) -> bool {
    node.build().is_some_and(|build| build != spec.build)
}

/// `OSMismatch`: true is a problem.
pub fn os_mismatch(case: &Case) -> Verdict {
    let verdict = |status: bool, reason, message| Verdict::new(condition::OS_MISMATCH, status, reason, message);
    let differs: Vec<String> = case
        .active
        .members
        .iter()
        .filter(|member| is_mismatched(case.spec, &member.node))
        .map(|member| {
            format!("{} ({})", member.node.name, member.node.build().map(|build| build.to_string()).unwrap_or_default())
        })
        .collect();
    let pause = pause_images_that_cannot_run(case);
    let mut stories = Vec::new();
    if !differs.is_empty() {
        stories.push(format!(
            "{} do not run {}: replace them, or move them to a pool of their build; {}",
            some_of(&differs),
            case.spec.build,
            case.list()
        ));
    }
    if !pause.is_empty() {
        stories.push(format!(
            "{}: no pod can start there; write a tag with an entry for the build in spec.pauseImage.tag of the profile",
            some_of(&pause)
        ));
    }
    let images = images_that_cannot_run(case);
    stories.extend(images.iter().map(|(story, _)| story.clone()));
    let told = |reason, count| verdict(true, reason, stories.join(". ")).about(count);
    match (differs.len(), pause.len(), images) {
        (0, 0, None) => verdict(false, reason::MATCHED, format!("every node runs {}", case.spec.build)),
        (0, 0, Some((_, count))) => told(reason::IMAGES_CANNOT_RUN, count),
        (0, count, _) => told(reason::PAUSE_IMAGE_CANNOT_RUN, count),
        (count, ..) => told(reason::NODE_BUILD_DIFFERS, count),
    }
}

fn pause_images_that_cannot_run(case: &Case) -> Vec<String> {
    let Some(profile) = case.profile() else { return Vec::new() };
    // Many nodes are alike.
    let kind = |node: &WindowsNode| {
        let host = node.os.as_ref().ok().copied().or(node.build().map(|build| OsVersion { build, revision: None }))?;
        Some((node.kubelet.as_ref().ok()?.minor, host, node.runtime.containerd()))
    };
    let kinds: BTreeSet<_> = case.active.members.iter().filter_map(|member| kind(&member.node)).collect();
    let cannot = |(kubelet, host, containerd)| {
        let image = render::pause::cannot_run(profile, kubelet, host, containerd)?;
        Some(format!("{image} has no entry that {host} can run"))
    };
    distinct(kinds.into_iter().filter_map(cannot))
}

/// The builds of the pool and of its nodes, with the kubelet minors that meet them.
fn meetings(case: &Case) -> BTreeSet<(Build, Option<Minor>)> {
    let mut met: BTreeSet<_> = case
        .active
        .members
        .iter()
        .filter_map(|member| {
            Some((member.node.build()?, member.node.kubelet.as_ref().ok().map(|kubelet| kubelet.minor)))
        })
        .collect();
    if met.is_empty() {
        met.insert((case.spec.build, case.snapshot.api_server));
    }
    met
}

/// `OSSupported`.
pub fn os_supported(case: &Case) -> Verdict {
    let (mut ended, mut unsupported, mut ending, mut extended, mut unknown, mut fine) =
        (vec![], vec![], vec![], vec![], vec![], vec![]);
    for (build, minor) in meetings(case) {
        if let Some(minor) =
            minor.filter(|minor| support::builds_supported_by(*minor).is_none_or(|builds| !builds.contains(&build)))
        {
            unsupported.push(format!("Kubernetes {minor} does not support {build}{}", first_support(build, minor)));
        }
        let Some(release) = builds::release(build) else {
            unknown.push(format!("{build} is not in this operator's tables"));
            continue;
        };
        let state = builds::support_on(release, case.today());
        let (product, until) = (release.product, state.until);
        match state.lifecycle {
            builds::Lifecycle::Ended => ended.push(format!("support of {product} ended on {until}")),
            builds::Lifecycle::EndingSoon => ending.push(format!("support of {product} ends on {until}")),
            builds::Lifecycle::Extended => extended.push(format!("{product} has extended support only, until {until}")),
            builds::Lifecycle::Mainstream => fine.push(format!("{product} is supported until {until}")),
        }
    }
    let verdict = |status: Truth, reason, stories: Vec<String>| {
        let stories = distinct(stories);
        let remedy = match reason {
            reason::END_OF_LIFE => "; move the workloads to nodes with a Windows that is supported",
            reason::NOT_SUPPORTED_BY_KUBERNETES => "; use nodes with a Windows that this Kubernetes supports",
            _ => "",
        };
        let message = format!("{}{remedy}", some_stories(&stories));
        Verdict::new(condition::OS_SUPPORTED, status, reason, message).about(stories.len())
    };
    match () {
        () if !ended.is_empty() => verdict(Truth::False, reason::END_OF_LIFE, [ended, unsupported].concat()),
        () if !unsupported.is_empty() => verdict(Truth::False, reason::NOT_SUPPORTED_BY_KUBERNETES, unsupported),
        () if !unknown.is_empty() => verdict(Truth::Unknown, reason::UNKNOWN_VERSION, unknown),
        () if !ending.is_empty() => verdict(Truth::True, reason::ENDING_SOON, ending),
        () if !extended.is_empty() => verdict(Truth::True, reason::EXTENDED_SUPPORT_ONLY, extended),
        () => verdict(Truth::True, reason::SUPPORTED, fine),
    }
}

fn first_support(build: Build, minor: Minor) -> String {
    match (support::first_minor_supporting(build), support::last_minor_supporting(build)) {
        (Some(first), _) if minor < first => format!(" (from {first})"),
        (_, Some(last)) => format!(" (up to {last})"),
        _ => String::new(),
    }
}

/// `RuntimeSupported`.
pub fn runtime_supported(case: &Case) -> Verdict {
    let mut found: BTreeMap<u8, (Truth, &'static str, Vec<(String, &Member)>)> = BTreeMap::new();
    for member in &case.active.members {
        for (rank, truth, reason, story) in runtime_findings(case, &member.node) {
            found.entry(rank).or_insert_with(|| (truth, reason, Vec::new())).2.push((story, member));
        }
    }
    match found.into_values().next() {
        Some((truth, reason, told)) => {
            let count = told.len();
            let message = format!("{}; {}", by_story(told), case.list());
            Verdict::new(condition::RUNTIME_SUPPORTED, truth, reason, message).about(count)
        }
        None => Verdict::new(
            condition::RUNTIME_SUPPORTED,
            true,
            reason::SUPPORTED,
            "every container runtime fits its kubelet",
        ),
    }
}

/// What is to say of a node's container runtime: rank (lowest is worst), status, reason, story.
fn runtime_findings(case: &Case, node: &WindowsNode) -> Vec<(u8, Truth, &'static str, String)> {
    let Ok(kubelet) = &node.kubelet else {
        let text = node.kubelet.as_ref().err().cloned().unwrap_or_default();
        return vec![(4, Truth::Unknown, reason::UNKNOWN_VERSION, format!("kubelet version {text:?}"))];
    };
    let mut findings = Vec::new();
    if let Some(handler) = missing_handler(case, node, kubelet.minor) {
        findings.push((1, Truth::False, reason::HANDLER_UNAVAILABLE, handler));
    }
    match &node.runtime {
        ContainerRuntime::Docker => {}
        ContainerRuntime::Unknown(text) => {
            findings.push((4, Truth::Unknown, reason::UNKNOWN_VERSION, format!("container runtime {text:?}")));
        }
        ContainerRuntime::Containerd(version) => {
            findings.extend(containerd_finding(case, node, kubelet.minor, *version));
        }
    }
    findings
}

fn containerd_finding(
    case: &Case,
    node: &WindowsNode,
    kubelet: Minor,
    version: ContainerdVersion,
) -> Option<(u8, Truth, &'static str, String)> {
    if let Some(least) = containerd::minimum_for(kubelet, version) {
        let story = format!("containerd {version}, kubelet {kubelet} needs {least}");
        return Some((2, Truth::False, reason::TOO_OLD, story));
    }
    let host = node.build()?;
    if compatibility::oldest_image(host) != host && !compatibility::knows_stable_abi(version) {
        let story = format!("containerd {version} runs images of exactly {host} only; 1.6.23 and 1.7.6 know more");
        return Some((2, Truth::False, reason::TOO_OLD, story));
    }
    match containerd::end_of_life(version) {
        None => return Some((4, Truth::Unknown, reason::UNKNOWN_VERSION, format!("containerd {version}"))),
        Some(end) if end < case.today() => {
            return Some((
                3,
                Truth::False,
                reason::END_OF_LIFE,
                format!("support of containerd {version} ended on {end}"),
            ));
        }
        Some(_) => {}
    }
    let next = Minor(kubelet.0 + 1);
    let least = containerd::minimum_for(next, version)?;
    let story = format!("containerd {version}, kubelet {next} will need {least}");
    Some((5, Truth::True, reason::TOO_OLD_FOR_NEXT_MINOR, story))
}

/// A handler that a class of the pool names and the node's runtime does not have.
fn missing_handler(case: &Case, node: &WindowsNode, kubelet: Minor) -> Option<String> {
    let available = node.runtime.handlers(case.spec.profile.is_some())?;
    let unavailable = |handler: &str| runtimes::HANDLERS.contains(&handler) && !available.contains(&handler);
    let class = case.spec.runtime_classes.iter().find(|class| unavailable(&class.handler))?;
    let runtime = if node.runtime == ContainerRuntime::Docker { "Docker" } else { "containerd" };
    let isolation = if class.isolation == RuntimeClassIsolation::HyperV { " of isolation HyperV" } else { "" };
    Some(format!(
        "{runtime} under kubelet {kubelet} has no handler {} for RuntimeClass {}{isolation}; it has {}",
        class.handler,
        class.name,
        available.join(", ")
    ))
}

/// `ConfigInEffect`.
pub fn config_in_effect(case: &Case) -> Verdict {
    let verdict =
        |status: Truth, reason, message: String| Verdict::new(condition::CONFIG_IN_EFFECT, status, reason, message);
    let judged: Vec<(&Member, &delivery::State)> =
        case.active.members.iter().filter_map(|member| Some((member, member.delivery.as_ref()?))).collect();
    if case.spec.profile.is_none() {
        return verdict(
            Truth::Unknown,
            reason::NOT_USED,
            "no profile is named, so there is nothing to compare".to_owned(),
        );
    }
    let differs: Vec<String> = judged
        .iter()
        .filter_map(|(member, state)| match state {
            delivery::State::Differs(numbers) => Some(format!("{} ({})", member.node.name, numbers.join(", "))),
            delivery::State::InEffect | delivery::State::NotDelivered => None,
        })
        .collect();
    if !differs.is_empty() {
        let message = format!("{} reserve other amounts than their configuration; {}", some_of(&differs), case.list());
        return verdict(Truth::False, reason::DIFFERS, message).about(differs.len());
    }
    let waiting: Vec<&str> = judged
        .iter()
        .filter(|(_, state)| **state == delivery::State::NotDelivered)
        .map(|(member, _)| member.node.name.as_str())
        .collect();
    let unjudged = case.active.members.len() - judged.len();
    match (waiting.is_empty(), case.active.members.is_empty()) {
        (_, true) => verdict(Truth::Unknown, reason::NOT_DELIVERED, "the pool has no nodes yet".to_owned()),
        (false, _) if case.withheld => {
            let message = "nothing is written for this pool, so its nodes cannot have the rendered configuration";
            verdict(Truth::Unknown, reason::NOT_DELIVERED, message.to_owned()).about(waiting.len())
        }
        (false, _) => {
            let message = format!(
                "{} show a kubelet without the rendered configuration: put the files of their ConfigMap on them ({}); {}",
                some_of(&waiting),
                annotation::CONFIG,
                case.list()
            );
            verdict(Truth::Unknown, reason::NOT_DELIVERED, message).about(waiting.len())
        }
        (true, _) if unjudged > 0 => {
            let message =
                format!("{} cannot be compared: versions or the profile cannot be read", counted(unjudged, "node"));
            verdict(Truth::Unknown, reason::NOT_DELIVERED, message).about(unjudged)
        }
        _ => verdict(
            Truth::True,
            reason::IN_EFFECT,
            format!("the numbers of {} are those of their configuration", counted(judged.len(), "node")),
        ),
    }
}
