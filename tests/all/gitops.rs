//! What GitOps tools make of the status: kstatus (Flux, `kapp`, `cli-utils`), the health check for Argo CD in
//! `config/argocd`, and the expressions for Flux in docs/gitops.md.

mod argocd;
mod flux;
pub mod kstatus;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use winpool_api::{
    NodeConfigPhase,
    conditions::{CONDITIONS, ConditionStatus, ConditionType, READY, RECONCILING, Role, STALLED, of_role},
    custom_resource_definitions,
};

use self::{argocd::ArgoCd, kstatus::KStatus};

/// Status and reason of a condition; `None` if the status does not have it.
type State = Option<(ConditionStatus, &'static str)>;

/// Every state that the table of conditions allows. `Ready` and `Stalled` also have the reasons of required conditions.
fn states(of: &ConditionType) -> Vec<State> {
    let every = [ConditionStatus::True, ConditionStatus::False, ConditionStatus::Unknown];
    let all_reasons: BTreeSet<_> =
        CONDITIONS.iter().flat_map(|known| known.reasons).map(|reason| reason.name).collect();
    let all_reasons = all_reasons.into_iter();
    let allowed = all_reasons.flat_map(|reason| every.map(|status| (status, reason)));
    allowed.filter(|(status, reason)| of.allows(*status, reason)).map(Some).chain([None]).collect()
}

fn object(generation: i64, observed: i64, deleting: bool, conditions: [(&str, State); 3]) -> Value {
    let conditions = conditions.into_iter().filter_map(|(name, state)| {
        let (status, reason) = state?;
        Some(json!({"type": name, "status": status.as_str(), "reason": reason, "message": "the message"}))
    });
    let mut metadata = json!({"name": "web", "generation": generation});
    if deleting {
        metadata["deletionTimestamp"] = json!("2026-06-01T12:00:00Z");
    }
    let status = json!({"observedGeneration": observed, "conditions": conditions.collect::<Vec<_>>()});
    json!({"metadata": metadata, "spec": {}, "status": status})
}

/// Every combination of the conditions that kstatus reads, each with an earlier, the present and no generation, and with
/// and without a deletion.
fn combinations() -> Vec<Value> {
    // Reconciling never has a reason of the required conditions.
    let own = RECONCILING.reasons.iter();
    let own = own.flat_map(|reason| reason.status.iter().map(|status| Some((*status, reason.name))));
    let reconciling_states: Vec<State> = own.chain([None]).collect();
    let mut all = Vec::new();
    for ready in states(&READY) {
        for reconciling in reconciling_states.iter().copied() {
            // Stalled is False, or True with the reason of Ready.
            let reason = ready.map_or("AsSpecified", |(_, reason)| reason);
            for stalled in [None, Some((ConditionStatus::False, "AsSpecified")), Some((ConditionStatus::True, reason))]
            {
                for (observed, deleting) in [(-1, false), (6, false), (7, false), (7, true)] {
                    let conditions = [(READY.name, ready), (RECONCILING.name, reconciling), (STALLED.name, stalled)];
                    all.push(object(7, observed, deleting, conditions));
                }
            }
        }
    }
    all
}

#[test]
fn argo_cd_and_flux_agree_with_kstatus_for_every_combination_of_conditions() {
    let (argocd, flux) = (ArgoCd::new(), flux::Expressions::of_pools());
    let combinations = combinations();
    assert!((2_000..50_000).contains(&combinations.len()), "{}", combinations.len());
    let mut seen = BTreeSet::new();
    for object in &combinations {
        let has_ready = object["status"]["conditions"].as_array().unwrap().iter().any(|one| one["type"] == "Ready");
        let expected = match kstatus::compute(object) {
            // An object without conditions is current for kstatus. The operator writes Ready with the first status.
            KStatus::Current if !has_ready => KStatus::InProgress,
            status => status,
        };
        let health = match expected {
            KStatus::Current => "Healthy",
            KStatus::Failed => "Degraded",
            KStatus::InProgress | KStatus::Terminating => "Progressing",
        };
        for kind in ["WindowsNodePool", "WindowsRuntimeProfile"] {
            assert_eq!(argocd.health(kind, object).0, health, "{kind}: {object:#}");
        }
        if expected != KStatus::Terminating {
            assert_eq!(flux.evaluate(object), expected, "{object:#}");
        }
        seen.insert(expected);
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn an_object_that_no_operator_has_seen_is_in_progress() {
    for (file, crd) in custom_resource_definitions() {
        let status = &json!(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        if status["properties"].get("observedGeneration").is_none() {
            continue;
        }
        let object = json!({"metadata": {"generation": 1}, "spec": {}, "status": status["default"]});
        assert_eq!(kstatus::compute(&object), KStatus::InProgress, "{file}");
        assert_eq!(ArgoCd::new().health("WindowsNodePool", &object).0, "Progressing", "{file}");
    }
}

#[test]
fn argo_cd_shows_reason_and_message_of_a_problem() {
    let stalled = Some((ConditionStatus::True, "TaintConflict"));
    let ready = Some((ConditionStatus::False, "TaintConflict"));
    let object = object(1, 1, false, [("Ready", ready), ("Reconciling", None), ("Stalled", stalled)]);
    let expected = ("Degraded".to_owned(), "TaintConflict: the message".to_owned());
    assert_eq!(ArgoCd::new().health("WindowsNodePool", &object), expected);
}

#[test]
fn argo_cd_shows_the_phase_of_a_node_config() {
    let argocd = ArgoCd::new();
    let object = |phase: &str, digest: &str, attempt: u32| {
        let status =
            json!({"phase": phase, "observedDigest": digest, "observedAttempt": attempt, "reason": "NotHealthy"});
        json!({"metadata": {"name": "web-1"}, "spec": {"config": "web-1a", "digest": "d", "attempt": 2}, "status": status})
    };
    for phase in NodeConfigPhase::ALL {
        let expected = match phase {
            NodeConfigPhase::Applied => "Healthy",
            NodeConfigPhase::RolledBack | NodeConfigPhase::Refused => "Degraded",
            _ => "Progressing",
        };
        let health = |digest, attempt| argocd.health("WindowsNodeConfig", &object(phase.name(), digest, attempt)).0;
        assert_eq!(health("d", 2), expected, "{phase:?}");
        assert_eq!(health("other", 2), "Progressing", "{phase:?} of an earlier configuration");
        assert_eq!(health("d", 1), "Progressing", "{phase:?} of an earlier attempt");
    }
    let mut unseen = object("Pending", "", 0);
    unseen.as_object_mut().unwrap().remove("status");
    assert_eq!(argocd.health("WindowsNodeConfig", &unseen).0, "Progressing");
}

#[test]
fn observing_and_paused_are_current_and_every_required_problem_is_failed_or_in_progress() {
    let at = |status: ConditionStatus, reason: &'static str, stalled: ConditionStatus| {
        let conditions =
            [("Ready", Some((status, reason))), ("Reconciling", None), ("Stalled", Some((stalled, reason)))];
        kstatus::compute(&object(1, 1, false, conditions))
    };
    for reason in ["AsSpecified", "Observing", "Paused"] {
        assert_eq!(at(ConditionStatus::True, reason, ConditionStatus::False), KStatus::Current, "{reason}");
    }
    for reason in of_role(Role::Required).flat_map(|of| of.reasons).map(|reason| reason.name) {
        assert_eq!(at(ConditionStatus::False, reason, ConditionStatus::True), KStatus::Failed, "{reason}");
        assert_eq!(at(ConditionStatus::False, reason, ConditionStatus::False), KStatus::InProgress, "{reason}");
    }
}
