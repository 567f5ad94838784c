//! What the manifests say together: classes, pools, and which workloads a Service selects.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;

use super::{Target, Workload, workload::group};
use crate::{
    api::names::label,
    domain::{
        image::{Host, Lookup, Reference, tag},
        pool::{Members, Pool, Spec},
        workload::{Scheduling, System, Template, system_of_class},
    },
    facts::{Build, OsVersion, compatibility::Isolation, containerd::HYPERV_HANDLER},
};

/// What a registry says of an image, if somebody asked it.
pub type Lookups<'a> = dyn Fn(&Reference) -> Option<Lookup> + 'a;

/// The key by which workloads are found: namespace, label, value.
type ByLabel<'a> = (&'a str, &'a str, &'a str);

/// The manifests together.
pub struct World<'a> {
    target: Target,
    lookups: &'a Lookups<'a>,
    classes: BTreeMap<String, Class>,
    pools: Vec<(&'a str, &'a Spec)>,
    /// The workloads for Windows, by each label of their pods.
    selectable: HashMap<ByLabel<'a>, Vec<Selectable<'a>>>,
    /// The endpoints of each Service, by namespace and name.
    endpoints: HashMap<(&'a str, &'a str), u64>,
}

/// A RuntimeClass.
pub struct Class {
    /// The system to which it leads.
    pub system: Option<System>,
    /// Its selector and tolerations.
    pub scheduling: Scheduling,
    /// How it keeps containers apart from the host.
    pub isolation: Isolation,
}

/// A workload for Windows that a Service may select.
#[derive(Clone)]
pub struct Selectable<'a> {
    /// The workload.
    pub workload: Workload<'a>,
    /// The hosts of its pods, if they are known.
    pub host: Option<Host>,
}

/// Where the pods of a template go.
pub struct Bound<'w> {
    /// The system that its spec says it is for.
    pub system: Option<System>,
    /// The system of the nodes to which it is led, by what the scheduler looks at.
    pub led: Option<System>,
    /// Whether images or tolerations suggest Windows where the spec says nothing.
    pub seems_windows: bool,
    /// Its RuntimeClass, if that is among the manifests.
    pub class: Option<&'w Class>,
    /// Selector and tolerations of the pods: the template's own and those of the class.
    pub scheduling: Scheduling,
    /// The hosts, if their build is known.
    pub host: Option<Host>,
}

impl Bound<'_> {
    /// Whether the rules for Windows apply.
    pub fn is_windows(&self) -> bool {
        self.system == Some(System::Windows) || self.seems_windows
    }

    /// How its containers are kept apart from the host.
    pub fn isolation(&self) -> Isolation {
        self.class.map_or(Isolation::Process, |class| class.isolation)
    }
}

impl<'a> World<'a> {
    /// The manifests together. `classes` are RuntimeClasses that are not among them, such as those that the operator
    /// makes for the pools.
    pub fn new(
        target: Target,
        objects: impl IntoIterator<Item = &'a Value>,
        classes: impl IntoIterator<Item = &'a Value>,
        pools: impl IntoIterator<Item = &'a Pool>,
        lookups: &'a Lookups<'a>,
    ) -> Self {
        let pools = pools.into_iter().filter_map(|pool| Some((pool.name.as_str(), pool.spec.as_ref().ok()?))).collect();
        let mut world = World {
            target,
            lookups,
            classes: BTreeMap::new(),
            pools,
            selectable: HashMap::new(),
            endpoints: HashMap::new(),
        };
        classes.into_iter().for_each(|class| world.add_class(class));
        let mut workloads = Vec::new();
        for object in objects {
            match (object["kind"].as_str().unwrap_or_default(), group(object)) {
                ("RuntimeClass", "node.k8s.io") => world.add_class(object),
                ("Endpoints", "") | ("EndpointSlice", "discovery.k8s.io") => world.add_endpoints(object),
                _ => workloads.extend(Workload::of(object)),
            }
        }
        workloads.into_iter().for_each(|workload| world.add_selectable(workload));
        world
    }

    fn add_class(&mut self, object: &Value) {
        let Ok(class) = serde_json::from_value::<RuntimeClass>(object.clone()) else { return };
        let isolation = if class.handler == HYPERV_HANDLER { Isolation::HyperV } else { Isolation::Process };
        let known = Class { system: system_of_class(&class), scheduling: Scheduling::of_class(&class), isolation };
        self.classes.insert(class.metadata.name.unwrap_or_default(), known);
    }

    fn add_endpoints(&mut self, object: &'a Value) {
        let metadata = &object["metadata"];
        let service = metadata["labels"]["kubernetes.io/service-name"].as_str().or(metadata["name"].as_str());
        let addresses = |list: &Value, field: &str| {
            let items = list.as_array().into_iter().flatten();
            items.map(|item| item[field].as_array().map_or(0, Vec::len) as u64).sum::<u64>()
        };
        let count = match object.get("subsets") {
            Some(subsets) => addresses(subsets, "addresses"),
            None => object["endpoints"].as_array().map_or(0, Vec::len) as u64,
        };
        if let Some(service) = service {
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            *self.endpoints.entry((namespace, service)).or_default() += count;
        }
    }

    fn add_selectable(&mut self, workload: Workload<'a>) {
        let Ok(template) = workload.template() else { return };
        let bound = self.bound(&template);
        if !bound.is_windows() {
            return;
        }
        let selectable = Selectable { workload, host: bound.host };
        for (key, value) in workload.labels() {
            self.selectable.entry((workload.namespace(), key, value)).or_default().push(selectable.clone());
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

    /// The pools, with their names.
    pub(super) fn pools(&self) -> &[(&'a str, &'a Spec)] {
        &self.pools
    }

    /// The endpoints of a Service that are among the manifests.
    pub(super) fn endpoints(&self, namespace: &str, name: &str) -> u64 {
        self.endpoints.get(&(namespace, name)).copied().unwrap_or_default()
    }

    /// The workloads for Windows that a Service selects.
    pub(super) fn selected<'w>(&'w self, namespace: &'w str, selector: &'w Value) -> Vec<&'w Selectable<'a>> {
        let pairs: Vec<_> = selector
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
            .collect();
        let Some((key, value)) = pairs.first() else { return Vec::new() };
        let found = self.selectable.get(&(namespace, key.as_str(), *value)).into_iter().flatten();
        found.filter(|one| pairs.iter().all(|(key, value)| one.workload.label(key) == Some(*value))).collect()
    }

    /// Where the pods of a template go.
    pub fn bound(&self, template: &Template) -> Bound<'_> {
        let class = template.runtime_class.as_deref().and_then(|name| self.classes.get(name));
        let of_class = |_: &str| class.and_then(|class| class.system);
        let placed = Template { os: None, windows_options: false, containers: Vec::new(), ..template.clone() };
        let system = template.system(of_class);
        let mut scheduling = template.scheduling.clone();
        if let Some(class) = class {
            for (key, value) in &class.scheduling.node_selector {
                scheduling.node_selector.entry(key.clone()).or_insert_with(|| value.clone());
            }
            scheduling.tolerations.extend(class.scheduling.tolerations.iter().cloned());
        }
        Bound {
            system,
            led: placed.system(of_class),
            seems_windows: system.is_none() && seems_windows(template),
            class,
            host: self.host(&scheduling),
            scheduling,
        }
    }

    /// The hosts that a selector asks for: by their build, or by a pool.
    fn host(&self, scheduling: &Scheduling) -> Option<Host> {
        let selector = &scheduling.node_selector;
        let by_build = selector.get(label::WINDOWS_BUILD).and_then(|build| build.parse::<Build>().ok());
        let by_pool = || self.pools.iter().find(|(name, _)| selector.get(label::POOL).is_some_and(|pool| pool == name));
        let build = by_build.or_else(|| by_pool().map(|(_, spec)| spec.build))?;
        let architecture = selector.get(label::ARCH).cloned().unwrap_or_else(|| "amd64".to_owned());
        Some(Host { os: OsVersion { build, revision: None }, architecture, containerd: None })
    }
}

/// The labels that every node of a pool has, as far as the pool says.
pub(super) fn labels_of_pool(name: &str, spec: &Spec) -> BTreeMap<String, String> {
    let mut labels = spec.labels.clone();
    if let Members::Selector(selector) = &spec.members {
        labels.extend(selector.match_labels.clone());
    }
    let own = [
        (label::OS, "windows".to_owned()),
        (label::WINDOWS_BUILD, spec.build.to_string()),
        (label::POOL, name.to_owned()),
    ];
    labels.extend(own.map(|(key, value)| (key.to_owned(), value)));
    labels
}

/// Whether images or a toleration suggest Windows.
fn seems_windows(template: &Template) -> bool {
    let image = |image: &str| image.parse().is_ok_and(|reference: Reference| tag::suggested(&reference).is_some());
    let tolerates =
        |value: &Option<String>| value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case("windows"));
    template.containers.iter().any(|container| image(&container.image))
        || template.scheduling.tolerations.iter().any(|toleration| tolerates(&toleration.value))
}
