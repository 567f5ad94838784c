//! The grace period of Ready: 30 seconds for nodes that were as specified under the same generation.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::json;
use winpool_api::WindowsNodePoolStatus;
use winpool_rules::{
    operation::{Denial, DeniedPart, Done, Outcome, Unwritten},
    pool::plan::plan,
    status::pool::report,
};

use winpool_model::{Model, NODE, POOL, condition, node, status, web};

const REFUSAL: &str = "admission webhook denied the request";

/// A pool `web` with one node `win-1`, before the first reconcile.
fn model() -> Model {
    let mut model = Model::new();
    join(&mut model, "win-1");
    model.put(POOL, "web", web(json!({"labels": {"team": "web"}})));
    model
}

/// The same after it was as specified for an hour.
fn ready_model() -> Model {
    let mut model = model();
    model.converge();
    model.now += SignedDuration::from_hours(1);
    model.converge();
    assert_eq!(ready(&model), ("True", 1));
    model
}

fn join(model: &mut Model, name: &str) {
    model.put(NODE, name, node(20348, "containerd://2.3.7", &json!({"agentpool": "web"}), &json!([])));
}

/// A new generation that does not change the RuntimeClass.
fn change_labels(model: &mut Model) {
    model.edit(POOL, "web", |pool| pool["spec"]["labels"]["team"] = json!("next"));
}

fn remove_taints(model: &mut Model, node: &str) {
    model.edit(NODE, node, |node| node["spec"]["taints"] = json!([]));
}

/// Why nodes are not as specified.
#[derive(Clone, Debug)]
enum Failure {
    /// Each write to a node has this outcome.
    Outcome(Outcome),
    /// Admission has rejected the taints.
    TaintsRejected,
}

/// A reconcile with this failure.
fn reconcile(model: &mut Model, failure: Option<&Failure>) {
    let denial = || Denial { message: REFUSAL.into(), part: DeniedPart::Taints };
    model.denials = match failure {
        Some(Failure::TaintsRejected) => model.names(NODE).into_iter().map(|node| (node, denial())).collect(),
        Some(Failure::Outcome(_)) | None => BTreeMap::new(),
    };
    let snapshot = model.snapshot();
    let plan = plan(&snapshot, "web").unwrap();
    let mut done = Done { results: Vec::new(), complete: true };
    for step in plan.steps.iter() {
        for operation in step {
            let fixed = match failure {
                Some(Failure::Outcome(outcome)) if operation.node_edit().is_some() => Some(outcome.clone()),
                _ => None,
            };
            let outcome = fixed.unwrap_or_else(|| model.run_after(operation, &Unwritten::default()));
            done.complete &= outcome.succeeded();
            done.results.push((operation.clone(), outcome));
        }
        if !done.complete {
            break;
        }
    }
    if let Some(write) = report(&snapshot, &plan.with_outcomes(&done), &done).write {
        model.write_status(&write);
    }
}

/// The status of Ready, and its observed generation.
fn ready(model: &Model) -> (&'static str, i64) {
    let WindowsNodePoolStatus { conditions, observed_generation, .. } = status(model, "web");
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
    let status = ["True", "False"].into_iter().find(|status| *status == ready.status).unwrap();
    (status, observed_generation.unwrap())
}

fn failed() -> Failure {
    Failure::Outcome(Outcome::Failed(REFUSAL.into()))
}

fn failures() -> [Failure; 3] {
    [Failure::Outcome(Outcome::Refused(REFUSAL.into())), failed(), Failure::TaintsRejected]
}

#[test]
fn a_generation_is_not_ready_before_its_nodes_are_written() {
    for failure in failures() {
        for (mut model, generation) in [(model(), 1), (ready_model(), 2)] {
            if generation == 2 {
                change_labels(&mut model);
                remove_taints(&mut model, "win-1");
            }
            for seconds in [0, 1, 5, 29, 31, 3600] {
                model.now += SignedDuration::from_secs(seconds);
                reconcile(&mut model, Some(&failure));
                assert_eq!(ready(&model), ("False", generation), "{failure:?} after {seconds} s more");
            }
            reconcile(&mut model, None);
            assert_eq!(ready(&model), ("True", generation), "the cause is resolved");
        }
    }
}

#[test]
fn a_node_that_was_as_specified_may_differ_for_thirty_seconds() {
    for failure in failures() {
        let mut model = ready_model();
        remove_taints(&mut model, "win-1");
        for (seconds, expected) in [(0, "True"), (29, "True"), (1, "False"), (3600, "False")] {
            model.now += SignedDuration::from_secs(seconds);
            reconcile(&mut model, Some(&failure));
            assert_eq!(ready(&model), (expected, 1), "{failure:?} after {seconds} s more");
        }
        reconcile(&mut model, None);
        assert_eq!(ready(&model), ("True", 1));
        // Ready was True again, so the grace period is reset.
        remove_taints(&mut model, "win-1");
        reconcile(&mut model, Some(&failure));
        assert_eq!(ready(&model), ("True", 1));
    }
}

#[test]
fn a_grace_period_ends_with_the_next_generation() {
    let mut model = ready_model();
    remove_taints(&mut model, "win-1");
    reconcile(&mut model, Some(&failed()));
    assert_eq!(ready(&model), ("True", 1));
    change_labels(&mut model);
    reconcile(&mut model, Some(&failed()));
    assert_eq!(ready(&model), ("False", 2));
}

#[test]
fn a_new_node_that_cannot_be_written_has_no_grace_period() {
    for failure in failures() {
        let mut model = ready_model();
        join(&mut model, "win-2");
        reconcile(&mut model, Some(&failure));
        assert_eq!(ready(&model), ("False", 1), "{failure:?}");
    }
}

#[test]
fn a_pool_stays_ready_while_a_new_node_is_written() {
    let mut model = ready_model();
    join(&mut model, "win-2");
    reconcile(&mut model, None);
    assert_eq!(ready(&model), ("True", 1));
}

#[test]
fn a_conflict_of_pools_has_a_grace_period() {
    let mut model = ready_model();
    let late = json!({"nodeSelector": {"matchLabels": {"kubernetes.io/arch": "amd64"}}});
    model.put(POOL, "late", web(late));
    reconcile(&mut model, None);
    assert_eq!(ready(&model), ("True", 1));
    model.now += SignedDuration::from_secs(30);
    reconcile(&mut model, None);
    assert_eq!(ready(&model), ("False", 1));
    assert_eq!(condition(&model, "web", "Ready").1, "NodeConflict");
}
