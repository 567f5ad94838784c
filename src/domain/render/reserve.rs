//! The node's own arithmetic: what a kubelet that runs a configuration reports as allocatable.
//!
//! Source: `GetNodeAllocatableReservation` in `pkg/kubelet/cm/container_manager_windows.go`, `hardEvictionReservation`
//! in `pkg/kubelet/cm/helpers.go` and `MachineInfo` in `pkg/kubelet/nodestatus/setters.go` of kubernetes/kubernetes, the
//! same at 1.21 and 1.36: allocatable is capacity less both reserves and the hard eviction thresholds for memory and
//! for the node's disk, and nothing where that is below zero.

use super::kubelet::{eviction_hard, reserved};
use crate::{
    domain::{
        Problem,
        node::Resources,
        pool::delivery::State,
        profile::{Kubelet, Profile, Resource},
        quantity::{Quantity, Threshold},
    },
    facts::{
        Minor,
        eviction::{self, Signal},
    },
};

/// How far an amount of bytes may be off: kubelets and operating systems round.
const TOLERANCE: i64 = 1 << 20;
/// The most pods on a node whose kubelet was not told.
const DEFAULT_MAX_PODS: i64 = 110;

/// The allocatable that a kubelet of a minor reports with the configuration of a profile, for what the node has.
pub fn allocatable(profile: &Profile, minor: Minor, capacity: &Resources) -> Resources {
    let reserve = |resource, capacity| configured(&profile.kubelet, minor, resource, capacity);
    Resources { pods: Some(pods(&profile.kubelet, capacity)), ..less(capacity, reserve) }
}

/// The allocatable that a kubelet of a minor reports without any configuration.
fn allocatable_by_default(minor: Minor, capacity: &Resources) -> Resources {
    Resources {
        pods: Some(DEFAULT_MAX_PODS),
        ..less(capacity, |resource, capacity| by_default(minor, resource, capacity))
    }
}

/// What a node's numbers say about whether its kubelet runs the configuration of a profile.
pub fn judge(profile: &Profile, minor: Minor, capacity: &Resources, reported: &Resources) -> State {
    let differences = differences(&allocatable(profile, minor, capacity), reported);
    if differences.is_empty() {
        return State::InEffect;
    }
    match self::differences(&allocatable_by_default(minor, capacity), reported).is_empty() {
        true => State::NotDelivered,
        false => State::Differs(differences),
    }
}

/// The problem with a profile that reserves all of a resource, or more, on a node.
pub fn exceeds(profile: &Profile, minor: Minor, capacity: &Resources) -> Option<Problem> {
    Resource::ALL.into_iter().find_map(|resource| {
        let has = amount(capacity, resource)?;
        let wanted = configured(&profile.kubelet, minor, resource, has);
        if wanted == 0 || wanted < has {
            return None;
        }
        let [system, kube] = reserved(&profile.kubelet, resource)
            .map(|quantity| quantity.map_or(0, |quantity| in_units(resource, quantity)));
        let field = if system >= kube { "systemReserved" } else { "kubeReserved" };
        let [wanted, has] = [wanted, has].map(|units| written(resource, units));
        let wrong = format!("{wanted} of {} are kept and the node has {has}", resource.name());
        Some(Problem::new(
            format!("spec.kubelet.{field}.{}", resource.name()),
            wrong,
            "write less, or give these nodes a profile of their own",
        ))
    })
}

fn less(capacity: &Resources, reserve: impl Fn(Resource, i64) -> i64) -> Resources {
    let left = |resource| amount(capacity, resource).map(|has: i64| has.saturating_sub(reserve(resource, has)).max(0));
    Resources {
        cpu_milli: left(Resource::Cpu),
        memory: left(Resource::Memory),
        ephemeral_storage: left(Resource::EphemeralStorage),
        pods: capacity.pods,
    }
}

/// What a configured kubelet keeps of a resource, in the units of [`Resources`].
fn configured(kubelet: &Kubelet, minor: Minor, resource: Resource, capacity: i64) -> i64 {
    let reserves = reserved(kubelet, resource).into_iter().flatten().map(|quantity| in_units(resource, quantity));
    let threshold = eviction_hard(kubelet, minor).into_iter().find(|(signal, _)| kept_of(*signal) == Some(resource));
    let kept = threshold.map_or(0, |(_, threshold)| in_units(resource, threshold.of(capacity)));
    reserves.fold(kept, i64::saturating_add)
}

fn by_default(minor: Minor, resource: Resource, capacity: i64) -> i64 {
    let mut defaults = eviction::defaults(minor).into_iter();
    let threshold = defaults.find_map(|(signal, text)| {
        (kept_of(signal) == Some(resource)).then(|| text.parse::<Threshold>().ok()).flatten()
    });
    threshold.map_or(0, |threshold| in_units(resource, threshold.of(capacity)))
}

/// The resource of which a hard threshold for a signal is kept.
const fn kept_of(signal: Signal) -> Option<Resource> {
    match signal {
        Signal::MemoryAvailable => Some(Resource::Memory),
        Signal::NodefsAvailable => Some(Resource::EphemeralStorage),
        Signal::ImagefsAvailable => None,
    }
}

/// `maxPods`, or fewer where a node has few processors and the profile says how many pods each is good for.
fn pods(kubelet: &Kubelet, capacity: &Resources) -> i64 {
    let most = i64::from(kubelet.max_pods);
    let per_core = kubelet.extra("podsPerCore").and_then(serde_json::Value::as_i64).filter(|per_core| *per_core > 0);
    match (per_core, capacity.cpu_milli) {
        (Some(per_core), Some(milli)) => most.min(per_core.saturating_mul(milli / 1000)),
        _ => most,
    }
}

fn differences(expected: &Resources, reported: &Resources) -> Vec<String> {
    let mut differences = Vec::new();
    for resource in Resource::ALL {
        let (Some(expected), Some(reported)) = (amount(expected, resource), amount(reported, resource)) else {
            continue;
        };
        let tolerance = if resource == Resource::Cpu { 0 } else { TOLERANCE };
        if expected.abs_diff(reported) > tolerance.unsigned_abs() {
            let [expected, reported] = [expected, reported].map(|units| written(resource, units));
            differences
                .push(format!("allocatable {} is {reported}, the configuration leaves {expected}", resource.name()));
        }
    }
    if let (Some(expected), Some(reported)) = (expected.pods, reported.pods)
        && expected != reported
    {
        differences.push(format!("allocatable pods is {reported}, the configuration says {expected}"));
    }
    differences
}

const fn amount(resources: &Resources, resource: Resource) -> Option<i64> {
    match resource {
        Resource::Cpu => resources.cpu_milli,
        Resource::Memory => resources.memory,
        Resource::EphemeralStorage => resources.ephemeral_storage,
    }
}

fn in_units(resource: Resource, quantity: Quantity) -> i64 {
    match resource {
        Resource::Cpu => quantity.milli(),
        Resource::Memory | Resource::EphemeralStorage => quantity.bytes(),
    }
}

fn written(resource: Resource, units: i64) -> Quantity {
    match resource {
        Resource::Cpu => Quantity::of_milli(units),
        Resource::Memory | Resource::EphemeralStorage => Quantity::of_bytes(units),
    }
}
