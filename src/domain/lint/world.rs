//! What the manifests say together: the ground that pods stand on, and which workloads a Service selects.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;

use super::{Target, Workload, workload::group};
use crate::{
    api::names::label,
    domain::{
        image::{Host, Lookup, Reference, tag},
        workload::{
            Ground, Scheduling, System, Template,
            ground::{Class, PoolGround},
        },
    },
    facts::{Build, OsVersion, compatibility::Isolation},
};

/// What a registry says of an image, if somebody asked it.
pub type Lookups<'a> = dyn Fn(&Reference) -> Option<Lookup> + 'a;

/// The key by which workloads are found: namespace, label, value.
type ByLabel = (String, String, String);

/// The label of an EndpointSlice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The manifests together. Nothing of the objects is borrowed: each may be dropped once it is added.
pub struct World<'a> {
    target: Target,
    ground: &'a Ground,
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
    /// Its RuntimeClass, if anything is known of it.
    pub class: Option<&'w Class>,
    /// How its containers are kept apart from the host.
    pub isolation: Isolation,
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
}

impl<'a> World<'a> {
    /// No manifests yet, on the ground of the pools and RuntimeClasses among them.
    pub fn new(target: Target, ground: &'a Ground, lookups: &'a Lookups<'a>) -> Self {
        Self { target, ground, lookups, selectable: HashMap::new(), endpoints: HashMap::new() }
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
        let labels = workload.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let selectable = Arc::new(Selectable { labels, replicas: workload.replicas(), host: bound.host });
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

    /// The pools.
    pub(super) fn pools(&self) -> &'a [PoolGround] {
        &self.ground.pools
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
    pub fn bound(&self, template: &Template) -> Bound<'_> {
        let class = template.runtime_class.as_deref().and_then(|name| self.ground.classes.get(name));
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
            isolation: self.ground.isolation(template.runtime_class.as_deref()),
            host: self.host(&scheduling),
            scheduling,
        }
    }

    /// The hosts that a selector asks for: by their build, or by a pool.
    fn host(&self, scheduling: &Scheduling) -> Option<Host> {
        let selector = &scheduling.node_selector;
        let build = selector.get(label::WINDOWS_BUILD).and_then(|build| build.parse::<Build>().ok());
        let by_build = build.map(|build| Host {
            os: OsVersion { build, revision: None },
            architecture: selector.get(label::ARCH).map_or("amd64", String::as_str).to_owned(),
            containerd: None,
        });
        by_build.or_else(|| Some(self.ground.pool(selector.get(label::POOL)?)?.kinds.first()?.host.clone()))
    }
}

/// Whether images or a toleration suggest Windows.
fn seems_windows(template: &Template) -> bool {
    let image = |image: &str| image.parse().is_ok_and(|reference: Reference| tag::suggested(&reference).is_some());
    let names_windows = |value: &str| value.eq_ignore_ascii_case("windows");
    let tolerations = &template.scheduling.tolerations;
    template.containers.iter().any(|container| image(&container.image))
        || tolerations.iter().any(|toleration| toleration.value.as_deref().is_some_and(names_windows))
}
