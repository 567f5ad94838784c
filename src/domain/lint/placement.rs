//! Whether the scheduler and the DaemonSet controller put pods where they can run.

use super::{
    Code, Finding, Workload, World,
    led::{BETA_ARCH, Led, OS_SKU},
    world::Bound,
};
use crate::{
    api::names::label,
    domain::{
        conditions::some_of,
        workload::{
            System, Template, Toleration,
            ground::Kind,
            placement::{Effective, Obstacle, Place},
        },
    },
    facts::{Minor, pod_fields::OS_NAME_SINCE},
};

pub fn check(workload: &Workload<'_>, template: &Template, bound: &Bound<'_>, world: &World<'_>) -> Vec<Finding> {
    let mut findings = conflicts(template, bound);
    let is_daemonset = workload.kind() == "DaemonSet";
    if bound.is_windows() {
        findings.extend(missing(template, bound, world.target().minor));
        findings.extend(beta_labels(template));
        findings.extend(no_pool(template, bound, world, is_daemonset));
        findings.extend(if is_daemonset {
            daemonset(template, bound, world)
        } else {
            untolerated(template, bound, world)
        });
    } else {
        findings.extend(linux_tolerance(template, bound, world, is_daemonset));
    }
    findings
}

fn missing(template: &Template, bound: &Bound<'_>, minor: Minor) -> Vec<Finding> {
    let mut findings = Vec::new();
    if bound.led == Led::Nowhere && bound.effective.is_ok() && template.node_name.is_none() {
        let what = "nothing leads this pod to Windows nodes";
        findings.push(Finding::new(Code::OsSelectorMissing, "", what));
    }
    // The field is behind a gate in its first minor.
    if template.os.is_none() && minor > OS_NAME_SINCE {
        findings.push(Finding::new(Code::OsNameMissing, "", "this pod does not say its system"));
    }
    findings
}

fn conflicts(template: &Template, bound: &Bound<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let (Some(os), Led::To(led)) = (template.os, bound.led)
        && os != led
    {
        let what = format!("os.name is {}, and the pod is led to {} nodes", word(os), word(led));
        findings.push(Finding::new(Code::PlacementConflict, "os.name", what));
    }
    if let Err(Obstacle::Conflict { class, of_class, own }) = &bound.effective {
        let key = own.split_once('=').map_or("", |(key, _)| key);
        let what = format!("the pod asks for {own}, and RuntimeClass {class} for {of_class}");
        findings.push(Finding::new(Code::PlacementConflict, format!("nodeSelector[{key}]"), what));
    }
    findings
}

fn word(system: System) -> &'static str {
    match system {
        System::Windows => "windows",
        System::Linux => "linux",
    }
}

fn beta_labels(template: &Template) -> impl Iterator<Item = Finding> {
    let in_selector = |key: &&str| template.scheduling.node_selector.contains_key(*key);
    let in_affinity = |key: &&str| template.affinity.iter().flatten().any(|requirement| requirement.key == *key);
    let finding = |path: String, key: &str| Finding::new(Code::BetaOsLabel, path, format!("the label {key}"));
    let selector = [label::BETA_OS, BETA_ARCH].into_iter().filter(in_selector);
    let affinity = [label::BETA_OS, BETA_ARCH].into_iter().filter(in_affinity);
    let selector = selector.map(move |key| finding(format!("nodeSelector[{key}]"), key));
    selector.chain(affinity.map(move |key| finding("affinity.nodeAffinity".to_owned(), key)))
}

/// A pod that none of the pools takes.
fn without_place<'b>(template: &Template, bound: &'b Bound<'_>, world: &World<'_>) -> Option<&'b Effective<'b>> {
    let is_lost = world.has_pools() && bound.places.is_empty() && template.node_name.is_none();
    bound.effective.as_ref().ok().filter(|_| is_lost)
}

/// A finding about a pod that selects a pool by its name, or a build, that no pool has. Of other labels nobody knows what
/// other Windows nodes have; and many a DaemonSet waits for builds that a cluster may never have.
fn no_pool(template: &Template, bound: &Bound<'_>, world: &World<'_>, is_daemonset: bool) -> Option<Finding> {
    let effective = without_place(template, bound, world)?;
    let known = |key: &str| key == label::POOL || (key == label::WINDOWS_BUILD && !is_daemonset);
    let kinds = || world.ground().pools.iter().flat_map(|pool| &pool.kinds);
    if kinds().any(|kind| effective.fits(&kind.labels, "", known)) {
        return None;
    }
    let missed = kinds().map(|kind| effective.missed(&kind.labels, "", known));
    let missed = missed.min_by_key(Vec::len)?.into_iter().next()?;
    let key = missed.split_once('=').map_or("", |(key, _)| key);
    let path = match &template.runtime_class {
        _ if template.scheduling.node_selector.contains_key(key) => format!("nodeSelector[{key}]"),
        Some(_) if !key.is_empty() => "runtimeClassName".to_owned(),
        _ => "affinity.nodeAffinity".to_owned(),
    };
    let what = format!("no pool among the manifests has {missed} and all else that this pod selects");
    let finding = Finding::new(Code::NoPool, path, what);
    let names = world.ground().pools.iter().map(|pool| &pool.name);
    let remedy = || format!("name one of the pools: {}", some_of(names));
    Some(if key == label::POOL { finding.instead(remedy()) } else { finding })
}

/// A finding about a pod that no pool takes for its taints.
fn untolerated(template: &Template, bound: &Bound<'_>, world: &World<'_>) -> Option<Finding> {
    let effective = without_place(template, bound, world)?;
    let Err(Obstacle::Taint { class, .. }) = effective.places(world.ground()) else { return None };
    let selected = selected(effective, bound.led, world);
    let what = refusals(effective, &selected)?;
    let finding = Finding::new(Code::UntoleratedTaint, "tolerations", what);
    Some(match class {
        Some(class) => finding.instead(format!("write runtimeClassName: {class}, or the tolerations")),
        None => finding.instead("write the tolerations"),
    })
}

/// The places that a pod selects. One that is not led to Windows, or by labels of which nobody knows who has them, may go
/// elsewhere, unless a pool has all of these labels.
fn selected<'w>(effective: &Effective<'_>, led: Led, world: &'w World<'_>) -> Vec<Place<'w>> {
    let mut places = effective.selected(world.ground());
    match led {
        Led::To(System::Windows) => {}
        Led::Somewhere => {
            places.iter_mut().for_each(|(_, kinds)| kinds.retain(|kind| effective.fits(&kind.labels, "", |_| true)));
            places.retain(|(_, kinds)| !kinds.is_empty());
        }
        Led::To(System::Linux) | Led::Nowhere => places.clear(),
    }
    places
}

/// The taints that are not tolerated, if every place has one.
fn refusals(effective: &Effective<'_>, places: &[Place<'_>]) -> Option<String> {
    let refusal = |(pool, kinds): &Place<'_>| Some(format!("{} of pool {}", effective.barred(kinds)?, pool.name));
    let refusals: Option<Vec<_>> = places.iter().map(refusal).collect();
    let refusals = refusals.filter(|refusals| !refusals.is_empty())?;
    Some(format!("not tolerated: {}", refusals.join(", ")))
}

/// A finding about a DaemonSet that gets no pods, or pods where they cannot run: its controller reads its template alone.
fn daemonset(template: &Template, bound: &Bound<'_>, world: &World<'_>) -> Option<Finding> {
    let alone = Effective::alone(template);
    let reliance = |name: &str, lacks: &[String]| {
        let what = format!("RuntimeClass {name} leads pods, the DaemonSet itself lacks {}", lacks.join(", "));
        Finding::new(Code::DaemonsetRuntimeClass, "runtimeClassName", what)
    };
    let effective = match &bound.effective {
        Ok(effective) => effective,
        // What a class asks for that is not among the manifests nobody knows; a system at least.
        Err(Obstacle::NoClass { class, .. }) => {
            return (bound.led == Led::Nowhere).then(|| reliance(class, &["a nodeSelector".to_owned()]));
        }
        Err(_) => return None,
    };
    let meant = effective.selected(world.ground());
    if let Some((name, class)) = effective.class {
        let mut lacks = effective.relied_on(world.ground(), &meant).map(|(_, missing)| missing).unwrap_or_default();
        // Without pools the class alone tells what taints there are.
        if !lacks.is_empty() || meant.is_empty() || !world.has_pools() {
            lacks.extend(uncovered(&template.scheduling.tolerations, &class.scheduling.tolerations));
        }
        if !lacks.is_empty() {
            return Some(reliance(name, &lacks));
        }
    }
    let places = selected(effective, bound.led, world);
    let what = refusals(&alone, &places).filter(|_| world.has_pools())?;
    let message = format!(
        "{what}. The DaemonSet controller makes no pod for a node with a taint that its template does not tolerate, and does not look at a RuntimeClass."
    );
    Some(Finding::told(
        Code::UntoleratedTaint,
        "tolerations",
        message,
        "add the toleration to the template of the DaemonSet",
    ))
}

/// The tolerations of a class that a template does not have.
fn uncovered(own: &[Toleration], of_class: &[Toleration]) -> impl Iterator<Item = String> {
    let needed = of_class.iter().filter(|needed| !own.iter().any(|has| covers(has, needed)));
    needed.map(|needed| {
        let (key, value) = (needed.key.as_deref(), needed.value.as_deref());
        format!("a toleration of {}={}", key.unwrap_or("any taint"), value.unwrap_or("any value"))
    })
}

/// Whether a toleration tolerates everything that another does.
fn covers(has: &Toleration, needed: &Toleration) -> bool {
    let any_or_equal = |has: &Option<String>, needed: &Option<String>| has.is_none() || has == needed;
    any_or_equal(&has.key, &needed.key)
        && any_or_equal(&has.value, &needed.value)
        && any_or_equal(&has.effect, &needed.effect)
}

/// A finding about a pod that only a taint would keep off Windows nodes, where it tolerates that taint. What it asks of
/// labels that nobody knows keeps it off too.
fn linux_tolerance(template: &Template, bound: &Bound<'_>, world: &World<'_>, is_daemonset: bool) -> Option<Finding> {
    let alone = Effective::alone(template);
    let effective = bound.effective.as_ref().ok().filter(|_| template.node_name.is_none())?;
    let effective = if is_daemonset { &alone } else { effective };
    let asks_product = effective.asked(OS_SKU).next().is_some();
    let may_land = |kind: &Kind| {
        !kind.taints.is_empty()
            && effective.untolerated(&kind.taints).is_none()
            && (!asks_product || kind.labels.contains_key(OS_SKU))
            && effective.fits(&kind.labels, "", |_| true)
    };
    let pool = world.ground().pools.iter().find(|pool| pool.kinds.iter().any(may_land))?;
    let whose = match pool.taints.first() {
        Some(taint) if !world.has_pools() => format!("nodes with {taint}"),
        _ => format!("the nodes of pool {}", pool.name),
    };
    let path = match template.scheduling.tolerations.iter().position(Toleration::tolerates_everything) {
        Some(index) => format!("tolerations[{index}]"),
        None => "tolerations".to_owned(),
    };
    let finding = Finding::new(Code::LinuxTolerance, path, format!("this pod may be put onto {whose}"));
    // Whoever tolerates the taint by name may have meant to be there.
    Some(if effective.is_for_windows(world.ground()) {
        finding.instead("write nodeSelector: {kubernetes.io/os: linux}, or windows where its image is for Windows")
    } else {
        finding
    })
}
