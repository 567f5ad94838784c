//! What is recommended to reserve: series with known answers, and laws for all series.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use winpool_check::recommend::{Basis, Measured, Recommendation, Sample, Usage, recommend};
use winpool_core::node::Resources;

const MI: i64 = 1 << 20;
const GI: i64 = 1 << 30;
const CAPACITY: Resources =
    Resources { cpu_milli: Some(4000), memory: Some(16 * GI - 4096), ephemeral_storage: None, pods: Some(110) };

fn measured(kubelet: Value) -> Measured {
    serde_json::from_value(json!({"pool": "web", "profile": "standard", "kubelet": kubelet, "minor": 34})).unwrap()
}

/// A sample of a node with ten pods that use 1Gi and 700m together, and whose system uses this much and 300m.
fn sample(node: &str, second: i64, system: i64) -> Sample {
    Sample {
        node: node.to_owned(),
        time: Timestamp::from_second(1_800_000_000 + second).unwrap(),
        cores: 4,
        memory: 16 * GI - 4096,
        pods: 10,
        newest_pod: None,
        node_usage: Usage { cpu: Some(1000), working_set: 3 * GI, commit: Some(GI + system) },
        pods_usage: Usage { cpu: Some(700), working_set: GI / 2, commit: Some(GI) },
        commit_available: Some(8 * GI),
    }
}

/// Two nodes with this many samples each, a minute apart, whose system uses what a function of the number of the sample says.
fn series(each: i64, system: impl Fn(i64) -> i64) -> Vec<Sample> {
    let of_node = |node| (0..each).map(move |at| (node, at));
    ["a", "b"].into_iter().flat_map(of_node).map(|(node, at)| sample(node, at * 60, system(at))).collect()
}

fn changed(mut samples: Vec<Sample>, change: impl Fn(usize, &mut Sample)) -> Vec<Sample> {
    samples.iter_mut().enumerate().for_each(|(at, sample)| change(at, sample));
    samples
}

fn of(samples: &[Sample]) -> Recommendation {
    recommend(&measured(json!({"maxPods": 20})), samples).unwrap()
}

#[test]
fn memory_is_the_99th_percentile_and_a_quarter_in_steps_of_256mi_and_at_least_2gi() {
    for (samples, p99, recommended) in [
        (series(30, |_| 0), 0, 2 * GI),
        (series(30, |_| GI), GI, 2 * GI),
        (series(30, |_| 2 * GI), 2 * GI, 2560 * MI),
        (series(30, |_| 2 * GI + 1), 2 * GI + 1, 2816 * MI),
        (series(30, |at| at * 100 * MI), 2900 * MI, 3840 * MI),
        // One of 200 samples is above the percentile, two of 60 are not.
        (
            changed(series(100, |_| GI), |at, one| one.node_usage.commit = Some(if at == 7 { 9 * GI } else { 2 * GI })),
            GI,
            2 * GI,
        ),
        (series(30, |at| if at == 7 { 8 * GI } else { GI }), 8 * GI, 10 * GI),
    ] {
        let size = &of(&samples).sizes[0];
        assert_eq!((size.memory.p99, size.memory.recommended), (p99, recommended));
    }
}

#[test]
fn cpu_is_rounded_up_by_10m_for_each_processor_and_missing_if_a_sample_has_none() {
    for (cores, used, recommended) in [(4, 300, 400), (8, 300, 400), (16, 300, 480), (4, 0, 40), (64, 1, 640)] {
        let samples = changed(series(30, |_| GI), |_, one| {
            (one.cores, one.node_usage.cpu) = (cores, Some(700 + used));
        });
        assert_eq!(of(&samples).sizes[0].cpu.as_ref().unwrap().recommended, recommended, "{cores} {used}");
    }
    let samples = changed(series(30, |_| GI), |at, one| one.node_usage.cpu = (at > 0).then_some(1000));
    let found = of(&samples);
    assert_eq!(found.sizes[0].cpu, None);
    assert_eq!(found.patch, json!({"spec": {"kubelet": {"systemReserved": {"memory": "2Gi"}}}}));
}

#[test]
fn memory_of_the_system_is_commit_if_it_is_reported_and_says_what_it_is_otherwise() {
    let usage = |commit: Option<i64>, working_set| Usage { cpu: None, working_set, commit };
    for (node, pods, expected) in [
        (usage(Some(5 * GI), 3 * GI), usage(Some(2 * GI), GI), (3 * GI, Basis::Commit)),
        (usage(Some(5 * GI), 3 * GI), usage(None, GI), (4 * GI, Basis::CommitAndWorkingSet)),
        (usage(None, 3 * GI), usage(None, GI), (2 * GI, Basis::WorkingSet)),
        (usage(Some(GI), 0), usage(Some(2 * GI), 0), (0, Basis::Commit)),
    ] {
        let sample = Sample { node_usage: node, pods_usage: pods, ..sample("a", 0, 0) };
        assert_eq!(sample.system_memory(), expected);
    }
}

#[test]
fn sizes_are_apart_and_the_patch_has_the_largest_of_them() {
    let mut samples = series(30, |_| 2 * GI);
    let large = changed(series(30, |_| 4 * GI), |_, one| {
        (one.cores, one.memory) = (8, 32 * GI);
        one.node.push('8');
    });
    samples.extend(large);
    samples.push(Sample { memory: 64 * GI, ..sample("c", 0, GI) });
    let found = of(&samples);
    let sizes: Vec<_> =
        found.sizes.iter().map(|one| (one.size.to_string(), one.nodes, one.memory.recommended)).collect();
    assert_eq!(sizes, [("4 CPU, 16Gi".to_owned(), 2, 2560 * MI), ("8 CPU, 32Gi".to_owned(), 2, 5 * GI)]);
    assert_eq!(found.missing[0].to_string(), "4 CPU, 64Gi: 1 of at least 2 nodes, 1 of at least 60 samples");
    assert_eq!(found.patch, json!({"spec": {"kubelet": {"systemReserved": {"cpu": "400m", "memory": "5Gi"}}}}));
}

#[test]
fn too_few_samples_or_nodes_are_refused_with_what_is_missing() {
    let remedy = "Measure longer with --for, or more nodes of the same size";
    let one_node = |samples: Vec<Sample>| changed(samples, |_, one| one.node = "a".to_owned());
    let mut doubled = series(29, |_| GI);
    doubled.extend(doubled.clone());
    for (samples, expected) in [
        (Vec::new(), "pool web has no samples: its nodes must be ready, and their kubelets must answer".to_owned()),
        (
            one_node(changed(series(30, |_| GI), |at, one| one.commit_available = Some(at as i64 * GI))),
            format!(
                "too little was measured of pool web: 4 CPU, 16Gi: 1 of at least 2 nodes, 60 of at least 60 samples. {remedy}"
            ),
        ),
        (
            doubled,
            format!(
                "too little was measured of pool web: 4 CPU, 16Gi: 2 of at least 2 nodes, 58 of at least 60 samples. {remedy}"
            ),
        ),
    ] {
        assert_eq!(recommend(&measured(json!({})), &samples).unwrap_err().to_string(), expected);
    }
    let invalid = measured(json!({"systemReserved": {"memory": "much"}}));
    let refused = recommend(&invalid, &series(30, |_| GI)).unwrap_err().to_string();
    assert!(refused.starts_with("the profile is invalid: spec.kubelet.systemReserved.memory"), "{refused}");
}

#[test]
fn a_leak_is_suspected_if_memory_rises_while_the_pods_stay_the_same() {
    let rises = || series(30, |at| 2 * GI + at * 10 * MI);
    let newest = |at: usize| Some(Timestamp::from_second(at as i64).unwrap());
    for (samples, expected) in [
        (rises(), vec![("a", 2078 * MI, 2308 * MI, 1740), ("b", 2078 * MI, 2308 * MI, 1740)]),
        (
            changed(rises(), |at, one| one.newest_pod = newest(at / 30)),
            vec![("a", 2078 * MI, 2308 * MI, 1740), ("b", 2078 * MI, 2308 * MI, 1740)],
        ),
        (changed(rises(), |at, one| one.pods += at % 30), vec![]),
        (changed(rises(), |at, one| one.newest_pod = newest(at)), vec![]),
        (changed(rises(), |_, one| one.time = Timestamp::from_second(one.time.as_second() / 10).unwrap()), vec![]),
        (series(30, |at| 2 * GI + at * MI), vec![]),
        (series(30, |at| 2 * GI + at % 8 * 100 * MI), vec![]),
        (series(30, |at| 4 * GI - at * 10 * MI), vec![]),
    ] {
        let found = of(&samples);
        let leaks: Vec<_> =
            found.sizes[0].leaks.iter().map(|one| (one.node.as_str(), one.from, one.to, one.seconds)).collect();
        assert_eq!(leaks, expected);
    }
}

#[test]
fn the_threshold_of_eviction_and_max_pods_are_checked_with_the_recommendation() {
    let few = "at most 10 pods ran on a node, and maxPods is 110: the system uses more with more pods. Measure with the pods that \
               you expect, or lower maxPods";
    for (kubelet, system, commit_left, expected) in [
        (json!({"maxPods": 20}), GI, 8 * GI, vec![]),
        (json!({"maxPods": 110}), GI, 8 * GI, vec![few]),
        (
            json!({"maxPods": 20, "evictionHard": {"memory.available": "1Gi"}}),
            GI,
            GI,
            vec!["1Gi was left of the commit limit of node a, and memory.available evicts pods at 1Gi"],
        ),
        (
            json!({"maxPods": 20, "kubeReserved": {"memory": "1Gi"}}),
            GI,
            8 * GI,
            vec![
                "kubeReserved has 1Gi of memory in addition: what was measured contains kubelet and container runtime. Remove it",
            ],
        ),
        (
            json!({"maxPods": 20}),
            12 * GI,
            8 * GI,
            vec!["maxPods is 20, and memory is left for 5 pods with 103Mi each as measured"],
        ),
        (
            json!({"maxPods": 20}),
            13 * GI,
            8 * GI,
            vec![
                "spec.kubelet.systemReserved.memory: 17140Mi of memory are reserved, but the node has only 16777212Ki: reserve \
             less, or use another profile for these nodes",
                "maxPods is 20, and memory is left for 0 pods with 103Mi each as measured",
            ],
        ),
    ] {
        let samples = changed(series(30, |_| system), |_, one| one.commit_available = Some(commit_left));
        let found = recommend(&measured(kubelet.clone()), &samples).unwrap();
        assert_eq!(found.sizes[0].warnings, expected, "{kubelet}");
    }
    let before = Measured { minor: 30, ..measured(json!({"maxPods": 20})) };
    let found = recommend(&before, &series(30, |_| GI)).unwrap();
    assert_eq!(found.sizes[0].warnings, ["kubelets before 1.31 evict no pods for memory"]);
}

#[test]
fn what_platforms_reserve_is_beside_it_or_said_to_be_unknown() {
    let found = of(&series(30, |_| GI));
    let rows: BTreeMap<_, _> = found.sizes[0]
        .platforms
        .iter()
        .map(|one| (one.platform, (one.cpu, one.memory, one.not_known.is_some())))
        .collect();
    let expected = [
        ("AKS", (Some(140), Some(2_450_000_000), false)),
        ("EKS", (None, None, true)),
        ("GKE", (None, None, true)),
        ("WMCO", (Some(500), Some(2 * GI), false)),
    ];
    assert_eq!(rows, BTreeMap::from(expected));
}

/// `/stats/summary` of a kubelet of 1.37, shortened to what it has on Windows. `commit` is that of the first pod.
fn summary(commit: Value) -> Value {
    let time = "2026-11-29T04:00:00Z";
    let pod = |start: &str, cpu: i64, working_set: i64, usage: Value| {
        json!({
            "podRef": {"name": start}, "startTime": start, "cpu": {"time": time, "usageNanoCores": cpu},
            "memory": {"time": time, "workingSetBytes": working_set, "usageBytes": usage},
        })
    };
    json!({
        "node": {
            "nodeName": "a",
            "systemContainers": [
                {"name": "pods", "memory": {"time": time, "usageBytes": 7}},
                {"name": "windows-global-commit-memory", "memory": {"time": time, "availableBytes": 9 * GI, "usageBytes": 4 * GI}},
            ],
            "cpu": {"time": time, "usageNanoCores": 1_250_999_999, "usageCoreNanoSeconds": 17},
            "memory": {"time": time, "availableBytes": GI, "usageBytes": 4 * GI, "workingSetBytes": 2 * GI},
        },
        "pods": [
            pod("2026-11-29T02:00:00Z", 200_000_000, GI, commit),
            pod("2026-11-29T03:00:00Z", 50_000_000, 0, json!(0)),
        ],
    })
}

fn read(summary: &Value) -> Result<Sample, String> {
    Sample::of_summary("a", &CAPACITY, summary.to_string().as_bytes())
}

#[test]
fn a_summary_has_commit_of_pods_only_where_kubelet_and_containerd_report_it() {
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let expected = Sample {
        node: "a".to_owned(),
        time: time("2026-11-29T04:00:00Z"),
        cores: 4,
        memory: 16 * GI - 4096,
        pods: 2,
        newest_pod: Some(time("2026-11-29T03:00:00Z")),
        node_usage: Usage { cpu: Some(1250), working_set: 2 * GI, commit: Some(4 * GI) },
        pods_usage: Usage { cpu: Some(250), working_set: GI, commit: Some(2 * GI) },
        commit_available: Some(9 * GI),
    };
    assert_eq!(read(&summary(json!(2 * GI))), Ok(expected.clone()));
    for unknown in [json!(0), Value::Null] {
        let pods_usage = Usage { commit: None, ..expected.pods_usage };
        assert_eq!(read(&summary(unknown)), Ok(Sample { pods_usage, ..expected.clone() }));
    }
}

#[test]
fn a_summary_that_has_not_measured_yet_or_is_none_is_an_error() {
    let without = |change: fn(&mut Value)| {
        let mut changed = summary(json!(GI));
        change(&mut changed["node"]);
        read(&changed).unwrap_err()
    };
    let nothing = "/stats/summary has no memory of the node yet";
    assert_eq!(without(|node| node["memory"] = Value::Null), nothing);
    assert_eq!(without(|node| node["memory"]["usageBytes"] = json!(0)), nothing);
    assert_eq!(without(|node| node["memory"]["workingSetBytes"] = json!(-1)), "it reports amounts that no node has");
    assert!(Sample::of_summary("a", &CAPACITY, b"<html>").unwrap_err().starts_with("/stats/summary: expected value"));
    let unknown = Sample::of_summary("a", &Resources::default(), summary(json!(GI)).to_string().as_bytes());
    assert_eq!(unknown.unwrap_err(), "the node reports no capacity");
}

#[test]
fn metrics_have_the_working_set_only() {
    let node = json!({
        "metadata": {"name": "a"}, "timestamp": "2026-11-29T04:00:00Z", "usage": {"cpu": "12345n", "memory": "2097152Ki"},
    });
    let pod = json!({"containers": [{"usage": {"memory": "512Mi"}}, {"usage": {"memory": "256Mi"}}, {}]});
    let sample = Sample::of_metrics(&CAPACITY, &node, [&pod]).unwrap();
    assert_eq!((sample.node.as_str(), sample.pods, sample.system_cpu()), ("a", 1, None));
    assert_eq!(sample.system_memory(), (1280 * MI, Basis::WorkingSet));
    let none = Sample::of_metrics(&CAPACITY, &json!({}), []).unwrap_err();
    assert_eq!(none, "metrics.k8s.io has no memory of the node");
}

/// Pods of which each is another, half of them with commit.
fn many_pods() -> Vec<Value> {
    let pods = |at: i64| summary(json!(at * GI))["pods"].as_array().cloned().unwrap();
    (0..6).flat_map(pods).collect()
}

/// The use of memory in MiB and of CPU by the system, by node and time.
fn any_series() -> impl Strategy<Value = Vec<Sample>> {
    vec((0..30_000_i64, 0..4000_i64), 60..130).prop_map(|uses| {
        let one = |(at, (memory, cpu)): (usize, (i64, i64))| {
            let mut one = sample(["a", "b"][at % 2], at as i64 * 15, memory * MI);
            one.node_usage.cpu = Some(700 + cpu);
            one
        };
        uses.into_iter().enumerate().map(one).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn more_load_never_lowers_the_recommendation(
        samples in any_series(), at in any::<prop::sample::Index>(), memory in 0..GI, cpu in 0..1000_i64,
    ) {
        let mut loaded = samples.clone();
        let one = at.get_mut(&mut loaded);
        one.node_usage.commit = one.node_usage.commit.map(|commit| commit + memory);
        one.node_usage.cpu = one.node_usage.cpu.map(|used| used + cpu);
        let amounts = |samples: &[Sample]| {
            let size = of(samples).sizes.remove(0);
            (size.memory.recommended, size.cpu.unwrap().recommended)
        };
        let (before, after) = (amounts(&samples), amounts(&loaded));
        prop_assert!(before.0 <= after.0 && before.1 <= after.1, "{before:?} {after:?}");
        prop_assert!(before.0 >= 2 * GI && before.0 % (256 * MI) == 0 && before.1 % 40 == 0);
    }

    #[test]
    fn the_order_of_samples_does_not_matter(
        (samples, shuffled) in any_series().prop_flat_map(|samples| (Just(samples.clone()), Just(samples).prop_shuffle())),
    ) {
        prop_assert_eq!(of(&samples), of(&shuffled));
    }

    #[test]
    fn the_order_of_pods_does_not_matter(pods in Just(many_pods()).prop_shuffle()) {
        let with = |pods: Vec<Value>| {
            let mut all = summary(json!(2 * GI));
            all["pods"] = json!(pods);
            read(&all)
        };
        prop_assert_eq!(with(many_pods()), with(pods));
    }

    #[test]
    fn no_possible_sample_ends_in_a_panic(
        amounts in vec(0..=1_i64 << 50, 6), times in vec(-9_000_000_000..9_000_000_000_i64, 60), cores in 1..=1_i64 << 16,
    ) {
        let samples: Vec<_> = times.iter().enumerate().map(|(at, time)| Sample {
            time: Timestamp::from_second(*time).unwrap(),
            cores,
            memory: amounts[0].max(1),
            pods: usize::MAX,
            node_usage: Usage { cpu: Some(amounts[1]), working_set: amounts[2], commit: Some(amounts[3]) },
            pods_usage: Usage { cpu: Some(amounts[4]), working_set: amounts[5], commit: None },
            ..sample(["a", "b"][at % 2], 0, 0)
        }).collect();
        prop_assert!(samples.iter().all(Sample::is_possible));
        let found = recommend(&measured(json!({})), &samples);
        prop_assert!(found.is_err() || found.unwrap().sizes[0].memory.recommended >= 2 * GI);
    }
}
