//! Every reported status is accepted by an API server.

use std::{collections::BTreeMap, sync::Arc};

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use winpool_check::manifests::problems_of_status;
use winpool_rules::{
    operation::{Action, DeniedPart, Done, Outcome, WriteError},
    pool::{Snapshot, plan::plan},
    status::{pool::report, profile},
};
use winpool_workload::{AffectedWorkloads, IssueKind, PoolWorkloads, WorkloadIssue, WorkloadName, Workloads};

use winpool_model::{CLASS, Model, NODE, POOL, PROFILE, cases};

/// The names of the pool and of the profile.
const WEB: &str = "web";
const STANDARD: &str = "standard";

/// A name of 253 characters that ends with a number.
fn long_name(number: usize) -> String {
    let end = format!("-{number}");
    format!("{}{end}", "n".repeat(253 - end.len()))
}

/// A text of any length, including characters that need several bytes or escapes.
fn any_text() -> impl Strategy<Value = String> {
    let letter = select(vec!["x", "ß", "🦀", "\"", "\\", "\n", "\u{0}", "v1.34.1, "]);
    (letter, select(vec![0_usize, 1, 63, 64, 65, 255, 1024, 40_000])).prop_map(|(letter, count)| letter.repeat(count))
}

fn any_version(known: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![3 => select(known).prop_map(str::to_owned), 1 => any_text(), 1 => any_text().prop_map(|text| format!("v1.34.1-{text}"))]
}

/// One node, or many with different versions.
#[derive(Clone, Debug)]
struct Nodes {
    kubelet: String,
    kernel: String,
    runtime: String,
    labels: Value,
    taints: Value,
    count: usize,
}

prop_compose! {
    fn any_nodes()(
        kubelet in any_version(&["v1.34.1", "v1.20.0", "v1.99.0"]),
        kernel in any_version(&["10.0.20348.1000", "10.0.26100.1", "10.0.17763.9999", "10.0.99999.1"]),
        runtime in any_version(&["containerd://2.1.4", "containerd://1.6.1", "containerd://99.0.0", "docker://24.0"]),
        label in select(vec!["web", "other"]),
        taint in select(vec!["windows", "other"]),
        count in select(vec![1_usize, 1, 1, 7, 150]),
    ) -> Nodes {
        Nodes {
            kubelet, kernel, runtime, count,
            labels: json!({"agentpool": WEB, "team": label, "node.kubernetes.io/windows-build": null}),
            taints: json!([{"key": "os", "value": taint, "effect": "NoSchedule"}]),
        }
    }
}

impl Nodes {
    fn put(&self, model: &mut Model, first: usize) {
        for number in first..first + self.count {
            let mut node = winpool_model::node(20348, &self.runtime, &self.labels, &self.taints);
            let info = &mut node["status"]["nodeInfo"];
            info["kernelVersion"] = json!(self.kernel);
            info["kubeletVersion"] = json!(self.kubelet);
            if self.count > 1 {
                info["kubeletVersion"] = json!(format!("v1.{}.{number}", number % 40));
                info["kernelVersion"] = json!(format!("10.0.{}.{number}", 10_000 + number));
            }
            model.put(NODE, &long_name(number), node);
        }
    }
}

fn any_profile() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(
            json!({"kubelet": {"systemReserved": {"memory": "900Gi"}}, "pauseImage": {"source": "Upstream", "tag": "3.5"}})
        ),
        any_text()
            .prop_map(|text| json!({"kubelet": {"systemReserved": {"memory": text, "cpu": text}, "maxPods": text}})),
        any_text().prop_map(|text| {
            let gates: BTreeMap<String, bool> = (0..64).map(|number| (format!("{number}{text}"), true)).collect();
            json!({"kubelet": {"featureGates": gates, "extra": {"authentication": text}}})
        }),
    ]
}

fn any_pool() -> impl Strategy<Value = Value> {
    let taints = select(vec![
        json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]),
        json!([{"key": "drain", "effect": "NoExecute"}]),
        json!([]),
    ]);
    let classes = (0_usize..=8, select(vec!["", "docker"])).prop_map(|(count, handler)| {
        let class = |number| json!({"name": long_name(number), "handler": handler});
        Value::Array((0..count).map(class).collect())
    });
    let spec = (taints, classes, select(vec!["Enforce", "Observe"])).prop_map(|(taints, classes, mode)| {
        json!({
            "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": WEB}}, "taints": taints,
            "runtimeClasses": classes, "mode": mode, "labels": {"team": WEB},
            "profileRef": {"name": STANDARD}, "deletionPolicy": "Cleanup",
        })
    });
    let broken = any_text().prop_map(|text| {
        let taints: Vec<Value> = (0..16).map(|_| json!({"key": text, "value": text, "effect": "NoSchedule"})).collect();
        json!({"windowsVersion": text, "taints": taints, "nodeSelector": {"matchLabels": {text: "a b"}}})
    });
    prop_oneof![4 => spec, 1 => broken]
}

/// The outcome of a write.
fn any_outcome() -> impl Strategy<Value = Outcome> {
    let failed: [fn(WriteError) -> Outcome; 3] = [Outcome::Refused, Outcome::Failed, refused_taints];
    prop_oneof![
        Just(Outcome::Done),
        (select(failed.to_vec()), any_text()).prop_map(|(outcome, text)| outcome(text.into()))
    ]
}

fn refused_taints(error: WriteError) -> Outcome {
    Outcome::Denied(DeniedPart::Taints, error)
}

fn any_workloads() -> impl Strategy<Value = Workloads> {
    let kinds = [
        IssueKind::ImagesCannotRun,
        IssueKind::Unschedulable,
        IssueKind::DaemonSetNotTolerating,
        IssueKind::NotReschedulable,
        IssueKind::MemoryOvercommitted,
        IssueKind::FieldsWithoutEffect,
    ];
    let known = (prop::sample::subsequence(kinds.to_vec(), 0..=6), any_text(), 0_usize..100).prop_map(
        |(kinds, text, count)| {
            let workload =
                |number| WorkloadName { kind: "Deployment".into(), namespace: "n".repeat(63), name: long_name(number) };
            let issue = |number| WorkloadIssue::NoMemoryLimit { container: format!("{text}{number}") };
            let first: Vec<_> = (0..count).map(|number| (Arc::new(workload(number)), issue(number))).collect();
            let affected = AffectedWorkloads { count, first };
            let classes = (0..count as u32).map(|number| (long_name(number as usize), u32::MAX - number)).collect();
            let of_web = PoolWorkloads {
                pods: u32::MAX,
                classes,
                issues: kinds.into_iter().map(|kind| (kind, affected.clone())).collect(),
                ..PoolWorkloads::default()
            };
            Workloads::Known([(WEB.to_owned(), Arc::new(of_web))].into())
        },
    );
    prop_oneof![Just(Workloads::Off), Just(Workloads::Waiting), known]
}

/// Stores RuntimeClasses that were created for the pool and are no longer in its spec.
fn put_unused_classes(model: &mut Model, count: usize) {
    for number in 100..100 + count {
        let labels = json!({"app.kubernetes.io/managed-by": "winpool", "winpool.dev/pool": WEB});
        let class = json!({"metadata": {"labels": labels}, "handler": "runhcs-wcow-process"});
        model.put(CLASS, &long_name(number), class);
    }
}

fn accepted(kind: &str, status: &Value) -> Result<(), TestCaseError> {
    let problems = problems_of_status(kind, status).unwrap();
    let shown: Vec<String> =
        problems.iter().take(3).map(|problem| problem.to_string().chars().take(300).collect()).collect();
    prop_assert!(problems.is_empty(), "{}: {shown:#?}", problems.len());
    Ok(())
}

/// A reconcile of the pool with the same outcome of every write, whose status is stored.
fn reconcile(model: &mut Model, snapshot: &Snapshot, outcome: &Outcome) -> Result<(), TestCaseError> {
    let plan = plan(snapshot, WEB).unwrap();
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), outcome.clone()));
    let done = Done { results: results.collect(), complete: *outcome == Outcome::Done };
    for record in plan.steps.iter().flatten().filter(|write| write.action == Action::RecordApplied) {
        accepted(POOL, &record.body()["status"])?;
    }
    let report = report(snapshot, &plan.with_outcomes(&done), &done);
    accepted(POOL, &json!(report.status))?;
    prop_assert!(report.status.conditions.iter().any(|condition| condition.type_ == "Ready"));
    if let Some(write) = &report.write {
        prop_assert_eq!(&write.body()["status"], &json!(report.status));
        model.write_status(write);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 64, ..cases(32) })]

    #[test]
    fn a_status_is_within_its_schema(
        nodes in prop::collection::vec(any_nodes(), 0..=4),
        (spec, next_spec) in (any_pool(), any_pool()),
        profile in any_profile(),
        unused in select(vec![0_usize, 1, 33, 200]),
        outcomes in (any_outcome(), any_outcome()),
        workloads in any_workloads(),
        deleted in any::<bool>(),
    ) {
        let mut model = Model::new();
        let mut first = 0;
        for some in &nodes {
            some.put(&mut model, first);
            first += some.count;
        }
        put_unused_classes(&mut model, unused);
        model.put(PROFILE, STANDARD, winpool_model::profile(profile));
        model.put(POOL, WEB, winpool_model::pool(spec));
        model.put(POOL, "late", winpool_model::pool(json!({"windowsVersion": "ltsc2019", "nodeSelector": {"matchLabels": {"team": WEB}}})));
        for outcome in [&outcomes.0, &outcomes.1] {
            let snapshot = Snapshot { workloads: workloads.clone(), ..model.snapshot() };
            reconcile(&mut model, &snapshot, outcome)?;
            let report = profile::report(&snapshot, STANDARD).unwrap();
            if let Some(write) = &report.write {
                accepted(PROFILE, &write.body()["status"])?;
                model.write_status(write);
            }
            // Parts of the stored status are kept in the next one.
            model.edit(POOL, WEB, |pool| {
                pool["spec"] = next_spec.clone();
                if deleted {
                    pool["metadata"]["finalizers"] = json!(["winpool.dev/cleanup"]);
                    pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T12:00:00Z");
                }
            });
        }
    }
}

#[test]
fn thousands_of_nodes_with_a_version_each_are_counted_in_a_status_within_its_schema() {
    let nodes = Nodes {
        kubelet: String::new(),
        kernel: String::new(),
        runtime: "containerd://2.1.4".into(),
        labels: json!({"agentpool": WEB}),
        taints: json!([]),
        count: 3_000,
    };
    let mut model = Model::new();
    nodes.put(&mut model, 0);
    put_unused_classes(&mut model, 200);
    let spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": WEB}}});
    model.put(POOL, WEB, winpool_model::pool(spec));
    let snapshot = model.snapshot();
    let plan = plan(&snapshot, WEB).unwrap();
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), Outcome::Done)).collect();
    let done = Done { results, complete: true };
    let status = report(&snapshot, &plan.with_outcomes(&done), &done).status;
    assert_eq!(problems_of_status(POOL, &json!(status)), Some(vec![]));
    let listed = |path: &str, rows: usize| rows + status.omitted[path] as usize;
    assert_eq!(listed("kubelets", status.kubelets.len()), 3_000);
    assert_eq!(listed("builds", status.builds.len()), 3_000);
    assert_eq!(listed("runtimeClasses", status.runtime_classes.len()), 201);
    // The class of the pool is not omitted.
    assert_eq!(status.runtime_classes[0].name, "windows-ltsc2022");
    for condition in status.conditions.iter().filter(|condition| condition.message.contains("nnnn")) {
        assert!(condition.message.ends_with("kubectl get nodes -l winpool.dev/pool=web"), "{}", condition.type_);
    }
}
