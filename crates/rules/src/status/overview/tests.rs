use kube::core::DynamicObject;
use serde_json::{Value, json};
use winpool_api::{
    conditions::{
        CONFIG_IN_EFFECT, ConditionStatus, MACHINES_TEMPLATED, NODES_TAINTED, OS_MISMATCH, OS_SUPPORTED, VERSION_SKEW,
    },
    names::reason,
};
use winpool_core::{kind::Kind, node::WindowsNode};

use super::*;

fn condition(of: &'static ConditionType, reason: &'static str, message: &str) -> Value {
    let computed = of.because(reason, message);
    json!({
        "type": of.name, "status": computed.status.name(), "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn status(conditions: &[Value]) -> Value {
    json!({ "observedGeneration": 2, "nodes": { "matched": 2, "ready": 2 }, "conditions": conditions })
}

fn pool(name: &str, status: Value) -> Pool {
    let object = json!({
        "metadata": { "name": name, "generation": 2 },
        "spec": { "windowsVersion": "ltsc2022", "nodeSelector": { "matchLabels": { "pool": name } } },
        "status": status,
    });
    Pool::from_object(serde_json::from_value(object).unwrap())
}

fn observed(pools: Vec<Pool>) -> ObservedCluster {
    ObservedCluster { pools: pools.into_iter().collect(), namespace: "system".into(), ..ObservedCluster::default() }
}

fn overview(pools: Vec<Pool>) -> Overview {
    Overview::new(&observed(pools), &BTreeSet::new())
}

fn ready() -> Value {
    condition(&READY, reason::AS_SPECIFIED, "")
}

/// Each pool with its problems.
fn order(overview: &Overview) -> Vec<String> {
    let of_pool = |pool: &PoolOverview| {
        let problems = pool.problems.iter().map(|one| format!(" {}/{}", one.condition, one.reason));
        format!("{}:{}", pool.name, problems.collect::<String>())
    };
    overview.pools.iter().map(of_pool).collect()
}

#[test]
fn the_worst_problem_comes_first_of_a_pool_and_of_all_pools() {
    let wrong = |problems: &[Value]| status(&[&[ready()], problems].concat());
    let overview = overview(vec![
        pool("a", status(&[ready()])),
        pool("b", wrong(&[condition(&OS_SUPPORTED, reason::END_OF_LIFE, "")])),
        pool("c", wrong(&[condition(&OS_MISMATCH, reason::NODE_BUILD_DIFFERS, "")])),
        pool(
            "d",
            wrong(&[
                condition(&VERSION_SKEW, reason::KUBELET_TOO_OLD, ""),
                condition(&CONFIG_IN_EFFECT, reason::ROLLING_OUT, ""),
                condition(&NODES_TAINTED, reason::TAINT_CONFLICT, ""),
            ]),
        ),
        pool("e", status(&[ready()])),
        pool("f", wrong(&[condition(&OS_MISMATCH, reason::IMAGES_CANNOT_RUN, "")])),
    ]);
    let expected = [
        "d: NodesTainted/TaintConflict VersionSkew/KubeletTooOld",
        "c: OSMismatch/NodeBuildDiffers",
        "f: OSMismatch/ImagesCannotRun",
        "b: OSSupported/EndOfLife",
        "a:",
        "e:",
    ];
    assert_eq!(order(&overview), expected);
    assert_eq!(overview.summary().as_deref(), Some("5 problems in 4 pools"));
}

#[test]
fn only_the_requested_pools_are_reported() {
    let observed = observed(vec![pool("a", status(&[ready()])), pool("b", status(&[ready()]))]);
    let overview = Overview::new(&observed, &["b".to_owned()].into());
    assert_eq!(order(&overview), ["b:"]);
    assert_eq!((overview.summary(), overview.is_running()), (None, false));
}

#[test]
fn a_status_that_is_missing_or_of_an_earlier_spec_is_a_problem() {
    let mut outdated = status(&[ready()]);
    outdated["observedGeneration"] = json!(1);
    let overview = overview(vec![
        pool("default", json!({ "observedGeneration": -1 })),
        pool("new", Value::Null),
        pool("old", outdated),
    ]);
    let expected = ["default: Operator/NotReconciled", "new: Operator/NotReconciled", "old: Operator/StatusOutdated"];
    assert_eq!(order(&overview), expected);
    let [missing, outdated] = [0, 2].map(|index| &overview.pools[index].problems[0]);
    assert!(outdated.message.starts_with("the status is for generation 1, and the spec has generation 2"));
    assert_eq!(
        missing.commands,
        [
            "kubectl -n system get pods -l app.kubernetes.io/name=winpool",
            "kubectl -n system logs deployment/winpool --tail=50"
        ]
    );
    assert!(overview.is_running());
}

#[test]
fn ready_is_reported_if_no_other_condition_explains_it() {
    let deleting = json!({
        "type": "Ready", "status": "False", "reason": "Deleting", "message": "waits",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let observing = condition(&READY, reason::OBSERVING, "");
    let overview = overview(vec![pool("a", status(&[deleting])), pool("b", status(&[observing]))]);
    assert_eq!(order(&overview), ["a: Ready/Deleting", "b:"]);
}

fn node(name: &str, pool: &str, kernel: &str) -> WindowsNode {
    let object = json!({
        "metadata": { "name": name, "uid": name, "labels": { "kubernetes.io/os": "windows", "pool": pool } },
        "status": { "nodeInfo": { "kernelVersion": kernel, "kubeletVersion": "v1.34.2", "containerRuntimeVersion": "" } },
    });
    let object: k8s_openapi::api::core::v1::Node = serde_json::from_value(object).unwrap();
    WindowsNode::from(object)
}

#[test]
fn a_problem_has_all_affected_nodes_and_the_commands() {
    let differs = condition(&OS_MISMATCH, reason::NODE_BUILD_DIFFERS, "6 nodes run …");
    let pool = pool("web", status(&[ready(), differs]));
    let nodes = (1..=7)
        .map(|number| node(&format!("web-{number}"), "web", if number == 4 { "10.0.20348.1" } else { "10.0.17763.1" }));
    let nodes = nodes.chain([node("alone", "none", "10.0.17763.1")]).collect();
    let pools: Objects<Pool> = [pool].into_iter().collect();
    let snapshot = Some(Snapshot { pools: pools.clone(), nodes, ..Snapshot::default() });
    let observed = ObservedCluster { snapshot, pools, namespace: "system".into(), ..ObservedCluster::default() };
    let overview = Overview::new(&observed, &BTreeSet::new());
    assert_eq!(
        json!(overview.pools[0].problems),
        json!([{
            "type": "OSMismatch", "reason": "NodeBuildDiffers", "harm": "StopsPods", "subject": "Windows",
            "problem": "Windows/NodeBuildDiffers", "message": "6 nodes run …", "count": 6,
            "nodes": ["web-1", "web-2", "web-3", "web-5", "web-6", "web-7"], "workloads": [],
            "commands": [
                "kubectl get nodes -l winpool.dev/pool=web -o wide",
                "winpool explain OSMismatch/NodeBuildDiffers",
            ],
        }])
    );
    assert_eq!(overview.nodes_in_no_pool, ["alone"]);
    let requested = Overview::new(&observed, &["web".to_owned()].into());
    assert!(requested.nodes_in_no_pool.is_empty());
}

fn machine_object(kind: Kind, name: &str, status: Value) -> MachineObject {
    let object = json!({
        "metadata": {
            "namespace": "prod", "name": name, "labels": { "cluster.x-k8s.io/deployment-name": "web-md" },
        },
        "status": status,
    });
    MachineObject::from_object(kind, &serde_json::from_value::<DynamicObject>(object).unwrap())
}

#[test]
fn machine_objects_report_problems_in_both_versions() {
    let listed = |conditions: &[(&str, &str, &str, &str)]| -> Value {
        let one = |(kind, status, reason, message): &(&str, &str, &str, &str)| json!({ "type": kind, "status": status, "reason": reason, "message": message });
        conditions.iter().map(one).collect()
    };
    let blocked = "Scaling up from 0 to 1 replicas is blocked because: KubeadmVersionSkew";
    let blocks = json!({ "conditions": listed(&[
        ("MachinesReady", "True", "Ready", ""),
        ("MachinesUpToDate", "False", "NotUpToDate", "1 of 3"),
        ("ScalingUp", "True", "ScalingUp", blocked),
        ("ScalingDown", "True", "ScalingDown", ""),
        ("Available", "Unknown", "InternalError", "see the log"),
    ]) });
    let scales =
        json!({ "conditions": listed(&[("ScalingUp", "True", "ScalingUp", "Scaling up from 0 to 2 replicas")]) });
    let table: [(Value, &[(&str, &str)]); 3] =
        [(scales, &[]), (blocks, &[("ScalingUp", blocked), ("InternalError", "see the log")]), (Value::Null, &[])];
    for (status_of_set, expected) in table {
        let mut status = status(&[ready(), condition(&MACHINES_TEMPLATED, reason::ROTATING, "")]);
        status["clusterAPI"] = json!({
            "namespace": "prod", "machines": 3, "upToDate": 0, "groups": [{ "name": "web-md", "machines": 3, "upToDate": 0 }],
        });
        let other = json!({ "conditions": listed(&[("Available", "False", "", "")]) });
        let machines = vec![
            machine_object(Kind::MACHINE_DEPLOYMENT, "other", other),
            machine_object(Kind::MACHINE_SET, "web-md-1", status_of_set),
        ];
        let overview =
            Overview::new(&ObservedCluster { machines, ..observed(vec![pool("web", status)]) }, &BTreeSet::new());
        let pool = &overview.pools[0];
        let found: Vec<_> = pool.problems.iter().map(|one| (one.reason.as_str(), one.message.as_str())).collect();
        assert_eq!(found, expected);
        for problem in &pool.problems {
            assert_eq!(problem.object.as_deref(), Some("MachineSet prod/web-md-1"));
            assert_eq!(problem.commands, ["kubectl -n prod describe machinesets.cluster.x-k8s.io web-md-1"]);
        }
        let progress = pool.progress.as_ref().unwrap();
        assert_eq!((progress.running, progress.machines), (true, Some(Share { done: 0, total: 3 })));
    }
}

#[test]
fn what_a_machine_deployment_and_its_machine_sets_report_is_one_problem() {
    let paused = json!({ "conditions": [
        { "type": "Paused", "status": "True", "reason": "Paused", "message": "Cluster spec.paused is set to true" },
    ] });
    let machines = vec![
        machine_object(Kind::MACHINE_DEPLOYMENT, "web-md", paused.clone()),
        machine_object(Kind::MACHINE_SET, "web-md-1", paused.clone()),
        machine_object(Kind::MACHINE_SET, "web-md-2", paused),
    ];
    let mut status = status(&[ready()]);
    status["clusterAPI"] = json!({
        "namespace": "prod", "machines": 3, "upToDate": 3, "groups": [{ "name": "web-md", "machines": 3, "upToDate": 3 }],
    });
    let overview =
        Overview::new(&ObservedCluster { machines, ..observed(vec![pool("web", status)]) }, &BTreeSet::new());
    let objects: Vec<_> = overview.pools[0].problems.iter().map(|problem| problem.object.as_deref()).collect();
    assert_eq!(objects, [Some("MachineDeployment prod/web-md")]);
}

#[test]
fn a_rollout_runs_until_it_is_complete_paused_or_halted() {
    let reconciling = |reason: &str| json!({ "type": "Reconciling", "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "" });
    let table = [
        (condition(&CONFIG_IN_EFFECT, reason::ROLLING_OUT, ""), true),
        (condition(&CONFIG_IN_EFFECT, reason::ROLLOUT_PAUSED, ""), false),
        (condition(&CONFIG_IN_EFFECT, reason::ROLLOUT_HALTED, ""), false),
        (condition(&CONFIG_IN_EFFECT, reason::IN_EFFECT, ""), false),
        (condition(&MACHINES_TEMPLATED, reason::ROTATING, ""), true),
        (condition(&MACHINES_TEMPLATED, reason::ROTATION_PENDING, ""), false),
        (reconciling(reason::PROGRESSING), true),
        (reconciling(reason::NOT_FOUND), false),
    ];
    for (condition, expected) in table {
        let text = condition.to_string();
        assert_eq!(overview(vec![pool("web", status(&[ready(), condition]))]).is_running(), expected, "{text}");
    }
    assert_eq!(MACHINES_TEMPLATED.problem_when, ConditionStatus::False);
}
