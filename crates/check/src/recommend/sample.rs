//! A sample: what a node and its pods use at one time.
//!
//! On Windows, `usageBytes` of a node in `/stats/summary` is the counter `\Memory\Committed Bytes`, and `workingSetBytes` is
//! `\Process(_Total)\Working Set - Private`: it has no file cache and nothing that is paged out. `usageBytes` of containers is their
//! commit, if both containerd (2.x; 1.7 has none) and the kubelet (1.34; 1.30 has none) report it, else it is 0 or absent. The system
//! container `windows-global-commit-memory` has what is left of the commit limit (from 1.31). The kubelet adds a second of CPU time to
//! `usageCoreNanoSeconds` of the node every ten seconds, so that what is derived from it, as by metrics-server, is a tenth; `usageNanoCores`
//! is right.
//!
//! Sources, read on 2026-11-29: `pkg/kubelet` of kubernetes/kubernetes 1.30.14, 1.34.4 and 1.37.2, `winstats/winstats.go`,
//! `winstats/perfcounters.go`, `winstats/perfcounter_nodestats_windows.go`, `stats/cri_stats_provider.go`,
//! `server/stats/summary_sys_containers_windows.go` and `metrics/collectors/resource_metrics.go`; containerd 1.7.35, 2.3.7 and 2.4.2,
//! `container_stats_list.go`; kubernetes-sigs/metrics-server (071d48af), `pkg/scraper/client/resource/decode.go`;
//! kubernetes/kubernetes#112111 and #122382.

use derive_more::Display;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use winpool_core::{kubernetes::quantity::Quantity, node::Resources};

use super::Size;

/// The largest amount of a sample: no node has a pebibyte of memory.
const MAX: i64 = 1 << 50;

/// The order is that of nodes and times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sample {
    pub node: String,
    /// When the kubelet measured the node.
    pub time: Timestamp,
    pub cores: i64,
    /// The capacity of the node in bytes.
    pub memory: i64,
    pub pods: usize,
    /// When the newest pod was started, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_pod: Option<Timestamp>,
    pub node_usage: Usage,
    pub pods_usage: Usage,
    /// What is left of the commit limit, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_available: Option<i64>,
}

/// CPU in thousandths, and memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i64>,
    /// The private working set.
    pub working_set: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<i64>,
}

/// What the memory of the system is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Display)]
#[serde(rename_all = "camelCase")]
pub enum Basis {
    #[display("commit of the node minus commit of its pods")]
    Commit,
    #[display(
        "commit of the node minus working set of its pods, whose commit kubelet or containerd do not report: an upper bound"
    )]
    CommitAndWorkingSet,
    #[display(
        "working set of the node minus that of its pods, from metrics.k8s.io, which has no commit: a lower bound, and without CPU, which \
         metrics.k8s.io has wrong for nodes with Windows (kubernetes/kubernetes#122382)"
    )]
    WorkingSet,
}

impl Sample {
    /// Whether every amount is one that a node can have.
    pub fn is_possible(&self) -> bool {
        let Self { node_usage, pods_usage, .. } = self;
        let optional = [node_usage.cpu, node_usage.commit, pods_usage.cpu, pods_usage.commit, self.commit_available];
        let amounts =
            [node_usage.working_set, pods_usage.working_set].into_iter().chain(optional.into_iter().flatten());
        (1..=1 << 16).contains(&self.cores)
            && (1..=MAX).contains(&self.memory)
            && amounts.into_iter().all(|amount| (0..=MAX).contains(&amount))
    }

    pub fn size(&self) -> Size {
        let half = 1_i64 << 29;
        Size { cores: self.cores, gibibytes: self.memory.saturating_add(half) >> 30 }
    }

    /// What the system uses in bytes: what the node uses and its pods do not.
    pub fn system_memory(&self) -> (i64, Basis) {
        let (node, pods) = (&self.node_usage, &self.pods_usage);
        let (of_node, of_pods, basis) = match (node.commit, pods.commit) {
            (Some(node), Some(pods)) => (node, pods, Basis::Commit),
            (Some(node), None) => (node, pods.working_set, Basis::CommitAndWorkingSet),
            (None, _) => (node.working_set, pods.working_set, Basis::WorkingSet),
        };
        (of_node.saturating_sub(of_pods).max(0), basis)
    }

    /// The same of CPU, in thousandths. Pods without a value count as none, which makes it more.
    pub fn system_cpu(&self) -> Option<i64> {
        Some(self.node_usage.cpu?.saturating_sub(self.pods_usage.cpu.unwrap_or_default()).max(0))
    }

    /// What the pods use in bytes.
    pub fn pods_memory(&self) -> i64 {
        self.pods_usage.commit.unwrap_or(self.pods_usage.working_set)
    }

    /// Reads `/stats/summary` of a node with this capacity.
    pub fn of_summary(node: &str, capacity: &Resources, summary: &[u8]) -> Result<Self, String> {
        let Summary { node: of_node, pods } =
            serde_json::from_slice(summary).map_err(|error| format!("/stats/summary: {error}"))?;
        let memory = of_node.memory.unwrap_or_default();
        let (Some(time), Some(working_set), Some(commit @ 1..)) =
            (memory.time, memory.working_set_bytes, memory.usage_bytes)
        else {
            return Err("/stats/summary has no memory of the node yet".to_owned());
        };
        let global = of_node.system_containers.into_iter().find(|one| one.name == "windows-global-commit-memory");
        let sample = Self {
            node: node.to_owned(),
            time,
            pods: pods.len(),
            newest_pod: pods.iter().filter_map(|pod| pod.start_time).max(),
            node_usage: Usage { cpu: milli(of_node.cpu), working_set, commit: Some(commit) },
            pods_usage: sum(&pods),
            commit_available: global.and_then(|global| global.memory?.available_bytes),
            ..Self::without_use(node, time, capacity)?
        };
        sample.checked()
    }

    /// Reads `NodeMetrics` of a node, and the `PodMetrics` of its pods, of metrics.k8s.io.
    pub fn of_metrics<'p>(
        capacity: &Resources,
        node: &Value,
        pods: impl IntoIterator<Item = &'p Value>,
    ) -> Result<Self, String> {
        let memory = |usage: &Value| usage["memory"].as_str()?.parse().ok().map(Quantity::bytes);
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let time = node["timestamp"].as_str().and_then(|time| time.parse().ok());
        let (Some(time), Some(working_set)) = (time, memory(&node["usage"])) else {
            return Err("metrics.k8s.io has no memory of the node".to_owned());
        };
        let of_pod = |pod: &Value| -> i64 {
            let containers = pod["containers"].as_array().into_iter().flatten();
            containers.filter_map(|one| memory(&one["usage"])).fold(0, i64::saturating_add)
        };
        let pods: Vec<_> = pods.into_iter().map(of_pod).collect();
        let sum = pods.iter().copied().fold(0, i64::saturating_add);
        let sample = Self {
            pods: pods.len(),
            node_usage: Usage { working_set, ..Usage::default() },
            pods_usage: Usage { working_set: sum, ..Usage::default() },
            ..Self::without_use(name, time, capacity)?
        };
        sample.checked()
    }

    fn without_use(node: &str, time: Timestamp, capacity: &Resources) -> Result<Self, String> {
        let (Some(cpu), Some(memory)) = (capacity.cpu_milli, capacity.memory) else {
            return Err("the node reports no capacity".to_owned());
        };
        let (node_usage, pods_usage) = (Usage::default(), Usage::default());
        let (node, cores) = (node.to_owned(), cpu / 1000);
        Ok(Self {
            node,
            time,
            cores,
            memory,
            pods: 0,
            newest_pod: None,
            node_usage,
            pods_usage,
            commit_available: None,
        })
    }

    fn checked(self) -> Result<Self, String> {
        if self.is_possible() { Ok(self) } else { Err("it reports amounts that no node has".to_owned()) }
    }
}

/// What pods use together. Their commit is unknown if that of one with a working set is.
fn sum(pods: &[Stats]) -> Usage {
    let memory = || pods.iter().filter_map(|pod| pod.memory.as_ref());
    let working_set = |memory: &Memory| memory.working_set_bytes.unwrap_or_default();
    let commit = |memory: &Memory| memory.usage_bytes.filter(|commit| *commit > 0 || working_set(memory) == 0);
    Usage {
        cpu: Some(pods.iter().filter_map(|pod| milli(pod.cpu)).fold(0, i64::saturating_add)),
        working_set: memory().map(working_set).fold(0, i64::saturating_add),
        commit: memory().map(commit).try_fold(0_i64, |sum, commit| Some(sum.saturating_add(commit?))),
    }
}

fn milli(cpu: Option<Cpu>) -> Option<i64> {
    Some(cpu?.usage_nano_cores?.div_euclid(1_000_000))
}

// The fields of k8s.io/kubelet/pkg/apis/stats/v1alpha1 that are read.

#[derive(Deserialize)]
struct Summary {
    node: Stats,
    #[serde(default)]
    pods: Vec<Stats>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    #[serde(default)]
    name: String,
    start_time: Option<Timestamp>,
    cpu: Option<Cpu>,
    memory: Option<Memory>,
    #[serde(default)]
    system_containers: Vec<Stats>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cpu {
    usage_nano_cores: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    time: Option<Timestamp>,
    available_bytes: Option<i64>,
    usage_bytes: Option<i64>,
    working_set_bytes: Option<i64>,
}
