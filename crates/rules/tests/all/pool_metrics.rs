//! The values of the metrics of a pool that its status does not have.

use jiff::Timestamp;
use serde_json::{Value, json};
use winpool_rules::{
    operation::{DeniedPart, Done, Outcome},
    pool::plan::{Plan, plan},
    status::metrics::{holds, ready_before_taint, ready_untainted},
};

use winpool_model::{Model, NODE, POOL, node, web};

const NOW: &str = "2026-06-01T12:00:00Z";

/// A pool `web` with one node, both with changes.
fn model(spec: Value, change: impl FnOnce(&mut Value)) -> Model {
    let mut model = Model::new();
    model.now = NOW.parse().unwrap();
    model.put(POOL, "web", web(spec));
    let mut node = node(20348, "containerd://2.3.7", &json!({"agentpool": "web"}), &json!([]));
    change(&mut node);
    model.put(NODE, "win-1", node);
    model
}

fn ready_since(status: &str, since: &str) -> impl FnOnce(&mut Value) {
    let condition = json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
    move |node| node["status"]["conditions"] = condition
}

/// The plan of the pool, in which every operation has this outcome.
fn ended(model: &Model, outcome: &Outcome) -> (Plan, Done) {
    let plan = plan(&model.snapshot(), "web").unwrap();
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), outcome.clone())).collect();
    let done = Done { results, complete: true };
    (plan.with_outcomes(&done), done)
}

fn without_taints() -> Outcome {
    Outcome::Denied(DeniedPart::Taints, "denied".into())
}

#[test]
fn a_new_node_counts_with_the_time_since_it_became_ready_when_its_taints_are_set() {
    let three_seconds = "2026-06-01T11:59:57Z";
    for (status, since, outcome, seconds, untainted) in [
        ("True", three_seconds, Outcome::Done, Some(3.5), 0),
        ("False", three_seconds, Outcome::Done, Some(0.0), 0),
        // The clock of the kubelet is ahead.
        ("True", "2026-06-01T12:00:09Z", Outcome::Done, Some(0.0), 0),
        ("True", three_seconds, without_taints(), None, 1),
        ("True", three_seconds, Outcome::Conflict, None, 1),
        ("False", three_seconds, Outcome::Conflict, None, 0),
    ] {
        let (plan, _) = ended(&model(json!({}), ready_since(status, since)), &outcome);
        let at: Timestamp = "2026-06-01T12:00:00.5Z".parse().unwrap();
        assert_eq!(ready_before_taint(&plan, at), Vec::from_iter(seconds), "{status} {since} {outcome:?}");
        assert_eq!(ready_untainted(&plan), untainted, "{status} {since} {outcome:?}");
    }
}

#[test]
fn a_taint_that_is_set_again_is_not_that_of_a_new_node() {
    let mut model = model(json!({}), |_| {});
    model.converge();
    model.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    let (plan, done) = ended(&model, &Outcome::Done);
    assert!(!done.results.is_empty());
    assert_eq!(ready_before_taint(&plan, Timestamp::MAX), Vec::<f64>::new());
}

#[test]
fn only_taints_that_exclude_pods_of_a_pool_that_writes_count() {
    let prefer = json!({"taints": [{"key": "os", "value": "windows", "effect": "PreferNoSchedule"}]});
    for (spec, untainted) in [(json!({}), 1), (json!({"taints": []}), 0), (prefer, 0), (json!({"mode": "Observe"}), 0)]
    {
        let (plan, _) = ended(&model(spec.clone(), |_| {}), &Outcome::Conflict);
        assert_eq!(ready_untainted(&plan), untainted, "{spec}");
    }
}

#[test]
fn every_change_that_waits_for_a_decision_counts_with_its_reason() {
    let tainted = |value: &str| {
        let taints = json!([{"key": "os", "value": value, "effect": "NoSchedule"}]);
        move |node: &mut Value| node["spec"]["taints"] = taints
    };
    let held = |model: &Model| {
        let (plan, _) = ended(model, &Outcome::Done);
        holds(&plan).into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>()
    };
    assert_eq!(held(&model(json!({}), |_| {})), []);
    // The finalizer is not written either.
    let observing = held(&model(json!({"mode": "Observe"}), |_| {}));
    assert!(matches!(observing[..], [("Observing", 1..)]), "{observing:?}");
    assert_eq!(held(&model(json!({}), tainted("linux"))), [("TaintConflict", 1)]);
    let mut left = model(json!({}), |_| {});
    left.converge();
    left.edit(NODE, "win-1", |node| node["metadata"]["labels"]["agentpool"] = json!("other"));
    assert_eq!(held(&left), [("ReleaseHeld", 1)]);
    let reasons: Vec<_> = holds(&ended(&left, &Outcome::Done).0).into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons.len(), 8, "also those without a change: {reasons:?}");
}
