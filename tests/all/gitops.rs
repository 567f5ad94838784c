//! What GitOps tools make of the status: kstatus (Flux, `kapp`, `cli-utils`), the health check for Argo CD in
//! `config/argocd`, and the expressions for Flux in docs/gitops.md.

mod argocd;
mod flux;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use winpool_api::{
    NodeConfigPhase,
    conditions::{
        CONDITIONS, ComputedCondition, ConditionStatus, ConditionType, READY, RECONCILING, Reason, Role, STALLED, VALID,
    },
    custom_resource_definitions,
};
use winpool_model::kstatus::{self, KStatus};
use winpool_rules::status::pool::Situation;

use self::argocd::ArgoCd;
use crate::status_page::assert_blocks;

/// Status and reason of a condition; `None` if the status does not have it.
type State = Option<(ConditionStatus, &'static str)>;

/// Every state that the table of conditions allows. `Ready` and `Stalled` also have the reasons of required conditions.
fn states(of: &ConditionType) -> Vec<State> {
    let every = [ConditionStatus::True, ConditionStatus::False, ConditionStatus::Unknown];
    let all_reasons: BTreeSet<_> =
        CONDITIONS.iter().flat_map(|known| known.reasons).map(|reason| reason.entry.code).collect();
    let all_reasons = all_reasons.into_iter();
    let allowed = all_reasons.flat_map(|reason| every.map(|status| (status, reason)));
    allowed.filter(|(status, reason)| of.allows(*status, reason)).map(Some).chain([None]).collect()
}

fn object(generation: i64, observed: i64, deleting: bool, conditions: [(&str, State); 3]) -> Value {
    let conditions = conditions.into_iter().filter_map(|(name, state)| {
        let (status, reason) = state?;
        Some(json!({"type": name, "status": status.name(), "reason": reason, "message": "the message"}))
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
    let mut all = Vec::new();
    for ready in states(&READY) {
        // Both have a reason of their own, or that of Ready.
        let reason = ready.map_or("AsSpecified", |(_, reason)| reason);
        let own = RECONCILING.reasons.iter().map(|reason| reason.entry.code);
        let reconciling_states = own.chain([reason]).map(|reason| Some((ConditionStatus::True, reason))).chain([None]);
        for reconciling in reconciling_states {
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
    let health = |object: &Value| ArgoCd::new().health("WindowsNodePool", object);
    assert_eq!(health(&object), ("Degraded".to_owned(), "TaintConflict: the message".to_owned()));
    let mut with_cause = object;
    with_cause["status"]["conditions"].as_array_mut().unwrap().push(
        json!({"type": "NodesTainted", "status": "False", "reason": "TaintConflict", "message": "win-1: remove the taint"}),
    );
    assert_eq!(
        health(&with_cause),
        ("Degraded".to_owned(), "TaintConflict: win-1: remove the taint".to_owned()),
        "the message of the condition that Stalled refers to"
    );
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

/// The rules of Flux and Argo CD, read once.
struct Tools {
    flux: flux::Expressions,
    argocd: ArgoCd,
}

impl Tools {
    fn new() -> Self {
        Self { flux: flux::Expressions::of_pools(), argocd: ArgoCd::new() }
    }
}

/// What kstatus, Flux and Argo CD say of a pool with one condition beside its summaries.
fn verdict(tools: &Tools, situation: Situation, condition: &ComputedCondition) -> (bool, KStatus, String) {
    let summaries = situation.summarise(&[condition]);
    let is_ready = summaries.ready.is_none();
    let ready = summaries.ready.unwrap_or_else(|| READY.because("AsSpecified", "the spec is applied"));
    let all = [Some(&ready), summaries.others.as_ref(), Some(condition)].into_iter().flatten();
    let all = all.map(
        |one| json!({"type": one.of.name, "status": one.status.name(), "reason": one.reason, "message": one.message}),
    );
    let status = json!({"observedGeneration": 1, "conditions": all.collect::<Vec<_>>()});
    let object = json!({"metadata": {"name": "web", "generation": 1}, "spec": {}, "status": status});
    let found = kstatus::compute(&object);
    assert_eq!(tools.flux.evaluate(&object), found, "{object:#}");
    (is_ready, found, tools.argocd.health("WindowsNodePool", &object).0)
}

/// The cell for one situation: whether the pool is Ready, and what the tools say.
fn cell(tools: &Tools, delivers: bool, of: &'static ConditionType, reason: &Reason) -> String {
    let situation = Situation { delivers, ..Situation::default() };
    let texts = reason.status.iter().map(|status| {
        let condition = of.because(reason.entry.code, "the message").with_status(*status);
        let (is_ready, kstatus, argocd) = verdict(tools, situation, &condition);
        let ready = if is_ready { "Ready" } else { "not Ready" };
        format!("{ready}, {kstatus:?}, {argocd}")
    });
    texts.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("; ")
}

#[test]
fn the_page_says_what_the_tools_make_of_every_reason() {
    let tools = &Tools::new();
    let of_pool = CONDITIONS.iter().copied().filter(|of| of.role != Role::Summary && **of != VALID);
    let rows = of_pool.flat_map(|of| {
        of.reasons.iter().map(move |reason| {
            let [without, with] = [false, true].map(|delivers| cell(tools, delivers, of, reason));
            let with = if with == without { String::new() } else { with };
            format!("| `{}` | `{}` | {without} | {with} |\n", of.name, reason.entry.code)
        })
    });
    let head = "| condition | reason | pool | with a delivery method, if it differs |\n|---|---|---|---|\n";
    let table = format!("{head}{}", rows.collect::<String>());
    assert_blocks("docs/gitops.md", [("reasons", table)]);
}

#[test]
fn a_pool_that_is_not_ready_is_stalled_or_reconciling_and_a_flag_changes_nothing() {
    for of in CONDITIONS.iter().copied().filter(|of| of.role != Role::Summary) {
        for (status, reason) in
            of.reasons.iter().flat_map(|row| row.status.iter().map(move |status| (*status, row.entry.code)))
        {
            let condition = of.because(reason, "the message").with_status(status);
            for delivers in [false, true] {
                let summaries = Situation { delivers, ..Situation::default() }.summarise(&[&condition]);
                let (ready, others) = (summaries.ready.is_none(), summaries.others.is_some());
                // A pool that does not write has no other reason.
                assert!(
                    ready || others || reason == "Observing",
                    "{}/{reason}: a pool that is not Ready says what happens next",
                    of.name
                );
                let is_flag = of.role == Role::Flag || (of.role == Role::Delivery && !delivers);
                assert!(!is_flag || (ready && !others), "{}/{reason}", of.name);
            }
        }
    }
}

#[test]
fn a_pool_that_does_not_write_is_current_unless_its_profile_cannot_be_used() {
    let tools = Tools::new();
    let table = [
        ("NodesTainted", "Observing", KStatus::Current),
        ("NodesTainted", "TaintConflict", KStatus::Current),
        ("ConfigInEffect", "Differs", KStatus::Current),
        ("ProfileResolved", "NotFound", KStatus::InProgress),
        ("ProfileResolved", "Invalid", KStatus::Failed),
    ];
    for (name, reason, expected) in table {
        let of = CONDITIONS.iter().copied().find(|of| of.name == name).unwrap();
        let condition = of.because(of.reason(reason).unwrap().entry.code, "the message");
        let situation = Situation { delivers: true, withheld: true, ..Situation::default() };
        assert_eq!(verdict(&tools, situation, &condition).1, expected, "{name}/{reason}");
    }
}
