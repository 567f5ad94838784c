//! What the conditions, the columns and the events report about writes that fail, by class. Which answer of the API server
//! has which outcome is tested at the writer.

use serde_json::{Value, json};
use winpool_api::WindowsNodePoolStatus;
use winpool_core::{Objects, kind::Kind};
use winpool_rules::{
    operation::{Action, Done, ErrorCause, Outcome, WriteError},
    pool::{Snapshot, plan::plan},
    status::{Report, pool::report},
};

use winpool_model::{Model, NODE, POOL, PROFILE, node, profile, web};

fn answer(code: u16, message: &str) -> WriteError {
    let cause = ErrorCause::Status { code, reason: String::new(), fields: [].into() };
    WriteError { cause, message: message.into() }
}

/// The report of the first reconcile of a pool whose RuntimeClass is written with this outcome.
fn reported(outcome: &Outcome) -> Report<WindowsNodePoolStatus> {
    let mut model = Model::new();
    model.put(NODE, "win-1", node(20348, "containerd://2.3.7", &json!({"agentpool": "web"}), &json!([])));
    model.put(POOL, "web", web(json!({})));
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

/// A snapshot of a converged pool and a new node, in which objects of a kind cannot be listed.
fn without(kind: Kind, spec: Value) -> (Model, Snapshot) {
    let web_node = || node(20348, "containerd://2.3.7", &json!({"agentpool": "web"}), &json!([]));
    let mut model = Model::new();
    model.put(NODE, "win-1", web_node());
    model.put(PROFILE, "standard", profile(json!({})));
    model.put(POOL, "web", web(spec));
    model.converge();
    model.put(NODE, "win-2", web_node());
    let mut snapshot = Snapshot { refused: [kind].into(), ..model.snapshot() };
    match kind.name {
        "Node" => snapshot.nodes = Objects::default(),
        "WindowsRuntimeProfile" => snapshot.profiles = Objects::default(),
        "RuntimeClass" => snapshot.runtime_classes = Objects::default(),
        _ => snapshot.config_maps = Objects::default(),
    }
    (model, snapshot)
}

#[test]
fn a_kind_that_cannot_be_listed_costs_what_needs_it_and_nothing_else() {
    let table = [
        (Kind::NODE, "NodesAssigned", "refuses to list nodes", vec![]),
        (Kind::PROFILE, "ProfileResolved", "refuses to list windowsruntimeprofiles", vec!["win-2"]),
        (Kind::RUNTIME_CLASS, "RuntimeClassReady", "refuses to list runtimeclasses", vec!["win-2"]),
        (Kind::CONFIG_MAP, "ConfigRendered", "refuses to list configmaps", vec!["win-2"]),
    ];
    for (kind, condition, message, written) in table {
        let (_, snapshot) = without(kind, json!({"profileRef": {"name": "standard"}}));
        let plan = plan(&snapshot, "web").unwrap();
        let writes = || plan.steps.iter().flatten();
        let nodes: Vec<_> =
            writes().filter(|write| write.node_edit().is_some()).map(|write| &write.object.name).collect();
        assert_eq!(nodes, written, "{kind}");
        let tainted = writes().filter_map(|write| write.node_edit()).all(|edit| edit.taints.is_some());
        assert!(tainted, "{kind}: nodes get their taints and keep their configuration");
        assert!(writes().all(|write| write.object.kind != kind || kind == Kind::NODE), "{kind} is not written");
        let results = writes().map(|write| (write.clone(), Outcome::Done)).collect();
        let done = Done { results, complete: true };
        let status = report(&snapshot, &plan.clone().with_outcomes(&done), &done).status;
        for name in [condition, "Ready", "Stalled"] {
            let found = status.conditions.iter().find(|found| found.type_ == name).unwrap();
            let expected = if name == "Stalled" { "True" } else { "False" };
            assert_eq!((found.status.as_str(), found.reason.as_str()), (expected, "ListRefused"), "{kind}: {name}");
            let parts = if name == condition { [message, "config/default"] } else { ["see the message of", condition] };
            assert!(parts.iter().all(|part| found.message.contains(part)), "{}", found.message);
        }
    }
}

#[test]
fn a_pool_that_does_not_need_a_kind_is_ready_without_it_and_a_cleanup_waits_for_it() {
    for kind in [Kind::PROFILE, Kind::CONFIG_MAP] {
        let (mut model, snapshot) = without(kind, json!({"deletionPolicy": "Cleanup"}));
        let planned = plan(&snapshot, "web").unwrap();
        let status = report(&snapshot, &planned, &Done { complete: true, ..Done::default() }).status;
        let reasons: Vec<_> = status.conditions.iter().map(|condition| &condition.reason).collect();
        assert!(!reasons.contains(&&"ListRefused".to_owned()), "{kind}: {reasons:?}");
        model.delete(POOL, "web");
        let deleted = Snapshot { refused: snapshot.refused, ..model.snapshot() };
        let cleanup = plan(&deleted, "web").unwrap();
        assert!(cleanup.steps.iter().flatten().all(|write| write.action != Action::RemoveFinalizer), "{kind}");
        let status = report(&deleted, &cleanup, &Done { complete: true, ..Done::default() }).status;
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert!(ready.message.contains(&format!("refuses to list {}", kind.plural)), "{}", ready.message);
    }
}

#[test]
fn a_write_that_is_refused_stalls_the_pool_and_one_that_may_succeed_later_does_not() {
    let refused = |code, message| Outcome::Refused(answer(code, message));
    let failed = |code, message| Outcome::Failed(answer(code, message));
    let stalled = ["Ready False WriteFailed", "Stalled True WriteFailed", "Reconciling absent"];
    let retried = ["Ready False WriteFailed", "Stalled absent", "Reconciling True Progressing"];
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
            let found = report.status.conditions.iter().find(|found| found.type_ == name);
            found.map_or_else(|| format!("{name} absent"), |found| format!("{name} {} {}", found.status, found.reason))
        };
        assert_eq!(["Ready", "Stalled", "Reconciling"].map(condition), expected, "{class}");
        assert_eq!(report.status.columns.problem, "Runtime/WriteFailed(1)", "{class}");
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
