//! Whether the scheduler and the DaemonSet controller put pods where they can run.

use super::{Code, Finding, Workload, World, world::Bound};
use crate::{
    api::names::label,
    domain::workload::{
        System, Template, Toleration,
        ground::{PoolGround, Taint},
    },
    facts::{Minor, pod_fields::OS_NAME_SINCE},
};

const BETA_ARCH: &str = "beta.kubernetes.io/arch";
/// The taint of Windows nodes where no pool says another.
const DEFAULT_TAINT: (&str, &str, &str) = ("os", "windows", "NoSchedule");

pub fn check(workload: &Workload<'_>, template: &Template, bound: &Bound<'_>, world: &World<'_>) -> Vec<Finding> {
    let mut findings = conflicts(template, bound);
    if bound.is_windows() {
        findings.extend(missing(template, bound, world.target().minor));
        findings.extend(beta_labels(template));
        findings.extend(untolerated(template, bound, world));
        findings.extend((workload.kind() == "DaemonSet").then(|| daemonset(template, bound)).flatten());
    } else {
        findings.extend(linux_tolerance(template, bound, world));
    }
    findings
}

/// Whether a class of which nothing is known may lead it somewhere.
fn unknown_class(template: &Template, bound: &Bound<'_>) -> bool {
    template.runtime_class.is_some() && bound.class.is_none()
}

fn missing(template: &Template, bound: &Bound<'_>, minor: Minor) -> Vec<Finding> {
    let mut findings = Vec::new();
    if bound.led.is_none() && !unknown_class(template, bound) && template.node_name.is_none() {
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
    if let (Some(os), Some(led)) = (template.os, bound.led)
        && os != led
    {
        let what = format!("os.name is {}, and the pod is led to {} nodes", word(os), word(led));
        findings.push(Finding::new(Code::PlacementConflict, "os.name", what));
    }
    let class = template.runtime_class.as_deref().unwrap_or_default();
    for (key, asked) in bound.class.iter().flat_map(|class| &class.scheduling.node_selector) {
        if let Some(own) = template.scheduling.node_selector.get(key).filter(|own| *own != asked) {
            let what = format!("the pod asks for {key}={own}, and RuntimeClass {class} for {key}={asked}");
            findings.push(Finding::new(Code::PlacementConflict, format!("nodeSelector[{key}]"), what));
        }
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

/// The taints of a pool that keep pods off.
fn keeping_off(pool: &PoolGround) -> impl Iterator<Item = &Taint> {
    pool.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule")
}

fn untolerated(template: &Template, bound: &Bound<'_>, world: &World<'_>) -> Option<Finding> {
    if unknown_class(template, bound) || !template.affinity.is_empty() || bound.led != Some(System::Windows) {
        return None;
    }
    // Of labels that a pool does not speak of nobody knows whether its nodes have them.
    let could_run = |pool: &&PoolGround| {
        let has = |key: &String| pool.kinds.iter().find_map(|kind| kind.labels.get(key));
        let agrees = |(key, value): (&String, &String)| has(key).is_none_or(|own| own == value);
        bound.scheduling.node_selector.iter().all(agrees)
    };
    let refusals = world.pools().iter().filter(could_run).map(|pool| {
        let tolerated = |taint: &&Taint| bound.scheduling.tolerates(&taint.key, &taint.value, &taint.effect);
        let taint = keeping_off(pool).find(|taint| !tolerated(taint))?;
        Some(format!("{taint} of pool {}", pool.name))
    });
    let refusals: Option<Vec<String>> = refusals.collect();
    let refusals = refusals.filter(|refusals| !refusals.is_empty())?;
    Some(Finding::new(Code::UntoleratedTaint, "tolerations", format!("not tolerated: {}", refusals.join(", "))))
}

fn daemonset(template: &Template, bound: &Bound<'_>) -> Option<Finding> {
    let name = template.runtime_class.as_deref()?;
    let lacks = match bound.class {
        Some(class) => {
            let own = &template.scheduling;
            let selector = class.scheduling.node_selector.iter();
            let selector = selector.filter(|(key, value)| own.node_selector.get(*key) != Some(value));
            let tolerations = class
                .scheduling
                .tolerations
                .iter()
                .filter(|needed| !own.tolerations.iter().any(|has| covers(has, needed)));
            let tolerations = tolerations.map(|needed| {
                let (key, value) = (needed.key.as_deref(), needed.value.as_deref());
                format!("a toleration of {}={}", key.unwrap_or("any taint"), value.unwrap_or("any value"))
            });
            selector.map(|(key, value)| format!("{key}={value}")).chain(tolerations).collect()
        }
        // What a class asks for that is not among the manifests nobody knows; a system at least.
        None if template.scheduling.system().is_none() && template.affinity.is_empty() => vec!["a nodeSelector".into()],
        None => Vec::new(),
    };
    let what = format!("RuntimeClass {name} leads pods, the DaemonSet itself lacks {}", lacks.join(", "));
    (!lacks.is_empty()).then(|| Finding::new(Code::DaemonsetRuntimeClass, "runtimeClassName", what))
}

/// Whether a toleration tolerates everything that another does.
fn covers(has: &Toleration, needed: &Toleration) -> bool {
    let any_or_equal = |has: &Option<String>, needed: &Option<String>| has.is_none() || has == needed;
    any_or_equal(&has.key, &needed.key)
        && any_or_equal(&has.value, &needed.value)
        && any_or_equal(&has.effect, &needed.effect)
}

fn linux_tolerance(template: &Template, bound: &Bound<'_>, world: &World<'_>) -> Option<Finding> {
    if bound.led.is_some()
        || unknown_class(template, bound)
        || template.node_name.is_some()
        || !template.affinity.is_empty()
    {
        return None;
    }
    let tolerates = |key: &str, value: &str, effect: &str| bound.scheduling.tolerates(key, value, effect);
    let of_pool = world.pools().iter().find(|pool| {
        let mut taints = keeping_off(pool).peekable();
        taints.peek().is_some() && taints.all(|taint| tolerates(&taint.key, &taint.value, &taint.effect))
    });
    let (key, value, effect) = DEFAULT_TAINT;
    let whose = match of_pool {
        Some(pool) => format!("the nodes of pool {}", pool.name),
        None if world.pools().is_empty() && tolerates(key, value, effect) => {
            format!("nodes with {key}={value}:{effect}")
        }
        None => return None,
    };
    let path = match template.scheduling.tolerations.iter().position(Toleration::tolerates_everything) {
        Some(index) => format!("tolerations[{index}]"),
        None => "tolerations".to_owned(),
    };
    Some(Finding::new(Code::LinuxTolerance, path, format!("this pod may be put onto {whose}")))
}
