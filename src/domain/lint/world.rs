//! What the manifests say together: the ground that pods stand on, and which workloads a Service selects.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;

use super::{
    Target, Workload,
    led::{Led, OS_SKU, WINDOWS_SKU},
    workload::group,
};
use crate::{
    api::names::label,
    domain::{
        image::{Host, Lookup, Reference, tag},
        workload::{
            Ground, System, Template,
            ground::{Kind, PoolGround, Taint},
            placement::{Effective, Obstacle, Place},
        },
    },
    facts::{
        Build, OsVersion, builds,
        compatibility::{Isolation, UtilityVm},
    },
};

/// What a registry says of an image, if somebody asked it.
pub type Lookups<'a> = dyn Fn(&Reference) -> Option<Lookup> + 'a;

/// The key by which workloads are found: namespace, label, value.
type ByLabel = (String, String, String);

/// The architecture of Windows nodes: the only one that Windows Server has in Kubernetes.
const ARCHITECTURE: &str = "amd64";
/// The newest Windows there is.
const NEWEST_BUILD: Build = builds::RELEASES[builds::RELEASES.len() - 1].build;
/// The first Windows of which [`OS_SKU`] speaks.
const FIRST_AZURE_BUILD: Build = Build(17763);
/// The base images of Windows that no other system has, as names of images have them.
const BASE_IMAGES: [&str; 2] = ["nanoserver", "servercore"];

/// The label of an EndpointSlice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The manifests together. Nothing of the objects is borrowed: each may be dropped once it is added.
pub struct World<'a> {
    target: Target,
    /// The pools and RuntimeClasses; without a pool one that stands for every Windows node there may be.
    ground: Ground,
    has_pools: bool,
    lookups: &'a Lookups<'a>,
    /// The workloads for Windows, by each label of their pods.
    selectable: HashMap<ByLabel, Vec<Arc<Selectable>>>,
    /// The endpoints of each Service, by namespace and name.
    endpoints: HashMap<(String, String), u64>,
}

/// What matters to a Service of a workload for Windows that it may select.
pub struct Selectable {
    /// The labels of its pods.
    labels: BTreeMap<String, String>,
    /// How many pods it is to have.
    pub replicas: u64,
    /// The oldest host of its pods, if they are known.
    pub host: Option<Host>,
}

/// Where the pods of a template go.
pub struct Bound<'w> {
    /// The system that it says it is for, or is led to.
    pub system: Option<System>,
    /// Where it is led by what the scheduler looks at.
    pub led: Led,
    /// Whether images or tolerations suggest Windows where the spec says nothing.
    pub seems_windows: bool,
    /// Its spec with what its RuntimeClass adds, or why there is none.
    pub effective: Result<Effective<'w>, Obstacle>,
    /// Whether its spec contradicts itself or its RuntimeClass, so that no node is right for it.
    pub contradicts_itself: bool,
    /// How its containers are kept apart from the host.
    pub isolation: Isolation,
    /// The Windows nodes that it may get; empty where nobody knows.
    pub places: Vec<Place<'w>>,
}

impl<'w> Bound<'w> {
    /// Whether the rules for Windows apply.
    pub fn is_windows(&self) -> bool {
        is_windows(self.system, self.seems_windows)
    }

    /// The kinds of nodes that it may get, with the names of their pools.
    pub fn kinds(&self) -> impl Iterator<Item = (&'w str, &'w Kind)> {
        self.places.iter().flat_map(|(pool, kinds)| kinds.iter().map(|kind| (pool.name.as_str(), *kind)))
    }
}

fn is_windows(system: Option<System>, seems_windows: bool) -> bool {
    system == Some(System::Windows) || seems_windows
}

impl<'a> World<'a> {
    /// No manifests yet, on the ground of the pools and RuntimeClasses among them.
    pub fn new(target: Target, ground: &Ground, lookups: &'a Lookups<'a>) -> Self {
        let (has_pools, mut ground) = (!ground.pools.is_empty(), ground.clone());
        if !has_pools {
            ground.pools.push(any_windows());
        }
        for kind in ground.pools.iter_mut().flat_map(|pool| &mut pool.kinds) {
            kind.labels.insert(label::BETA_OS.to_owned(), "windows".to_owned());
            if let Some(product) = azure_product(kind.host.os.build) {
                kind.labels.entry(OS_SKU.to_owned()).or_insert(product);
            }
        }
        Self { target, ground, has_pools, lookups, selectable: HashMap::new(), endpoints: HashMap::new() }
    }

    /// One of the manifests.
    pub fn add(&mut self, object: &Value) {
        match (object["kind"].as_str().unwrap_or_default(), group(object)) {
            ("Endpoints", "") | ("EndpointSlice", "discovery.k8s.io") => self.add_endpoints(object),
            _ => Workload::of(object).into_iter().for_each(|workload| self.add_selectable(workload)),
        }
    }

    fn add_endpoints(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let service = metadata["labels"][SERVICE_NAME].as_str().or(metadata["name"].as_str());
        let length = |list: &Value| list.as_array().map_or(0, Vec::len) as u64;
        let subsets = object["subsets"].as_array().into_iter().flatten();
        let count = length(&object["endpoints"]) + subsets.map(|subset| length(&subset["addresses"])).sum::<u64>();
        if let Some(service) = service {
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            *self.endpoints.entry((namespace.to_owned(), service.to_owned())).or_default() += count;
        }
    }

    fn add_selectable(&mut self, workload: Workload<'_>) {
        let Ok(template) = workload.template() else { return };
        let bound = self.bound(&template);
        if !bound.is_windows() {
            return;
        }
        let host = bound.kinds().map(|(_, kind)| &kind.host).min_by_key(|host| host.os).cloned();
        let labels = workload.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let selectable = Arc::new(Selectable { labels, replicas: workload.replicas(), host });
        for (key, value) in &selectable.labels {
            let by_label = (workload.namespace().to_owned(), key.clone(), value.clone());
            self.selectable.entry(by_label).or_default().push(selectable.clone());
        }
    }

    /// What the manifests are for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// What a registry says of an image.
    pub(super) fn lookup(&self, image: &Reference) -> Option<Lookup> {
        (self.lookups)(image)
    }

    /// The pools and RuntimeClasses; without a pool one that stands for every Windows node there may be.
    pub(super) fn ground(&self) -> &Ground {
        &self.ground
    }

    /// Whether there are pools among the manifests.
    pub(super) fn has_pools(&self) -> bool {
        self.has_pools
    }

    /// The endpoints of a Service that are among the manifests.
    pub(super) fn endpoints(&self, namespace: &str, name: &str) -> u64 {
        self.endpoints.get(&(namespace.to_owned(), name.to_owned())).copied().unwrap_or_default()
    }

    /// The workloads for Windows that a Service selects.
    pub(super) fn selected(&self, namespace: &str, selector: &Value) -> Vec<&Selectable> {
        let pairs: Vec<_> = selector
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
            .collect();
        let Some((key, value)) = pairs.first() else { return Vec::new() };
        let by_label = (namespace.to_owned(), (*key).clone(), (*value).to_owned());
        let found = self.selectable.get(&by_label).into_iter().flatten().map(AsRef::as_ref);
        let has =
            |one: &&Selectable| pairs.iter().all(|(key, value)| one.labels.get(*key).is_some_and(|own| own == value));
        found.filter(has).collect()
    }

    /// Where the pods of a template go.
    pub fn bound<'w>(&'w self, template: &'w Template) -> Bound<'w> {
        let class = template.runtime_class.as_deref().and_then(|name| self.ground.classes.get(name));
        let effective = Effective::of(template, &self.ground);
        let led = effective.as_ref().map_or_else(|_| Led::of(&Effective::alone(template)), Led::of);
        let system = template.system(|_| class.and_then(|class| class.system)).or(led.system());
        let seems_windows = system.is_none() && seems_windows(template);
        let other_system = template.os.is_some_and(|os| led.system().is_some_and(|led| led != os));
        let places = is_windows(system, seems_windows).then(|| self.places(template, &effective));
        // Of a class of which nothing is known the isolation that runs more images is taken.
        let isolation = match &effective {
            Err(Obstacle::NoClass { .. }) => Isolation::HyperV(UtilityVm::OfAnyBuild),
            _ => self.ground.isolation(template.runtime_class.as_deref()),
        };
        Bound {
            contradicts_itself: other_system || matches!(effective, Err(Obstacle::Conflict { .. })),
            system,
            led,
            seems_windows,
            isolation,
            places: places.unwrap_or_default(),
            effective,
        }
    }

    /// The nodes of the pools that a template gets; without a pool those of the one build that its selector leaves.
    fn places<'w>(&'w self, template: &Template, effective: &Result<Effective<'_>, Obstacle>) -> Vec<Place<'w>> {
        let the_one = |places: Vec<Place<'w>>| match places.as_slice() {
            [(_, kinds)] if kinds.len() == 1 => places,
            _ => Vec::new(),
        };
        match effective {
            Ok(effective) if self.has_pools && template.node_name.is_none() => {
                effective.places(&self.ground).unwrap_or_default()
            }
            Ok(effective) if !self.has_pools => the_one(effective.selected(&self.ground)),
            Err(Obstacle::NoClass { .. }) if !self.has_pools => {
                the_one(Effective::alone(template).selected(&self.ground))
            }
            _ => Vec::new(),
        }
    }
}

/// The value that [`OS_SKU`] has on nodes of a build. Azure Kubernetes Service began with Windows Server 2019.
fn azure_product(build: Build) -> Option<String> {
    let release = builds::release(build).filter(|release| release.build >= FIRST_AZURE_BUILD)?;
    let year = release.names.iter().find_map(|name| name.strip_prefix("ltsc"))?;
    Some(format!("{WINDOWS_SKU}{year}"))
}

/// What stands for every Windows node there may be, where there is no pool: a kind for each build.
fn any_windows() -> PoolGround {
    let taints = vec![Taint { key: "os".to_owned(), value: "windows".to_owned(), effect: "NoSchedule".to_owned() }];
    let kind = |build: Build| Kind {
        exists: false,
        labels: [
            (label::OS, "windows".to_owned()),
            (label::ARCH, ARCHITECTURE.to_owned()),
            (label::WINDOWS_BUILD, build.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into(),
        individual: Arc::default(),
        taints: taints.clone(),
        withheld: Vec::new(),
        host: Host { os: OsVersion { build, revision: None }, architecture: ARCHITECTURE.to_owned(), containerd: None },
        handlers: None,
    };
    PoolGround {
        name: String::new(),
        build: NEWEST_BUILD,
        taints: taints.clone(),
        classes: Vec::new(),
        enforces: false,
        kinds: builds::RELEASES.iter().map(|release| kind(release.build)).collect(),
    }
}

/// Whether images or a toleration suggest Windows.
fn seems_windows(template: &Template) -> bool {
    let image = |image: &str| image.parse().is_ok_and(|reference| is_of_windows(&reference));
    let names_windows = |value: &str| value.eq_ignore_ascii_case("windows");
    let tolerations = &template.scheduling.tolerations;
    template.containers.iter().any(|container| image(&container.image))
        || tolerations.iter().any(|toleration| toleration.value.as_deref().is_some_and(names_windows))
}

/// Whether the name of an image says that it is for Windows: by a build, or by a base image. Many an image that has to do
/// with Windows, and its name, is for Linux.
pub fn is_of_windows(image: &Reference) -> bool {
    let (tag, repository) = (image.tag().unwrap_or_default().to_lowercase(), image.repository());
    let names_a_base = |name: &str| BASE_IMAGES.iter().any(|base| name.contains(base));
    let of_microsoft = image.registry() == "mcr.microsoft.com" && repository.starts_with("windows/");
    of_microsoft
        || names_a_base(&tag)
        || names_a_base(repository)
        || tag::suggested(image).is_some_and(|suggestion| suggestion.os.is_some())
}
