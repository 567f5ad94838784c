//! The pools whose machines Cluster API creates in files, and the templates of their machines.

use kube::core::DynamicObject;
use serde_json::Value;
use winpool_check::manifests::{BootstrapTemplate, BootstrapTemplates, LocatedProblem, Location, ManifestSet};
use winpool_core::{Problem, decode, kind::Kind};
use winpool_facts::{
    ContainerdLine, ContainerdVersion, Minor,
    cluster_api::{SERVED_SINCE, VERSION},
};
use winpool_render::profile::Profile;
use winpool_rules::pool::{
    Pool, Snapshot, Spec,
    cluster_api::{
        ClusterApiObjects, ClusterApiPool, ClusterApiRules, DesiredTemplate, GroupKind, TemplateRenderer, TemplateView,
    },
    configs::ExpectedNode,
};

const TEMPLATE_FROM: &str = "spec.delivery.clusterAPI.templateFrom.name";

/// What the files contain, and for which versions it is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub snapshot: &'a Snapshot,
    pub expected_nodes: &'a [ExpectedNode],
    /// The pools and profiles with their locations.
    pub resources: &'a ManifestSet,
    pub templates: &'a BootstrapTemplates,
}

/// A pool whose machines Cluster API creates.
#[derive(Clone, Copy)]
pub struct DeliveredPool<'a> {
    pub pool: &'a Pool,
    pub spec: &'a Spec,
    pub rules: &'a ClusterApiRules,
    location: &'a Location,
}

/// The template of machines with these versions.
pub struct RenderedTemplate {
    pub kubelet: Minor,
    pub containerd: ContainerdLine,
    pub desired: DesiredTemplate,
}

impl DeliveredPool<'_> {
    pub fn problem(&self, problem: Problem) -> LocatedProblem {
        self.location.problem(problem)
    }
}

impl<'a> Input<'a> {
    /// The pools whose machines Cluster API creates, and a note for each other pool.
    pub fn pools(&self) -> (Vec<DeliveredPool<'a>>, Vec<String>) {
        let (mut pools, mut notes) = (Vec::new(), Vec::new());
        for (name, (pool, location)) in &self.resources.pools {
            let Ok(spec) = &pool.spec else { continue };
            match &spec.cluster_api {
                Some(_) if pool.deleting => {
                    notes.push(format!("pool {name} is being deleted and was not rendered"));
                }
                Some(rules) => {
                    if !pool.enforces() {
                        notes.push(format!("pool {name} has mode Observe: the operator does not apply its objects"));
                    }
                    pools.push(DeliveredPool { pool, spec, rules, location });
                }
                None => {
                    notes.push(format!("pool {name} has no spec.delivery.clusterAPI, and nothing is rendered for it"))
                }
            }
        }
        (pools, notes)
    }

    /// The templates of a pool, one for each pair of a minor and a release line of containerd.
    pub fn templates(&self, of: &DeliveredPool) -> Result<Vec<RenderedTemplate>, Vec<LocatedProblem>> {
        self.profile(of).map_err(|problem| vec![problem])?;
        let base = self.base(of)?;
        let view = base.map(|base| self.view(of, base)).transpose().map_err(|problem| vec![problem])?;
        // Cluster API's objects in a cluster with only this template.
        let objects = ClusterApiObjects { templates: view.into_iter().collect(), ..ClusterApiObjects::default() };
        let pool = ClusterApiPool { pool: of.pool, spec: of.spec, rules: of.rules };
        let renderer = TemplateRenderer::new(self.snapshot, &objects, pool);
        let (mut rendered, mut problems) = (Vec::new(), Vec::new());
        for (kubelet, containerd) in self.versions(of).map_err(|problem| vec![problem])? {
            match renderer.render(None, kubelet, containerd) {
                Ok(desired) => rendered.push(RenderedTemplate { kubelet, containerd, desired }),
                Err(found) => problems.extend(found.into_iter().map(|problem| self.locate(of, base, problem))),
            }
        }
        problems.sort();
        problems.dedup();
        if problems.is_empty() { Ok(rendered) } else { Err(problems) }
    }

    /// The spec of the template that a pool names, if it names one and the files contain it.
    pub fn base_spec(&self, of: &DeliveredPool) -> Option<&'a Value> {
        self.base(of).ok().flatten()?.object.pointer("/spec/template/spec")
    }

    /// The profile of a pool. An invalid one is reported when it is read.
    pub fn profile(&self, of: &DeliveredPool) -> Result<Option<&'a Profile>, LocatedProblem> {
        let name = of.spec.profile.as_deref().unwrap_or_default();
        if let Some((view, _)) = self.resources.profiles.get(name) {
            return Ok(view.profile.as_ref().ok());
        }
        let wrong = format!("there is no WindowsRuntimeProfile {name} in the files");
        let remedy = "add its file with -f, or correct the name";
        Err(of.location.problem(Problem::new("spec.profileRef.name", wrong, remedy)))
    }

    /// The template that a pool names.
    pub fn base(&self, of: &DeliveredPool) -> Result<Option<&'a BootstrapTemplate>, Vec<LocatedProblem>> {
        let Some(name) = &of.rules.template_from else { return Ok(None) };
        let namespace = &of.rules.namespace;
        let problem =
            |wrong: String, remedy: &str| Err(vec![of.location.problem(Problem::new(TEMPLATE_FROM, wrong, remedy))]);
        match self.templates.named(namespace, name)[..] {
            [] => {
                let wrong = format!("there is no KubeadmConfigTemplate {name} of namespace {namespace} in the files");
                problem(wrong, "add its file with -f, or correct the name")
            }
            [template] => check_version(template).map(|()| Some(template)),
            [first, second, ..] => {
                let (first, second) = (first.location.start(), second.location.start());
                problem(
                    format!("KubeadmConfigTemplate {name} is defined at {first} and {second}"),
                    "remove one of them",
                )
            }
        }
    }

    fn view(&self, of: &DeliveredPool, base: &BootstrapTemplate) -> Result<TemplateView, LocatedProblem> {
        let mut object = base.object.clone();
        object["metadata"]["namespace"] = of.rules.namespace.as_str().into();
        let object: DynamicObject = decode("", object).map_err(|problem| base.location.problem(problem))?;
        Ok(TemplateView::from_object(GroupKind::Deployment, object))
    }

    /// The versions of the machines. The pool decides about containerd.
    fn versions(&self, of: &DeliveredPool) -> Result<Vec<(Minor, ContainerdLine)>, LocatedProblem> {
        let mut versions = Vec::new();
        for node in self.expected_nodes {
            let line = of.rules.containerd.or_else(|| node.containerd().map(ContainerdVersion::line));
            let Some(line) = line else {
                let wrong = format!("no known containerd supports kubelet {}", node.kubelet);
                let path = "spec.delivery.clusterAPI.containerdVersion";
                return Err(of.location.problem(Problem::new(path, wrong, "write the one of the machine image")));
            };
            if !versions.contains(&(node.kubelet, line)) {
                versions.push((node.kubelet, line));
            }
        }
        Ok(versions)
    }

    /// Locates a problem in the template, the pool, or the profile.
    fn locate(&self, of: &DeliveredPool, base: Option<&BootstrapTemplate>, problem: Problem) -> LocatedProblem {
        let of_base = base.and_then(|base| {
            let object = format!("KubeadmConfigTemplate {} ", base.object["metadata"]["name"].as_str()?);
            Some((base, problem.path.strip_prefix(&object)?.to_owned()))
        });
        if let Some((base, path)) = of_base {
            return base.location.problem(Problem { path, ..problem });
        }
        let in_pool = ["spec.delivery", "spec.profileRef", "spec.template", "status."];
        let profile = of.spec.profile.as_ref().and_then(|name| self.resources.profiles.get(name));
        match profile.filter(|_| !in_pool.iter().any(|start| problem.path.starts_with(start))) {
            Some((_, location)) => location.problem(problem),
            None => of.location.problem(problem),
        }
    }
}

/// Other versions have other fields.
fn check_version(template: &BootstrapTemplate) -> Result<(), Vec<LocatedProblem>> {
    let (version, needed) = (&template.object["apiVersion"], Kind::KUBEADM_CONFIG_TEMPLATE.api_version());
    if *version == needed {
        return Ok(());
    }
    let wrong = format!("{} is not {needed}", version.as_str().unwrap_or_default());
    let resource =
        format!("{}.{VERSION}.{}", Kind::KUBEADM_CONFIG_TEMPLATE.plural, Kind::KUBEADM_CONFIG_TEMPLATE.group);
    let remedy =
        format!("write the template in {VERSION}, as kubectl get {resource} prints it with Cluster API {SERVED_SINCE}");
    Err(vec![template.location.problem(Problem::new("apiVersion", wrong, remedy))])
}
