//! The part of a pod's spec that is checked. Thousands of pods can share one template.

use std::collections::BTreeMap;

use derive_more::Display;
use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::api::resource};
use winpool_api::{Taint, Toleration, names::label};
use winpool_core::{ForeignText, kubernetes::quantity::Quantity, release_labels};
use winpool_facts::{
    containerd::{HYPERV_HANDLER, PROCESS_HANDLER},
    known_issues::{ComponentVersion, NodeComponent, PodFeatures},
    named_enum, support,
};

use super::{PodVolume, features, fields, volumes};

/// The only node field that affinity can match.
const NODE_NAME: &str = "metadata.name";
const ARCHITECTURES: [&str; 2] = [label::ARCH, "beta.kubernetes.io/arch"];

named_enum! {
    /// The operating system of a pod's containers. The name is that in labels and in `spec.os`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
    pub enum System {
        Windows = "windows",
        Linux = "linux",
    }
}

/// The part of a pod's spec that is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// `spec.os.name`.
    pub os: Option<System>,
    pub runtime_class: Option<String>,
    pub scheduling: Scheduling,
    /// The terms of the required node affinity: a node must meet all requirements of one term; without terms, any node.
    pub affinity: Vec<Vec<Requirement>>,
    /// `spec.nodeName` of a template.
    pub node_name: Option<String>,
    /// All containers, init containers first.
    pub containers: Vec<Container>,
    /// The memory of `spec.overhead`, in bytes.
    pub overhead: i64,
    /// The CPU of `spec.overhead`, in thousandths.
    pub cpu_overhead: i64,
    /// Whether the pod or a container has `securityContext.windowsOptions` that say more than that it is no HostProcess container.
    pub windows_options: bool,
    /// The names in `spec.imagePullSecrets`. For a pod, admission has added those of its ServiceAccount.
    pub pull_secrets: Vec<String>,
    /// The paths of fields that Windows ignores or rejects; empty unless the spec is for Windows.
    pub ineffective_fields: Vec<String>,
    pub features: PodFeatures,
    pub volumes: Vec<PodVolume>,
    pub components: Vec<(NodeComponent, ComponentVersion)>,
    /// Whether the spec is larger than is kept: see [`Self::excerpt`].
    pub oversized: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scheduling {
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label, or the field `metadata.name`.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Container {
    pub name: String,
    pub image: ForeignText,
    /// Whether it is an init container that is not a sidecar, and so ends before the others start.
    pub init: bool,
    pub host_process: bool,
    /// Its memory request, in bytes.
    pub memory_request: Option<i64>,
    /// Its memory limit, in bytes.
    pub memory_limit: Option<i64>,
    /// Its CPU request, or else its limit, in thousandths.
    pub cpu_request: Option<i64>,
}

impl From<&core::PodSpec> for Template {
    fn from(spec: &core::PodSpec) -> Self {
        let options = spec.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
        let of_pod = options.and_then(|options| options.host_process).unwrap_or_default();
        let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
        let in_container = |container: &core::Container| {
            container
                .security_context
                .as_ref()
                .and_then(|context| context.windows_options.as_ref())
                .is_some_and(is_for_windows)
        };
        let mut template = Self {
            os: spec.os.as_ref().and_then(|os| System::named(&os.name)),
            runtime_class: spec.runtime_class_name.clone(),
            scheduling: Scheduling {
                node_selector: spec.node_selector.clone().unwrap_or_default(),
                tolerations: spec.tolerations.iter().flatten().filter_map(Toleration::read).collect(),
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
            cpu_overhead: quantity(spec.overhead.as_ref(), "cpu").map_or(0, Quantity::milli),
            windows_options: options.is_some_and(is_for_windows) || containers().any(in_container),
            pull_secrets: spec.image_pull_secrets.iter().flatten().map(|secret| secret.name.clone()).collect(),
            ineffective_fields: Vec::new(),
            features: features::of(spec, of_pod),
            volumes: volumes(spec),
            components: spec
                .containers
                .iter()
                .filter_map(|one| NodeComponent::of_image(one.image.as_deref()?))
                .collect(),
            oversized: false,
        };
        // Most pods are for Linux and need no check of their fields.
        if template.system(|_| None).map_or(template.runtime_class.is_some(), |system| system == System::Windows) {
            template.ineffective_fields = ineffective_fields(spec);
        }
        template
    }
}

pub(super) fn memory(resources: Option<&BTreeMap<String, resource::Quantity>>) -> Option<i64> {
    quantity(resources, "memory").map(Quantity::bytes)
}

fn quantity(resources: Option<&BTreeMap<String, resource::Quantity>>, name: &str) -> Option<Quantity> {
    resources?.get(name)?.0.parse().ok()
}

fn ineffective_fields(spec: &core::PodSpec) -> Vec<String> {
    let issues = serde_json::to_value(spec).map(|spec| fields::issues(&spec, support::NEWEST)).unwrap_or_default();
    issues.into_iter().filter(|issue| !issue.is_only_informative()).map(|issue| issue.path).collect()
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

impl Template {
    /// The template without its lists, which is not checked. One container stands for all HostProcess containers.
    pub(super) fn excerpt(self) -> Self {
        let host_process = self.containers.iter().any(|container| container.host_process);
        Self {
            os: self.os,
            runtime_class: self.runtime_class,
            node_name: self.node_name,
            containers: vec![Container { host_process, ..Container::default() }],
            windows_options: self.windows_options,
            features: self.features,
            oversized: true,
            ..Self::default()
        }
    }

    /// The operating system of the pod, by `spec.os.name`, the selector, the affinity, Windows options, or the RuntimeClass,
    /// whose operating system `class` returns.
    pub fn system(&self, class: impl Fn(&str) -> Option<System>) -> Option<System> {
        let windows_options = self.windows_options.then_some(System::Windows);
        self.os
            .or_else(|| self.scheduling.system())
            .or_else(|| self.affinity_system())
            .or(windows_options)
            .or_else(|| class(self.runtime_class.as_deref()?))
    }

    /// Removes the node name, which the DaemonSet controller sets, from the affinity, and returns it.
    pub fn take_affinity_node(&mut self) -> Option<String> {
        let by_name = |requirement: &Requirement| {
            requirement.key == NODE_NAME && requirement.operator == "In" && requirement.values.len() == 1
        };
        let [term] = self.affinity.as_mut_slice() else { return None };
        let requirement = term.remove(term.iter().position(by_name)?);
        if term.is_empty() {
            self.affinity.clear();
        }
        requirement.values.into_iter().next()
    }

    /// The operating system that every term of the affinity requires.
    fn affinity_system(&self) -> Option<System> {
        let of_term = |term: &Vec<Requirement>| {
            let by_os = term.iter().find(|requirement| requirement.key == label::OS && requirement.operator == "In")?;
            System::named(by_os.values.first().filter(|_| by_os.values.len() == 1)?)
        };
        let first = of_term(self.affinity.first()?)?;
        self.affinity.iter().all(|term| of_term(term) == Some(first)).then_some(first)
    }

    /// Whether the affinity matches a node. Requirements on labels that are not `known` count as met.
    pub fn affinity_matches(
        &self,
        labels: &BTreeMap<String, String>,
        name: &str,
        known: impl Fn(&str) -> bool,
    ) -> bool {
        let is_met = |requirement: &Requirement| {
            !known(&requirement.key) || requirement.is_met(labels, Some(name).filter(|name| !name.is_empty()))
        };
        let matches = |term: &Vec<Requirement>| !term.is_empty() && term.iter().all(is_met);
        self.affinity.is_empty() || self.affinity.iter().any(matches)
    }

    /// The names of the nodes that the affinity selects by name.
    pub fn affinity_hosts(&self) -> impl Iterator<Item = &str> {
        let by_name = |requirement: &&Requirement| {
            requirement.operator == "In" && [NODE_NAME, label::HOSTNAME].contains(&requirement.key.as_str())
        };
        self.affinity.iter().flatten().filter(by_name).flat_map(|requirement| &requirement.values).map(String::as_str)
    }

    /// The keys of the node labels that it selects by, possibly with duplicates.
    pub fn selected_labels(&self) -> impl Iterator<Item = &String> {
        let required = self.affinity.iter().flatten().map(|requirement| &requirement.key);
        self.scheduling.node_selector.keys().chain(required)
    }

    pub fn selects_by_host(&self) -> bool {
        self.scheduling.node_selector.contains_key(label::HOSTNAME) || self.affinity_hosts().next().is_some()
    }

    /// Whether its own selector or affinity has more than the architecture.
    pub fn selects_some_nodes(&self) -> bool {
        !self.affinity.is_empty()
            || self.scheduling.node_selector.keys().any(|key| !ARCHITECTURES.contains(&key.as_str()))
    }

    /// The memory limit of a pod, in bytes; 0 where no container has a limit. Sums saturate at `i64::MAX`.
    pub fn memory_limit(&self) -> i64 {
        match self.peak(|container| container.memory_limit) {
            0 => 0,
            limit => limit.saturating_add(self.overhead),
        }
    }

    /// The memory request of a pod, as the scheduler computes it, in bytes. Sums saturate at `i64::MAX`.
    pub fn memory_request(&self) -> i64 {
        let containers = self.peak(|container| container.memory_request.or(container.memory_limit));
        containers.saturating_add(self.overhead)
    }

    /// The CPU request of a pod, as the scheduler computes it, in thousandths. Sums saturate at `i64::MAX`.
    pub fn cpu_request(&self) -> i64 {
        self.peak(|container| container.cpu_request).saturating_add(self.cpu_overhead)
    }

    /// The highest sum of an amount over the containers that run at the same time: init containers run one by one, with the
    /// sidecars that started before them (kubernetes/kubernetes, component-helpers `resource/helpers.go`).
    fn peak(&self, amount: impl Fn(&Container) -> Option<i64>) -> i64 {
        let add = |(peak, running): (i64, i64), container: &Container| {
            let sum = running.saturating_add(amount(container).unwrap_or_default());
            if container.init { (peak.max(sum), running) } else { (peak, sum) }
        };
        let (peak, running) = self.containers.iter().fold((0, 0), add);
        peak.max(running)
    }
}

impl Scheduling {
    pub fn of_class(class: &k8s_openapi::api::node::v1::RuntimeClass) -> Self {
        let scheduling = class.scheduling.as_ref();
        Self {
            node_selector: scheduling.and_then(|own| own.node_selector.clone()).unwrap_or_default(),
            tolerations: scheduling
                .and_then(|own| own.tolerations.as_ref())
                .into_iter()
                .flatten()
                .filter_map(Toleration::read)
                .collect(),
        }
    }

    pub fn system(&self) -> Option<System> {
        let os = [label::OS, label::BETA_OS].into_iter().find_map(|key| self.node_selector.get(key));
        let of_windows = |key: &String| key == label::WINDOWS_BUILD || release_labels::is_release_label(key);
        let by_build = || self.node_selector.keys().any(of_windows).then_some(System::Windows);
        os.and_then(|name| System::named(name)).or_else(by_build)
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// Whether a taint is tolerated without a time limit.
    pub fn tolerates_without_limit(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| !toleration.is_limited() && toleration.tolerates(taint))
    }
}

/// The operating system of the nodes of a RuntimeClass: by its selector, else by a handler that only Windows has.
pub fn system_of_class(class: &k8s_openapi::api::node::v1::RuntimeClass) -> Option<System> {
    let of_handler = [PROCESS_HANDLER, HYPERV_HANDLER].contains(&class.handler.as_str()).then_some(System::Windows);
    Scheduling::of_class(class).system().or(of_handler)
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
    fn is_met(&self, labels: &BTreeMap<String, String>, name: Option<&str>) -> bool {
        let value = match self.key.as_str() {
            NODE_NAME => name,
            key => labels.get(key).map(String::as_str),
        };
        let compare = |ordered: fn(&i64, &i64) -> bool| {
            let (Some(value), Some(bound)) = (value, self.values.first()) else { return false };
            matches!((value.parse(), bound.parse()), (Ok(value), Ok(bound)) if ordered(&value, &bound))
        };
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.iter().any(|one| one == value)),
            "NotIn" => value.is_none_or(|value| self.values.iter().all(|one| one != value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compare(i64::gt),
            "Lt" => compare(i64::lt),
            _ => false,
        }
    }
}

/// Whether options are for Windows: `hostProcess: false` alone is the default, which policies require of pods for Linux too.
fn is_for_windows(options: &core::WindowsSecurityContextOptions) -> bool {
    *options != core::WindowsSecurityContextOptions { host_process: Some(false), ..Default::default() }
}

impl Container {
    fn read(container: &core::Container, host_process_of_pod: bool) -> Self {
        let own = container.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
        let resources = container.resources.as_ref();
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default().into(),
            init: false,
            host_process: own.and_then(|options| options.host_process).unwrap_or(host_process_of_pod),
            memory_request: memory(requests),
            memory_limit: memory(limits),
            cpu_request: quantity(requests, "cpu").or_else(|| quantity(limits, "cpu")).map(Quantity::milli),
        }
    }
}

#[cfg(test)]
mod tests;
