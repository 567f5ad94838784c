//! The resources that a kubelet with a given configuration reports.
//!
//! Source: `GetNodeAllocatableReservation` in `pkg/kubelet/cm/container_manager_windows.go`, `hardEvictionReservation`
//! in `pkg/kubelet/cm/helpers.go` and `MachineInfo` in `pkg/kubelet/nodestatus/setters.go` of kubernetes/kubernetes,
//! the same at 1.21 and 1.36: allocatable is capacity minus both reserves and the hard eviction thresholds for memory
//! and for the node's disk, but at least zero.
//!
//! A reserve that the profile does not set keeps its unknown value from the node's own configuration, so less of such a
//! resource may be allocatable than expected.

use std::collections::BTreeMap;

use derive_more::Display;
use serde_json::{Map, Value};
use winpool_core::{
    Problem,
    kubernetes::quantity::{Quantity, Threshold},
    node::Resources,
};
use winpool_facts::{
    Minor,
    eviction::{self, Signal},
};

use crate::profile::{Kubelet, Profile};
use winpool_core::kubernetes::quantity::Resource;

/// The tolerance in bytes for the rounding of kubelets and operating systems.
pub const TOLERANCE: i64 = 1 << 20;
const DEFAULT_MAX_PODS: i64 = 110;

/// The settings of a kubelet that its allocatable resources depend on. The default is that of kubelets.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserves {
    /// `systemReserved` and `kubeReserved`.
    reserved: [BTreeMap<Resource, Quantity>; 2],
    /// The thresholds that are set. Other signals have the minor's defaults.
    eviction_hard: BTreeMap<Signal, Threshold>,
    max_pods: i64,
    pods_per_core: Option<i64>,
}

impl Default for Reserves {
    fn default() -> Self {
        Self {
            reserved: Default::default(),
            eviction_hard: BTreeMap::new(),
            max_pods: DEFAULT_MAX_PODS,
            pods_per_core: None,
        }
    }
}

impl From<&Kubelet> for Reserves {
    fn from(kubelet: &Kubelet) -> Self {
        Self {
            reserved: [kubelet.system_reserved.clone(), kubelet.kube_reserved.clone()],
            eviction_hard: kubelet.eviction_hard.clone(),
            max_pods: kubelet.max_pods.into(),
            pods_per_core: kubelet.extra(PODS_PER_CORE).and_then(Value::as_i64),
        }
    }
}

/// The field that limits the pods by the number of processors.
const PODS_PER_CORE: &str = "podsPerCore";

impl Reserves {
    /// Reads them from a rendered KubeletConfiguration.
    pub fn read(configuration: &str) -> Option<Self> {
        let fields: Map<String, Value> = serde_saphyr::from_str(configuration).ok()?;
        let texts = |name: &str| fields.get(name).and_then(Value::as_object).into_iter().flatten();
        let reserved = |name: &str| {
            let amount =
                |(resource, text): (&String, &Value)| Some((Resource::named(resource)?, text.as_str()?.parse().ok()?));
            texts(name).filter_map(amount).collect()
        };
        let threshold =
            |(signal, text): (&String, &Value)| Some((Signal::named(signal)?, text.as_str()?.parse().ok()?));
        let number = |name: &str| fields.get(name).and_then(Value::as_i64);
        Some(Self {
            reserved: ["systemReserved", "kubeReserved"].map(reserved),
            eviction_hard: texts("evictionHard").filter_map(threshold).collect(),
            max_pods: number("maxPods").unwrap_or(DEFAULT_MAX_PODS),
            pods_per_core: number(PODS_PER_CORE),
        })
    }

    /// `systemReserved` and `kubeReserved` of a resource.
    fn of(&self, resource: Resource) -> [Option<Quantity>; 2] {
        [&self.reserved[0], &self.reserved[1]].map(|reserved| reserved.get(&resource).copied())
    }

    /// The reserved amount of a resource, in the units of [`Resources`].
    fn amount(&self, minor: Minor, resource: Resource, capacity: i64) -> i64 {
        let reserves = self.of(resource).into_iter().flatten().map(|quantity| in_units(resource, quantity));
        let signal = eviction::defaults(minor).into_iter().find(|(signal, _)| reserved_by(*signal) == Some(resource));
        let threshold = signal
            .and_then(|(signal, default)| self.eviction_hard.get(&signal).copied().or_else(|| default.parse().ok()));
        let evicted_at = threshold.map_or(0, |threshold: Threshold| in_units(resource, threshold.of(capacity)));
        reserves.fold(evicted_at, i64::saturating_add)
    }

    /// `maxPods`, limited by `podsPerCore`.
    fn pods(&self, capacity: &Resources) -> i64 {
        match (self.pods_per_core.filter(|per_core| *per_core > 0), capacity.cpu_milli) {
            (Some(per_core), Some(milli)) => self.max_pods.min(per_core.saturating_mul(milli / 1000)),
            _ => self.max_pods,
        }
    }
}

/// The allocatable resources that a kubelet of a minor reports, if the node's own configuration reserves nothing.
pub fn allocatable(reserves: &Reserves, minor: Minor, capacity: &Resources) -> Resources {
    let left = |resource| {
        let has = capacity.get(resource)?;
        Some(has.saturating_sub(reserves.amount(minor, resource, has)).max(0))
    };
    Resources {
        cpu_milli: left(Resource::Cpu),
        memory: left(Resource::Memory),
        ephemeral_storage: left(Resource::EphemeralStorage),
        pods: Some(reserves.pods(capacity)),
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
    pub by_default: i64,
}

/// What a node with a kubelet of a minor reserves of the resources that it reports.
pub fn reservations(minor: Minor, capacity: &Resources, reported: &Resources) -> Vec<Reservation> {
    let of_resource = |resource| {
        let (has, left) = (capacity.get(resource)?, reported.get(resource)?);
        let signal = Signal::ALL.into_iter().find(|signal| reserved_by(*signal) == Some(resource));
        let by_default = Reserves::default().amount(minor, resource, has);
        Some(Reservation { resource, reserved: has.saturating_sub(left), signal, by_default })
    };
    Resource::ALL.into_iter().filter_map(of_resource).collect()
}

/// The state of a node's configuration according to its reported resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigState {
    InEffect,
    /// The resources are those of a kubelet with its defaults, or are not reported.
    NotDelivered,
    Differs(Vec<Difference>),
}

/// A resource whose reported amount differs from the amount with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
#[display(
    "allocatable {resource} is {reported} instead of {}{expected}",
    if *may_be_less { "at most " } else { "" }
)]
pub struct Difference {
    /// The resource, such as `memory`.
    pub resource: &'static str,
    pub reported: Quantity,
    pub expected: Quantity,
    pub may_be_less: bool,
}

/// Compares the reported resources of a node with those of a configuration. A node that does not report memory
/// and pods counts as [`ConfigState::NotDelivered`].
pub fn config_state(reserves: &Reserves, minor: Minor, capacity: &Resources, reported: &Resources) -> ConfigState {
    if capacity.memory.is_none() || reported.memory.is_none() || reported.pods.is_none() {
        return ConfigState::NotDelivered;
    }
    let is_exact = |resource| reserves.of(resource).iter().all(Option::is_some);
    let differences = differences(&allocatable(reserves, minor, capacity), reported, is_exact);
    if differences.is_empty() {
        return ConfigState::InEffect;
    }
    match self::differences(&allocatable(&Reserves::default(), minor, capacity), reported, |_| true).is_empty() {
        true => ConfigState::NotDelivered,
        false => ConfigState::Differs(differences),
    }
}

/// Whether a node with a configuration has less of a resource for pods than it reports now, so that the
/// kubelet may reject pods that run there when it restarts (kubernetes/kubernetes#105523).
pub fn shrinks(reserves: &Reserves, minor: Minor, capacity: &Resources, reported: &Resources) -> bool {
    let expected = allocatable(reserves, minor, capacity);
    let is_less = |resource| {
        let tolerance = if resource == Resource::Cpu { 0 } else { TOLERANCE };
        let amounts = expected.get(resource).zip(reported.get(resource));
        amounts.is_some_and(|(expected, reported)| reported > expected.saturating_add(tolerance))
    };
    Resource::ALL.into_iter().any(is_less) || expected.pods.zip(reported.pods).is_some_and(|(new, now)| now > new)
}

/// The problem with a profile that reserves at least all of a resource on a node.
pub fn capacity_problem(profile: &Profile, minor: Minor, capacity: &Resources) -> Option<Problem> {
    let reserves = Reserves::from(&profile.kubelet);
    Resource::ALL.into_iter().find_map(|resource| {
        let has = capacity.get(resource)?;
        let wanted = reserves.amount(minor, resource, has);
        if wanted == 0 || wanted < has {
            return None;
        }
        let [system, kube] =
            reserves.of(resource).map(|quantity| quantity.map_or(0, |quantity| in_units(resource, quantity)));
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

/// The resource that a hard threshold for a signal reserves.
const fn reserved_by(signal: Signal) -> Option<Resource> {
    match signal {
        Signal::MemoryAvailable => Some(Resource::Memory),
        Signal::NodefsAvailable => Some(Resource::EphemeralStorage),
        Signal::ImagefsAvailable => None,
    }
}

/// The resources that differ. A node may report less of a resource that is not exact.
fn differences(expected: &Resources, reported: &Resources, is_exact: impl Fn(Resource) -> bool) -> Vec<Difference> {
    let of_resource = |resource| {
        let (expected, reported) = (expected.get(resource)?, reported.get(resource)?);
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

    use winpool_facts::{Build, ContainerRuntime, ContainerdVersion};

    use super::*;
    use crate::{KUBELET_YAML, Variant, profile, render};

    const GI: i64 = 1 << 30;
    const MI: i64 = 1 << 20;
    /// Four processors, 16Gi of memory and a disk of 100Gi.
    const NODE: Resources =
        Resources { cpu_milli: Some(4000), memory: Some(16 * GI), ephemeral_storage: Some(100 * GI), pods: Some(110) };

    fn profile(kubelet: Value) -> Profile {
        profile::check(&serde_json::from_value(json!({"kubelet": kubelet})).unwrap()).unwrap()
    }

    fn reserves(kubelet: Value) -> Reserves {
        Reserves::from(&profile(kubelet).kubelet)
    }

    /// How a node with the reported resources differs, as text.
    fn differences(reserves: &Reserves, reported: &Resources) -> Vec<String> {
        match config_state(reserves, Minor(34), &NODE, reported) {
            ConfigState::Differs(differences) => differences.iter().map(ToString::to_string).collect(),
            state => panic!("{state:?}"),
        }
    }

    fn example() -> Reserves {
        reserves(example_settings())
    }

    fn example_settings() -> Value {
        json!({
            "systemReserved": {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
            "kubeReserved": {"cpu": "200m", "memory": "512Mi"},
            "maxPods": 60,
        })
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
            let reserves = reserves(json!({"systemReserved": {}, "evictionHard": thresholds}));
            let left = allocatable(&reserves, Minor(34), &NODE);
            assert_eq!(
                (left.memory, left.ephemeral_storage),
                (Some(16 * GI - memory), Some(100 * GI - disk)),
                "{thresholds}"
            );
        }
    }

    #[test]
    fn a_rendered_configuration_has_the_reserves_of_its_profile() {
        let table = [
            json!({}),
            example_settings(),
            json!({"systemReserved": {}, "evictionHard": {"memory.available": "10%"}, "extra": {"podsPerCore": 10}}),
        ];
        for settings in table {
            let profile = profile(settings.clone());
            for minor in [Minor(30), Minor(34)] {
                let variant = Variant {
                    kubelet: minor,
                    runtime: ContainerRuntime::Containerd("1.7.27".parse::<ContainerdVersion>().unwrap().line()),
                    host: Build(20348),
                };
                let files = render(&[], &profile, &variant).unwrap().files;
                let read = Reserves::read(&files[KUBELET_YAML]).unwrap();
                let expected = allocatable(&Reserves::from(&profile.kubelet), minor, &NODE);
                assert_eq!(allocatable(&read, minor, &NODE), expected, "{settings} in {minor}");
            }
        }
        assert_eq!(Reserves::read("["), None);
    }

    #[test]
    fn pods_are_limited_by_pods_per_core() {
        let pods =
            |per_core: u32| allocatable(&reserves(json!({"extra": {"podsPerCore": per_core}})), Minor(34), &NODE).pods;
        assert_eq!([0, 10, 50].map(pods), [Some(110), Some(40), Some(110)]);
    }

    #[test]
    fn the_state_depends_on_the_reported_resources() {
        let left = |reserves: &Reserves, node: &Resources| allocatable(reserves, Minor(34), node);
        let (expected, by_default) = (left(&example(), &NODE), left(&Reserves::default(), &NODE));
        let rounded = Resources { memory: expected.memory.map(|memory| memory - MI), ..expected };
        let (nothing, no_disk) = (Resources::default(), Resources { ephemeral_storage: None, ..NODE });
        for (reserves, node, reported, state) in [
            (example(), NODE, expected, ConfigState::InEffect),
            (example(), NODE, rounded, ConfigState::InEffect),
            (example(), NODE, by_default, ConfigState::NotDelivered),
            (reserves(json!({"systemReserved": {}})), NODE, by_default, ConfigState::InEffect),
            (example(), no_disk, left(&example(), &no_disk), ConfigState::InEffect),
            (example(), nothing, nothing, ConfigState::NotDelivered),
        ] {
            assert_eq!(config_state(&reserves, Minor(34), &node, &reported), state, "{reserves:?} {reported:?}");
        }
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

        let memory_only = reserves(json!({"systemReserved": {"memory": "2Gi"}}));
        let expected = allocatable(&memory_only, Minor(34), &NODE);
        assert_eq!(config_state(&memory_only, Minor(34), &NODE, &less(expected)), ConfigState::InEffect);
        let more = Resources { memory: expected.memory.map(|memory| memory + GI), ..expected };
        let expected = ["allocatable memory is 14860Mi instead of at most 13836Mi"];
        assert_eq!(differences(&memory_only, &more), expected);
        assert_eq!(
            config_state(&memory_only, Minor(34), &NODE, &allocatable(&Reserves::default(), Minor(34), &NODE)),
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
        assert!(shrinks(&example(), Minor(34), &NODE, &allocatable(&Reserves::default(), Minor(34), &NODE)));
        assert!(!reported(&|_| {}));
        assert!(!reported(&|node| node.memory = node.memory.map(|memory| memory - GI)), "more is left with it");
        assert!(!reported(&|node| node.memory = node.memory.map(|memory| memory + MI)), "a rounded amount");
        assert!(reported(&|node| node.memory = node.memory.map(|memory| memory + 2 * MI)));
        assert!(reported(&|node| node.cpu_milli = node.cpu_milli.map(|cpu| cpu + 1)));
        assert!(reported(&|node| node.pods = Some(61)));
        assert!(!reported(&|node| *node = Resources::default()), "nothing is reported");
    }

    #[test]
    fn reserving_more_than_the_capacity_is_a_problem() {
        let small = Resources { memory: Some(2 * GI), ..NODE };
        let problem = capacity_problem(&profile(example_settings()), Minor(34), &small).unwrap();
        assert_eq!(
            problem.to_string(),
            "spec.kubelet.systemReserved.memory: 3060Mi of memory are reserved, but the node has only 2Gi: reserve less, \
             or use another profile for these nodes"
        );
        for node in [NODE, Resources::default()] {
            assert_eq!(capacity_problem(&profile(example_settings()), Minor(34), &node), None);
        }
        let few = Resources { cpu_milli: Some(700), ..NODE };
        assert_eq!(
            capacity_problem(&profile(example_settings()), Minor(34), &few).unwrap().path,
            "spec.kubelet.systemReserved.cpu"
        );
    }

    proptest! {
        #[test]
        fn a_node_with_the_configuration_is_in_effect_and_has_no_negative_resources(
            cpu in 0_i64..64_000, memory in 0_i64..1 << 40, disk in 0_i64..1 << 44, minor in 14_u32..=40,
            reserved in 0_u32..100_000, share in 0_u32..=100,
        ) {
            let reserves = reserves(json!({
                "systemReserved": {"memory": format!("{reserved}Mi"), "cpu": format!("{reserved}m")},
                "evictionHard": {"nodefs.available": format!("{share}%")},
            }));
            let node = Resources { cpu_milli: Some(cpu), memory: Some(memory), ephemeral_storage: Some(disk), pods: Some(110) };
            let left = allocatable(&reserves, Minor(minor), &node);
            prop_assert_eq!(config_state(&reserves, Minor(minor), &node, &left), ConfigState::InEffect);
            for (left, has) in [(left.cpu_milli, cpu), (left.memory, memory), (left.ephemeral_storage, disk)] {
                prop_assert!((0..=has).contains(&left.unwrap()));
            }
        }
    }
}
