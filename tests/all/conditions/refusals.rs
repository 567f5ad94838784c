//! What the conditions, the columns and the events report about writes that fail, by class. Which answer of the API server
//! has which outcome is tested at the writer.

use serde_json::json;
use winpool_core::{
    kind::Kind,
    operation::{Done, ErrorCause, Outcome, WriteError},
    pool::plan::plan,
    status::pool::{Report, report},
};

use crate::model::{Model, NODE, POOL, node, pool};

fn answer(code: u16, message: &str) -> WriteError {
    let cause = ErrorCause::Status { code, reason: String::new(), fields: [].into() };
    WriteError { cause, message: message.into() }
}

/// The report of the first reconcile of a pool whose RuntimeClass is written with this outcome.
fn reported(outcome: &Outcome) -> Report {
    let mut model = Model::new();
    model.put(NODE, "win-1", node(20348, "containerd://2.3.4", &json!({"agentpool": "web"}), &json!([])));
    let spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}});
    model.put(POOL, "web", pool(spec));
    let snapshot = model.snapshot();
    let plan = plan(&snapshot, "web").unwrap();
    let writes = plan.steps.iter().flatten().cloned();
    let results = writes.map(|write| {
        let outcome = if write.object.kind == Kind::RUNTIME_CLASS { outcome.clone() } else { Outcome::Done };
        (write, outcome)
    });
    let done = Done { results: results.collect(), complete: outcome.succeeded() };
    report(&snapshot, &plan.with_outcomes(&done), &done)
}

#[test]
fn a_write_that_is_refused_stalls_the_pool_and_one_that_may_succeed_later_does_not() {
    let refused = |code, message| Outcome::Refused(answer(code, message));
    let failed = |code, message| Outcome::Failed(answer(code, message));
    let stalled = ["Ready False WriteFailed", "Stalled True WriteFailed", "Reconciling False WriteFailed"];
    let retried = ["Ready False WriteFailed", "Stalled False AsSpecified", "Reconciling True Progressing"];
    let table = [
        ("quota", refused(403, "exceeded quota: none"), stalled),
        ("admission policy", refused(422, "ValidatingAdmissionPolicy 'p' denied request"), stalled),
        ("webhook", refused(403, "admission webhook \"w\" denied the request"), stalled),
        ("RBAC", refused(403, "cannot create resource \"runtimeclasses\""), stalled),
        ("invalid", refused(422, "handler: Invalid value"), stalled),
        ("timeout", Outcome::Failed("the API server did not answer within 10s".into()), retried),
        ("unavailable", failed(503, "no endpoints available"), retried),
        ("webhook that cannot be called", failed(500, "failed calling webhook \"w\""), retried),
    ];
    for (class, outcome, expected) in table {
        let report = reported(&outcome);
        let condition = |name: &str| {
            let found = report.status.conditions.iter().find(|found| found.type_ == name).unwrap();
            format!("{name} {} {}", found.status, found.reason)
        };
        assert_eq!(["Ready", "Stalled", "Reconciling"].map(condition), expected, "{class}");
        assert_eq!(report.status.columns.problem, "WriteFailed(1)", "{class}");
        let warnings: Vec<_> = report.events.iter().filter(|event| event.warning).map(|event| &event.reason).collect();
        assert_eq!(warnings, ["WriteFailed"], "{class}");
    }
}

#[test]
fn a_conflict_is_not_reported() {
    let report = reported(&Outcome::Conflict);
    assert_eq!(report.write, None);
    assert!(report.events.iter().all(|event| !event.warning), "{:?}", report.events);
}
