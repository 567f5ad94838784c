//! The verdict on one workload.

use std::sync::Arc;

use super::{
    Pod, System, Template, WorkloadName,
    ground::{Ground, Kind, NodeGround},
    placement::{Effective, Obstacle, Place},
};
use crate::{
    api::names::reason,
    domain::{
        conditions::some_of,
        image::{Evidence, Host, Known, Lookup, Misfit, Reference, Said, Verdict, judge, tag},
        quantity::Quantity,
    },
    facts::builds,
};

/// What is wrong with a workload, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trap {
    /// Its images cannot run on the pool's nodes.
    ImagesCannotRun,
    /// No pool takes its pods.
    NoPoolTakes,
    /// A DaemonSet selects the pool's nodes and does not tolerate their taints.
    DaemonSetNotTolerating,
    /// A DaemonSet relies on what its RuntimeClass selects and tolerates.
    DaemonSetIgnoresRuntimeClass,
    /// It is for Linux and on a Windows node.
    LinuxPodOnWindowsNode,
    /// It is for Linux, and nothing keeps it off the pool's nodes.
    LinuxPodMayLand,
    /// Its pods would not come back to the pool after a restart.
    WouldNotReturn,
    /// Its pods carry what their RuntimeClass selected when they were created.
    RuntimeClassChanged,
    /// The limits of the pods on a node are more than it offers.
    MemoryOvercommitted,
    /// It has no memory limit, or asks for less than it may take.
    MemoryNotReserved,
    /// It uses fields that Windows ignores or rejects.
    FieldsWithoutEffect,
}

impl Trap {
    /// The stable reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ImagesCannotRun => reason::IMAGES_CANNOT_RUN,
            Self::NoPoolTakes => reason::NO_POOL_TAKES,
            Self::DaemonSetNotTolerating => reason::DAEMON_SET_NOT_TOLERATING,
            Self::DaemonSetIgnoresRuntimeClass => reason::DAEMON_SET_IGNORES_CLASS,
            Self::LinuxPodOnWindowsNode => reason::LINUX_POD_ON_WINDOWS_NODE,
            Self::LinuxPodMayLand => reason::LINUX_POD_MAY_LAND,
            Self::WouldNotReturn => reason::WOULD_NOT_RETURN,
            Self::RuntimeClassChanged => reason::RUNTIME_CLASS_CHANGED,
            Self::MemoryOvercommitted => reason::MEMORY_OVERCOMMITTED,
            Self::MemoryNotReserved => reason::MEMORY_NOT_RESERVED,
            Self::FieldsWithoutEffect => reason::FIELDS_WITHOUT_EFFECT,
        }
    }

    /// Whether it is only worth a look: nothing fails because of it today.
    pub fn is_advice(self) -> bool {
        matches!(self, Self::MemoryNotReserved | Self::FieldsWithoutEffect)
    }
}

/// Something wrong with a workload, told at a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The pool.
    pub pool: String,
    /// What.
    pub trap: Trap,
    /// The story without the name of the workload, with the remedy.
    pub story: String,
}

/// Whether the images of a pod run, as far as is known; better comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Images {
    /// All of them.
    #[default]
    Run,
    /// Of some nobody knows.
    Unknown,
    /// Of some the name suggests that they do not.
    Suspected,
    /// Some do not.
    CannotRun,
}

/// The verdict on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The pool that it is on or bound for.
    pub pool: Option<String>,
    /// Whether its images run.
    pub images: Images,
    /// The memory that its containers may take on its node, in bytes.
    pub memory_limit: i64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The images of which the registry would tell more.
    pub wanted: Vec<String>,
}

/// What is known of images beside their names and what runtimes said.
pub trait Lookups {
    /// What the registry said of an image, as it is written in a pod.
    fn get(&self, image: &str) -> Option<Arc<Lookup>>;
}

/// The kinds of workloads whose templates are known: their pods are not judged for what the template has wrong.
pub const KNOWN_CONTROLLERS: [&str; 4] = ["Deployment", "StatefulSet", "DaemonSet", "Job"];

/// Judges a pod; `sandbox` is what the runtime said of its sandbox.
pub fn judge_pod(ground: &Ground, pod: &Pod, lookups: &dyn Lookups, sandbox: Option<&Said>) -> Judgement {
    if pod.finished {
        return Judgement::default();
    }
    let node = pod.node.as_deref().and_then(|name| ground.nodes.get(name));
    let mut judgement = match node {
        Some(node) => on_node(ground, pod, node, lookups, sandbox),
        None if pod.node.is_some() => Judgement::default(),
        None => bound(ground, pod, lookups),
    };
    if !KNOWN_CONTROLLERS.contains(&pod.workload.kind.as_str()) && node.is_none() && pod.node.is_none() {
        judgement.findings.extend(judge_template(ground, &pod.workload, &pod.template));
    }
    judgement
}

/// Judges a pod that is on a Windows node.
fn on_node(ground: &Ground, pod: &Pod, node: &NodeGround, lookups: &dyn Lookups, sandbox: Option<&Said>) -> Judgement {
    let Some(pool) = &node.pool else { return Judgement::default() };
    let mut judgement = Judgement { pool: Some(pool.clone()), ..Judgement::default() };
    let mut find = |trap, story| judgement.findings.push(Finding { pool: pool.clone(), trap, story });
    let effective = match Effective::of_pod(&pod.template, ground) {
        Ok(effective) => effective,
        Err(obstacle) => {
            find(Trap::WouldNotReturn, format!("a restart would be its last: {obstacle}"));
            Effective::alone(&pod.template)
        }
    };
    if effective.system() == Some(System::Linux) {
        let story = "is for Linux and on a Windows node, from where a NoSchedule taint does not evict it: delete the pod, \
                     and select kubernetes.io/os=linux in its spec";
        find(Trap::LinuxPodOnWindowsNode, story.to_owned());
        return judgement;
    }
    let taints = node.kind.as_ref().map(|kind| kind.taints.as_slice()).unwrap_or_default();
    if let Some(taint) = effective.untolerated(taints) {
        let story = format!(
            "runs, and would not come back after a restart: it does not tolerate {taint}: add the toleration, or a RuntimeClass of the pool"
        );
        find(Trap::WouldNotReturn, story);
    }
    if let Some((name, change)) = effective.class.and_then(|(name, class)| Some((name, stale(pod, class)?))) {
        let story = format!("was created when RuntimeClass {name} selected {change}: restart it to move it");
        find(Trap::RuntimeClassChanged, story);
    }
    judgement.memory_limit = pod.template.containers.iter().filter_map(|container| container.memory_limit).sum();
    if let Some(kind) = &node.kind {
        judge_images(ground, pod, &[(pool.as_str(), kind)], lookups, sandbox, &mut judgement);
    }
    judgement
}

/// What a pod carries of its class as it was, as `key=value, now other`.
fn stale(pod: &Pod, class: &super::ground::Class) -> Option<String> {
    let own = &pod.template.scheduling.node_selector;
    class.scheduling.node_selector.iter().find_map(|(key, now)| match own.get(key) {
        Some(then) if then == now => None,
        Some(then) => Some(format!("{key}={then}, now {now}")),
        None => Some(format!("nothing of {key}, now {now}")),
    })
}

/// Judges a pod that waits for a node.
fn bound(ground: &Ground, pod: &Pod, lookups: &dyn Lookups) -> Judgement {
    let Ok(effective) = Effective::of_pod(&pod.template, ground) else { return Judgement::default() };
    if !effective.is_for_windows(ground) {
        return Judgement::default();
    }
    match effective.places(ground) {
        Ok(places) => {
            let mut judgement =
                Judgement { pool: places.first().map(|(pool, _)| pool.name.clone()), ..Judgement::default() };
            judge_images(ground, pod, &kinds(&places), lookups, None, &mut judgement);
            judgement
        }
        // That no pool takes its template is told of the workload.
        Err(_) => Judgement::default(),
    }
}

fn kinds<'a>(places: &[Place<'a>]) -> Vec<(&'a str, &'a Kind)> {
    places.iter().flat_map(|(pool, kinds)| kinds.iter().map(|kind| (pool.name.as_str(), *kind))).collect()
}

/// Judges the images of a pod on every kind of node that it may run on.
fn judge_images(
    ground: &Ground,
    pod: &Pod,
    kinds: &[(&str, &Kind)],
    lookups: &dyn Lookups,
    sandbox: Option<&Said>,
    judgement: &mut Judgement,
) {
    let isolation = ground.isolation(pod.template.runtime_class.as_deref());
    for (container, said) in pod.template.containers.iter().zip(&pod.said) {
        let said = said.as_ref().or(sandbox);
        let Ok(reference) = container.image.parse::<Reference>() else {
            judgement.images = judgement.images.max(Images::Unknown);
            continue;
        };
        let lookup = lookups.get(&container.image);
        if said.is_none() {
            judgement.wanted.push(container.image.clone());
        }
        let known = Known { said, lookup: lookup.as_deref(), reference: &reference };
        for (pool, kind) in kinds {
            match judge(known, &kind.host, isolation, container.host_process) {
                Verdict::Runs(_) => {}
                Verdict::Unknown(_) => judgement.images = judgement.images.max(Images::Unknown),
                Verdict::CannotRun(evidence, misfit) => {
                    let images = if evidence == Evidence::Name { Images::Suspected } else { Images::CannotRun };
                    judgement.images = judgement.images.max(images);
                    let story = image_story(ground, &container.image, evidence, &misfit, &kind.host);
                    judgement.findings.push(Finding { pool: (*pool).to_owned(), trap: Trap::ImagesCannotRun, story });
                    break;
                }
            }
        }
    }
}

/// What is wrong with an image on a host, by which evidence, and what to do.
pub fn image_story(ground: &Ground, image: &str, evidence: Evidence, misfit: &Misfit, host: &Host) -> String {
    let release =
        builds::release(host.os.build).map_or_else(|| host.os.build.to_string(), |release| release.names[0].to_owned());
    let what = match (evidence, misfit) {
        (Evidence::Runtime, Misfit::Said(words)) => {
            format!("{image} does not run on {}, says the runtime: {words}", host.os)
        }
        (Evidence::Name, _) => format!("{image} probably does not run on {}: by its name it {misfit}", host.os),
        _ => format!("{image} does not run on {}: by its registry it {misfit}", host.os),
    };
    let known = misfit.image().or_else(|| tag::suggested(&image.parse().ok()?)?.os);
    let elsewhere = known.and_then(|os| {
        let takes = |kind: &Kind| {
            crate::facts::compatibility::fit(
                kind.host.os,
                Some(os),
                crate::facts::compatibility::Isolation::Process,
                kind.host.containerd,
            ) == crate::facts::compatibility::Fit::Runs
        };
        ground.pools.iter().find(|pool| pool.kinds.iter().all(takes))
    });
    let remedy = match (misfit, elsewhere) {
        (Misfit::NotFor(systems), _) if systems.iter().any(|system| system.starts_with("linux")) => {
            format!("build it for {release}, or select kubernetes.io/os=linux")
        }
        (_, Some(pool)) => format!("rebuild it on {release}, or use pool {}", pool.name),
        _ => format!("rebuild it on {release}"),
    };
    format!("{what}: {remedy}")
}

/// Judges the template of a workload.
pub fn judge_template(ground: &Ground, workload: &WorkloadName, template: &Template) -> Vec<Finding> {
    let Some(first) = ground.pools.first() else { return Vec::new() };
    let effective = match Effective::of(template, ground) {
        Ok(effective) => effective,
        Err(obstacle) => {
            let windows = template.system(|_| None) == Some(System::Windows) || names_windows(template);
            return windows.then(|| no_pool(&first.name, &obstacle)).into_iter().collect();
        }
    };
    if !effective.is_for_windows(ground) {
        return may_land(ground, workload, template, &effective);
    }
    let mut findings = match workload.kind.as_str() {
        "DaemonSet" => daemon_set(ground, template, &effective, &first.name),
        _ => effective.places(ground).err().map(|obstacle| no_pool(&first.name, &obstacle)).into_iter().collect(),
    };
    let home = effective.selected(ground).first().map(|(pool, _)| pool.name.clone());
    findings.extend(home.into_iter().flat_map(|pool| advice(&pool, template)));
    findings
}

/// Whether the class that a template names is for Windows by its name: there is nothing else to go by.
fn names_windows(template: &Template) -> bool {
    template.runtime_class.as_deref().is_some_and(|class| class.to_lowercase().contains("windows"))
}

fn no_pool(first: &str, obstacle: &Obstacle) -> Finding {
    let pool = match obstacle {
        Obstacle::Taint { pool, .. } | Obstacle::Handler { pool, .. } => pool,
        Obstacle::NoClass { .. } | Obstacle::Conflict { .. } | Obstacle::Selector(_) => first,
    };
    Finding { pool: pool.to_owned(), trap: Trap::NoPoolTakes, story: format!("no pool takes its pods: {obstacle}") }
}

/// The DaemonSet controller reads the template alone: it adds nothing of the RuntimeClass before it chooses nodes.
fn daemon_set(ground: &Ground, template: &Template, effective: &Effective, first: &str) -> Vec<Finding> {
    let alone = Effective::alone(template);
    let mut findings = Vec::new();
    let relied_on = effective
        .class
        .and_then(|(name, class)| Some((name, class.scheduling.misses(&template.scheduling.node_selector)?)));
    let home = effective.selected(ground).first().map_or(first, |(pool, _)| pool.name.as_str()).to_owned();
    if let Some((class, missed)) = relied_on {
        let story = format!(
            "relies on RuntimeClass {class}, of which the DaemonSet controller ignores selector and tolerations: write {missed} into the nodeSelector of its template, and the tolerations of the class"
        );
        findings.push(Finding { pool: home, trap: Trap::DaemonSetIgnoresRuntimeClass, story });
    }
    let selected = alone.selected(ground);
    for (pool, kinds) in &selected {
        if let Some(taint) = kinds.iter().find_map(|kind| alone.untolerated(&kind.taints)) {
            let story = format!(
                "selects nodes of pool {} and gets no pod there: it does not tolerate {taint}: add the toleration to its template",
                pool.name
            );
            findings.push(Finding { pool: pool.name.clone(), trap: Trap::DaemonSetNotTolerating, story });
        }
    }
    if selected.is_empty() && findings.is_empty() {
        findings.extend(effective.places(ground).err().map(|obstacle| no_pool(first, &obstacle)));
    }
    findings
}

/// The pools where nothing keeps a workload off that is not for Windows.
fn may_land(ground: &Ground, workload: &WorkloadName, template: &Template, effective: &Effective) -> Vec<Finding> {
    let suggests_windows = |image: &str| image.parse().ok().and_then(|image| tag::suggested(&image)).is_some();
    if template.containers.iter().any(|container| suggests_windows(&container.image)) {
        return Vec::new();
    }
    let daemon_set = workload.kind == "DaemonSet";
    let places = if daemon_set { Effective::alone(template).places(ground) } else { effective.places(ground) };
    let story =
        "is not for Windows, and nothing keeps its pods off the nodes of this pool: select kubernetes.io/os=linux";
    let finding = |(pool, _): Place<'_>| Finding {
        pool: pool.name.clone(),
        trap: Trap::LinuxPodMayLand,
        story: story.to_owned(),
    };
    places.unwrap_or_default().into_iter().map(finding).collect()
}

/// What is worth a look in a template for Windows.
fn advice(pool: &str, template: &Template) -> Vec<Finding> {
    let memory = template.containers.iter().filter(|container| !container.host_process).find_map(|container| {
        let name = &container.name;
        match (container.memory_request, container.memory_limit) {
            (_, None) => Some(format!("container {name} has no memory limit: Windows pages instead of killing: set one, and request as much")),
            (Some(request), Some(limit)) if request < limit => Some(format!(
                "container {name} requests {} of memory and may take {}: Windows pages instead of killing: request as much as the limit",
                Quantity::of_bytes(request),
                Quantity::of_bytes(limit)
            )),
            _ => None,
        }
    });
    let fields = (!template.odd_fields.is_empty()).then(|| {
        format!("uses fields that Windows ignores or rejects: {}: remove them", some_of(&template.odd_fields))
    });
    let finding = |trap| move |story| Finding { pool: pool.to_owned(), trap, story };
    memory
        .map(finding(Trap::MemoryNotReserved))
        .into_iter()
        .chain(fields.map(finding(Trap::FieldsWithoutEffect)))
        .collect()
}
