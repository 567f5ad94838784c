//! The context of the checks, from all manifests: the scheduling state, and the workloads that a Service selects.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::Value;
use winpool_api::{Taint, TaintEffect, Toleration, TolerationOperator, names::label};
use winpool_core::image::{HostNode, Lookup, Reference, ReplacedImages};
use winpool_facts::{
    Build, Minor, builds,
    containerd::PROCESS_HANDLER,
    known_issues::{ComponentVersion, NodeComponent},
    version_compatibility::{Isolation, UtilityVm},
};
use winpool_workload::{
    Scheduling, SchedulingState, System, Template,
    placement::{EffectiveSpec, MatchingPool, Unschedulable},
    scheduling_state::{ClassState, NodeGroup, PoolState},
};

use super::{
    TargetCluster, Workload,
    cluster_api::LintedMachines,
    identity::Identities,
    linted_nodes::LintedNodes,
    selected_os::{OS_SKU, SelectedOs, WINDOWS_SKU},
    service,
    workload::group,
};

/// The result of the registry lookup of an image, if there was one.
pub type LookupFn<'a> = dyn Fn(&Reference) -> Option<Lookup> + 'a;

/// The namespace, key and value of a pod label.
type PodLabel = (String, String, String);

const NEWEST_BUILD: Build = builds::RELEASES[builds::RELEASES.len() - 1].build;
/// The first build with a value of [`OS_SKU`].
const FIRST_AZURE_BUILD: Build = Build(17763);
/// How the classes begin that winpool creates for a pool that names none.
pub const DEFAULT_PREFIX: &str = "windows-";

/// The context of all checks. It does not borrow from the manifests, which can be dropped after they were added.
pub struct LintContext<'a> {
    /// The cluster that the manifests are for.
    pub(super) target: TargetCluster,
    /// The pools and RuntimeClasses. Without a pool in the manifests, a pool with nodes of every Windows version; without a class either,
    /// those that winpool creates by default.
    pub(super) state: SchedulingState,
    pub(super) has_pools: bool,
    pub(super) has_csi_proxy: bool,
    pub(super) replaced_images: ReplacedImages,
    /// The keys by which the pools in the manifests select nodes.
    pub(super) selected_keys: BTreeSet<String>,
    pub(super) lookups: &'a LookupFn<'a>,
    /// The workloads for Windows, by each label of their pods.
    windows_workloads: HashMap<PodLabel, Vec<Arc<WindowsWorkload>>>,
    /// The number of endpoints of each Service, by namespace and name.
    endpoints: HashMap<(String, String), u64>,
    /// The claims that workloads for Windows mount, by namespace and name, with the workload.
    windows_claims: BTreeMap<(String, String), String>,
    claims: Vec<Claim>,
    pub(super) nodes: LintedNodes,
    pub(super) machines: LintedMachines,
    pub(super) identities: Identities,
    /// The versions of kube-proxy in workloads for Windows.
    pub(super) kube_proxies: BTreeSet<ComponentVersion>,
    /// Whether nodes or pools in the manifests are of EKS.
    pub(super) is_eks: bool,
    /// Whether a kube-proxy for Windows in the manifests uses Direct Server Return, and whether another does not.
    pub(super) dsr: BTreeSet<bool>,
    /// Without pools in the manifests: the workloads that select Windows nodes, and tolerate no taint of a pool.
    pub untolerating: Vec<String>,
    /// The number of workloads with known issues that are not determinable, because the manifests do not have the version.
    pub undetermined: usize,
}

/// A PersistentVolumeClaim.
struct Claim {
    /// Its namespace and name.
    key: (String, String),
    /// The name of its volume; empty if it has none.
    volume: String,
    /// The name of its storage class; empty if it has none.
    class: String,
}

/// A workload for Windows, reduced to the data for the checks of Services.
pub struct WindowsWorkload {
    labels: BTreeMap<String, String>,
    pub replicas: u64,
    /// The oldest host that its pods can be scheduled to, if it is known.
    pub host: Option<HostNode>,
}

/// The nodes that the pods of a template can be scheduled to.
pub struct PodPlacement<'w> {
    /// The operating system of the spec or of the selected nodes.
    pub system: Option<System>,
    /// The operating system of the selected nodes.
    pub selected_os: SelectedOs,
    /// Whether there are hints of Windows, and nothing determines the operating system.
    pub seems_windows: bool,
    /// The spec with what its RuntimeClass adds.
    pub effective: Result<EffectiveSpec<'w>, Unschedulable>,
    /// Whether the spec contradicts itself or its RuntimeClass, so that no node matches.
    pub is_contradictory: bool,
    pub isolation: Isolation,
    /// The pools with their Windows nodes; empty if they are unknown.
    pub pools: Vec<MatchingPool<'w>>,
}

impl<'w> PodPlacement<'w> {
    /// Whether the rules for Windows apply.
    pub fn is_windows(&self) -> bool {
        is_windows(self.system, self.seems_windows)
    }

    /// The groups of nodes, with the names of their pools.
    pub fn groups(&self) -> impl Iterator<Item = (&'w str, &'w NodeGroup)> {
        let groups = |MatchingPool { pool, groups }: &MatchingPool<'w>| {
            let name = pool.name.as_str();
            groups.iter().map(|group| (name, *group)).collect::<Vec<_>>()
        };
        self.pools.iter().flat_map(groups)
    }
}

fn is_windows(system: Option<System>, seems_windows: bool) -> bool {
    system == Some(System::Windows) || seems_windows
}

impl<'a> LintContext<'a> {
    /// A context with the pools and RuntimeClasses of the manifests.
    pub fn new(target: TargetCluster, mut state: SchedulingState, lookups: &'a LookupFn<'a>) -> Self {
        let has_pools = !state.pools.is_empty();
        if !has_pools {
            state.pools.push(any_windows_nodes());
        }
        if !has_pools && state.classes.is_empty() {
            state.classes.extend(default_classes());
        }
        for group in state.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
            group.labels.insert(label::BETA_OS.to_owned(), "windows".to_owned());
            if let Some(sku) = os_sku(group.host.os.build) {
                group.labels.entry(OS_SKU.to_owned()).or_insert(sku);
            }
        }
        Self {
            target,
            state,
            has_pools,
            has_csi_proxy: false,
            replaced_images: ReplacedImages::default(),
            selected_keys: BTreeSet::new(),
            lookups,
            windows_workloads: HashMap::new(),
            endpoints: HashMap::new(),
            windows_claims: BTreeMap::new(),
            claims: Vec::new(),
            nodes: LintedNodes::default(),
            machines: LintedMachines::default(),
            identities: Identities::default(),
            kube_proxies: BTreeSet::new(),
            is_eks: false,
            dsr: BTreeSet::new(),
            untolerating: Vec::new(),
            undetermined: 0,
        }
    }

    /// The minor of the cluster, if it was given.
    pub(super) fn given_minor(&self) -> Option<Minor> {
        (!self.target.is_default).then_some(self.target.minor)
    }

    /// The names of the RuntimeClasses in the manifests, with those of their pools.
    pub(super) fn classes(&self) -> impl Iterator<Item = &str> {
        self.state.classes.keys().map(String::as_str)
    }

    /// Adds an object that others refer to. Workloads are added when they are checked.
    pub fn add(&mut self, object: &Value) {
        match (object["kind"].as_str().unwrap_or_default(), group(object)) {
            ("Endpoints", "") | ("EndpointSlice", "discovery.k8s.io") => self.add_endpoints(object),
            ("PersistentVolumeClaim", "") => self.claims.push(Claim::of(object)),
            _ => {}
        }
    }

    fn add_endpoints(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let service = metadata["labels"][label::SERVICE_NAME].as_str().or(metadata["name"].as_str());
        let length = |list: &Value| list.as_array().map_or(0, Vec::len) as u64;
        let subsets = object["subsets"].as_array().into_iter().flatten();
        let count = length(&object["endpoints"]) + subsets.map(|subset| length(&subset["addresses"])).sum::<u64>();
        if let Some(service) = service {
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            *self.endpoints.entry((namespace.to_owned(), service.to_owned())).or_default() += count;
        }
    }

    pub(super) fn add_workload(&mut self, workload: &Workload<'_>, template: &Template, suggests_windows: bool) {
        let placement = self.placement(template, suggests_windows);
        if !placement.is_windows() {
            return;
        }
        let is_default = |taint: &Taint| template.scheduling.tolerates(taint);
        let is_untolerating = !self.has_pools
            && placement.selected_os == SelectedOs::Only(System::Windows)
            && template.runtime_class.is_none()
            && template.node_name.is_none()
            && !self.state.pools.iter().flat_map(|pool| &pool.taints).all(is_default);
        let pools: Vec<_> = placement.pools.iter().map(|matching| matching.pool.name.as_str()).collect();
        let has_kubelets = self.machines.are_known(&pools);
        let host = placement.groups().map(|(_, group)| &group.host).min_by_key(|host| host.os).cloned();
        let labels = workload.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let windows_workload = Arc::new(WindowsWorkload { labels, replicas: workload.replicas(), host });
        let proxies = template.components.iter().filter(|(component, _)| *component == NodeComponent::KubeProxy);
        let proxies: Vec<_> = proxies.map(|(_, version)| *version).collect();
        if !proxies.is_empty() {
            self.dsr.insert(service::uses_dsr(workload.spec(), self.target.minor));
        }
        self.kube_proxies.extend(proxies);
        self.untolerating.extend(is_untolerating.then(|| workload.title()));
        self.undetermined += usize::from(self.nodes.is_undetermined(template, self.given_minor(), has_kubelets));
        let claims = workload.claims().map(|name| (workload.namespace().to_owned(), name));
        self.windows_claims.extend(claims.map(|claim| (claim, workload.title())));
        for (key, value) in &windows_workload.labels {
            let label = (workload.namespace().to_owned(), key.clone(), value.clone());
            self.windows_workloads.entry(label).or_default().push(windows_workload.clone());
        }
    }

    /// The number of endpoints of a Service in the manifests.
    pub(super) fn endpoints(&self, namespace: &str, name: &str) -> u64 {
        self.endpoints.get(&(namespace.to_owned(), name.to_owned())).copied().unwrap_or_default()
    }

    /// Whether a workload for Windows is in the manifests.
    pub(super) fn has_windows_workloads(&self) -> bool {
        !self.windows_workloads.is_empty() || !self.windows_claims.is_empty()
    }

    /// The workloads for Windows that a Service selects.
    pub(super) fn selected_workloads(&self, namespace: &str, selector: &Value) -> Vec<&WindowsWorkload> {
        let labels = selector.as_object().into_iter().flatten();
        let labels: Vec<_> = labels.filter_map(|(key, value)| Some((key, value.as_str()?))).collect();
        let Some((key, value)) = labels.first() else { return Vec::new() };
        let label = (namespace.to_owned(), (*key).clone(), (*value).to_owned());
        let candidates = self.windows_workloads.get(&label).into_iter().flatten().map(AsRef::as_ref);
        let has_all = |workload: &&WindowsWorkload| {
            labels.iter().all(|(key, value)| workload.labels.get(*key).is_some_and(|own| own == value))
        };
        candidates.filter(has_all).collect()
    }

    /// The workload for Windows that uses a PersistentVolume: by its claim, or by the storage class if all claims of the class are for
    /// Windows.
    pub(super) fn user_of_volume(&self, volume: &Value) -> Option<&str> {
        let (name, spec) = (&volume["metadata"]["name"], &volume["spec"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let bound = (text(&spec["claimRef"]["namespace"]), text(&spec["claimRef"]["name"]));
        let class = text(&spec["storageClassName"]);
        let by_name = self.claims.iter().filter(|claim| name == claim.volume.as_str()).map(|claim| &claim.key);
        let mut by_name = by_name.chain([&bound]).filter(|(_, name)| !name.is_empty()).peekable();
        if by_name.peek().is_some() {
            return by_name.find_map(|claim| self.windows_claims.get(claim)).map(String::as_str);
        }
        let is_unbound = |claim: &&Claim| claim.volume.is_empty() && !class.is_empty() && claim.class == class;
        let mut of_class = self.claims.iter().filter(is_unbound).map(|claim| self.windows_claims.get(&claim.key));
        let first = of_class.next()??;
        of_class.all(|user| user.is_some()).then_some(first.as_str())
    }

    /// The nodes that the pods of a template can be scheduled to; `suggests_windows` is whether other parts of the object
    /// suggest Windows.
    pub fn placement<'w>(&'w self, template: &'w Template, suggests_windows: bool) -> PodPlacement<'w> {
        let class = template.runtime_class.as_deref().and_then(|name| self.state.classes.get(name));
        let effective = EffectiveSpec::of(template, &self.state);
        let without_class = |_: &_| SelectedOs::of(&EffectiveSpec::without_class(template));
        let selected_os = effective.as_ref().map_or_else(without_class, SelectedOs::of);
        let system = template.system(|_| class.and_then(|class| class.system)).or(selected_os.system());
        let seems_windows = system.is_none() && suggests_windows;
        let selects_other = template.os.is_some_and(|os| selected_os.system().is_some_and(|selected| selected != os));
        let pools = is_windows(system, seems_windows).then(|| self.pools(template, &effective));
        // An unknown RuntimeClass may have Hyper-V isolation, with which more images run.
        let isolation = match &effective {
            Err(Unschedulable::RuntimeClassNotFound { .. }) => Isolation::HyperV(UtilityVm::OfAnyBuild),
            _ => self.state.isolation(template.runtime_class.as_deref()),
        };
        PodPlacement {
            is_contradictory: selects_other || matches!(effective, Err(Unschedulable::SelectorConflict { .. })),
            system,
            selected_os,
            seems_windows,
            isolation,
            pools: pools.unwrap_or_default(),
            effective,
        }
    }

    /// The pools of a template. Without a pool in the manifests: nodes of the build that the template selects, if any.
    fn pools<'w>(
        &'w self,
        template: &Template,
        effective: &Result<EffectiveSpec<'_>, Unschedulable>,
    ) -> Vec<MatchingPool<'w>> {
        let if_single = |pools: Vec<MatchingPool<'w>>| match pools.as_slice() {
            [MatchingPool { groups, .. }] if groups.len() == 1 => pools,
            _ => Vec::new(),
        };
        match effective {
            Ok(effective) if self.has_pools && template.node_name.is_none() => {
                effective.schedulable_pools(&self.state).unwrap_or_default()
            }
            Ok(effective) if !self.has_pools => if_single(effective.selected_pools(&self.state)),
            Err(Unschedulable::RuntimeClassNotFound { .. }) if !self.has_pools => {
                if_single(EffectiveSpec::without_class(template).selected_pools(&self.state))
            }
            _ => Vec::new(),
        }
    }
}

/// The value of [`OS_SKU`] on nodes of a build. Azure Kubernetes Service supports Windows Server 2019 and later.
fn os_sku(build: Build) -> Option<String> {
    let release = builds::release(build).filter(|release| release.build >= FIRST_AZURE_BUILD)?;
    let year = release.names.iter().find_map(|name| name.strip_prefix("ltsc"))?;
    Some(format!("{WINDOWS_SKU}{year}"))
}

/// The taint of a pool that names none.
fn default_taint() -> Taint {
    Taint { key: "os".to_owned(), value: "windows".to_owned(), effect: TaintEffect::NoSchedule }
}

/// The classes that winpool creates for pools that name none, by their names.
fn default_classes() -> impl Iterator<Item = (String, ClassState)> {
    let of_release = |release: &'static builds::Release| {
        let labels = [(label::OS, "windows".to_owned()), (label::WINDOWS_BUILD, release.build.to_string())];
        let Taint { key, value, effect } = default_taint();
        let toleration = Toleration {
            key,
            operator: TolerationOperator::Equal,
            value,
            effect: Some(effect),
            toleration_seconds: None,
        };
        let scheduling = Scheduling {
            node_selector: labels.map(|(key, value)| (key.to_owned(), value)).into(),
            tolerations: vec![toleration],
        };
        let state = ClassState { scheduling, handler: PROCESS_HANDLER.to_owned(), system: Some(System::Windows) };
        release.names.iter().map(move |name| (format!("{DEFAULT_PREFIX}{}", name.to_lowercase()), state.clone()))
    };
    builds::RELEASES.iter().flat_map(of_release)
}

/// A pool with nodes of every build.
fn any_windows_nodes() -> PoolState {
    let taints = vec![default_taint()];
    let group = |build: Build| NodeGroup { taints: taints.clone(), ..NodeGroup::expected(build) };
    PoolState {
        name: String::new(),
        build: NEWEST_BUILD,
        taints: taints.clone(),
        classes: Vec::new(),
        enforces: false,
        max_image_updates_behind: None,
        groups: builds::RELEASES.iter().map(|release| group(release.build)).collect(),
    }
}

impl Claim {
    fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        Self {
            key: (text(&metadata["namespace"]), text(&metadata["name"])),
            volume: text(&spec["volumeName"]),
            class: text(&spec["storageClassName"]),
        }
    }
}
