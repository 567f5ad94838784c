//! One MachineDeployment or MachinePool: the template that it should refer to, and what is changed.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};
use winpool_api::{
    LabelSelector, Rotation,
    facts::{
        Minor,
        cluster_api::{ApiVersion, BOOTSTRAP_GROUP},
        support,
    },
    names::annotation,
};

use super::{
    annotations, hints,
    rules::MachineRules,
    state::ClusterApiObjects,
    templates::{DesiredTemplate, Templates},
    views::{GroupKind, Infrastructure, MachineGroup, key_of},
};
use crate::{
    ForeignText, Problem,
    kind::Kind,
    operation::{Action, Dependency, Write, WriteTarget},
    pool::{
        Members, Pool, Snapshot, Spec,
        renderings::{self, HeldRendering},
    },
    profile::Profile,
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

/// Plans a group.
pub fn plan(
    snapshot: &Snapshot,
    objects: &ClusterApiObjects,
    (pool, spec, rules): (&Pool, &Spec, &MachineRules),
    group: &MachineGroup,
    cluster_paused: bool,
    templates: &mut Templates,
) -> GroupPlan {
    let kubernetes = group.version.parse::<Minor>().ok();
    let taken_by = older_pool(snapshot, pool, group);
    let other_bootstrap = other_bootstrap(group);
    let needs_template = other_bootstrap.is_none();
    let template = other_bootstrap.map_or_else(|| kubernetes.ok_or_else(|| unknown_version(group)), Err);
    let template = template.map_err(|problem| vec![problem]).and_then(|minor| templates.template_for(group, minor));
    match template {
        Err(_) if needs_template => templates.is_incomplete = true,
        Err(_) => templates.is_unneeded = true,
        Ok(_) => {}
    }
    let rendered_from = template.as_ref().map(|template| template.rendered_from.clone()).unwrap_or_default();
    let switches_itself = rules.rotation == Rotation::Automatic && group.managed && !group.topology_owned;
    let held = template.as_ref().ok().filter(|template| switches_itself && is_held(pool, group, template));
    let held = held.map(|template| templates.held(group, template));
    let template = template.map(|template| held.as_ref().map_or(template.name, |held| held.from.clone()));
    let next = kubernetes.filter(|_| needs_template).map(|minor| Minor(minor.0 + 1));
    let next = next.filter(|minor| *minor <= support::NEWEST);
    let next = next.and_then(|minor| Some((minor, templates.name_for_next(group, minor)?)));
    let paused = group.paused || cluster_paused;
    let wanted = template.as_deref().unwrap_or_default();
    let switches = if rules.rotation == Rotation::Automatic { switches(pool, &group.name, wanted) } else { 0 };
    let reference = match &template {
        Ok(name) if *name == group.bootstrap => Reference::UpToDate,
        Ok(name) if group.topology_owned && templates.is_contained(group, name) => Reference::UpToDate,
        // The KubeadmConfig of a topology is not read.
        Ok(_) if group.topology_owned && group.kind == GroupKind::Pool => Reference::UpToDate,
        Ok(_) => reference(rules, group, paused, switches),
        Err(_) => Reference::UpToDate,
    };
    let (machines, up_to_date) =
        counts(objects, group, if reference == Reference::UpToDate { &group.bootstrap } else { wanted });
    let writes = taken_by.is_none() && !paused;
    let kubelet = (snapshot.profile_of(spec), kubernetes.unwrap_or(support::NEWEST));
    let changes = annotation_changes(objects, kubelet, (pool, spec, rules), group, templates);
    let overstated = provider(objects, group).filter(|_| rules.capacity.is_some());
    let overstated = overstated.map(|provider| hints::overstated(&group.annotations, kubelet, provider));
    let switch = (reference == Reference::Switching && writes).then_some(wanted);
    let refers_to = (switches_itself && held.is_none() && group.bootstrap == wanted).then_some(wanted);
    let record = switch.or(refers_to).and_then(|template| annotations::record(group, template, &rendered_from));
    let patch = writes.then(|| patch(objects.version, group, switch, (&changes.set, record))).flatten();
    let registered = hints::labels_at_registration(spec, &group.machine_labels, templates.node_labels());
    GroupPlan {
        key: key_of(&group.namespace, &group.name),
        name: group.name.clone(),
        kind: group.kind,
        taken_by,
        kubernetes,
        held,
        next,
        current: group.bootstrap.clone(),
        machines,
        up_to_date,
        switches,
        missing_labels: missing_labels(spec, &registered),
        foreign_annotations: changes.foreign,
        overstated: overstated.unwrap_or_default(),
        patch,
        reference,
        template,
    }
}

/// Whether a group keeps the template that winpool let it refer to, because only winpool has rendered another one since.
fn is_held(pool: &Pool, group: &MachineGroup, rendered: &DesiredTemplate) -> bool {
    group.bootstrap != rendered.name
        && annotations::is_recorded(group, &group.bootstrap, &rendered.rendered_from)
        && !renderings::is_allowed(pool, &rendered.name)
}

/// The changes of the annotations for the autoscaler.
fn annotation_changes(
    objects: &ClusterApiObjects,
    kubelet: (Option<&Profile>, Minor),
    (pool, spec, rules): (&Pool, &Spec, &MachineRules),
    group: &MachineGroup,
    templates: &Templates,
) -> annotations::AnnotationChanges {
    let is_read = |reference| objects.infrastructure.contains_key(reference);
    let unread = group.infrastructure.as_ref().is_some_and(|reference| !is_read(reference));
    if rules.capacity.is_some() && (unread || !templates.is_readable()) {
        // Until the provider's report, the profile and the base are known, it is not known what is missing.
        return annotations::AnnotationChanges::default();
    }
    let labels = hints::labels(&pool.name, spec, &group.machine_labels, templates.node_labels());
    let desired = hints::annotations(&labels, spec, kubelet, rules.capacity, provider(objects, group));
    annotations::changes(group, &pool.name, &desired)
}

/// What the provider reports about the machines of a group.
fn provider<'a>(objects: &'a ClusterApiObjects, group: &MachineGroup) -> Option<&'a Infrastructure> {
    objects.infrastructure.get(group.infrastructure.as_ref()?)?.as_ref()
}

/// The problem of a group that does not refer to an object of kubeadm's provider.
fn other_bootstrap(group: &MachineGroup) -> Option<Problem> {
    let wrong = match group.bootstrap_kind.as_str() {
        kind if kind == group.kind.bootstrap().name => return None,
        "" => "there is no reference, so its machines are not made by kubeadm".to_owned(),
        kind => format!("the reference is to {kind}, and winpool makes {}", group.kind.bootstrap()),
    };
    let path = format!("{} {} spec.template.spec.bootstrap.configRef", group.kind.name(), group.name);
    Some(Problem::new(path, wrong, "select another group, or use delivery.method: Agent"))
}

/// How often a group was switched to a template, from the status of the pool.
fn switches(pool: &Pool, group: &str, template: &str) -> u32 {
    let groups = pool.status.cluster_api.iter().flat_map(|status| &status.groups);
    let of_group = groups.into_iter().find(|status| status.name == group && status.template == template);
    of_group.map_or(0, |status| status.switches)
}

fn unknown_version(group: &MachineGroup) -> Problem {
    let path = format!("{} {} spec.template.spec.version", group.kind.name(), group.name);
    Problem::new(path, format!("{:?} is not a Kubernetes version", group.version), "write one such as v1.36.2")
}

/// The first pool that selects a group, if it is another one.
fn older_pool(snapshot: &Snapshot, pool: &Pool, group: &MachineGroup) -> Option<String> {
    let selects = |other: &&Arc<Pool>| !other.deleting && other.machines().is_some_and(|rules| rules.selects(group));
    let first = snapshot.pools.values().filter(selects).min_by_key(|other| other.precedence())?;
    (first.name != pool.name).then(|| first.name.clone())
}

fn reference(rules: &MachineRules, group: &MachineGroup, paused: bool, switches: u32) -> Reference {
    match rules.rotation {
        _ if group.topology_owned => Reference::TopologyManaged,
        Rotation::Manual => Reference::Manual,
        Rotation::Automatic if !group.managed => Reference::NotAllowed,
        Rotation::Automatic if switches >= MAX_SWITCHES => Reference::ManagedElsewhere(group.other_writer.clone()),
        Rotation::Automatic if paused => Reference::Paused,
        Rotation::Automatic => Reference::Switching,
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
    let one = |part: LabelSelector| (!part.matches(labels)).then(|| part.to_string());
    let by_label = selector.match_labels.iter().map(|(key, value)| LabelSelector {
        match_labels: BTreeMap::from([(key.clone(), value.clone())]),
        match_expressions: Vec::new(),
    });
    let by_requirement = selector.match_expressions.iter().map(|requirement| LabelSelector {
        match_labels: BTreeMap::new(),
        match_expressions: vec![requirement.clone()],
    });
    by_label.chain(by_requirement).filter_map(one).collect()
}

/// The change of a group: its reference, and its annotations, for the autoscaler and of what its template is rendered from.
fn patch(
    version: ApiVersion,
    group: &MachineGroup,
    switch: Option<&str>,
    (hints, record): (&BTreeMap<String, Option<String>>, Option<String>),
) -> Option<Write> {
    let mut annotations: Map<String, Value> = hints.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let mut changes: Vec<String> = Vec::new();
    if !annotations.is_empty() {
        changes.push("describe new nodes to the autoscaler".to_owned());
    }
    annotations.extend(record.map(|record| (annotation::RENDERED_FROM.to_owned(), record.into())));
    let mut body = json!({});
    if let Some(template) = switch {
        body["spec"]["template"]["spec"]["bootstrap"]["configRef"] = config_ref(version, group, template);
        changes.push(format!("refer to {} {template}, which replaces its machines", group.kind.bootstrap()));
    }
    if changes.is_empty() && annotations.is_empty() {
        return None;
    }
    if !annotations.is_empty() {
        body["metadata"]["annotations"] = annotations.into();
    }
    let needs = switch.map(|template| {
        let template = Dependency::Object(group.kind.bootstrap(), key_of(&group.namespace, template));
        vec![Dependency::All(Kind::SECRET), template]
    });
    let change = (!changes.is_empty()).then(|| changes.join(", "));
    Some(Write { change, needs: needs.unwrap_or_default(), ..group.patch(version, body) })
}

impl MachineGroup {
    /// Patches the observed version of the group.
    pub(super) fn patch(&self, version: ApiVersion, body: Value) -> Write {
        let object = WriteTarget::namespaced(self.kind.kind().in_version(version), &self.namespace, &self.name);
        Write::merge(Action::PatchMachineObject, object, &self.resource_version, body)
    }
}

fn config_ref(version: ApiVersion, group: &MachineGroup, template: &str) -> Value {
    let kind = group.kind.bootstrap().name;
    match version {
        ApiVersion::V1Beta1 => {
            let api_version = format!("{BOOTSTRAP_GROUP}/{version}");
            // A merge patch keeps what it does not name, such as the uid of the former template.
            json!({
                "apiVersion": api_version, "kind": kind, "name": template, "namespace": group.namespace,
                "uid": null, "resourceVersion": null, "fieldPath": null,
            })
        }
        ApiVersion::V1Beta2 => json!({"apiGroup": BOOTSTRAP_GROUP, "kind": kind, "name": template}),
    }
}
