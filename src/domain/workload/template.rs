//! What the rules read of a pod's spec. Thousands of pods have the same.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::api::resource};

use crate::{
    api::names::label,
    domain::{lint, quantity::Quantity},
    facts::{
        containerd::{HYPERV_HANDLER, PROCESS_HANDLER},
        support,
    },
};

/// The field of a node that affinity may ask for.
const NODE_NAME: &str = "metadata.name";
/// The labels of a node's processors.
const PROCESSORS: [&str; 2] = [label::ARCH, "beta.kubernetes.io/arch"];

/// The operating system of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum System {
    /// Windows.
    Windows,
    /// Linux.
    Linux,
}

/// What the rules read of a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// `spec.os.name`.
    pub os: Option<System>,
    /// `spec.runtimeClassName`.
    pub runtime_class: Option<String>,
    /// Where it may run.
    pub scheduling: Scheduling,
    /// What must hold of a node by affinity: any of these, each of them whole. Without any, every node will do.
    pub affinity: Vec<Vec<Requirement>>,
    /// `spec.nodeName` as it was written, in a template.
    pub node_name: Option<String>,
    /// All containers, init containers first.
    pub containers: Vec<Container>,
    /// The memory of `spec.overhead`, in bytes: what the pod costs beside its containers.
    pub overhead: i64,
    /// Whether `securityContext.windowsOptions` is written anywhere.
    pub windows_options: bool,
    /// The names in `spec.imagePullSecrets`; those of the ServiceAccount are put there when a pod is created.
    pub pull_secrets: Vec<String>,
    /// The paths of fields that Windows ignores or rejects; empty in a spec that has no mark of Windows.
    pub odd_fields: Vec<String>,
}

/// Selector and tolerations, of a pod or of a RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scheduling {
    /// `nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `tolerations`.
    pub tolerations: Vec<Toleration>,
}

/// A toleration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The taint's key; `None` is every key.
    pub key: Option<String>,
    /// The taint's value; `None` is every value.
    pub value: Option<String>,
    /// The taint's effect; `None` is every effect.
    pub effect: Option<String>,
    /// Whether it ends after some seconds, so that a NoExecute taint evicts the pod then.
    pub limited: bool,
}

/// A requirement of node affinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label, or the field `metadata.name`.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`.
    pub operator: String,
    /// What it is compared with.
    pub values: Vec<String>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image, as it is written.
    pub image: String,
    /// Whether it ends before the others start: an init container that does not go on as a sidecar.
    pub init: bool,
    /// Whether it is a HostProcess container.
    pub host_process: bool,
    /// The memory it asks for, in bytes.
    pub memory_request: Option<i64>,
    /// The memory it may have, in bytes.
    pub memory_limit: Option<i64>,
}

impl From<&core::PodSpec> for Template {
    fn from(spec: &core::PodSpec) -> Self {
        let options = spec.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
        let of_pod = options.and_then(|options| options.host_process).unwrap_or_default();
        let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
        let in_container = |container: &core::Container| {
            container.security_context.as_ref().is_some_and(|context| context.windows_options.is_some())
        };
        let mut template = Self {
            os: spec.os.as_ref().and_then(|os| System::named(&os.name)),
            runtime_class: spec.runtime_class_name.clone(),
            scheduling: Scheduling {
                node_selector: spec.node_selector.clone().unwrap_or_default(),
                tolerations: spec.tolerations.iter().flatten().map(Toleration::from).collect(),
            },
            affinity: required_affinity(spec),
            node_name: spec.node_name.clone().filter(|name| !name.is_empty()),
            containers: spec
                .init_containers
                .iter()
                .flatten()
                .map(|container| (container, container.restart_policy.as_deref() != Some("Always")))
                .chain(spec.containers.iter().map(|container| (container, false)))
                .map(|(container, init)| Container { init, ..Container::read(container, of_pod) })
                .collect(),
            overhead: memory(spec.overhead.as_ref()).unwrap_or_default(),
            windows_options: options.is_some() || containers().any(in_container),
            pull_secrets: spec.image_pull_secrets.iter().flatten().map(|secret| secret.name.clone()).collect(),
            odd_fields: Vec::new(),
        };
        // Most pods are for Linux, and need not be looked through.
        if template.system(|_| None).map_or(template.runtime_class.is_some(), |system| system == System::Windows) {
            template.odd_fields = odd_fields(spec);
        }
        template
    }
}

/// The memory among resources, in bytes.
pub(super) fn memory(resources: Option<&BTreeMap<String, resource::Quantity>>) -> Option<i64> {
    resources?.get("memory")?.0.parse::<Quantity>().ok().map(|quantity| quantity.bytes())
}

fn odd_fields(spec: &core::PodSpec) -> Vec<String> {
    let findings = serde_json::to_value(spec).map(|spec| lint::pod::fields(&spec, support::NEWEST));
    let counts = |finding: &lint::Finding| finding.code.severity() != lint::Severity::Note;
    findings.into_iter().flatten().filter(counts).map(|finding| finding.path).collect()
}

fn required_affinity(spec: &core::PodSpec) -> Vec<Vec<Requirement>> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map(|selector| selector.node_selector_terms.as_slice()).unwrap_or_default();
    let requirements = |term: &core::NodeSelectorTerm| {
        let both = term.match_expressions.iter().flatten().chain(term.match_fields.iter().flatten());
        both.map(Requirement::from).collect()
    };
    terms.iter().map(requirements).collect()
}

impl System {
    fn named(name: &str) -> Option<Self> {
        match name {
            "windows" => Some(Self::Windows),
            "linux" => Some(Self::Linux),
            _ => None,
        }
    }
}

impl Template {
    /// The system that the pod is for, as far as its own spec says: `spec.os.name`, a selector, Windows options, or its
    /// RuntimeClass, of which `class` says where it leads.
    pub fn system(&self, class: impl Fn(&str) -> Option<System>) -> Option<System> {
        let windows_options = self.windows_options.then_some(System::Windows);
        self.os
            .or_else(|| self.scheduling.system())
            .or_else(|| self.affinity_system())
            .or(windows_options)
            .or_else(|| class(self.runtime_class.as_deref()?))
    }

    /// Takes the node's name out of the affinity, where a DaemonSet puts it, and gives it.
    pub fn unpin(&mut self) -> Option<String> {
        let by_name = |requirement: &Requirement| {
            requirement.key == NODE_NAME && requirement.operator == "In" && requirement.values.len() == 1
        };
        let [term] = self.affinity.as_mut_slice() else { return None };
        let place = term.iter().position(by_name)?;
        let pin = term.remove(place);
        if term.is_empty() {
            self.affinity.clear();
        }
        pin.values.into_iter().next()
    }

    /// The system that every term of the affinity asks for.
    fn affinity_system(&self) -> Option<System> {
        let of_term = |term: &Vec<Requirement>| {
            let by_os = term.iter().find(|requirement| requirement.key == label::OS && requirement.operator == "In")?;
            System::named(by_os.values.first().filter(|_| by_os.values.len() == 1)?)
        };
        let first = of_term(self.affinity.first()?)?;
        self.affinity.iter().all(|term| of_term(term) == Some(first)).then_some(first)
    }

    /// Whether the pod's affinity lets it be on a node with these labels and this name. What it asks of a label that is
    /// not `known` is taken to hold.
    pub fn prefers(&self, labels: &BTreeMap<String, String>, name: &str, known: impl Fn(&str) -> bool) -> bool {
        let holds = |requirement: &Requirement| {
            !known(&requirement.key) || requirement.holds(labels, Some(name).filter(|name| !name.is_empty()))
        };
        let term = |term: &Vec<Requirement>| !term.is_empty() && term.iter().all(holds);
        self.affinity.is_empty() || self.affinity.iter().any(term)
    }

    /// The nodes that the affinity asks for by name.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        let by_name = |requirement: &&Requirement| {
            requirement.operator == "In" && [NODE_NAME, label::HOSTNAME].contains(&requirement.key.as_str())
        };
        self.affinity.iter().flatten().filter(by_name).flat_map(|requirement| &requirement.values).map(String::as_str)
    }

    /// The keys of the labels of nodes that it asks for, some of them twice.
    pub fn asked_labels(&self) -> impl Iterator<Item = &String> {
        let required = self.affinity.iter().flatten().map(|requirement| &requirement.key);
        self.scheduling.node_selector.keys().chain(required)
    }

    /// Whether it asks for nodes by name.
    pub fn names_hosts(&self) -> bool {
        self.scheduling.node_selector.contains_key(label::HOSTNAME) || self.hosts().next().is_some()
    }

    /// Whether the nodes that it selects by itself are Windows nodes, as far as that can be said without its
    /// RuntimeClass: a label that is not about processors is taken for one of theirs.
    pub fn selects_some_nodes(&self) -> bool {
        !self.affinity.is_empty() || self.scheduling.node_selector.keys().any(|key| !PROCESSORS.contains(&key.as_str()))
    }

    /// The memory that a pod may take, in bytes; nothing where no container has a limit. Sums saturate at `i64::MAX`.
    pub fn memory_limit(&self) -> i64 {
        match self.at_once(|container| container.memory_limit) {
            0 => 0,
            limit => limit.saturating_add(self.overhead),
        }
    }

    /// The memory that the scheduler sets aside for a pod, in bytes. Sums saturate at `i64::MAX`.
    pub fn memory_request(&self) -> i64 {
        let containers = self.at_once(|container| container.memory_request.or(container.memory_limit));
        containers.saturating_add(self.overhead)
    }

    /// The most that containers have at the same time: each init container runs before the next, beside the sidecars that
    /// began before it (kubernetes/kubernetes, component-helpers `resource/helpers.go`).
    fn at_once(&self, of: impl Fn(&Container) -> Option<i64>) -> i64 {
        let step = |(most, running): (i64, i64), container: &Container| {
            let own = of(container).unwrap_or_default();
            let together = running.saturating_add(own);
            if container.init { (most.max(together), running) } else { (most, together) }
        };
        let (most, running) = self.containers.iter().fold((0, 0), step);
        most.max(running)
    }
}

impl Scheduling {
    /// The selector and tolerations of a RuntimeClass.
    pub fn of_class(class: &k8s_openapi::api::node::v1::RuntimeClass) -> Self {
        let scheduling = class.scheduling.as_ref();
        Self {
            node_selector: scheduling.and_then(|own| own.node_selector.clone()).unwrap_or_default(),
            tolerations: scheduling
                .and_then(|own| own.tolerations.as_ref())
                .into_iter()
                .flatten()
                .map(Toleration::from)
                .collect(),
        }
    }

    /// The system that the selector asks for.
    pub fn system(&self) -> Option<System> {
        let os = [label::OS, label::BETA_OS].into_iter().find_map(|key| self.node_selector.get(key));
        let by_build = self.node_selector.contains_key(label::WINDOWS_BUILD).then_some(System::Windows);
        os.and_then(|name| System::named(name)).or(by_build)
    }

    /// The part of the selector that labels do not have, as `key=value`.
    pub fn misses(&self, labels: &BTreeMap<String, String>) -> Option<String> {
        let missed = self.node_selector.iter().find(|(key, value)| labels.get(*key) != Some(value));
        missed.map(|(key, value)| format!("{key}={value}"))
    }

    /// Whether a taint is tolerated.
    pub fn tolerates(&self, key: &str, value: &str, effect: &str) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(key, value, effect))
    }

    /// Whether a taint is tolerated for as long as it is there.
    pub fn tolerates_for_good(&self, key: &str, value: &str, effect: &str) -> bool {
        self.tolerations.iter().any(|toleration| !toleration.limited && toleration.tolerates(key, value, effect))
    }
}

/// The system that a RuntimeClass leads to: by its selector, else by a handler that only Windows has.
pub fn system_of_class(class: &k8s_openapi::api::node::v1::RuntimeClass) -> Option<System> {
    let of_handler = [PROCESS_HANDLER, HYPERV_HANDLER].contains(&class.handler.as_str()).then_some(System::Windows);
    Scheduling::of_class(class).system().or(of_handler)
}

impl Toleration {
    /// Whether it tolerates a taint, as Kubernetes has it (kubernetes/api, core/v1/toleration.go, v0.33).
    pub fn tolerates(&self, key: &str, value: &str, effect: &str) -> bool {
        self.effect.as_deref().is_none_or(|own| own == effect)
            && self.key.as_deref().is_none_or(|own| own == key)
            && self.value.as_deref().is_none_or(|own| own == value)
    }

    /// Whether it tolerates every taint there is.
    pub fn tolerates_everything(&self) -> bool {
        self.key.is_none() && self.effect.is_none()
    }
}

impl From<&core::Toleration> for Toleration {
    fn from(toleration: &core::Toleration) -> Self {
        let exists = toleration.operator.as_deref() == Some("Exists");
        let written = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            key: written(&toleration.key),
            value: (!exists).then(|| toleration.value.clone().unwrap_or_default()),
            effect: written(&toleration.effect),
            limited: toleration.toleration_seconds.is_some(),
        }
    }
}

impl From<&core::NodeSelectorRequirement> for Requirement {
    fn from(requirement: &core::NodeSelectorRequirement) -> Self {
        Self {
            key: requirement.key.clone(),
            operator: requirement.operator.clone(),
            values: requirement.values.clone().unwrap_or_default(),
        }
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>, name: Option<&str>) -> bool {
        let value = match self.key.as_str() {
            NODE_NAME => name,
            key => labels.get(key).map(String::as_str),
        };
        let compared = |holds: fn(&i64, &i64) -> bool| {
            let (Some(value), Some(bound)) = (value, self.values.first()) else { return false };
            matches!((value.parse(), bound.parse()), (Ok(value), Ok(bound)) if holds(&value, &bound))
        };
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.iter().any(|one| one == value)),
            "NotIn" => value.is_none_or(|value| self.values.iter().all(|one| one != value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compared(i64::gt),
            "Lt" => compared(i64::lt),
            _ => false,
        }
    }
}

impl Container {
    fn read(container: &core::Container, host_process_of_pod: bool) -> Self {
        let own = container.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
        let resources = container.resources.as_ref();
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            init: false,
            host_process: own.and_then(|options| options.host_process).unwrap_or(host_process_of_pod),
            memory_request: memory(resources.and_then(|resources| resources.requests.as_ref())),
            memory_limit: memory(resources.and_then(|resources| resources.limits.as_ref())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn template(spec: Value) -> Template {
        Template::from(&serde_json::from_value::<core::PodSpec>(spec).unwrap())
    }

    #[test]
    fn a_spec_says_its_system_by_the_most_certain_of_its_marks() {
        let affinity = |operator: &str, values: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": operator, "values": values}]},
            ]}}}})
        };
        let (windows, linux) = (Some(System::Windows), Some(System::Linux));
        let table = [
            (json!({"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "windows"}}), linux),
            (json!({"os": {"name": "windows"}}), windows),
            (json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), windows),
            (json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}), linux),
            (json!({"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}), windows),
            (affinity("In", json!(["windows"])), windows),
            (affinity("In", json!(["windows", "linux"])), None),
            (affinity("NotIn", json!(["windows"])), None),
            (json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}), windows),
            (json!({"containers": [{"name": "a", "securityContext": {"windowsOptions": {}}}]}), windows),
            (json!({"runtimeClassName": "windows-ltsc2022"}), windows),
            (json!({"runtimeClassName": "gvisor"}), None),
            (json!({}), None),
        ];
        for (mut spec, expected) in table {
            spec.as_object_mut().unwrap().entry("containers").or_insert(json!([]));
            let class = |name: &str| name.starts_with("windows").then_some(System::Windows);
            assert_eq!(template(spec.clone()).system(class), expected, "{spec}");
        }
    }

    #[test]
    fn a_class_leads_to_windows_by_its_selector_or_its_handler() {
        let table = [
            (
                json!({"handler": "x", "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}}}),
                Some(System::Windows),
            ),
            (json!({"handler": "runhcs-wcow-process"}), Some(System::Windows)),
            (
                json!({"handler": "x", "scheduling": {"nodeSelector": {"kubernetes.io/os": "linux"}}}),
                Some(System::Linux),
            ),
            (json!({"handler": "runsc"}), None),
        ];
        for (class, expected) in table {
            assert_eq!(system_of_class(&serde_json::from_value(class.clone()).unwrap()), expected, "{class}");
        }
    }

    #[test]
    fn a_toleration_means_what_it_means_to_kubernetes() {
        let taint = ("os", "windows", "NoSchedule");
        let table = [
            (json!({"operator": "Exists"}), true),
            (json!({"operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "os", "operator": "Exists"}), true),
            (json!({"key": "os", "value": "windows"}), true),
            (json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}), true),
            (json!({"key": "os", "value": "Windows"}), false),
            (json!({"key": "os"}), false),
            (json!({"key": "gpu", "operator": "Exists"}), false),
        ];
        for (toleration, expected) in table {
            let read = template(json!({"containers": [], "tolerations": [toleration.clone()]}));
            assert_eq!(read.scheduling.tolerates(taint.0, taint.1, taint.2), expected, "{toleration}");
        }
    }

    #[test]
    fn affinity_means_what_it_means_to_kubernetes() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("n".to_owned(), "7".to_owned())]);
        let by_label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let by_name =
            |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        let table = [
            (json!([by_label("b", "Exists", &[]), by_label("n", "Gt", &["6"])]), true),
            (json!([by_label("n", "Lt", &["6"])]), false),
            (json!([by_label("a", "In", &["1", "2"])]), true),
            (json!([by_label("a", "NotIn", &["1", "2"])]), false),
            (json!([by_label("b", "NotIn", &["1"])]), true),
            (json!([by_label("b", "DoesNotExist", &[])]), true),
            (json!([by_label("a", "Near", &["1"])]), false),
            (json!([{}]), false),
            (json!([by_name("win-1")]), true),
            (json!([by_name("win-2")]), false),
        ];
        for (terms, expected) in table {
            let spec = json!({"containers": [], "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            }}});
            assert_eq!(template(spec).prefers(&labels, "win-1", |_| true), expected, "{terms}");
        }
    }

    #[test]
    fn init_containers_take_their_memory_before_the_others_do() {
        let container = |name: &str, limit: &str| json!({"name": name, "resources": {"limits": {"memory": limit}}});
        let mut sidecar = container("sidecar", "1Gi");
        sidecar["restartPolicy"] = json!("Always");
        let table = [
            (json!([]), json!(null), 3),
            (json!([container("small", "2Gi"), container("other", "2Gi")]), json!(null), 3),
            (json!([container("large", "4Gi")]), json!(null), 4),
            (json!([sidecar]), json!(null), 4),
            (json!([sidecar, container("large", "4Gi")]), json!(null), 5),
            (json!([container("large", "4Gi"), sidecar]), json!(null), 4),
            (json!([]), json!({"memory": "2Gi", "cpu": "1"}), 5),
        ];
        for (init, overhead, expected) in table {
            let told = format!("{init} {overhead}");
            let containers = json!([container("a", "1Gi"), container("b", "2Gi")]);
            let spec = json!({"initContainers": init, "containers": containers, "overhead": overhead});
            let template = template(spec);
            assert_eq!(
                (template.memory_limit() >> 30, template.memory_request() >> 30),
                (expected, expected),
                "{told}"
            );
        }
        let unlimited = template(json!({"containers": [{"name": "a"}], "overhead": {"memory": "1Gi"}}));
        assert_eq!((unlimited.memory_limit(), unlimited.memory_request()), (0, 1 << 30));
    }

    #[test]
    fn sums_of_memory_saturate() {
        let container = |limit: &str| json!({"name": "a", "resources": {"limits": {"memory": limit}}});
        for (init, containers, overhead) in [
            (json!([]), json!([container("9E"), container("9E")]), "0"),
            (json!([container("9E")]), json!([container("1")]), "9E"),
            (json!([container("100E")]), json!([container("1e99")]), "1"),
        ] {
            let told = format!("{init} {containers} {overhead}");
            let spec = json!({"initContainers": init, "containers": containers, "overhead": {"memory": overhead}});
            let template = template(spec);
            assert_eq!((template.memory_limit(), template.memory_request()), (i64::MAX, i64::MAX), "{told}");
        }
    }

    #[test]
    fn memory_and_host_process_are_read_of_each_container() {
        let spec = json!({
            "securityContext": {"windowsOptions": {"hostProcess": true}},
            "initContainers": [{"name": "first", "image": "a"}],
            "containers": [{
                "name": "main", "image": "b",
                "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                "securityContext": {"windowsOptions": {"hostProcess": false}},
            }],
        });
        let main = Container {
            name: "main".into(),
            image: "b".into(),
            init: false,
            host_process: false,
            memory_request: Some(1 << 30),
            memory_limit: Some(2 << 30),
        };
        let first = Container {
            name: "first".into(),
            image: "a".into(),
            init: true,
            host_process: true,
            ..Container::default()
        };
        assert_eq!(template(spec).containers, [first, main]);
    }
}
