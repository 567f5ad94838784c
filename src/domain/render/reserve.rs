//! The node's own arithmetic: what a kubelet that runs a configuration reports as allocatable.
//!
//! Source: `GetNodeAllocatableReservation` in `pkg/kubelet/cm/container_manager_windows.go`, `hardEvictionReservation`
//! in `pkg/kubelet/cm/helpers.go` and `MachineInfo` in `pkg/kubelet/nodestatus/setters.go` of kubernetes/kubernetes, the
//! same at 1.21 and 1.36: allocatable is capacity less both reserves and the hard eviction thresholds for memory and
//! for the node's disk, and nothing where that is below zero.
//!
//! A configuration is a layer: a reserve that the profile does not name is that of the node's own configuration, which
//! nobody here knows. Of such a resource less may be allocatable than the profile leaves.

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

/// The allocatable that a kubelet of a minor reports with the configuration of a profile, for what the node has, where
/// the node's own configuration reserves nothing.
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

/// What a node's numbers say about whether its kubelet runs the configuration of a profile. A node that has not said
/// how much memory and how many pods it offers gives no evidence of delivery.
pub fn judge(profile: &Profile, minor: Minor, capacity: &Resources, reported: &Resources) -> State {
    if capacity.memory.is_none() || reported.memory.is_none() || reported.pods.is_none() {
        return State::NotDelivered;
    }
    let decided = |resource| reserved(&profile.kubelet, resource).iter().all(Option::is_some);
    let differences = differences(&allocatable(profile, minor, capacity), reported, decided);
    if differences.is_empty() {
        return State::InEffect;
    }
    match self::differences(&allocatable_by_default(minor, capacity), reported, |_| true).is_empty() {
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

/// What is reported otherwise than expected. Of a resource that is not decided, less may be reported.
fn differences(expected: &Resources, reported: &Resources, decided: impl Fn(Resource) -> bool) -> Vec<String> {
    let mut differences = Vec::new();
    for resource in Resource::ALL {
        let (Some(expected), Some(reported)) = (amount(expected, resource), amount(reported, resource)) else {
            continue;
        };
        let tolerance = if resource == Resource::Cpu { 0 } else { TOLERANCE };
        let decided = decided(resource);
        if reported > expected.saturating_add(tolerance) || decided && reported < expected.saturating_sub(tolerance) {
            let [expected, reported] = [expected, reported].map(|units| written(resource, units));
            let most = if decided { "" } else { "at most " };
            let name = resource.name();
            differences.push(format!("allocatable {name} is {reported}, the configuration leaves {most}{expected}"));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::profile;

    const GI: i64 = 1 << 30;
    const MI: i64 = 1 << 20;
    /// Four processors, 16Gi of memory and a disk of 100Gi.
    const NODE: Resources =
        Resources { cpu_milli: Some(4000), memory: Some(16 * GI), ephemeral_storage: Some(100 * GI), pods: Some(110) };

    fn profile(kubelet: Value) -> Profile {
        profile::check(&serde_json::from_value(json!({"kubelet": kubelet})).unwrap()).unwrap()
    }

    fn example() -> Profile {
        profile(json!({
            "systemReserved": {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
            "kubeReserved": {"cpu": "200m", "memory": "512Mi"},
            "maxPods": 60,
        }))
    }

    #[test]
    fn allocatable_is_capacity_less_reserves_and_hard_thresholds() {
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
    fn thresholds_of_the_profile_count_instead_of_the_defaults() {
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
    fn pods_are_fewer_on_a_node_with_few_processors_where_the_profile_says_so() {
        let pods =
            |per_core: u32| allocatable(&profile(json!({"extra": {"podsPerCore": per_core}})), Minor(34), &NODE).pods;
        assert_eq!([0, 10, 50].map(pods), [Some(110), Some(40), Some(110)]);
    }

    #[test]
    fn a_node_is_judged_by_its_numbers() {
        let asked = allocatable(&example(), Minor(34), &NODE);
        let untouched = allocatable_by_default(Minor(34), &NODE);
        assert_eq!(judge(&example(), Minor(34), &NODE, &asked), State::InEffect);
        assert_eq!(judge(&example(), Minor(34), &NODE, &untouched), State::NotDelivered);

        let rounded = Resources { memory: asked.memory.map(|memory| memory - MI), ..asked };
        assert_eq!(judge(&example(), Minor(34), &NODE, &rounded), State::InEffect);

        let other = Resources { memory: asked.memory.map(|memory| memory + GI), pods: Some(50), ..asked };
        let said = [
            "allocatable memory is 14348Mi, the configuration leaves 13324Mi",
            "allocatable pods is 50, the configuration says 60",
        ];
        let differs = State::Differs(said.map(str::to_owned).to_vec());
        assert_eq!(judge(&example(), Minor(34), &NODE, &other), differs);
    }

    #[test]
    fn a_reserve_of_the_nodes_own_configuration_counts_where_the_profile_names_none() {
        let less = |resources: Resources| Resources {
            memory: resources.memory.map(|memory| memory - GI),
            ephemeral_storage: resources.ephemeral_storage.map(|disk| disk - GI),
            ..resources
        };
        let asked = allocatable(&example(), Minor(34), &NODE);
        let differs =
            State::Differs(vec!["allocatable memory is 12300Mi, the configuration leaves 13324Mi".to_owned()]);
        assert_eq!(judge(&example(), Minor(34), &NODE, &less(asked)), differs, "the disk has no kubeReserved");

        let memory_only = profile(json!({"systemReserved": {"memory": "2Gi"}}));
        let asked = allocatable(&memory_only, Minor(34), &NODE);
        assert_eq!(judge(&memory_only, Minor(34), &NODE, &less(asked)), State::InEffect);
        let more = Resources { memory: asked.memory.map(|memory| memory + GI), ..asked };
        let differs = vec!["allocatable memory is 14860Mi, the configuration leaves at most 13836Mi".to_owned()];
        assert_eq!(judge(&memory_only, Minor(34), &NODE, &more), State::Differs(differs));
        assert_eq!(
            judge(&memory_only, Minor(34), &NODE, &allocatable_by_default(Minor(34), &NODE)),
            State::NotDelivered
        );
    }

    #[test]
    fn a_kubelet_with_the_default_configuration_may_already_do_what_is_asked() {
        let nothing = profile(json!({"systemReserved": {}}));
        let untouched = allocatable_by_default(Minor(34), &NODE);
        assert_eq!(judge(&nothing, Minor(34), &NODE, &untouched), State::InEffect);
    }

    #[test]
    fn a_node_that_reports_nothing_gives_no_evidence() {
        let nothing = Resources::default();
        assert_eq!(judge(&example(), Minor(34), &nothing, &nothing), State::NotDelivered);
        let no_disk = Resources { ephemeral_storage: None, ..NODE };
        let asked = allocatable(&example(), Minor(34), &no_disk);
        assert_eq!(judge(&example(), Minor(34), &no_disk, &asked), State::InEffect);
        assert_eq!(exceeds(&example(), Minor(34), &nothing), None);
    }

    #[test]
    fn more_than_a_node_has_is_a_problem_with_the_numbers() {
        let small = Resources { memory: Some(2 * GI), ..NODE };
        let problem = exceeds(&example(), Minor(34), &small).unwrap();
        assert_eq!(
            problem.to_string(),
            "spec.kubelet.systemReserved.memory: 3060Mi of memory are kept and the node has 2Gi: write less, or give \
             these nodes a profile of their own"
        );
        assert_eq!(exceeds(&example(), Minor(34), &NODE), None);
        let few = Resources { cpu_milli: Some(700), ..NODE };
        assert_eq!(exceeds(&example(), Minor(34), &few).unwrap().path, "spec.kubelet.systemReserved.cpu");
    }

    proptest! {
        #[test]
        fn a_node_that_does_what_it_was_told_is_in_effect_and_has_nothing_negative(
            cpu in 0_i64..64_000, memory in 0_i64..1 << 40, disk in 0_i64..1 << 44, minor in 14_u32..=40,
            reserved in 0_u32..100_000, share in 0_u32..=100,
        ) {
            let profile = profile(json!({
                "systemReserved": {"memory": format!("{reserved}Mi"), "cpu": format!("{reserved}m")},
                "evictionHard": {"nodefs.available": format!("{share}%")},
            }));
            let node = Resources { cpu_milli: Some(cpu), memory: Some(memory), ephemeral_storage: Some(disk), pods: Some(110) };
            let left = allocatable(&profile, Minor(minor), &node);
            prop_assert_eq!(judge(&profile, Minor(minor), &node, &left), State::InEffect);
            for (left, has) in [(left.cpu_milli, cpu), (left.memory, memory), (left.ephemeral_storage, disk)] {
                prop_assert!((0..=has).contains(&left.unwrap()));
            }
        }
    }
}
