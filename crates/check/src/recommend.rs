//! `winpool recommend`: what to reserve for the system on the nodes of a pool, from samples of their use.

mod sample;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use winpool_api::{KubeletSettings, WindowsRuntimeProfileSpec};
use winpool_core::{
    kubernetes::quantity::{Quantity, Resource, Threshold},
    node::Resources,
    text::{counted, some_of_many},
};
use winpool_facts::{
    Minor,
    eviction::{self, Signal},
    node_reserves::{NodeSize, RECOMMENDED_MEMORY, RESERVES},
};
use winpool_render::{
    profile::{self, Profile},
    reserve::{Reserves, allocatable, capacity_problem},
};

pub use sample::{Basis, Sample, Usage};

/// The samples that a size needs. The 99th percentile of fewer than 100 is their maximum.
pub const MIN_SAMPLES: usize = 60;
/// The nodes that a size needs: one alone shows what its own pods cause.
pub const MIN_NODES: usize = 2;
/// What is added to the 99th percentile, in percent.
pub const MARGIN: i64 = 25;
/// The symptom of `winpool doctor` that a leak leads to.
pub const LEAK_SYMPTOM: &str = "node-memory-pressure";

/// Memory is rounded up to this.
const MEMORY_STEP: i64 = 256 << 20;
/// CPU is rounded up to this for each processor, in thousandths.
const CPU_STEP: i64 = 10;
/// How long, with how many samples of a node, and how much use must rise for a leak.
const LEAK_SPAN: SignedDuration = SignedDuration::from_mins(10);
const LEAK_SAMPLES: usize = 12;
const LEAK_RISE: i64 = 64 << 20;
/// The points of the chart.
const POINTS: usize = 40;

/// What samples are measured against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Measured {
    pub pool: String,
    /// The name of the profile of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// `spec.kubelet` of the profile.
    #[serde(default)]
    pub kubelet: KubeletSettings,
    /// The lowest minor of the kubelets.
    pub minor: u32,
}

/// What to reserve.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    pub pool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub sizes: Vec<SizeReport>,
    /// The sizes of which too little was measured.
    pub missing: Vec<Missing>,
    /// What to merge into the profile: the largest recommendation of all sizes.
    pub patch: Value,
}

/// Nodes with the same processors and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    pub cores: i64,
    /// Memory in GiB, rounded: nodes of one size differ in a few pages.
    pub gibibytes: i64,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CPU, {}Gi", self.cores, self.gibibytes)
    }
}

/// The system's use of a resource on the nodes of a size, in thousandths of a processor or bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    pub median: i64,
    pub p99: i64,
    pub recommended: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SizeReport {
    pub size: Size,
    pub nodes: usize,
    pub samples: usize,
    /// The fewest and the most pods on a node.
    pub pods: [usize; 2],
    pub memory_is: BTreeSet<Basis>,
    pub memory: Amount,
    /// `None` if a sample has none.
    pub cpu: Option<Amount>,
    /// The largest use of memory in equal spans of time, in bytes; `None` without a sample.
    pub chart: Vec<Option<i64>>,
    pub leaks: Vec<Leak>,
    /// What is wrong with the recommendation, the threshold of eviction, or `maxPods`.
    pub warnings: Vec<String>,
    pub platforms: Vec<Platform>,
}

/// Memory that rises on a node whose pods stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leak {
    pub node: String,
    /// In bytes, the medians of the first and the last quarter.
    pub from: i64,
    pub to: i64,
    pub seconds: i64,
    pub pods: usize,
}

/// What a platform reserves on a node of this size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Platform {
    pub platform: &'static str,
    pub cpu: Option<i64>,
    pub memory: Option<i64>,
    /// Why it is not known.
    pub not_known: Option<&'static str>,
    pub source: &'static str,
}

/// What is missing for a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub size: Size,
    pub nodes: usize,
    pub samples: usize,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, nodes, samples } = self;
        write!(f, "{size}: {nodes} of at least {MIN_NODES} nodes, {samples} of at least {MIN_SAMPLES} samples")
    }
}

/// Why nothing is recommended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("pool {0} has no samples: its nodes must be ready, and their kubelets must answer")]
    Nothing(String),
    #[error(
        "too little was measured of pool {0}: {list}. Measure longer with --for, or more nodes of the same size",
        list = some_of_many(.1, ToString::to_string)
    )]
    TooLittle(String, Vec<Missing>),
    #[error("the profile is invalid: {0}")]
    Profile(String),
}

/// What to reserve on the nodes of a pool, from samples in any order.
pub fn recommend(measured: &Measured, samples: &[Sample]) -> Result<Recommendation, Refusal> {
    let spec = WindowsRuntimeProfileSpec { kubelet: measured.kubelet.clone(), ..Default::default() };
    let invalid = |problems: Vec<_>| Refusal::Profile(some_of_many(&problems, ToString::to_string));
    let profile = profile::check(&spec).map_err(invalid)?;
    let mut by_size: BTreeMap<Size, BTreeSet<&Sample>> = BTreeMap::new();
    samples.iter().for_each(|sample| {
        by_size.entry(sample.size()).or_default().insert(sample);
    });
    if by_size.is_empty() {
        return Err(Refusal::Nothing(measured.pool.clone()));
    }
    let (mut sizes, mut missing) = (Vec::new(), Vec::new());
    for (size, samples) in by_size {
        let nodes = samples.iter().map(|sample| sample.node.as_str()).collect::<BTreeSet<_>>().len();
        match nodes < MIN_NODES || samples.len() < MIN_SAMPLES {
            true => missing.push(Missing { size, nodes, samples: samples.len() }),
            false => sizes.push(report(size, nodes, &samples, &profile, Minor(measured.minor))),
        }
    }
    if sizes.is_empty() {
        return Err(Refusal::TooLittle(measured.pool.clone(), missing));
    }
    let patch = patch(&sizes);
    Ok(Recommendation { pool: measured.pool.clone(), profile: measured.profile.clone(), sizes, missing, patch })
}

fn report(size: Size, nodes: usize, samples: &BTreeSet<&Sample>, profile: &Profile, minor: Minor) -> SizeReport {
    let memory = amount(samples.iter().map(|sample| sample.system_memory().0), |use_| {
        rounded_up(use_, MEMORY_STEP).max(RECOMMENDED_MEMORY)
    });
    let cpu: Option<Vec<_>> = samples.iter().map(|sample| sample.system_cpu()).collect();
    let cpu = cpu.map(|uses| amount(uses, |use_| rounded_up(use_.max(1), CPU_STEP * size.cores)));
    let pods = || samples.iter().map(|sample| sample.pods);
    let on_platforms = NodeSize {
        cores: size.cores,
        memory: size.gibibytes.saturating_mul(1 << 30),
        max_pods: profile.kubelet.max_pods.into(),
    };
    SizeReport {
        size,
        nodes,
        samples: samples.len(),
        pods: [pods().min().unwrap_or_default(), pods().max().unwrap_or_default()],
        memory_is: samples.iter().map(|sample| sample.system_memory().1).collect(),
        chart: chart(samples),
        leaks: leaks(samples),
        warnings: warnings(samples, &memory, cpu.as_ref(), profile, minor),
        platforms: platforms(on_platforms),
        memory,
        cpu,
    }
}

/// The median, the percentile, and the recommendation that follows from it with the margin.
fn amount(uses: impl IntoIterator<Item = i64>, rounded: impl Fn(i64) -> i64) -> Amount {
    let mut uses: Vec<_> = uses.into_iter().collect();
    uses.sort_unstable();
    let p99 = percentile(&uses, 99);
    let with_margin = i128::from(p99) * i128::from(100 + MARGIN) / 100;
    let recommended = rounded(i64::try_from(with_margin).unwrap_or(i64::MAX));
    Amount { median: percentile(&uses, 50), p99, recommended }
}

/// The value of the nearest rank in sorted values; 0 without any.
fn percentile(sorted: &[i64], percent: usize) -> i64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

fn rounded_up(units: i64, step: i64) -> i64 {
    let steps = units / step + i64::from(units % step > 0);
    steps.saturating_mul(step)
}

/// The largest use in each of [`POINTS`] spans of time.
fn chart(samples: &BTreeSet<&Sample>) -> Vec<Option<i64>> {
    let seconds = |sample: &&Sample| sample.time.as_second();
    let (first, last) =
        (samples.iter().map(seconds).min().unwrap_or_default(), samples.iter().map(seconds).max().unwrap_or_default());
    let span = i128::from(last) - i128::from(first) + 1;
    let mut points = vec![None; POINTS];
    for sample in samples {
        let at = (i128::from(sample.time.as_second()) - i128::from(first)) * POINTS as i128 / span;
        if let Some(point) = usize::try_from(at).ok().and_then(|at| points.get_mut(at)) {
            *point = (*point).max(Some(sample.system_memory().0));
        }
    }
    points
}

/// The nodes whose use rises from quarter to quarter of the samples, while their pods stay the same.
fn leaks(samples: &BTreeSet<&Sample>) -> Vec<Leak> {
    let mut by_node: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    samples.iter().for_each(|sample| by_node.entry(&sample.node).or_default().push(sample));
    by_node.into_values().filter_map(|samples| leak(&samples)).collect()
}

fn leak(samples: &[&Sample]) -> Option<Leak> {
    let (first, last) = (samples.first()?, samples.last()?);
    let is_constant = samples.iter().all(|one| (one.pods, one.newest_pod) == (first.pods, first.newest_pod));
    let span = last.time.duration_since(first.time);
    if samples.len() < LEAK_SAMPLES || span < LEAK_SPAN || !is_constant {
        return None;
    }
    let medians: Vec<_> = samples.chunks(samples.len().div_ceil(4)).map(median_of).collect();
    let (from, to) = (*medians.first()?, *medians.last()?);
    let rises = medians.is_sorted_by(|one, next| one < next) && to - from >= LEAK_RISE.max(from / 20);
    rises.then(|| Leak { node: first.node.clone(), from, to, seconds: span.as_secs(), pods: first.pods })
}

fn median_of(samples: &[&Sample]) -> i64 {
    let mut uses: Vec<_> = samples.iter().map(|sample| sample.system_memory().0).collect();
    uses.sort_unstable();
    percentile(&uses, 50)
}

fn platforms(size: NodeSize) -> Vec<Platform> {
    let row = |row: &winpool_facts::node_reserves::PlatformReserve| {
        let reserve = row.reserve.map(|of| of(size));
        let (known, not_known) = (reserve.ok(), reserve.err());
        let (cpu, memory) = (known.and_then(|one| one.cpu_milli), known.map(|one| one.memory));
        Platform { platform: row.platform, cpu, memory, not_known, source: row.source }
    };
    RESERVES.iter().map(row).collect()
}

/// The values to reserve: of each resource the largest recommendation.
fn reserved(memory: i64, cpu: Option<i64>) -> BTreeMap<Resource, Quantity> {
    let all = [(Resource::Memory, Some(memory)), (Resource::Cpu, cpu)];
    all.into_iter().filter_map(|(resource, units)| Some((resource, resource.quantity(units?)))).collect()
}

fn patch(sizes: &[SizeReport]) -> Value {
    let memory = sizes.iter().map(|size| size.memory.recommended).max().unwrap_or(RECOMMENDED_MEMORY);
    // A size without it would get a value that was not measured.
    let cpu: Option<Vec<_>> = sizes.iter().map(|size| size.cpu.as_ref().map(|cpu| cpu.recommended)).collect();
    let reserved = reserved(memory, cpu.and_then(|all| all.into_iter().max()));
    let fields = reserved.iter().map(|(resource, amount)| (resource.name().to_owned(), json!(amount.to_string())));
    json!({"spec": {"kubelet": {"systemReserved": fields.collect::<Map<_, _>>()}}})
}

fn warnings(
    samples: &BTreeSet<&Sample>,
    memory: &Amount,
    cpu: Option<&Amount>,
    profile: &Profile,
    minor: Minor,
) -> Vec<String> {
    let mut with = profile.clone();
    with.kubelet.system_reserved.extend(reserved(memory.recommended, cpu.map(|cpu| cpu.recommended)));
    let smallest = samples.iter().map(|sample| sample.memory).min();
    let cores = samples.first().map(|sample| sample.cores.saturating_mul(1000));
    let capacity = Resources { cpu_milli: cores, memory: smallest, ..Resources::default() };
    let too_much = capacity_problem(&with, minor, &capacity).map(|problem| problem.to_string());
    let kube = profile.kubelet.kube_reserved.iter().filter(|(resource, _)| **resource != Resource::EphemeralStorage);
    let twice = kube.map(|(resource, amount)| {
        format!(
            "kubeReserved has {amount} of {} in addition: what was measured contains kubelet and container runtime. \
             Remove it",
            resource.name()
        )
    });
    let left = allocatable(&Reserves::from(&with.kubelet), minor, &capacity).memory.unwrap_or_default();
    let mut warnings: Vec<_> = too_much.into_iter().chain(twice).collect();
    warnings.extend(evictions(samples, profile, minor));
    warnings.extend(pods(samples, left, profile.kubelet.max_pods));
    warnings
}

/// What is wrong with the threshold `memory.available`, which the kubelet compares with what is left of the commit limit.
fn evictions(samples: &BTreeSet<&Sample>, profile: &Profile, minor: Minor) -> Option<String> {
    let signal = Signal::MemoryAvailable;
    if minor < eviction::MEMORY_IS_MEASURED_FROM {
        return Some(format!("kubelets before {} evict no pods for memory", eviction::MEMORY_IS_MEASURED_FROM));
    }
    let default = || eviction::defaults(minor).into_iter().find(|(of, _)| *of == signal)?.1.parse().ok();
    let threshold: Threshold = profile.kubelet.eviction_hard.get(&signal).copied().or_else(default)?;
    let lowest = samples.iter().filter_map(|one| Some((one.commit_available?, one))).min_by_key(|(left, _)| *left)?;
    let (left, sample) = lowest;
    let limit = left.saturating_add(sample.node_usage.commit.unwrap_or_default());
    let is_reached = left <= threshold.of(limit).bytes();
    is_reached.then(|| {
        let left = mebibytes(left);
        format!("{left} was left of the commit limit of node {}, and {signal} evicts pods at {threshold}", sample.node)
    })
}

/// What is wrong with `maxPods`: too many for the memory that is left, or many more than were measured.
fn pods(samples: &BTreeSet<&Sample>, left: i64, max_pods: u32) -> Vec<String> {
    let each = samples.iter().filter_map(|one| one.pods_memory().checked_div(i64::try_from(one.pods).ok()?));
    let mut each: Vec<_> = each.collect();
    each.sort_unstable();
    let each = percentile(&each, 99);
    let fit = left.checked_div(each).filter(|fit| *fit < i64::from(max_pods));
    let too_many = fit.map(|fit| {
        let pods = counted(usize::try_from(fit).unwrap_or_default(), "pod");
        format!("maxPods is {max_pods}, and memory is left for {pods} with {} each as measured", mebibytes(each))
    });
    let most = samples.iter().map(|sample| sample.pods).max().unwrap_or_default();
    let few = (most < max_pods as usize / 2).then(|| {
        let pods = counted(most, "pod");
        format!(
            "at most {pods} ran on a node, and maxPods is {max_pods}: the system uses more with more pods. Measure with \
             the pods that you expect, or lower maxPods"
        )
    });
    too_many.into_iter().chain(few).collect()
}

/// Bytes as a quantity, rounded up to MiB.
pub fn mebibytes(bytes: i64) -> Quantity {
    Quantity::of_bytes(rounded_up(bytes, 1 << 20))
}

/// The first and the last time.
pub fn span(samples: &[Sample]) -> Option<(Timestamp, Timestamp)> {
    let times = || samples.iter().map(|sample| sample.time);
    times().min().zip(times().max())
}
