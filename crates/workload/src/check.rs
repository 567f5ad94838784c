//! The checks of pods and of pod templates.

use std::{collections::HashMap, sync::Arc};

use winpool_core::{
    ForeignText,
    image::{
        Compatibility, EvidenceSource, HostNode, ImageEvidence, Incompatibility, Lookup, Reference, RuntimeReport, tag,
    },
};
use winpool_facts::version_compatibility::{self, Isolation, VersionCompatibility};

use super::{
    Container, Pod, System, Template, WorkloadIssue, WorkloadName,
    issue::{ImageIssue, ImageRemedy},
    placement::{EffectiveSpec, MatchingPool, Unschedulable},
    scheduling_state::{ClassState, NodeGroup, NodeState, PoolState, SchedulingState},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolIssue {
    pub pool: String,
    pub issue: WorkloadIssue,
}

/// Whether the images of a pod run, best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageStatus {
    #[default]
    Compatible,
    Unknown,
    Suspected,
    Incompatible,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodAssessment {
    /// The pool of its node, or the first pool that it can be scheduled to.
    pub pool: Option<String>,
    pub images: ImageStatus,
    /// The sum of its memory limits, if it has a node, in bytes.
    pub memory_limit: i64,
    pub issues: Vec<PoolIssue>,
    pub images_to_look_up: Vec<String>,
}

pub type Lookups = HashMap<String, Arc<Lookup>>;

/// The kinds of workloads whose templates are checked. The template of any other pod is checked with the pod.
pub const CHECKED_CONTROLLERS: [&str; 4] = ["Deployment", "StatefulSet", "DaemonSet", "Job"];

/// Checks a pod; `sandbox` is the report of the container runtime about its sandbox.
pub fn check_pod(
    state: &SchedulingState,
    pod: &Pod,
    lookups: &Lookups,
    sandbox: Option<&RuntimeReport>,
) -> PodAssessment {
    if pod.finished || pod.template.oversized {
        return PodAssessment::default();
    }
    let check = PodCheck { state, pod, lookups };
    if let Some(name) = &pod.node {
        return state.nodes.get(name).map(|node| check.on_node(node, sandbox)).unwrap_or_default();
    }
    let mut assessment = check.pending();
    if !CHECKED_CONTROLLERS.contains(&pod.workload.kind.as_str()) {
        assessment.issues.extend(check_template(state, &pod.workload, &pod.template));
    }
    assessment
}

struct PodCheck<'a> {
    state: &'a SchedulingState,
    pod: &'a Pod,
    lookups: &'a Lookups,
}

impl PodCheck<'_> {
    fn on_node(&self, node: &NodeState, sandbox: Option<&RuntimeReport>) -> PodAssessment {
        let Self { state, pod, .. } = self;
        let Some(pool) = node.pool.as_deref().and_then(|pool| state.pool(pool)) else {
            return PodAssessment::default();
        };
        let mut assessment = PodAssessment { pool: Some(pool.name.clone()), ..PodAssessment::default() };
        let mut add = |issue| assessment.issues.push(PoolIssue { pool: pool.name.clone(), issue });
        let effective = EffectiveSpec::of_pod(&pod.template, state).unwrap_or_else(|reason| {
            if !pod.is_static && !will_be_resolved(state, &reason) {
                add(WorkloadIssue::CannotBeCreatedAgain(reason));
            }
            EffectiveSpec::without_class(&pod.template)
        });
        if effective.system() == Some(System::Linux) {
            add(WorkloadIssue::LinuxPodOnWindowsNode);
            return assessment;
        }
        if let Some(group) = node.group.as_deref().filter(|_| !pod.is_static) {
            self.not_reschedulable(pool, group, &effective).into_iter().for_each(&mut add);
            let changed = effective.class.and_then(|(name, class)| class_changed(pod, name, class, group));
            changed.into_iter().for_each(add);
        }
        assessment.memory_limit = pod.template.memory_limit();
        let Some(group) = node.group.as_deref() else { return assessment };
        let without_reports = pod.reports.iter().all(Option::is_none);
        if let Some(RuntimeReport::Incompatible(error)) = sandbox.filter(|_| without_reports) {
            assessment.images = ImageStatus::Incompatible;
            let issue = WorkloadIssue::SandboxCannotStart { host: group.host.os, error: error.clone() };
            assessment.issues.push(PoolIssue { pool: pool.name.clone(), issue });
        } else {
            self.images(&[(pool.name.as_str(), group)], &effective, &mut assessment);
        }
        assessment
    }

    /// The taint that excludes a pod from its pool, or the pod of a DaemonSet from its node, when it is created again.
    fn not_reschedulable(&self, pool: &PoolState, own: &NodeGroup, effective: &EffectiveSpec) -> Option<WorkloadIssue> {
        let untolerated = |group: &NodeGroup| {
            let present = effective.untolerated(&group.taints).map(|taint| (taint.clone(), false));
            present.or_else(|| effective.untolerated(&group.withheld).map(|taint| (taint.clone(), true)))
        };
        let (taint, withheld) = untolerated(own)?;
        let mut selected = pool.groups.iter().filter(|group| effective.selects(self.state, &pool.name, group));
        let of_daemon_set = self.pod.workload.kind == "DaemonSet";
        if !of_daemon_set && selected.any(|group| untolerated(group).is_none()) {
            return None;
        }
        Some(WorkloadIssue::NotReschedulable { taint, withheld, of_daemon_set })
    }

    /// Checks a pod without a node. If it cannot be scheduled, this is an issue of its template.
    fn pending(&self) -> PodAssessment {
        let Self { state, pod, .. } = self;
        let Ok(effective) = EffectiveSpec::of_pod(&pod.template, state) else { return PodAssessment::default() };
        let pools = effective.windows_pools(state);
        let Some(first) = pools.first() else { return PodAssessment::default() };
        // Linux nodes may have the taint that it tolerates, so its images decide.
        let undetermined = effective.system().is_none();
        let images = || pod.template.containers.iter().map(|container| container.image.raw());
        if undetermined && images().any(|image| self.is_not_for_windows(image)) {
            let images_to_look_up = images().map(str::to_owned).collect();
            return PodAssessment { images_to_look_up, ..PodAssessment::default() };
        }
        let mut assessment = PodAssessment { pool: Some(first.pool.name.clone()), ..PodAssessment::default() };
        let groups: Vec<_> = pools
            .iter()
            .flat_map(|MatchingPool { pool, groups }| groups.iter().map(|group| (pool.name.as_str(), *group)))
            .collect();
        self.images(&groups, &effective, &mut assessment);
        if undetermined {
            assessment.images_to_look_up = images().map(str::to_owned).collect();
        }
        assessment
    }

    /// Whether, according to the registry, an image is only for other systems than Windows.
    fn is_not_for_windows(&self, image: &str) -> bool {
        let lookup = self.lookups.get(image).map(Arc::as_ref);
        matches!(lookup, Some(Lookup::Found(content)) if content.windows().next().is_none())
    }

    /// Checks the images of a pod on every group of nodes that it may run on.
    fn images(&self, groups: &[(&str, &NodeGroup)], effective: &EffectiveSpec, assessment: &mut PodAssessment) {
        let template = &self.pod.template;
        let for_windows = effective.system().is_some();
        let isolation = self.state.isolation(template.runtime_class.as_deref());
        for (container, report) in template.containers.iter().zip(&self.pod.reports) {
            let Ok(reference) = container.image.raw().parse::<Reference>() else {
                assessment.images = assessment.images.max(ImageStatus::Unknown);
                continue;
            };
            let lookup = self.lookups.get(container.image.raw()).map(Arc::as_ref);
            let by_age = |(pool, _): &(&str, _)| {
                self.state.pool(pool).is_some_and(|pool| pool.max_image_updates_behind.is_some())
            };
            if *report != Some(RuntimeReport::Started) || groups.iter().any(by_age) {
                assessment.images_to_look_up.push(container.image.raw().to_owned());
            }
            let evidence = ImageEvidence { report: report.as_ref(), lookup, reference: &reference };
            for (pool, group) in groups {
                let (status, issue) = check_image(self.state, container, evidence, &group.host, isolation, for_windows);
                assessment.images = assessment.images.max(status);
                let behind = || {
                    let os = evidence.selected(&group.host, isolation, container.host_process)?;
                    let behind = self.state.behind(pool, os)?;
                    Some(WorkloadIssue::ImageUpdatesBehind { image: container.image.clone(), os, behind })
                };
                if let Some(issue) = issue.or_else(behind) {
                    assessment.issues.push(PoolIssue { pool: (*pool).to_owned(), issue });
                    break;
                }
            }
        }
    }
}

/// The changed label of the RuntimeClass, if the RuntimeClass no longer selects the pod's node.
fn class_changed(pod: &Pod, name: &str, class: &ClassState, group: &NodeGroup) -> Option<WorkloadIssue> {
    if !group.lacks(&class.scheduling) {
        return None;
    }
    let own = &pod.template.scheduling.node_selector;
    let (key, now) = class.scheduling.node_selector.iter().find(|(key, now)| own.get(*key) != Some(now))?;
    let before = own.get(key).cloned();
    Some(WorkloadIssue::RuntimeClassChanged { class: name.to_owned(), key: key.clone(), before, now: now.clone() })
}

/// Whether a pool is about to create the missing RuntimeClass.
fn will_be_resolved(state: &SchedulingState, reason: &Unschedulable) -> bool {
    matches!(reason, Unschedulable::RuntimeClassNotFound { class, .. } if state.will_create(class))
}

/// Checks an image on a host; `for_windows`: whether the pod declares that it is for Windows.
fn check_image(
    state: &SchedulingState,
    container: &Container,
    evidence: ImageEvidence<'_>,
    host: &HostNode,
    isolation: Isolation,
    for_windows: bool,
) -> (ImageStatus, Option<WorkloadIssue>) {
    let image = &container.image;
    match evidence.compatibility(host, isolation, container.host_process) {
        Compatibility::Compatible(_) => match evidence.newer_revision(host, isolation, container.host_process) {
            Some(os) => {
                let issue = WorkloadIssue::ImageNewerThanHost { image: image.clone(), os, host: host.os };
                (ImageStatus::Suspected, Some(issue))
            }
            None => (ImageStatus::Compatible, None),
        },
        Compatibility::Unknown(_) => (ImageStatus::Unknown, None),
        Compatibility::Incompatible(source, incompatibility) => {
            let by_name = source == EvidenceSource::Name;
            let status = if by_name { ImageStatus::Suspected } else { ImageStatus::Incompatible };
            let without_report = ImageEvidence { report: None, ..evidence };
            let explanation = match without_report.compatibility(host, isolation, container.host_process) {
                Compatibility::Incompatible(of, explanation) if of != source => Some((of, explanation)),
                _ => None,
            };
            let most_specific = explanation.as_ref().map_or(&incompatibility, |(_, explanation)| explanation).clone();
            let issue = image_issue(state, image, source, most_specific, host, for_windows);
            let issue = ImageIssue { incompatibility, explanation, ..issue };
            (status, Some(WorkloadIssue::ImageCannotRun(issue)))
        }
    }
}

/// The issue of an image that does not run on a host; `for_windows`: whether the pod declares that it is for Windows.
pub fn image_issue(
    state: &SchedulingState,
    image: &ForeignText,
    source: EvidenceSource,
    incompatibility: Incompatibility,
    host: &HostNode,
    for_windows: bool,
) -> ImageIssue {
    let remedy = image_remedy(state, image, &incompatibility, host, for_windows);
    ImageIssue { image: image.clone(), host: host.os, source, incompatibility, explanation: None, remedy }
}

fn image_remedy(
    state: &SchedulingState,
    image: &ForeignText,
    incompatibility: &Incompatibility,
    host: &HostNode,
    for_windows: bool,
) -> ImageRemedy {
    let os = incompatibility.image().or_else(|| tag::suggested(&image.raw().parse().ok()?)?.os);
    let runs_on = |host: &HostNode| {
        let fit = |os| version_compatibility::check(host.os, Some(os), Isolation::Process, host.containerd);
        os.is_some_and(|os| fit(os) == VersionCompatibility::Compatible)
    };
    let other_pool = state.pools.iter().find(|pool| pool.groups.iter().all(|group| runs_on(&group.host)));
    let for_linux = match incompatibility {
        Incompatibility::OtherSystem(systems) => systems.iter().any(|system| system.raw().starts_with("linux")),
        Incompatibility::Reported(_) => !for_windows,
        _ => false,
    };
    let build = host.os.build;
    match (incompatibility, other_pool.filter(|_| !runs_on(host))) {
        _ if for_linux => ImageRemedy::BuildForWindows { host: build },
        (Incompatibility::Containerd { needs, .. }, _) => ImageRemedy::UpgradeContainerd { host: build, needs: *needs },
        (_, Some(pool)) => ImageRemedy::UsePool { host: build, pool: pool.name.clone() },
        _ => ImageRemedy::Rebuild { host: build },
    }
}

pub fn check_template(state: &SchedulingState, workload: &WorkloadName, template: &Template) -> Vec<PoolIssue> {
    // A template with a node name bypasses the scheduler: its pods are checked on their node.
    if state.pools.is_empty() || template.node_name.is_some() || template.oversized {
        return Vec::new();
    }
    let effective = match EffectiveSpec::of(template, state) {
        Ok(effective) => effective,
        Err(reason) => {
            let windows = template.system(|_| None) == Some(System::Windows) || class_suggests_windows(template);
            let is_issue = windows && !will_be_resolved(state, &reason);
            return is_issue.then(|| unschedulable(state, reason)).into_iter().collect();
        }
    };
    match effective.system() {
        Some(System::Windows) => {}
        // It tolerates the taint of a pool by key, and may be for Windows or Linux.
        None if effective.is_for_windows(state) => return Vec::new(),
        Some(System::Linux) | None => return linux_pods_may_land(state, workload, template, &effective),
    }
    let mut issues = match workload.kind.as_str() {
        "DaemonSet" => check_daemon_set(state, template, &effective),
        _ => {
            let reason = effective.schedulable_pools(state).err().filter(|_| !effective.fits_unassigned_nodes(state));
            reason.map(|reason| unschedulable(state, reason)).into_iter().collect()
        }
    };
    if let Some(MatchingPool { pool, .. }) = effective.selected_pools(state).first() {
        issues.extend(warnings(&pool.name, template));
    }
    issues
}

/// Whether the name of the RuntimeClass suggests Windows, which is the only hint if the RuntimeClass does not exist.
fn class_suggests_windows(template: &Template) -> bool {
    template.runtime_class.as_deref().is_some_and(|class| class.to_lowercase().contains("windows"))
}

/// The issue at the pool that matches best: that of the RuntimeClass, else the first.
fn unschedulable(state: &SchedulingState, reason: Unschedulable) -> PoolIssue {
    let of_class = |class: &String| state.pools.iter().find(|pool| pool.classes.iter().any(|(name, _)| name == class));
    let pool = match &reason {
        Unschedulable::UntoleratedTaint { pool, .. }
        | Unschedulable::HandlerMissing { pool, .. }
        | Unschedulable::NoMatchingNode { pool, .. } => pool.clone(),
        Unschedulable::RuntimeClassNotFound { class, .. } | Unschedulable::SelectorConflict { class, .. } => {
            of_class(class).or(state.pools.first()).map(|pool| pool.name.clone()).unwrap_or_default()
        }
    };
    PoolIssue { pool, issue: WorkloadIssue::Unschedulable(reason) }
}

/// Checks a DaemonSet, whose controller selects nodes only by the template. A DaemonSet that selects no node has no
/// issue, because many are for nodes that a cluster may never have.
fn check_daemon_set(state: &SchedulingState, template: &Template, effective: &EffectiveSpec) -> Vec<PoolIssue> {
    let alone = EffectiveSpec::without_class(template);
    let selected = effective.selected_pools(state);
    let Some(first) = selected.first() else { return Vec::new() };
    if let Some((class, missing)) = effective.labels_only_in_class(state, &selected) {
        let issue = WorkloadIssue::DaemonSetIgnoresRuntimeClass { class: class.to_owned(), missing };
        return vec![PoolIssue { pool: first.pool.name.clone(), issue }];
    }
    let not_tolerating = |MatchingPool { pool, groups }: &MatchingPool| {
        let (pool, taint) = (pool.name.clone(), alone.untolerated_in_all(groups)?.clone());
        Some(PoolIssue { pool: pool.clone(), issue: WorkloadIssue::DaemonSetNotTolerating { pool, taint } })
    };
    let issues: Vec<PoolIssue> = selected.iter().filter_map(not_tolerating).collect();
    match effective.schedulable_pools(state) {
        Err(reason @ Unschedulable::HandlerMissing { .. }) if issues.is_empty() => vec![unschedulable(state, reason)],
        _ => issues,
    }
}

/// The pools that a workload can be scheduled to although it is not for Windows.
fn linux_pods_may_land(
    state: &SchedulingState,
    workload: &WorkloadName,
    template: &Template,
    effective: &EffectiveSpec,
) -> Vec<PoolIssue> {
    let suggests_windows = |image: &str| image.parse().ok().and_then(|image| tag::suggested(&image)).is_some();
    if template.containers.iter().any(|container| suggests_windows(container.image.raw())) {
        return Vec::new();
    }
    let pools = match workload.kind.as_str() {
        "DaemonSet" => EffectiveSpec::without_class(template).schedulable_pools(state),
        _ => effective.schedulable_pools(state),
    };
    let declared = effective.system().is_some();
    let has_nodes = |matching: &MatchingPool| matching.groups.iter().any(|group| group.exists);
    let issue = |matching: MatchingPool| PoolIssue {
        pool: matching.pool.name.clone(),
        issue: WorkloadIssue::LinuxPodMayLand { declared },
    };
    pools.unwrap_or_default().into_iter().filter(has_nodes).map(issue).collect()
}

fn warnings(pool: &str, template: &Template) -> Vec<PoolIssue> {
    // Init containers release their memory before the other containers start.
    let mut lasting = template.containers.iter().filter(|container| !container.host_process && !container.init);
    let memory = lasting.find_map(|container| {
        let name = container.name.clone();
        match (container.memory_request, container.memory_limit) {
            (_, None) => Some(WorkloadIssue::NoMemoryLimit { container: name }),
            (Some(request), Some(limit)) if request < limit => {
                Some(WorkloadIssue::MemoryRequestBelowLimit { container: name, request, limit })
            }
            _ => None,
        }
    });
    let fields = &template.ineffective_fields;
    let fields = (!fields.is_empty()).then(|| WorkloadIssue::FieldsWithoutEffect(fields.clone()));
    memory.into_iter().chain(fields).map(|issue| PoolIssue { pool: pool.to_owned(), issue }).collect()
}
