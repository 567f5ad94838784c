//! `spec.delivery.clusterAPI`, parsed.

use winpool_api::{Autoscaling, ClusterApi, Delivery, DeliveryMethod, LabelSelector, Rotation};
use winpool_core::{
    Problem,
    kubernetes::{quantity::Quantity, syntax},
    node::Resources,
};
use winpool_facts::{ContainerdLine, ContainerdVersion, containerd};

use super::views::{GroupKind, MachineGroup};
use crate::pool::selector::check_selector;

const PATH: &str = "spec.delivery.clusterAPI";

/// The machines of a pool, and what their templates contain.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // as in the API
pub struct ClusterApiRules {
    pub namespace: String,
    pub cluster: String,
    pub kind: GroupKind,
    pub selector: LabelSelector,
    pub template_from: Option<String>,
    pub containerd: Option<ContainerdLine>,
    pub rotation: Rotation,
    pub capacity: Option<MachineCapacity>,
    /// `rollout.attempt`.
    pub attempt: u32,
}

/// The capacity of one machine.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // as in the API
pub struct MachineCapacity {
    pub cpu: Quantity,
    pub memory: Quantity,
    pub ephemeral_disk: Option<Quantity>,
}

impl MachineCapacity {
    /// The resources of one machine.
    pub fn resources(self) -> Resources {
        Resources {
            cpu_milli: Some(self.cpu.milli()),
            memory: Some(self.memory.bytes()),
            ephemeral_storage: self.ephemeral_disk.map(Quantity::bytes),
            pods: None,
        }
    }
}

impl ClusterApiRules {
    /// Parses the rules; `None` if machines do not get their configuration from Cluster API.
    pub fn parse(delivery: &Delivery, has_profile: bool, problems: &mut Vec<Problem>) -> Option<Self> {
        let uses = delivery.method == DeliveryMethod::ClusterApi;
        let Some(written) = delivery.cluster_api.as_ref().filter(|_| uses) else {
            if uses || delivery.cluster_api.is_some() {
                let wrong = "method: ClusterAPI and clusterAPI belong together";
                problems.push(Problem::new(PATH, wrong, "write clusterAPI with method: ClusterAPI, and only with it"));
            }
            return None;
        };
        if !has_profile {
            let wrong = "without a profile there is nothing to put into a template";
            problems.push(Problem::new("spec.profileRef", wrong, "name a WindowsRuntimeProfile"));
        }
        for (field, name) in [("namespace", &written.namespace), ("clusterName", &written.cluster_name)] {
            if !syntax::is_dns_subdomain(name) {
                let wrong = format!("{name:?} is not the name of an object");
                problems.push(Problem::new(format!("{PATH}.{field}"), wrong, "write the name of an existing one"));
            }
        }
        let (kind, selector) = selector(written, problems)?;
        Some(Self {
            namespace: written.namespace.clone(),
            cluster: written.cluster_name.clone(),
            kind,
            selector,
            template_from: written.template_from.as_ref().map(|template| template.name.clone()),
            containerd: containerd_line(&written.containerd_version, problems),
            rotation: written.rotation,
            capacity: written.autoscaling.as_ref().and_then(|written| capacity(written, problems)),
            attempt: delivery.rollout.attempt,
        })
    }

    /// Whether the selector matches a group, regardless of its cluster.
    pub fn matches(&self, group: &MachineGroup) -> bool {
        group.kind == self.kind && group.namespace == self.namespace && self.selector.matches(&group.labels)
    }

    /// Whether a group becomes nodes of the pool.
    pub fn selects(&self, group: &MachineGroup) -> bool {
        self.matches(group) && group.cluster == self.cluster
    }
}

fn selector(written: &ClusterApi, problems: &mut Vec<Problem>) -> Option<(GroupKind, LabelSelector)> {
    let (kind, field, selector) = match (&written.machine_deployments, &written.machine_pools) {
        (Some(selector), None) => (GroupKind::Deployment, "machineDeployments", selector),
        (None, Some(selector)) => (GroupKind::Pool, "machinePools", selector),
        _ => {
            let wrong = "either machineDeployments or machinePools selects the machines";
            problems.push(Problem::new(PATH, wrong, "write one of them"));
            return None;
        }
    };
    check_selector(&format!("{PATH}.{field}"), selector, problems);
    Some((kind, selector.clone()))
}

fn containerd_line(text: &str, problems: &mut Vec<Problem>) -> Option<ContainerdLine> {
    if text.is_empty() {
        return None;
    }
    let line = text.parse::<ContainerdVersion>().ok().filter(|version| containerd::release_line(*version).is_some());
    if line.is_none() {
        let wrong = format!("{text:?} is not a known release line of containerd");
        problems.push(Problem::new(format!("{PATH}.containerdVersion"), wrong, "write one such as \"2.2\""));
    }
    line.map(ContainerdVersion::line)
}

fn capacity(written: &Autoscaling, problems: &mut Vec<Problem>) -> Option<MachineCapacity> {
    let mut quantity = |field: &str, text: &str| {
        let parsed = text.parse::<Quantity>().ok();
        if parsed.is_none() {
            let wrong = format!("{text:?} is not a quantity");
            let path = format!("{PATH}.autoscaling.{field}");
            problems.push(Problem::new(path, wrong, "write a quantity such as 4 or 16Gi"));
        }
        parsed
    };
    let (cpu, memory) = (quantity("cpu", &written.cpu.0), quantity("memory", &written.memory.0));
    let ephemeral_disk = written.ephemeral_disk.as_ref().and_then(|disk| quantity("ephemeralDisk", &disk.0));
    Some(MachineCapacity { cpu: cpu?, memory: memory?, ephemeral_disk })
}
