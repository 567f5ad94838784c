//! The verdict on one workload.

use std::{collections::HashMap, sync::Arc};

use super::{
    Pod, System, Template, WorkloadName,
    ground::{Class, Ground, Kind, NodeGround, PoolGround},
    placement::{Effective, Obstacle, Place},
};
use crate::{
    api::names::reason,
    domain::{
        conditions::some_of,
        image::{Evidence, Host, Known, Lookup, Misfit, Reference, Said, Verdict, judge, newer_revision, tag},
        quantity::Quantity,
    },
    facts::{
        Build, OsVersion,
        builds::{self, Channel},
        compatibility::{self, Fit, Isolation},
    },
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

impl Lookups for HashMap<String, Arc<Lookup>> {
    fn get(&self, image: &str) -> Option<Arc<Lookup>> {
        self.get(image).cloned()
    }
}

/// The kinds of workloads whose templates are known: their pods are not judged for what the template has wrong.
pub const KNOWN_CONTROLLERS: [&str; 4] = ["Deployment", "StatefulSet", "DaemonSet", "Job"];

/// Judges a pod; `sandbox` is what the runtime said of its sandbox.
pub fn judge_pod(ground: &Ground, pod: &Pod, lookups: &dyn Lookups, sandbox: Option<&Said>) -> Judgement {
    if pod.finished {
        return Judgement::default();
    }
    if let Some(name) = &pod.node {
        let node = ground.nodes.get(name);
        return node.map(|node| on_node(ground, pod, node, lookups, sandbox)).unwrap_or_default();
    }
    let mut judgement = bound(ground, pod, lookups);
    if !KNOWN_CONTROLLERS.contains(&pod.workload.kind.as_str()) {
        judgement.findings.extend(judge_template(ground, &pod.workload, &pod.template));
    }
    judgement
}

/// Judges a pod that is on a Windows node.
fn on_node(ground: &Ground, pod: &Pod, node: &NodeGround, lookups: &dyn Lookups, sandbox: Option<&Said>) -> Judgement {
    let Some(pool) = node.pool.as_deref().and_then(|pool| ground.pool(pool)) else { return Judgement::default() };
    let mut judgement = Judgement { pool: Some(pool.name.clone()), ..Judgement::default() };
    let mut find = |trap, story| judgement.findings.push(Finding { pool: pool.name.clone(), trap, story });
    let effective = Effective::of_pod(&pod.template, ground);
    let effective = match effective {
        Ok(effective) => effective,
        Err(obstacle) => {
            if !pod.is_static && !ground.makes_up_for(&obstacle) {
                find(Trap::WouldNotReturn, format!("a restart would be its last: {obstacle}"));
            }
            Effective::alone(&pod.template)
        }
    };
    if effective.system() == Some(System::Linux) {
        let story = "is for Linux and on a Windows node, from where a NoSchedule taint does not evict it: delete the pod, \
                     and select kubernetes.io/os=linux in its spec";
        find(Trap::LinuxPodOnWindowsNode, story.to_owned());
        return judgement;
    }
    if let Some(kind) = node.kind.as_ref().filter(|_| !pod.is_static) {
        if let Some(story) = would_not_return(ground, pod, pool, kind, &effective) {
            find(Trap::WouldNotReturn, story);
        }
        if let Some((name, change)) = effective.class.and_then(|(name, class)| Some((name, moved(pod, class, kind)?))) {
            let story = format!("was created when RuntimeClass {name} selected {change}: restart it to move it");
            find(Trap::RuntimeClassChanged, story);
        }
    }
    judgement.memory_limit = pod.template.memory_limit();
    if let Some(kind) = &node.kind {
        let said_nothing = pod.said.iter().all(Option::is_none);
        match sandbox.filter(|_| said_nothing) {
            Some(Said::Misfit(words)) => {
                judgement.images = Images::CannotRun;
                let story = sandbox_story(words, &kind.host);
                judgement.findings.push(Finding { pool: pool.name.clone(), trap: Trap::ImagesCannotRun, story });
            }
            Some(Said::Started) | None => {
                judge_images(ground, pod, &[(pool.name.as_str(), kind)], lookups, &effective, &mut judgement);
            }
        }
    }
    judgement
}

/// What keeps a pod off its pool when it is made anew: a DaemonSet makes it for the same node, all others for any.
fn would_not_return(
    ground: &Ground,
    pod: &Pod,
    pool: &PoolGround,
    own: &Kind,
    effective: &Effective,
) -> Option<String> {
    let barred = |kind: &Kind| {
        let now = effective.untolerated(&kind.taints).map(|taint| (taint.clone(), ""));
        let then = || effective.untolerated(&kind.withheld).map(|taint| (taint.clone(), ", once the pool enforces it"));
        now.or_else(then)
    };
    let (taint, once) = barred(own)?;
    let others = pool.kinds.iter().filter(|kind| effective.selects(ground, &pool.name, kind));
    if pod.workload.kind != "DaemonSet" && others.into_iter().any(|kind| barred(kind).is_none()) {
        return None;
    }
    Some(format!(
        "runs, and would not come back after a restart: it does not tolerate {taint}{once}: add the toleration, or a RuntimeClass of the pool"
    ))
}

/// What a pod carries of its class as it was, as `key=value, now other`, if its node is none that the class leads to now.
fn moved(pod: &Pod, class: &Class, kind: &Kind) -> Option<String> {
    if !kind.lacks(&class.scheduling) {
        return None;
    }
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
    // That no pool takes its template is told of the workload.
    let places = effective.destinations(ground);
    let Some((first, _)) = places.first() else { return Judgement::default() };
    // Linux nodes may have the taint that it tolerates: then its images tell.
    let unclear = effective.system().is_none();
    let images = || pod.template.containers.iter().map(|container| &container.image);
    if unclear && images().any(|image| is_foreign(image, lookups)) {
        return Judgement { wanted: images().cloned().collect(), ..Judgement::default() };
    }
    let mut judgement = Judgement { pool: Some(first.name.clone()), ..Judgement::default() };
    judge_images(ground, pod, &kinds(&places), lookups, &effective, &mut judgement);
    if unclear {
        judgement.wanted = images().cloned().collect();
    }
    judgement
}

/// Whether the registry says that an image is for other systems than Windows only.
fn is_foreign(image: &str, lookups: &dyn Lookups) -> bool {
    let lookup = lookups.get(image);
    lookup.is_some_and(|lookup| matches!(&*lookup, Lookup::Found(content) if content.windows().next().is_none()))
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
    effective: &Effective,
    judgement: &mut Judgement,
) {
    let isolation = ground.isolation(pod.template.runtime_class.as_deref());
    for (container, said) in pod.template.containers.iter().zip(&pod.said) {
        let Ok(reference) = container.image.parse::<Reference>() else {
            judgement.images = judgement.images.max(Images::Unknown);
            continue;
        };
        let lookup = lookups.get(&container.image);
        // Of what does not start one wants to know for what it is.
        if *said != Some(Said::Started) {
            judgement.wanted.push(container.image.clone());
        }
        let known = Known { said: said.as_ref(), lookup: lookup.as_deref(), reference: &reference };
        for (pool, kind) in kinds {
            match judge(known, &kind.host, isolation, container.host_process) {
                Verdict::Runs(_) => {
                    let image = newer_revision(known, &kind.host, isolation, container.host_process);
                    let Some(image) = image else { continue };
                    judgement.images = judgement.images.max(Images::Suspected);
                    let story = newer_revision_story(&container.image, image, &kind.host);
                    judgement.findings.push(Finding { pool: (*pool).to_owned(), trap: Trap::ImagesCannotRun, story });
                    break;
                }
                Verdict::Unknown(_) => judgement.images = judgement.images.max(Images::Unknown),
                Verdict::CannotRun(evidence, misfit) => {
                    let images = if evidence == Evidence::Name { Images::Suspected } else { Images::CannotRun };
                    judgement.images = judgement.images.max(images);
                    let (image, host) = (&container.image, &kind.host);
                    let told = what_is_wrong(image, evidence, &misfit, host);
                    let unsaid = Known { said: None, ..known };
                    let beside =
                        (evidence == Evidence::Runtime).then(|| judge(unsaid, host, isolation, container.host_process));
                    let (told, misfit) = match beside {
                        Some(Verdict::CannotRun(by, misfit)) => (format!("{told}; {} it {misfit}", source(by)), misfit),
                        _ => (told, misfit),
                    };
                    let remedy = remedy(ground, image, &misfit, host, effective.system().is_some());
                    let story = format!("{told}: {remedy}");
                    judgement.findings.push(Finding { pool: (*pool).to_owned(), trap: Trap::ImagesCannotRun, story });
                    break;
                }
            }
        }
    }
}

/// An image that was updated later than its host.
fn newer_revision_story(written: &str, image: OsVersion, host: &Host) -> String {
    format!(
        "{written} may fail to start on {}: {} it is for {image}, a later update of the same Windows: install the updates of \
         Windows on the node, or use the image as it was before",
        host.os,
        source(Evidence::Registry)
    )
}

/// What is wrong with an image on a host, by which evidence, and what to do.
pub fn image_story(ground: &Ground, image: &str, evidence: Evidence, misfit: &Misfit, host: &Host) -> String {
    format!("{}: {}", what_is_wrong(image, evidence, misfit, host), remedy(ground, image, misfit, host, true))
}

/// What is wrong with an image on a host, and by which evidence.
pub fn what_is_wrong(image: &str, evidence: Evidence, misfit: &Misfit, host: &Host) -> String {
    match (evidence, misfit) {
        (Evidence::Runtime, Misfit::Said(words)) => {
            format!("{image} does not run on {}, says the runtime: {words}", host.os)
        }
        (Evidence::Name, _) => {
            format!("{image} probably does not run on {}: {} it {misfit}", host.os, source(evidence))
        }
        _ => format!("{image} does not run on {}: {} it {misfit}", host.os, source(evidence)),
    }
}

/// By what an image is judged, in words.
fn source(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Runtime => "by its runtime",
        Evidence::Registry => "by its registry",
        Evidence::Name => "by its name",
    }
}

/// A sandbox is made of the pause image before any image of the pod is looked at.
fn sandbox_story(words: &str, host: &Host) -> String {
    format!(
        "its sandbox does not start on {}, says the runtime: {words}: configure a pause image with an entry for {} on the node",
        host.os,
        base_image(host.os.build)
    )
}

/// The base image that is made for a host: version 23H2 runs those of the release before it.
fn base_image(host: Build) -> String {
    let of_its_own = builds::release(host).filter(|release| release.channel != Channel::Annual);
    let release = of_its_own.or_else(|| builds::release(compatibility::oldest_image(host)));
    release.map_or_else(|| host.to_string(), |release| release.names[0].to_owned())
}

/// What to do about an image; `for_windows`: whether the pod says that it is for Windows.
pub fn remedy(ground: &Ground, image: &str, misfit: &Misfit, host: &Host, for_windows: bool) -> String {
    let base = base_image(host.os.build);
    let os = misfit.image().or_else(|| tag::suggested(&image.parse().ok()?)?.os);
    let takes = |host: &Host| {
        let fit = |os| compatibility::fit(host.os, Some(os), Isolation::Process, host.containerd);
        os.is_some_and(|os| fit(os) == Fit::Runs)
    };
    let elsewhere = ground.pools.iter().find(|pool| pool.kinds.iter().all(|kind| takes(&kind.host)));
    let foreign = match misfit {
        Misfit::NotFor(systems) => systems.iter().any(|system| system.starts_with("linux")),
        Misfit::Said(_) => !for_windows,
        _ => false,
    };
    match (misfit, elsewhere.filter(|_| !takes(host))) {
        _ if foreign => format!("build it for {base}, or select kubernetes.io/os=linux"),
        (Misfit::Containerd { needs, .. }, _) => format!("upgrade containerd to {needs}, or rebuild it on {base}"),
        (_, Some(pool)) => format!("rebuild it on {base}, or use pool {}", pool.name),
        _ => format!("rebuild it on {base}"),
    }
}

/// Judges the template of a workload.
pub fn judge_template(ground: &Ground, workload: &WorkloadName, template: &Template) -> Vec<Finding> {
    // Pods of a template that names a node pass by the scheduler, and are judged where they are.
    if ground.pools.is_empty() || template.node_name.is_some() {
        return Vec::new();
    }
    let effective = match Effective::of(template, ground) {
        Ok(effective) => effective,
        Err(obstacle) => {
            let windows = template.system(|_| None) == Some(System::Windows) || names_windows(template);
            let told = windows && !ground.makes_up_for(&obstacle);
            return told.then(|| no_pool(ground, &obstacle)).into_iter().collect();
        }
    };
    match effective.system() {
        Some(System::Windows) => {}
        // Whoever tolerates the taint of a pool by name knows of it; where its pods belong is not said.
        None if effective.is_for_windows(ground) => return Vec::new(),
        Some(System::Linux) | None => return may_land(ground, workload, template, &effective),
    }
    let mut findings = match workload.kind.as_str() {
        "DaemonSet" => daemon_set(ground, template, &effective),
        _ => {
            let obstacle = effective.places(ground).err().filter(|_| !effective.is_at_home_elsewhere(ground));
            obstacle.map(|obstacle| no_pool(ground, &obstacle)).into_iter().collect()
        }
    };
    let home = effective.selected(ground).first().map(|(pool, _)| pool.name.clone());
    findings.extend(home.into_iter().flat_map(|pool| advice(&pool, template)));
    findings
}

/// Whether the class that a template names is for Windows by its name: there is nothing else to go by.
fn names_windows(template: &Template) -> bool {
    template.runtime_class.as_deref().is_some_and(|class| class.to_lowercase().contains("windows"))
}

/// What is in the way is told at the pool that comes nearest: that of the RuntimeClass, and without any the first.
fn no_pool(ground: &Ground, obstacle: &Obstacle) -> Finding {
    let of_class = |class: &String| ground.pools.iter().find(|pool| pool.classes.iter().any(|(name, _)| name == class));
    let pool = match obstacle {
        Obstacle::Taint { pool, .. } | Obstacle::Handler { pool, .. } | Obstacle::Selector { pool, .. } => pool.clone(),
        Obstacle::NoClass { class, .. } | Obstacle::Conflict { class, .. } => {
            of_class(class).or(ground.pools.first()).map(|pool| pool.name.clone()).unwrap_or_default()
        }
    };
    Finding { pool, trap: Trap::NoPoolTakes, story: format!("no pool takes a new pod of it: {obstacle}") }
}

/// The DaemonSet controller reads the template alone: it adds nothing of the RuntimeClass before it chooses nodes. That
/// it finds none is no mistake of a DaemonSet: many wait for nodes that a cluster may never have.
fn daemon_set(ground: &Ground, template: &Template, effective: &Effective) -> Vec<Finding> {
    let alone = Effective::alone(template);
    let meant = effective.selected(ground);
    let Some((home, _)) = meant.first() else { return Vec::new() };
    if let Some((class, missing)) = effective.relied_on(ground, &meant) {
        let missing = missing.join(", ");
        let story = format!(
            "relies on RuntimeClass {class}, of which the DaemonSet controller ignores selector and tolerations: write {missing} into the nodeSelector of its template, and the tolerations of the class"
        );
        return vec![Finding { pool: home.name.clone(), trap: Trap::DaemonSetIgnoresRuntimeClass, story }];
    }
    let barred = |(pool, kinds): &Place| {
        let taint = alone.barred(kinds)?;
        let story = format!(
            "selects nodes of pool {} and gets no pod there: it does not tolerate {taint}: add the toleration to its template",
            pool.name
        );
        Some(Finding { pool: pool.name.clone(), trap: Trap::DaemonSetNotTolerating, story })
    };
    let findings: Vec<Finding> = meant.iter().filter_map(barred).collect();
    match effective.places(ground) {
        Err(obstacle @ Obstacle::Handler { .. }) if findings.is_empty() => vec![no_pool(ground, &obstacle)],
        _ => findings,
    }
}

/// The pools where nothing keeps a workload off that is not for Windows.
fn may_land(ground: &Ground, workload: &WorkloadName, template: &Template, effective: &Effective) -> Vec<Finding> {
    let suggests_windows = |image: &str| image.parse().ok().and_then(|image| tag::suggested(&image)).is_some();
    if template.containers.iter().any(|container| suggests_windows(&container.image)) {
        return Vec::new();
    }
    let daemon_set = workload.kind == "DaemonSet";
    let places = if daemon_set { Effective::alone(template).places(ground) } else { effective.places(ground) };
    let story = match effective.system() {
        Some(_) => {
            "is for Linux, and nothing keeps its pods off the nodes of this pool: select kubernetes.io/os=linux too"
        }
        None => {
            "does not say which system it is for, and nothing keeps its pods off the nodes of this pool: select kubernetes.io/os=linux"
        }
    };
    let finding = |(pool, _): Place<'_>| Finding {
        pool: pool.name.clone(),
        trap: Trap::LinuxPodMayLand,
        story: story.to_owned(),
    };
    let there_are_nodes = |(_, kinds): &Place| kinds.iter().any(|kind| kind.exists);
    places.unwrap_or_default().into_iter().filter(there_are_nodes).map(finding).collect()
}

/// What is worth a look in a template for Windows.
fn advice(pool: &str, template: &Template) -> Vec<Finding> {
    // What an init container takes is given back before the others start.
    let lasting = template.containers.iter().filter(|container| !container.host_process && !container.init);
    let memory = lasting.into_iter().find_map(|container| {
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
