//! The resources that a kubelet with a given configuration reports.
//!
//! Source: `GetNodeAllocatableReservation` in `pkg/kubelet/cm/container_manager_windows.go`, `hardEvictionReservation`
//! in `pkg/kubelet/cm/helpers.go` and `MachineInfo` in `pkg/kubelet/nodestatus/setters.go` of kubernetes/kubernetes,
//! the same at 1.21 and 1.36: allocatable is capacity minus both reserves and the hard eviction thresholds for memory
//! and for the node's disk, but at least zero.
//!
//! A reserve that the profile does not set keeps its unknown value from the node's own configuration, so less of such a
//! resource may be allocatable than expected.

use std::fmt;

use winpool_api::facts::{
    Minor,
    eviction::{self, Signal},
};

use super::kubelet::{eviction_hard, reserved};
use crate::{
    Problem,
    kubernetes::quantity::{Quantity, Threshold},
    node::Resources,
    profile::{Kubelet, Profile, Resource},
};

/// The tolerance in bytes for the rounding of kubelets and operating systems.
pub const TOLERANCE: i64 = 1 << 20;
/// The default of `maxPods`.
const DEFAULT_MAX_PODS: i64 = 110;

/// The allocatable resources that a kubelet of a minor reports with the configuration of a profile, if the node's own
/// configuration reserves nothing.
pub fn allocatable(profile: &Profile, minor: Minor, capacity: &Resources) -> Resources {
    let reserve = |resource, capacity| configured(&profile.kubelet, minor, resource, capacity);
    Resources { pods: Some(pods(&profile.kubelet, capacity)), ..less(capacity, reserve) }
}

/// The allocatable resources that a kubelet of a minor reports with its defaults.
fn allocatable_by_default(minor: Minor, capacity: &Resources) -> Resources {
    Resources {
        pods: Some(DEFAULT_MAX_PODS),
        ..less(capacity, |resource, capacity| by_default(minor, resource, capacity))
    }
}

/// What a node reserves of a resource, according to its reported resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub resource: Resource,
    /// Capacity minus allocatable, in the units of [`Resources`].
    pub reserved: i64,
    /// The eviction signal whose hard threshold is reserved too.
    pub signal: Option<Signal>,
    /// The default threshold of this signal.
    pub by_default: i64,
}

/// What a node with a kubelet of a minor reserves of the resources that it reports.
pub fn reservations(minor: Minor, capacity: &Resources, reported: &Resources) -> Vec<Reservation> {
    let of_resource = |resource| {
        let (has, left) = (amount(capacity, resource)?, amount(reported, resource)?);
        let signal = Signal::ALL.into_iter().find(|signal| reserved_by(*signal) == Some(resource));
        Some(Reservation { resource, reserved: has - left, signal, by_default: by_default(minor, resource, has) })
    };
    Resource::ALL.into_iter().filter_map(of_resource).collect()
}

/// The state of a node's configuration according to its reported resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigState {
    /// The resources match the configuration.
    InEffect,
    /// The resources are those of a kubelet with its defaults, or are not reported.
    NotDelivered,
    /// The resources differ from both.
    Differs(Vec<Difference>),
}

/// A resource whose reported amount differs from the amount with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The resource, such as `memory`.
    pub resource: &'static str,
    /// The reported allocatable amount.
    pub reported: Quantity,
    /// The allocatable amount with the configuration.
    pub expected: Quantity,
    /// Whether the node may report less.
    pub may_be_less: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, reported, expected, may_be_less } = self;
        let at_most = if *may_be_less { "at most " } else { "" };
        write!(f, "allocatable {resource} is {reported} instead of {at_most}{expected}")
    }
}

/// Compares the reported resources of a node with the configuration of a profile. A node that does not report memory
/// and pods counts as [`ConfigState::NotDelivered`].
pub fn config_state(profile: &Profile, minor: Minor, capacity: &Resources, reported: &Resources) -> ConfigState {
    if capacity.memory.is_none() || reported.memory.is_none() || reported.pods.is_none() {
        return ConfigState::NotDelivered;
    }
    let is_exact = |resource| reserved(&profile.kubelet, resource).iter().all(Option::is_some);
    let differences = differences(&allocatable(profile, minor, capacity), reported, is_exact);
    if differences.is_empty() {
        return ConfigState::InEffect;
    }
    match self::differences(&allocatable_by_default(minor, capacity), reported, |_| true).is_empty() {
        true => ConfigState::NotDelivered,
        false => ConfigState::Differs(differences),
    }
}

/// Whether a node with the configuration of a profile has less of a resource for pods than it reports now, so that the
/// kubelet may reject pods that run there when it restarts (kubernetes/kubernetes#105523).
pub fn shrinks(profile: &Profile, minor: Minor, capacity: &Resources, reported: &Resources) -> bool {
    let expected = allocatable(profile, minor, capacity);
    let is_less = |resource| {
        let tolerance = if resource == Resource::Cpu { 0 } else { TOLERANCE };
        let amounts = amount(&expected, resource).zip(amount(reported, resource));
        amounts.is_some_and(|(expected, reported)| reported > expected.saturating_add(tolerance))
    };
    Resource::ALL.into_iter().any(is_less) || expected.pods.zip(reported.pods).is_some_and(|(new, now)| now > new)
}

/// The problem with a profile that reserves at least all of a resource on a node.
pub fn capacity_problem(profile: &Profile, minor: Minor, capacity: &Resources) -> Option<Problem> {
    Resource::ALL.into_iter().find_map(|resource| {
        let has = amount(capacity, resource)?;
        let wanted = configured(&profile.kubelet, minor, resource, has);
        if wanted == 0 || wanted < has {
            return None;
        }
        let [system, kube] = reserved(&profile.kubelet, resource)
            .map(|quantity| quantity.map_or(0, |quantity| in_units(resource, quantity)));
        let field = if system >= kube { "systemReserved" } else { "kubeReserved" };
        let [wanted, has] = [wanted, has].map(|units| resource.quantity(units));
        let wrong = format!("{wanted} of {} are reserved, but the node has only {has}", resource.name());
        Some(Problem::new(
            format!("spec.kubelet.{field}.{}", resource.name()),
            wrong,
            "reserve less, or use another profile for these nodes",
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

/// The reserved amount of a resource with a configuration, in the units of [`Resources`].
fn configured(kubelet: &Kubelet, minor: Minor, resource: Resource, capacity: i64) -> i64 {
    let reserves = reserved(kubelet, resource).into_iter().flatten().map(|quantity| in_units(resource, quantity));
    let threshold =
        eviction_hard(kubelet, minor).into_iter().find(|(signal, _)| reserved_by(*signal) == Some(resource));
    let evicted_at = threshold.map_or(0, |(_, threshold)| in_units(resource, threshold.of(capacity)));
    reserves.fold(evicted_at, i64::saturating_add)
}

/// The reserved amount of a resource by default.
fn by_default(minor: Minor, resource: Resource, capacity: i64) -> i64 {
    let mut defaults = eviction::defaults(minor).into_iter();
    let threshold = defaults.find_map(|(signal, text)| {
        (reserved_by(signal) == Some(resource)).then(|| text.parse::<Threshold>().ok()).flatten()
    });
    threshold.map_or(0, |threshold| in_units(resource, threshold.of(capacity)))
}

/// The resource that a hard threshold for a signal reserves.
const fn reserved_by(signal: Signal) -> Option<Resource> {
    match signal {
        Signal::MemoryAvailable => Some(Resource::Memory),
        Signal::NodefsAvailable => Some(Resource::EphemeralStorage),
        Signal::ImagefsAvailable => None,
    }
}

/// `maxPods`, limited by `podsPerCore`.
fn pods(kubelet: &Kubelet, capacity: &Resources) -> i64 {
    let most = i64::from(kubelet.max_pods);
    let per_core = kubelet.extra("podsPerCore").and_then(serde_json::Value::as_i64).filter(|per_core| *per_core > 0);
    match (per_core, capacity.cpu_milli) {
        (Some(per_core), Some(milli)) => most.min(per_core.saturating_mul(milli / 1000)),
        _ => most,
    }
}

/// The resources that differ. A node may report less of a resource that is not exact.
fn differences(expected: &Resources, reported: &Resources, is_exact: impl Fn(Resource) -> bool) -> Vec<Difference> {
    let of_resource = |resource| {
        let (expected, reported) = (amount(expected, resource)?, amount(reported, resource)?);
        let tolerance = if resource == Resource::Cpu { 0 } else { TOLERANCE };
        let may_be_less = !is_exact(resource);
        let differs = reported > expected.saturating_add(tolerance)
            || !may_be_less && reported < expected.saturating_sub(tolerance);
        let [reported, expected] = [reported, expected].map(|units| resource.quantity(units));
        differs.then(|| Difference { resource: resource.name(), reported, expected, may_be_less })
    };
    let pods = expected.pods.zip(reported.pods).filter(|(expected, reported)| expected != reported);
    let pods = pods.map(|(expected, reported)| {
        let [reported, expected] = [reported, expected].map(Quantity::of_bytes);
        Difference { resource: "pods", reported, expected, may_be_less: false }
    });
    Resource::ALL.into_iter().filter_map(of_resource).chain(pods).collect()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::profile;

    const GI: i64 = 1 << 30;
    const MI: i64 = 1 << 20;
    /// Four processors, 16Gi of memory and a disk of 100Gi.
    const NODE: Resources =
        Resources { cpu_milli: Some(4000), memory: Some(16 * GI), ephemeral_storage: Some(100 * GI), pods: Some(110) };

    fn profile(kubelet: Value) -> Profile {
        profile::check(&serde_json::from_value(json!({"kubelet": kubelet})).unwrap()).unwrap()
    }

    /// How a node with the reported resources differs, as text.
    fn differences(profile: &Profile, reported: &Resources) -> Vec<String> {
        match config_state(profile, Minor(34), &NODE, reported) {
            ConfigState::Differs(differences) => differences.iter().map(ToString::to_string).collect(),
            state => panic!("{state:?}"),
        }
    }

    fn example() -> Profile {
        profile(json!({
            "systemReserved": {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
            "kubeReserved": {"cpu": "200m", "memory": "512Mi"},
            "maxPods": 60,
        }))
    }

    #[test]
    fn allocatable_is_capacity_minus_reserves_and_hard_thresholds() {
        let tenth = 10_737_418_400;
        let expected = |memory| Resources {
            cpu_milli: Some(3300),
            memory: Some(16 * GI - 2 * GI - 512 * MI - memory),
            ephemeral_storage: Some(100 * GI - GI - tenth),
            pods: Some(60),
        };
        assert_eq!(allocatable(&example(), Minor(30), &NODE), expected(100 * MI));
        assert_eq!(allocatable(&example(), Minor(34), &NODE), expected(500 * MI));
    }

    #[test]
    fn thresholds_of_the_profile_replace_the_defaults() {
        let table = [
            (json!({"memory.available": "1Gi"}), GI, 10_737_418_400),
            (json!({"nodefs.available": "0%"}), 500 * MI, 0),
            (json!({"memory.available": "10%", "nodefs.available": "2Gi"}), 1_717_986_944, 2 * GI),
            (json!({"imagefs.available": "50%"}), 500 * MI, 10_737_418_400),
        ];
        for (thresholds, memory, disk) in table {
            let profile = profile(json!({"systemReserved": {}, "evictionHard": thresholds}));
            let left = allocatable(&profile, Minor(34), &NODE);
            assert_eq!(
                (left.memory, left.ephemeral_storage),
                (Some(16 * GI - memory), Some(100 * GI - disk)),
                "{thresholds}"
            );
        }
    }

    #[test]
    fn pods_are_limited_by_pods_per_core() {
        let pods =
            |per_core: u32| allocatable(&profile(json!({"extra": {"podsPerCore": per_core}})), Minor(34), &NODE).pods;
        assert_eq!([0, 10, 50].map(pods), [Some(110), Some(40), Some(110)]);
    }

    #[test]
    fn the_state_depends_on_the_reported_resources() {
        let expected = allocatable(&example(), Minor(34), &NODE);
        let by_default = allocatable_by_default(Minor(34), &NODE);
        assert_eq!(config_state(&example(), Minor(34), &NODE, &expected), ConfigState::InEffect);
        assert_eq!(config_state(&example(), Minor(34), &NODE, &by_default), ConfigState::NotDelivered);

        let rounded = Resources { memory: expected.memory.map(|memory| memory - MI), ..expected };
        assert_eq!(config_state(&example(), Minor(34), &NODE, &rounded), ConfigState::InEffect);

        let other = Resources { memory: expected.memory.map(|memory| memory + GI), pods: Some(50), ..expected };
        assert_eq!(
            differences(&example(), &other),
            ["allocatable memory is 14348Mi instead of 13324Mi", "allocatable pods is 50 instead of 60"]
        );
    }

    #[test]
    fn a_reserve_that_the_profile_does_not_set_may_be_larger_on_the_node() {
        let less = |resources: Resources| Resources {
            memory: resources.memory.map(|memory| memory - GI),
            ephemeral_storage: resources.ephemeral_storage.map(|disk| disk - GI),
            ..resources
        };
        let expected = allocatable(&example(), Minor(34), &NODE);
        let differing = differences(&example(), &less(expected));
        assert_eq!(differing, ["allocatable memory is 12300Mi instead of 13324Mi"], "the disk has no kubeReserved");

        let memory_only = profile(json!({"systemReserved": {"memory": "2Gi"}}));
        let expected = allocatable(&memory_only, Minor(34), &NODE);
        assert_eq!(config_state(&memory_only, Minor(34), &NODE, &less(expected)), ConfigState::InEffect);
        let more = Resources { memory: expected.memory.map(|memory| memory + GI), ..expected };
        let expected = ["allocatable memory is 14860Mi instead of at most 13836Mi"];
        assert_eq!(differences(&memory_only, &more), expected);
        assert_eq!(
            config_state(&memory_only, Minor(34), &NODE, &allocatable_by_default(Minor(34), &NODE)),
            ConfigState::NotDelivered
        );
    }

    #[test]
    fn a_configuration_shrinks_a_node_if_less_of_any_resource_is_left_for_pods() {
        let expected = allocatable(&example(), Minor(34), &NODE);
        let reported = |change: &dyn Fn(&mut Resources)| {
            let mut resources = expected;
            change(&mut resources);
            shrinks(&example(), Minor(34), &NODE, &resources)
        };
        assert!(shrinks(&example(), Minor(34), &NODE, &allocatable_by_default(Minor(34), &NODE)));
        assert!(!reported(&|_| {}));
        assert!(!reported(&|node| node.memory = node.memory.map(|memory| memory - GI)), "more is left with it");
        assert!(!reported(&|node| node.memory = node.memory.map(|memory| memory + MI)), "a rounded amount");
        assert!(reported(&|node| node.memory = node.memory.map(|memory| memory + 2 * MI)));
        assert!(reported(&|node| node.cpu_milli = node.cpu_milli.map(|cpu| cpu + 1)));
        assert!(reported(&|node| node.pods = Some(61)));
        assert!(!reported(&|node| *node = Resources::default()), "nothing is reported");
    }

    #[test]
    fn a_profile_with_the_defaults_is_in_effect_on_an_unconfigured_kubelet() {
        let nothing = profile(json!({"systemReserved": {}}));
        let by_default = allocatable_by_default(Minor(34), &NODE);
        assert_eq!(config_state(&nothing, Minor(34), &NODE, &by_default), ConfigState::InEffect);
    }

    #[test]
    fn a_node_that_reports_no_resources_is_not_delivered() {
        let nothing = Resources::default();
        assert_eq!(config_state(&example(), Minor(34), &nothing, &nothing), ConfigState::NotDelivered);
        let no_disk = Resources { ephemeral_storage: None, ..NODE };
        let expected = allocatable(&example(), Minor(34), &no_disk);
        assert_eq!(config_state(&example(), Minor(34), &no_disk, &expected), ConfigState::InEffect);
        assert_eq!(capacity_problem(&example(), Minor(34), &nothing), None);
    }

    #[test]
    fn reserving_more_than_the_capacity_is_a_problem() {
        let small = Resources { memory: Some(2 * GI), ..NODE };
        let problem = capacity_problem(&example(), Minor(34), &small).unwrap();
        assert_eq!(
            problem.to_string(),
            "spec.kubelet.systemReserved.memory: 3060Mi of memory are reserved, but the node has only 2Gi: reserve less, \
             or use another profile for these nodes"
        );
        assert_eq!(capacity_problem(&example(), Minor(34), &NODE), None);
        let few = Resources { cpu_milli: Some(700), ..NODE };
        assert_eq!(capacity_problem(&example(), Minor(34), &few).unwrap().path, "spec.kubelet.systemReserved.cpu");
    }

    proptest! {
        #[test]
        fn a_node_with_the_configuration_is_in_effect_and_has_no_negative_resources(
            cpu in 0_i64..64_000, memory in 0_i64..1 << 40, disk in 0_i64..1 << 44, minor in 14_u32..=40,
            reserved in 0_u32..100_000, share in 0_u32..=100,
        ) {
            let profile = profile(json!({
                "systemReserved": {"memory": format!("{reserved}Mi"), "cpu": format!("{reserved}m")},
                "evictionHard": {"nodefs.available": format!("{share}%")},
            }));
            let node = Resources { cpu_milli: Some(cpu), memory: Some(memory), ephemeral_storage: Some(disk), pods: Some(110) };
            let left = allocatable(&profile, Minor(minor), &node);
            prop_assert_eq!(config_state(&profile, Minor(minor), &node, &left), ConfigState::InEffect);
            for (left, has) in [(left.cpu_milli, cpu), (left.memory, memory), (left.ephemeral_storage, disk)] {
                prop_assert!((0..=has).contains(&left.unwrap()));
            }
        }
    }
}
