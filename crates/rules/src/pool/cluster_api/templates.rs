//! The templates of a pool: one for each Kubernetes minor and release line of containerd among its machines.

use std::{cmp::Reverse, collections::BTreeMap};

use serde_json::{Value, json};
use winpool_core::{Problem, node::WindowsNode};
use winpool_facts::{ContainerRuntime, ContainerdLine, ContainerdVersion, Minor, support};
use winpool_render::{
    Variant,
    kubeadm::{self, Base, KubeadmTemplate, Machine},
    profile::Profile,
    settings,
};

use super::{
    hints,
    rules::ClusterApiRules,
    state::ClusterApiObjects,
    views::{GroupKind, MachineGroup, key_of},
};
use crate::pool::{Pool, Snapshot, Spec, renderings::RenderingInputs, snapshot::config_name};

/// A pool whose machines Cluster API creates.
#[derive(Clone, Copy, Debug)]
pub struct ClusterApiPool<'a> {
    pub pool: &'a Pool,
    pub spec: &'a Spec,
    pub rules: &'a ClusterApiRules,
}

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
    fn new(pool: &str, machine_pool: Option<&str>, template: KubeadmTemplate) -> Self {
        let mut content = template.settings();
        content.extend(machine_pool.map(|name| ("machinePool".to_owned(), name.into())));
        Self { name: config_name(pool, &settings::digest(&content)), template, rendered_from: String::new() }
    }
}

/// Renders the templates of a pool.
pub struct TemplateRenderer<'a> {
    of: ClusterApiPool<'a>,
    profile: Result<&'a Profile, Problem>,
    inputs: Option<RenderingInputs>,
    /// The template of the platform team, with its name.
    base: Result<Option<(String, &'a Value)>, Problem>,
    /// The labels with which nodes register: those of the pool, and those of the template of the platform team.
    pub node_labels: BTreeMap<String, String>,
}

impl<'a> TemplateRenderer<'a> {
    /// With the profile of a snapshot, and the template of the platform team among the objects.
    pub fn new(snapshot: &'a Snapshot, objects: &'a ClusterApiObjects, of: ClusterApiPool<'a>) -> Self {
        let base = base(objects, of);
        let of_base = base.as_ref().ok().and_then(Option::as_ref).map(|(_, spec)| kubeadm::node_labels(spec));
        Self {
            of,
            profile: profile(snapshot, of.spec),
            inputs: RenderingInputs::in_snapshot(snapshot, of.spec),
            base,
            node_labels: of_base.into_iter().flatten().chain(hints::node_labels(of.spec)).collect(),
        }
    }

    /// Whether the profile and the template of the platform team can be read.
    pub fn is_readable(&self) -> bool {
        self.profile.is_ok() && self.base.is_ok()
    }

    /// The template for machines with these versions; of a MachinePool, for it alone.
    pub fn render(
        &self,
        machine_pool: Option<&str>,
        minor: Minor,
        line: ContainerdLine,
    ) -> Result<DesiredTemplate, Vec<Problem>> {
        let ClusterApiPool { pool, spec, .. } = self.of;
        let profile = self.profile.as_ref().map_err(|problem| vec![problem.clone()])?;
        let base = self.base.as_ref().map_err(|problem| vec![problem.clone()])?.as_ref();
        let machine = Machine {
            taints: &spec.taints,
            node_labels: &self.node_labels,
            profile,
            variant: Variant { kubelet: minor, runtime: ContainerRuntime::Containerd(line), host: spec.build },
            base: base.map(|(object, spec)| Base { object, spec }),
        };
        let desired = DesiredTemplate::new(&pool.name, machine_pool, kubeadm::template(&machine)?);
        let others = json!([base.map(|(_, spec)| spec), self.node_labels, machine_pool]);
        let rendered_from = self.inputs.as_ref().map(|inputs| inputs.of_template(&machine.variant, &others));
        Ok(DesiredTemplate { rendered_from: rendered_from.unwrap_or_default(), ..desired })
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

fn base<'a>(objects: &'a ClusterApiObjects, of: ClusterApiPool) -> Result<Option<(String, &'a Value)>, Problem> {
    let rules = of.rules;
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

/// The templates of a group.
#[derive(Clone, Debug)]
pub struct GroupTemplates {
    /// The Kubernetes minor of its machines.
    pub kubernetes: Option<Minor>,
    /// The template for its machines.
    pub current: Result<DesiredTemplate, NoTemplate>,
    /// The template for the next minor, if it can be rendered.
    pub next: Option<(Minor, DesiredTemplate)>,
}

/// Why there is no template for a group.
#[derive(Clone, Debug)]
pub enum NoTemplate {
    /// It needs none, because it refers to objects of another bootstrap provider.
    Unneeded(Problem),
    /// It cannot be rendered, so that it is not known which template the group needs.
    Unknown(Vec<Problem>),
}

impl NoTemplate {
    /// The problems that people have to solve.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unneeded(problem) => std::slice::from_ref(problem),
            Self::Unknown(problems) => problems,
        }
    }
}

impl GroupTemplates {
    /// Renders the templates of a group whose machines have this release line of containerd.
    fn new(
        group: &MachineGroup,
        line: Result<ContainerdLine, Problem>,
        mut render: impl FnMut(Minor, ContainerdLine) -> Result<DesiredTemplate, Vec<Problem>>,
    ) -> Self {
        let kubernetes = group.version.parse::<Minor>().ok();
        let (minor, line) = match versions(group, kubernetes, line) {
            Ok(versions) => versions,
            Err(reason) => return Self { kubernetes, current: Err(reason), next: None },
        };
        let next = Some(Minor(minor.0 + 1)).filter(|next| *next <= support::NEWEST);
        Self {
            kubernetes,
            current: render(minor, line).map_err(NoTemplate::Unknown),
            next: next.and_then(|next| Some((next, render(next, line).ok()?))),
        }
    }
}

/// The versions of the machines of a group.
fn versions(
    group: &MachineGroup,
    kubernetes: Option<Minor>,
    line: Result<ContainerdLine, Problem>,
) -> Result<(Minor, ContainerdLine), NoTemplate> {
    if let Some(problem) = other_bootstrap(group) {
        return Err(NoTemplate::Unneeded(problem));
    }
    let unknown = |problem| NoTemplate::Unknown(vec![problem]);
    let minor = kubernetes.ok_or_else(|| unknown(unknown_version(group)))?;
    Ok((minor, line.map_err(unknown)?))
}

/// The templates of each group of a pool. Each template is rendered once. `stored_problem` says why the object with the name of a template
/// is another one.
pub fn of_groups<'g>(
    renderer: &TemplateRenderer,
    (objects, rules): (&ClusterApiObjects, &ClusterApiRules),
    stored_problem: impl Fn(&DesiredTemplate) -> Option<Problem>,
    groups: &[&'g MachineGroup],
    members: &[&WindowsNode],
) -> Vec<GroupTemplates> {
    let mut rendered = BTreeMap::new();
    let mut render = |group: &'g MachineGroup, minor: Minor, line: ContainerdLine| {
        let machine_pool = (group.kind == GroupKind::Pool).then_some(group.name.as_str());
        let template = || {
            let template = renderer.render(machine_pool, minor, line)?;
            stored_problem(&template).map_or(Ok(template), |problem| Err(vec![problem]))
        };
        rendered.entry((machine_pool, minor, line)).or_insert_with(template).clone()
    };
    let of_group = |group: &&'g MachineGroup| {
        let line = containerd_line((objects, rules), members, group);
        GroupTemplates::new(group, line, |minor, line| render(group, minor, line))
    };
    groups.iter().map(of_group).collect()
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

fn unknown_version(group: &MachineGroup) -> Problem {
    let path = format!("{} {} spec.template.spec.version", group.kind.name(), group.name);
    Problem::new(path, format!("{:?} is not a Kubernetes version", group.version), "write one such as v1.36.2")
}

/// The release line of containerd in the image of a group: that of the pool; else that of most machines of the group, and of
/// equally many the older one, so that the first machine of another image changes nothing; else the newest of the nodes of
/// the pool.
fn containerd_line(
    (objects, rules): (&ClusterApiObjects, &ClusterApiRules),
    members: &[&WindowsNode],
    group: &MachineGroup,
) -> Result<ContainerdLine, Problem> {
    let of_machines = || {
        let key = key_of(&group.namespace, &group.name);
        let machines = objects.machines.values();
        let machines = machines.filter(|machine| machine.kind == group.kind && machine.group == key);
        let mut counts: BTreeMap<ContainerdLine, usize> = BTreeMap::new();
        for version in machines.filter_map(|machine| machine.containerd) {
            *counts.entry(version.line()).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(line, count)| (*count, Reverse(*line))).map(|(line, _)| line)
    };
    let of_nodes = || {
        let versions = members.iter().filter_map(|node| match &node.runtime {
            Ok(ContainerRuntime::Containerd(version)) => Some(*version),
            _ => None,
        });
        versions.max().map(ContainerdVersion::line)
    };
    rules.containerd.or_else(of_machines).or_else(of_nodes).ok_or_else(|| {
        let wrong = format!("no machine of {} reports its version of containerd", group.name);
        let remedy = "write the one of the machine image, such as \"2.2\"";
        Problem::new("spec.delivery.clusterAPI.containerdVersion", wrong, remedy)
    })
}
