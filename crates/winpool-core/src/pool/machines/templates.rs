//! The templates of a pool: one for each Kubernetes minor and release line of containerd among its machines.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::{Value, json};
use winpool_api::{
    facts::{
        ContainerRuntime, ContainerdLine, ContainerdVersion, Minor,
        cluster_api::{ApiVersion, CLUSTER_NAME},
    },
    names::label,
};

use super::{
    hints,
    rules::MachineRules,
    state::ClusterApiObjects,
    views::{GroupKind, MachineGroup, TemplateView, key_of},
};
use crate::{
    Problem,
    kind::Kind,
    node::WindowsNode,
    operation::{Action, Dependency, Verb, Write, WriteTarget},
    pool::{
        Pool, Snapshot, Spec,
        renderings::{HeldRendering, RenderingInputs},
        snapshot::{config_name, is_config_name},
    },
    profile::Profile,
    render::{
        Variant,
        kubeadm::{self, Base, KubeadmTemplate, Machine},
        settings,
    },
};

/// The number of unused templates that are kept, because a change in Git that names one may not be applied yet.
const UNUSED_KEPT: usize = 3;

/// The fields of a bootstrap configuration with what a machine writes and runs.
const EXECUTED: [&str; 4] = ["bootCommands", "files", "preKubeadmCommands", "postKubeadmCommands"];

/// A template, and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredTemplate {
    /// `<pool>-<digest>`.
    pub name: String,
    pub template: KubeadmTemplate,
    /// The digest of its inputs; empty if they are not stored in a cluster.
    pub rendered_from: String,
}

impl DesiredTemplate {
    /// Names a template of a pool after its content. A KubeadmConfig belongs to one MachinePool, so the name of the MachinePool
    /// counts too.
    pub fn new(pool: &str, machine_pool: Option<&str>, template: KubeadmTemplate) -> Self {
        let mut content = template.settings();
        content.extend(machine_pool.map(|name| ("machinePool".to_owned(), name.into())));
        Self { name: config_name(pool, &settings::digest(&content)), template, rendered_from: String::new() }
    }
}

/// The templates of a pool, each rendered once.
pub struct Templates<'a> {
    objects: &'a ClusterApiObjects,
    pool: &'a Pool,
    rules: &'a MachineRules,
    spec: &'a Spec,
    profile: Result<&'a Profile, Problem>,
    inputs: Option<RenderingInputs>,
    base: Result<Option<(String, &'a Value)>, Problem>,
    /// The labels with which nodes register: those of the pool, and those of the template of the platform team.
    node_labels: BTreeMap<String, String>,
    /// The newest containerd of the nodes of the pool.
    containerd: Option<ContainerdVersion>,
    rendered: BTreeMap<(Option<String>, Minor, ContainerdLine), Result<DesiredTemplate, Vec<Problem>>>,
    /// Whether the template of a group is unknown, so that it is not known what is unused.
    pub is_incomplete: bool,
    /// Whether a group needs no template, because it refers to objects of another bootstrap provider.
    pub is_unneeded: bool,
}

impl<'a> Templates<'a> {
    /// No templates yet.
    pub fn new(
        snapshot: &'a Snapshot,
        objects: &'a ClusterApiObjects,
        (pool, spec, rules): (&'a Pool, &'a Spec, &'a MachineRules),
        members: &[&WindowsNode],
    ) -> Self {
        let of_node = |node: &&WindowsNode| match &node.runtime {
            Ok(ContainerRuntime::Containerd(version)) => Some(*version),
            _ => None,
        };
        let base = base(objects, rules);
        let of_base = base.as_ref().ok().and_then(Option::as_ref).map(|(_, spec)| kubeadm::node_labels(spec));
        Self {
            objects,
            pool,
            rules,
            spec,
            profile: profile(snapshot, spec),
            inputs: RenderingInputs::in_snapshot(snapshot, spec),
            base,
            node_labels: of_base.into_iter().flatten().chain(hints::node_labels(spec)).collect(),
            containerd: members.iter().filter_map(of_node).max(),
            rendered: BTreeMap::new(),
            is_incomplete: false,
            is_unneeded: false,
        }
    }

    /// The labels with which nodes register.
    pub fn node_labels(&self) -> &BTreeMap<String, String> {
        &self.node_labels
    }

    /// The template for the machines of a group with this minor.
    pub fn template_for(&mut self, group: &MachineGroup, minor: Minor) -> Result<DesiredTemplate, Vec<Problem>> {
        self.rendered(group, minor).cloned()
    }

    /// The name of the template for the machines of a group with the next minor, if it can be rendered.
    pub fn name_for_next(&mut self, group: &MachineGroup, minor: Minor) -> Option<String> {
        self.rendered(group, minor).ok().map(|template| template.name.clone())
    }

    /// Whether the template to which a group refers has all files of a template of the pool.
    pub fn is_contained(&self, group: &MachineGroup, name: &str) -> bool {
        let desired = self.rendered.values().flatten().find(|template| template.name == name);
        let referenced = self.objects.bootstrap(group.kind, &key_of(&group.namespace, &group.bootstrap));
        let files = |spec: &Value| spec["files"].as_array().cloned().unwrap_or_default();
        desired.zip(referenced).is_some_and(|(desired, referenced)| {
            let present = files(&referenced.spec);
            files(&desired.template.spec(self.objects.version, name)).iter().all(|file| present.contains(file))
        })
    }

    /// What the template to which a group refers lacks of the rendered one.
    pub fn held(&self, group: &MachineGroup, desired: &DesiredTemplate) -> HeldRendering {
        let (from, to) = (&group.bootstrap, &desired.name);
        let referenced = self.objects.bootstrap(group.kind, &key_of(&group.namespace, from));
        let of = |spec: &Value| kubeadm::settings_of(spec);
        let before = referenced.map(|template| of(&template.spec)).unwrap_or_default();
        HeldRendering::new(from, to, &before, &of(&desired.template.spec(self.objects.version, from)))
    }

    fn rendered(&mut self, group: &MachineGroup, minor: Minor) -> Result<&DesiredTemplate, Vec<Problem>> {
        let line = self.containerd_of(group).map_err(|problem| vec![problem])?;
        let machine_pool = (group.kind == GroupKind::Pool).then(|| group.name.clone());
        let key = (machine_pool, minor, line);
        if !self.rendered.contains_key(&key) {
            let rendered = self.render(key.0.as_deref(), minor, line).and_then(|template| self.unedited(template));
            self.rendered.insert(key.clone(), rendered);
        }
        self.rendered[&key].as_ref().map_err(Clone::clone)
    }

    /// The template for machines with these versions, regardless of the stored ones; of a MachinePool, for it alone.
    pub fn render(
        &self,
        machine_pool: Option<&str>,
        minor: Minor,
        line: ContainerdLine,
    ) -> Result<DesiredTemplate, Vec<Problem>> {
        let profile = self.profile.as_ref().map_err(|problem| vec![problem.clone()])?;
        let base = self.base.as_ref().map_err(|problem| vec![problem.clone()])?;
        let machine = Machine {
            taints: &self.spec.taints,
            node_labels: &self.node_labels,
            profile,
            variant: Variant { kubelet: minor, runtime: ContainerRuntime::Containerd(line), host: self.spec.build },
            base: base.as_ref().map(|(object, spec)| Base { object, spec }),
        };
        let desired = DesiredTemplate::new(&self.pool.name, machine_pool, kubeadm::template(&machine)?);
        let base = base.as_ref().map(|(_, spec)| spec);
        let others = json!([base, self.node_labels, machine_pool]);
        let rendered_from = self.inputs.as_ref().map(|inputs| inputs.of_template(&machine.variant, &others));
        Ok(DesiredTemplate { rendered_from: rendered_from.unwrap_or_default(), ..desired })
    }

    /// A template that was changed after its creation has not the content that its name says.
    fn unedited(&self, template: DesiredTemplate) -> Result<DesiredTemplate, Vec<Problem>> {
        let (kind, name) = (self.rules.kind.bootstrap(), &template.name);
        let wrong = match self.stored(name) {
            Some(stored) if stored.pool.as_ref() != Some(&self.pool.name) => {
                "the object exists and was not created by this pool"
            }
            Some(stored) if stored.edited => "the object was changed after winpool created it",
            Some(stored) if !self.runs_the_same(stored, &template) => "the object exists with other files or commands",
            _ => return Ok(template),
        };
        Err(vec![Problem::new(format!("{kind} {name}"), wrong, "delete it, and winpool creates it again")])
    }

    /// Whether a stored template has the files and commands of the desired one: its name can be predicted.
    fn runs_the_same(&self, stored: &TemplateView, desired: &DesiredTemplate) -> bool {
        let desired = desired.template.spec(self.objects.version, &desired.name);
        let list = |spec: &Value, field: &str| spec[field].as_array().cloned().unwrap_or_default();
        EXECUTED.iter().all(|field| list(&stored.spec, field) == list(&desired, field))
    }

    fn stored(&self, name: &str) -> Option<&TemplateView> {
        self.objects.bootstrap(self.rules.kind, &key_of(&self.rules.namespace, name))
    }

    /// The release line of containerd in the image of a group: from the pool, its machines, or the nodes of the pool.
    fn containerd_of(&self, group: &MachineGroup) -> Result<ContainerdLine, Problem> {
        let observed = || self.observed_containerd(group);
        self.rules.containerd.or_else(observed).ok_or_else(|| {
            let wrong = format!("no machine of {} reports its version of containerd", group.name);
            let remedy = "write the one of the machine image, such as \"2.2\"";
            Problem::new("spec.delivery.clusterAPI.containerdVersion", wrong, remedy)
        })
    }

    /// The line of most machines of a group, and of equally many the older one, so that the first machine of another image
    /// changes nothing; else the newest of the nodes of the pool.
    fn observed_containerd(&self, group: &MachineGroup) -> Option<ContainerdLine> {
        let key = key_of(&group.namespace, &group.name);
        let mut counts: BTreeMap<ContainerdLine, usize> = BTreeMap::new();
        for machine in
            self.objects.machines.values().filter(|machine| machine.kind == group.kind && machine.group == key)
        {
            if let Some(version) = machine.containerd {
                *counts.entry(version.line()).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(line, count)| (*count, Reverse(*line))).map(|(line, _)| line);
        most.or_else(|| self.containerd.map(ContainerdVersion::line))
    }

    /// Creates the Secrets and the templates that do not exist.
    pub fn missing(&self) -> (Vec<Write>, Vec<Write>) {
        let (kind, namespace, version) = (self.rules.kind, &self.rules.namespace, self.objects.version);
        let mut desired: BTreeMap<&str, &KubeadmTemplate> = BTreeMap::new();
        for template in self.rendered.values().flatten().filter(|template| self.stored(&template.name).is_none()) {
            desired.insert(&template.name, &template.template);
        }
        let object = |kind: Kind, name: &str| WriteTarget::namespaced(kind, namespace, name);
        let labels = labels(&self.pool.name, &self.rules.cluster);
        let with_secret = desired.iter().filter(|(_, template)| !template.secret.is_empty());
        let secrets = with_secret.map(|(name, template)| {
            // A Secret is not read, so it is applied.
            let body = secret_object(name, namespace, &labels, template);
            let secret = object(Kind::SECRET, &kubeadm::secret_name(name));
            Write { verb: Verb::Apply, ..Write::create(Action::CreateMachineObject, secret, body) }
        });
        // While a Secret is missing, no template is created.
        let templates = desired.iter().map(|(name, template)| Write {
            needs: vec![Dependency::All(Kind::SECRET)],
            ..Write::create(
                Action::CreateMachineObject,
                object(kind.bootstrap().in_version(version), name),
                template_object(kind, version, (name, namespace, &labels), template),
            )
        });
        (secrets.collect(), templates.collect())
    }

    /// The templates that nothing refers to, except the newest; all of them if no group needs one.
    pub fn unused(&self) -> Vec<(GroupKind, &'a TemplateView)> {
        let desired: Vec<&str> = self.rendered.values().flatten().map(|template| template.name.as_str()).collect();
        let kept = match desired.is_empty() {
            _ if self.is_incomplete => return Vec::new(),
            true if !self.is_unneeded => return Vec::new(),
            true => 0,
            false => UNUSED_KEPT,
        };
        let mut unused = unreferenced(self.objects, self.rules.kind, self.pool, |name| desired.contains(&name));
        unused.sort_by(|(_, a), (_, b)| (b.created, &b.name).cmp(&(a.created, &a.name)));
        unused.into_iter().skip(kept).collect()
    }

    /// Whether the profile and the template of the platform team can be read.
    pub fn is_readable(&self) -> bool {
        self.profile.is_ok() && self.base.is_ok()
    }
}

fn profile<'a>(snapshot: &'a Snapshot, spec: &Spec) -> Result<&'a Profile, Problem> {
    let name = spec.profile.as_deref().unwrap_or_default();
    let problem = |wrong: &str, remedy: &str| {
        Problem::new("spec.profileRef.name", format!("WindowsRuntimeProfile {name} {wrong}"), remedy)
    };
    let view = snapshot.profiles.get(name).ok_or_else(|| problem("does not exist", "apply it, or correct the name"))?;
    view.profile.as_ref().map_err(|_| problem("is invalid", "correct it: its condition Valid has the problems"))
}

fn base<'a>(objects: &'a ClusterApiObjects, rules: &MachineRules) -> Result<Option<(String, &'a Value)>, Problem> {
    let Some(name) = &rules.template_from else { return Ok(None) };
    let template = objects.templates.get(&key_of(&rules.namespace, name)).ok_or_else(|| {
        let wrong = format!("there is no KubeadmConfigTemplate {name} in namespace {}", rules.namespace);
        Problem::new("spec.delivery.clusterAPI.templateFrom.name", wrong, "apply it, or correct the name")
    })?;
    if template.pool.is_some() {
        let wrong = format!("KubeadmConfigTemplate {name} was created by winpool");
        let remedy = "name the template of the platform team";
        return Err(Problem::new("spec.delivery.clusterAPI.templateFrom.name", wrong, remedy));
    }
    Ok(Some((format!("KubeadmConfigTemplate {name}"), &template.spec)))
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
    let mut files = template.spec["files"].as_array().into_iter().flatten();
    files.any(|file| file.pointer("/contentFrom/secret/name") == Some(&secret))
}

/// Deletes templates in two steps: their Secrets first, because nothing else names them.
pub fn delete(version: ApiVersion, templates: &[(GroupKind, &TemplateView)]) -> [Vec<Write>; 2] {
    let with_secret = templates.iter().filter(|(_, template)| has_secret_of(template, &template.name));
    let secrets = with_secret.map(|(_, template)| {
        let name = kubeadm::secret_name(&template.name);
        Write::delete(Action::DeleteMachineObject, WriteTarget::namespaced(Kind::SECRET, &template.namespace, &name))
    });
    // A template names its Secret, which must be deleted first.
    let templates = templates.iter().map(|(kind, template)| {
        let kind = kind.bootstrap().in_version(version);
        let object = WriteTarget::namespaced(kind, &template.namespace, &template.name).with_uid(&template.uid);
        Write { needs: vec![Dependency::All(Kind::SECRET)], ..Write::delete(Action::DeleteMachineObject, object) }
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
    version: ApiVersion,
    (name, namespace, labels): (&str, &str, &Value),
    template: &KubeadmTemplate,
) -> Value {
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    let mut object = kind.bootstrap().in_version(version).object(metadata);
    let spec = template.spec(version, name);
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
