//! What pods request, as the scheduler counts it, kept as sums.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::Serialize;

use super::{Pod, Template, WorkloadName, index::count};

/// The most memory, in bytes, or CPU, in thousandths, that counts of one pod: 1 PiB. So the sums of all pods of a node are exact.
const MAX_OF_POD: i64 = 1 << 50;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    /// Memory in bytes.
    pub memory: i64,
    /// CPU in thousandths.
    pub cpu_milli: i64,
    pub pods: i64,
}

impl Amount {
    /// What a pod requests.
    pub fn of(template: &Template) -> Self {
        let (memory, cpu) = (template.memory_request(), template.cpu_request());
        Self { memory: memory.min(MAX_OF_POD), cpu_milli: cpu.min(MAX_OF_POD), pods: 1 }
    }

    /// Saturates, as all its sums.
    pub fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            pods: self.pods.saturating_add(other.pods),
        }
    }

    pub fn minus(self, other: Self) -> Self {
        let Self { memory, cpu_milli, pods } = other;
        self.plus(Self {
            memory: memory.saturating_neg(),
            cpu_milli: cpu_milli.saturating_neg(),
            pods: pods.saturating_neg(),
        })
    }

    /// How many times it has room for another amount.
    pub fn room_for(self, one: Self) -> i64 {
        let parts = [(self.memory, one.memory), (self.cpu_milli, one.cpu_milli), (self.pods, one.pods)];
        let times = parts.into_iter().filter(|(_, one)| *one > 0).map(|(free, one)| free / one);
        times.min().unwrap_or_default().max(0)
    }
}

/// The requests of the pods that have a node and have not finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    by_node: HashMap<String, Amount>,
    /// The number of pods by request and workload, without DaemonSets.
    kinds: BTreeMap<(Amount, Arc<WorkloadName>), u32>,
}

impl Requests {
    pub fn of<'p>(pods: impl IntoIterator<Item = &'p Arc<Pod>>) -> Self {
        let mut requests = Self::default();
        pods.into_iter().filter(|pod| !pod.finished).for_each(|pod| requests.count(pod, true));
        requests
    }

    /// Adds a pod, or subtracts one that was added.
    pub fn count(&mut self, pod: &Pod, add: bool) {
        let Some(node) = &pod.node else { return };
        let request = Amount::of(&pod.template);
        let on_node = self.by_node.entry(node.clone()).or_default();
        *on_node = if add { on_node.plus(request) } else { on_node.minus(request) };
        if on_node.pods == 0 {
            self.by_node.remove(node);
        }
        if pod.workload.kind != "DaemonSet" {
            count(&mut self.kinds, (request, pod.workload.clone()), add);
        }
    }

    /// What the pods of a node request.
    pub fn on(&self, node: &str) -> Amount {
        self.by_node.get(node).copied().unwrap_or_default()
    }

    /// The workload, of those other than DaemonSets, whose pods request most, with the request of one.
    pub fn largest(&self) -> Option<(&WorkloadName, Amount)> {
        self.kinds.last_key_value().map(|((request, workload), _)| (workload.as_ref(), *request))
    }
}
