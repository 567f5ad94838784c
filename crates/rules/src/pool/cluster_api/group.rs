//! One MachineDeployment or MachinePool: the template that it should refer to, and what is changed.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};
use winpool_api::{Rotation, names::annotation};
use winpool_core::{ForeignText, Problem, kind::Kind};
use winpool_facts::{Minor, support};
use winpool_render::profile::Profile;

use super::{
    annotations, hints,
    state::ClusterApiObjects,
    stored,
    templates::{ClusterApiPool, DesiredTemplate, GroupTemplates, TemplateRenderer},
    views::{GroupKind, Infrastructure, MachineGroup, key_of},
};
use crate::{
    operation::{Action, Dependency, Write, WriteTarget},
    pool::{
        Members, Pool, Snapshot, Spec,
        renderings::{self, HeldRendering},
    },
};

/// How often another client may change a reference back.
const MAX_SWITCHES: u32 = 2;

/// The plan for a group of machines.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// `namespace/name`.
    pub key: String,
    pub name: String,
    pub kind: GroupKind,
    /// The older pool that also selects it, if there is one: then it is not changed.
    pub taken_by: Option<String>,
    /// The Kubernetes minor of its machines.
    pub kubernetes: Option<Minor>,
    /// The template that it should refer to, or why there is none.
    pub template: Result<String, Vec<Problem>>,
    /// The template that is rendered instead, if only winpool has changed it and nobody has allowed it.
    pub held: Option<HeldRendering>,
    /// The template for the next minor.
    pub next: Option<(Minor, String)>,
    pub current: String,
    pub reference: Reference,
    pub machines: u32,
    /// Of these, machines from the template that it should refer to.
    pub up_to_date: u32,
    /// How often winpool has switched it to the template.
    pub switches: u32,
    /// The labels of the pool's selector that a new node would not have.
    pub missing_labels: Vec<String>,
    /// The annotations for the autoscaler that another client wrote with another value.
    pub foreign_annotations: Vec<String>,
    /// The resources that the autoscaler expects on a new node and that are reserved there.
    pub overstated: Vec<hints::Overstated>,
    pub patch: Option<Write>,
}

/// Whether a group refers to the template that it should refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// It does, or there is no template.
    UpToDate,
    Switching,
    /// It is switched when the next maintenance window begins.
    AwaitsWindow(Timestamp),
    /// A person or Git switches it.
    Manual,
    /// Its owner has not allowed to switch it.
    NotAllowed,
    /// Its controllers, or those of the cluster, are paused.
    Paused,
    /// A ClusterClass controls it.
    TopologyManaged,
    /// Another client changed it back; the field manager.
    ManagedElsewhere(Option<ForeignText>),
}

/// Plans the groups of a pool.
#[derive(Clone, Copy)]
pub struct GroupPlanner<'a> {
    pub snapshot: &'a Snapshot,
    pub objects: &'a ClusterApiObjects,
    pub of: ClusterApiPool<'a>,
    /// Whether the controllers of the cluster are paused.
    pub cluster_paused: bool,
    pub renderer: &'a TemplateRenderer<'a>,
}

/// The profile of a kubelet, and its minor.
type Kubelet<'a> = (Option<&'a Profile>, Minor);

impl<'a> GroupPlanner<'a> {
    /// Plans a group.
    pub fn plan(&self, group: &MachineGroup, templates: &GroupTemplates) -> GroupPlan {
        let spec = self.of.spec;
        let rendered = templates.current.as_ref().ok();
        let held = rendered.filter(|rendered| self.holds(group, rendered));
        let held = held.map(|rendered| stored::held(self.objects, group, rendered));
        // The template that the group gets, unless it keeps its own.
        let desired = rendered.filter(|_| held.is_none());
        let template = match &templates.current {
            Ok(_) if held.is_some() => Ok(group.bootstrap.clone()),
            Ok(rendered) => Ok(rendered.name.clone()),
            Err(reason) => Err(reason.problems().to_vec()),
        };
        let switches = template.as_ref().map_or(0, |template| self.switches(group, template));
        let reference = desired.map_or(Reference::UpToDate, |desired| self.reference(group, desired, switches));
        let other = desired.filter(|_| reference != Reference::UpToDate);
        let (machines, up_to_date) =
            counts(self.objects, group, other.map_or(&group.bootstrap, |desired| &desired.name));
        let kubelet = (self.snapshot.profile_of(spec), templates.kubernetes.unwrap_or(support::NEWEST));
        let changes = self.annotation_changes(group, kubelet);
        let taken_by = self.older_pool(group);
        let is_written = taken_by.is_none() && !self.is_paused(group);
        let patch = is_written.then(|| self.patch(group, desired, &reference, &changes.set)).flatten();
        let registered = hints::labels_at_registration(spec, &group.machine_labels, &self.renderer.node_labels);
        GroupPlan {
            key: key_of(&group.namespace, &group.name),
            name: group.name.clone(),
            kind: group.kind,
            taken_by,
            kubernetes: templates.kubernetes,
            template,
            held,
            next: templates.next.as_ref().map(|(minor, template)| (*minor, template.name.clone())),
            current: group.bootstrap.clone(),
            reference,
            machines,
            up_to_date,
            switches,
            missing_labels: missing_labels(spec, &registered),
            foreign_annotations: changes.foreign,
            overstated: self.overstated(group, kubelet),
            patch,
        }
    }

    /// Whether winpool may switch the reference of a group.
    fn may_switch(&self, group: &MachineGroup) -> bool {
        self.of.rules.rotation == Rotation::Automatic && group.managed && !group.topology_owned
    }

    fn is_paused(&self, group: &MachineGroup) -> bool {
        group.paused || self.cluster_paused
    }

    /// Whether a group keeps the template that winpool let it refer to, because only winpool has rendered another one since.
    fn holds(&self, group: &MachineGroup, rendered: &DesiredTemplate) -> bool {
        self.may_switch(group)
            && group.bootstrap != rendered.name
            && annotations::is_recorded(group, &group.bootstrap, &rendered.rendered_from)
            && !renderings::is_allowed(self.of.pool, &rendered.name)
    }

    /// How often a group was switched to a template, from the status of the pool.
    fn switches(&self, group: &MachineGroup, template: &str) -> u32 {
        let groups = self.of.pool.status.cluster_api.iter().flat_map(|status| &status.groups);
        let mut counted = groups.filter(|_| self.of.rules.rotation == Rotation::Automatic);
        let of_group = counted.find(|status| status.name == group.name && status.template == template);
        of_group.map_or(0, |status| status.switches)
    }

    fn reference(&self, group: &MachineGroup, desired: &DesiredTemplate, switches: u32) -> Reference {
        // The KubeadmConfig of a topology is not read.
        let has_files = || group.kind == GroupKind::Pool || stored::contains_files(self.objects, group, desired);
        match self.of.rules.rotation {
            _ if group.bootstrap == desired.name => Reference::UpToDate,
            _ if group.topology_owned && has_files() => Reference::UpToDate,
            _ if group.topology_owned => Reference::TopologyManaged,
            Rotation::Manual => Reference::Manual,
            Rotation::Automatic if !group.managed => Reference::NotAllowed,
            Rotation::Automatic if switches >= MAX_SWITCHES => Reference::ManagedElsewhere(group.other_writer.clone()),
            Rotation::Automatic if self.is_paused(group) => Reference::Paused,
            // Without machines, none is replaced.
            Rotation::Automatic => match self.of.spec.maintenance.at(self.snapshot.now).awaited() {
                Some(begins) if group.replicas > 0 => Reference::AwaitsWindow(begins),
                _ => Reference::Switching,
            },
        }
    }

    /// The first pool that selects a group, if it is another one.
    fn older_pool(&self, group: &MachineGroup) -> Option<String> {
        let selects =
            |other: &&Arc<Pool>| !other.deleting && other.cluster_api().is_some_and(|rules| rules.selects(group));
        let first = self.snapshot.pools.values().filter(selects).min_by_key(|other| other.precedence())?;
        (first.name != self.of.pool.name).then(|| first.name.clone())
    }

    /// What the provider reports about the machines of a group.
    fn provider(&self, group: &MachineGroup) -> Option<&'a Infrastructure> {
        self.objects.infrastructure.get(group.infrastructure.as_ref()?)?.as_ref()
    }

    /// The changes of the annotations for the autoscaler.
    fn annotation_changes(&self, group: &MachineGroup, kubelet: Kubelet) -> annotations::AnnotationChanges {
        let ClusterApiPool { pool, spec, rules } = self.of;
        let is_read = |reference| self.objects.infrastructure.contains_key(reference);
        let unread = group.infrastructure.as_ref().is_some_and(|reference| !is_read(reference));
        if rules.capacity.is_some() && (unread || !self.renderer.is_readable()) {
            // Until the provider's report, the profile and the base are known, it is not known what is missing.
            return annotations::AnnotationChanges::default();
        }
        let labels = hints::labels(&pool.name, spec, &group.machine_labels, &self.renderer.node_labels);
        let desired = hints::annotations(&labels, spec, kubelet, rules.capacity, self.provider(group));
        annotations::changes(group, &pool.name, &desired)
    }

    /// The resources that the autoscaler expects on a new node and that are reserved there.
    fn overstated(&self, group: &MachineGroup, kubelet: Kubelet) -> Vec<hints::Overstated> {
        let provider = self.provider(group).filter(|_| self.of.rules.capacity.is_some());
        provider.map(|provider| hints::overstated(&group.annotations, kubelet, provider)).unwrap_or_default()
    }

    /// The change of a group: its reference, if `desired` is the template that it gets, and its annotations, for the autoscaler and
    /// of what that template is rendered from.
    fn patch(
        &self,
        group: &MachineGroup,
        desired: Option<&DesiredTemplate>,
        reference: &Reference,
        hints: &BTreeMap<String, Option<String>>,
    ) -> Option<Write> {
        let switch = desired.filter(|_| *reference == Reference::Switching);
        let recorded =
            desired.filter(|desired| self.may_switch(group) && (switch.is_some() || group.bootstrap == desired.name));
        let record = recorded.and_then(|desired| annotations::record(group, &desired.name, &desired.rendered_from));
        let mut annotations = hints.clone();
        annotations.extend(record.map(|record| (annotation::RENDERED_FROM.to_owned(), Some(record))));
        if switch.is_none() && annotations.is_empty() {
            return None;
        }
        let (mut body, mut needs, mut changes) = (json!({}), Vec::new(), Vec::new());
        if !annotations.is_empty() {
            body["metadata"]["annotations"] = json!(annotations);
        }
        if !hints.is_empty() {
            changes.push("describe new nodes to the autoscaler".to_owned());
        }
        if let Some(DesiredTemplate { name, .. }) = switch {
            let bootstrap = group.kind.bootstrap();
            body["spec"]["template"]["spec"]["bootstrap"]["configRef"] =
                json!({"apiGroup": bootstrap.group, "kind": bootstrap.name, "name": name});
            needs = vec![Dependency::All(Kind::SECRET), Dependency::Object(bootstrap, key_of(&group.namespace, name))];
            changes.push(format!("refer to {bootstrap} {name}, which replaces its machines"));
        }
        let change = (!changes.is_empty()).then(|| changes.join(", "));
        Some(Write { change, needs, ..group.patch(body) })
    }
}

impl MachineGroup {
    /// Patches the observed version of the group.
    pub(super) fn patch(&self, body: Value) -> Write {
        let object = WriteTarget::namespaced(self.kind.kind(), &self.namespace, &self.name);
        Write::merge(Action::PatchMachineObject, object, &self.resource_version, body)
    }
}

/// The machines of a group, and those from a template. A MachinePool does not tell the templates of its machines.
fn counts(objects: &ClusterApiObjects, group: &MachineGroup, template: &str) -> (u32, u32) {
    let (key, wanted) = (key_of(&group.namespace, &group.name), key_of(&group.namespace, template));
    match group.kind {
        GroupKind::Pool if group.bootstrap == template => (group.replicas, group.replicas),
        GroupKind::Pool => (group.replicas, 0),
        GroupKind::Deployment => {
            let sets = || objects.sets.values().filter(|set| set.deployment == key);
            let of_template = sets().filter(|set| set.template == wanted);
            (sets().map(|set| set.replicas).sum(), of_template.map(|set| set.replicas).sum())
        }
    }
}

/// The labels and requirements of the selector that a new node does not match.
fn missing_labels(spec: &Spec, labels: &BTreeMap<String, String>) -> Vec<String> {
    let Members::Selector(selector) = &spec.members else { return Vec::new() };
    selector.parts().filter(|part| !part.matches(labels)).map(|part| part.to_string()).collect()
}
