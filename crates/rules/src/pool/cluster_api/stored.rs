//! The templates of a pool in the cluster: which of them are missing, are not as winpool created them, or are not used.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use winpool_api::names::label;
use winpool_core::{Problem, kind::Kind};
use winpool_facts::cluster_api::CLUSTER_NAME;
use winpool_render::kubeadm::{self, KubeadmTemplate};

use super::{
    state::ClusterApiObjects,
    templates::{ClusterApiPool, DesiredTemplate, GroupTemplates, NoTemplate},
    views::{GroupKind, MachineGroup, TemplateView, key_of},
};
use crate::{
    operation::{Action, Dependency, Verb, Write, WriteTarget},
    pool::{Pool, renderings::HeldRendering, snapshot::is_config_name},
};

/// The number of unused templates that are kept, because a change in Git that names one may not be applied yet.
const UNUSED_KEPT: usize = 3;

/// The fields of a bootstrap configuration with what a machine writes and runs.
const EXECUTED: [&str; 4] = ["bootCommands", "files", "preKubeadmCommands", "postKubeadmCommands"];

/// The templates of a pool among the objects of a cluster.
#[derive(Clone, Copy)]
pub struct StoredTemplates<'a> {
    pub objects: &'a ClusterApiObjects,
    pub of: ClusterApiPool<'a>,
}

impl<'a> StoredTemplates<'a> {
    fn get(&self, name: &str) -> Option<&'a TemplateView> {
        let rules = self.of.rules;
        self.objects.bootstrap(rules.kind, &key_of(&rules.namespace, name))
    }

    /// Why the object with the name of a template is another one: it was changed after its creation, or the name was predicted.
    pub fn problem(&self, template: &DesiredTemplate) -> Option<Problem> {
        let stored = self.get(&template.name)?;
        let wrong = if stored.pool.as_ref() != Some(&self.of.pool.name) {
            "the object exists and was not created by this pool"
        } else if stored.edited {
            "the object was changed after winpool created it"
        } else if !runs_the_same(&stored.spec, &template.spec()) {
            "the object exists with other files or commands"
        } else {
            return None;
        };
        let object = format!("{} {}", self.of.rules.kind.bootstrap(), template.name);
        Some(Problem::new(object, wrong, "delete it, and winpool creates it again"))
    }

    /// Creates the Secrets and the templates that do not exist.
    pub fn missing(&self, groups: &[GroupTemplates]) -> (Vec<Write>, Vec<Write>) {
        let rules = self.of.rules;
        let (kind, namespace) = (rules.kind, rules.namespace.as_str());
        let labels = labels(&self.of.pool.name, &rules.cluster);
        let desired: BTreeMap<_, _> = desired(groups).map(|template| (template.name.as_str(), template)).collect();
        let missing: Vec<_> = desired.into_values().filter(|template| self.get(&template.name).is_none()).collect();
        let write = |kind: Kind, name: &str, body| {
            Write::create(Action::CreateMachineObject, WriteTarget::namespaced(kind, namespace, name), body)
        };
        let with_secret = missing.iter().filter(|desired| !desired.template.secret.is_empty());
        let secrets = with_secret.map(|DesiredTemplate { name, template, .. }| {
            let body = secret_object(name, namespace, &labels, template);
            // A Secret is not read, so it is applied.
            Write { verb: Verb::Apply, ..write(Kind::SECRET, &kubeadm::secret_name(name), body) }
        });
        // While a Secret is missing, no template is created.
        let templates = missing.iter().map(|DesiredTemplate { name, template, .. }| {
            let body = template_object(kind, (name, namespace, &labels), template);
            Write { needs: vec![Dependency::All(Kind::SECRET)], ..write(kind.bootstrap(), name, body) }
        });
        (secrets.collect(), templates.collect())
    }

    /// The templates that nothing refers to, except the newest; all of them if no group needs one.
    pub fn unused(&self, groups: &[GroupTemplates]) -> Vec<(GroupKind, &'a TemplateView)> {
        let reasons = || groups.iter().filter_map(|templates| templates.current.as_ref().err());
        if reasons().any(|reason| matches!(reason, NoTemplate::Unknown(_))) {
            return Vec::new();
        }
        let desired: BTreeSet<&str> = desired(groups).map(|template| template.name.as_str()).collect();
        let kept = match (desired.is_empty(), reasons().next()) {
            (false, _) => UNUSED_KEPT,
            (true, Some(_)) => 0,
            // No group is selected.
            (true, None) => return Vec::new(),
        };
        let (objects, ClusterApiPool { pool, rules, .. }) = (self.objects, self.of);
        let mut unused = unreferenced(objects, rules.kind, pool, |name| desired.contains(name));
        unused.sort_by(|(_, a), (_, b)| (b.created, &b.name).cmp(&(a.created, &a.name)));
        unused.into_iter().skip(kept).collect()
    }
}

/// The templates of groups, for their minor and the next one.
fn desired(groups: &[GroupTemplates]) -> impl Iterator<Item = &DesiredTemplate> {
    groups.iter().flat_map(|templates| {
        let next = templates.next.as_ref().map(|(_, template)| template);
        templates.current.as_ref().ok().into_iter().chain(next)
    })
}

/// The template to which a group refers.
fn referenced<'a>(objects: &'a ClusterApiObjects, group: &MachineGroup) -> Option<&'a TemplateView> {
    objects.bootstrap(group.kind, &key_of(&group.namespace, &group.bootstrap))
}

/// Whether the template to which a group refers has all files of the rendered one.
pub fn contains_files(objects: &ClusterApiObjects, group: &MachineGroup, rendered: &DesiredTemplate) -> bool {
    referenced(objects, group).is_some_and(|referenced| {
        let present = list(&referenced.spec, "files");
        list(&rendered.spec(), "files").iter().all(|file| present.contains(file))
    })
}

/// What the template to which a group refers lacks of the rendered one.
pub fn held(objects: &ClusterApiObjects, group: &MachineGroup, rendered: &DesiredTemplate) -> HeldRendering {
    let (from, to) = (&group.bootstrap, &rendered.name);
    let before = referenced(objects, group).map(|template| kubeadm::settings_of(&template.spec));
    let after = kubeadm::settings_of(&rendered.template.spec(from));
    HeldRendering::new(from, to, &before.unwrap_or_default(), &after)
}

impl DesiredTemplate {
    /// The specification under its name.
    fn spec(&self) -> Value {
        self.template.spec(&self.name)
    }
}

fn runs_the_same(a: &Value, b: &Value) -> bool {
    EXECUTED.iter().all(|field| list(a, field) == list(b, field))
}

fn list<'v>(spec: &'v Value, field: &str) -> &'v [Value] {
    spec[field].as_array().map_or(&[], Vec::as_slice)
}

/// The templates of a pool that nothing refers to and that are not desired. A template of a topology may refer to the Secret of
/// one of the same content.
pub fn unreferenced<'a>(
    objects: &'a ClusterApiObjects,
    kind: GroupKind,
    pool: &'a Pool,
    is_desired: impl Fn(&str) -> bool,
) -> Vec<(GroupKind, &'a TemplateView)> {
    let by_groups = objects.groups(kind).into_iter().map(|group| key_of(&group.namespace, &group.bootstrap));
    let by_sets = objects.sets.values().map(|set| set.template.clone());
    let referenced: BTreeSet<String> = by_groups.chain(by_sets).collect();
    let is_used = |template: &TemplateView| {
        let others = GroupKind::ALL.into_iter().flat_map(|kind| objects.bootstraps(kind));
        let mut others = others.filter(|other| other.namespace == template.namespace && other.uid != template.uid);
        referenced.contains(&key_of(&template.namespace, &template.name))
            || others.any(|other| has_secret_of(other, &template.name))
    };
    own(objects, kind, pool)
        .filter(|template| !is_desired(&template.name) && !is_used(template))
        .map(|template| (kind, template))
        .collect()
}

/// The templates that a pool created. Everyone who can create one can give it the label of the pool, so that namespace and
/// name count too.
pub fn own<'a>(
    objects: &'a ClusterApiObjects,
    kind: GroupKind,
    pool: &'a Pool,
) -> impl Iterator<Item = &'a TemplateView> {
    objects.bootstraps(kind).into_iter().filter(|template| {
        template.pool.as_ref() == Some(&pool.name)
            && !template.deleting
            && pool.has_machines_in(&template.namespace)
            && is_config_name(&pool.name, &template.name)
    })
}

fn has_secret_of(template: &TemplateView, name: &str) -> bool {
    let secret = json!(kubeadm::secret_name(name));
    list(&template.spec, "files").iter().any(|file| file.pointer("/contentFrom/secret/name") == Some(&secret))
}

/// Deletes templates in two steps: their Secrets first, because nothing else names them.
pub fn delete(templates: &[(GroupKind, &TemplateView)]) -> [Vec<Write>; 2] {
    let with_secret = templates.iter().filter(|(_, template)| has_secret_of(template, &template.name));
    let secrets = with_secret.map(|(_, template)| {
        let name = kubeadm::secret_name(&template.name);
        Write::delete(Action::DeleteMachineObject, WriteTarget::namespaced(Kind::SECRET, &template.namespace, &name))
    });
    // A template names its Secret, which must be deleted first.
    let templates = templates.iter().map(|(kind, template)| {
        let object = WriteTarget::namespaced(kind.bootstrap(), &template.namespace, &template.name);
        let delete = Write::delete(Action::DeleteMachineObject, object.with_uid(&template.uid));
        Write { needs: vec![Dependency::All(Kind::SECRET)], ..delete }
    });
    [secrets.collect(), templates.collect()]
}

/// The labels of winpool's objects for machines.
pub fn labels(pool: &str, cluster: &str) -> Value {
    json!({
        label::MANAGED_BY: label::MANAGED_BY_VALUE,
        label::POOL: pool,
        CLUSTER_NAME: cluster,
    })
}

/// The KubeadmConfigTemplate or KubeadmConfig of a template.
pub fn template_object(
    kind: GroupKind,
    (name, namespace, labels): (&str, &str, &Value),
    template: &KubeadmTemplate,
) -> Value {
    let mut object = kind.bootstrap().object(json!({"name": name, "namespace": namespace, "labels": labels}));
    let spec = template.spec(name);
    object["spec"] = match kind {
        GroupKind::Deployment => json!({"template": {"spec": spec}}),
        GroupKind::Pool => spec,
    };
    object
}

/// The Secret with the large files of the template with this name.
pub fn secret_object(template_name: &str, namespace: &str, labels: &Value, template: &KubeadmTemplate) -> Value {
    let name = kubeadm::secret_name(template_name);
    let mut secret = Kind::SECRET.object(json!({"name": name, "namespace": namespace, "labels": labels}));
    secret["type"] = json!("Opaque");
    secret["stringData"] = json!(template.secret);
    secret
}
