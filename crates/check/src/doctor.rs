//! `winpool doctor`: which known symptoms a pool, a node or a pod has, by what was read of the cluster.
//!
//! A symptom is found with what shows it, excluded if everything that could show it was read, or else not determinable.

mod case;
mod checks;
mod evidence;
mod reduction;
mod symptoms;

use std::collections::BTreeSet;

use case::{Case, Checked, contains_one};
use k8s_openapi::api::core::v1::NodeCondition;
use serde::Serialize;
use symptoms::Detection;
use winpool_api::names::annotation;
use winpool_core::{
    kubernetes::{shell_quoted, whole_second},
    text::counted,
};
use winpool_facts::catalogue::Entry;

pub use case::{Observation, Undetermined};
pub use checks::{registry_image, waiting_images};
pub use evidence::{
    DiagnosisSubject, Evidence, EvidenceLayer, EvidencePart, ImageContent, LogContent, NodeLog, RegistryImage,
    Unavailable,
};
pub use reduction::reduced;
pub use symptoms::{SYMPTOMS, Symptom};

/// How many observations of a symptom are reported.
const MAX_OBSERVATIONS: usize = 5;

/// The symptoms of a pool, a node or a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    pub subject: String,
    pub found: Vec<FoundSymptom>,
    /// The ids of the symptoms that it does not have.
    pub excluded: Vec<&'static str>,
    pub not_determinable: Vec<UndeterminedSymptom>,
    /// The command that requests from the agent of a node what only the node shows; `None` if no agent is left without a request.
    pub request: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundSymptom {
    pub id: &'static str,
    pub title: &'static str,
    /// What shows it: the first texts.
    pub evidence: Vec<Observation>,
    /// How many more texts show it.
    pub more: usize,
    pub cause: &'static str,
    pub remedy: &'static str,
    pub source: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UndeterminedSymptom {
    pub id: &'static str,
    pub title: &'static str,
    pub because: Undetermined,
}

impl Diagnosis {
    /// The diagnosis from what was read.
    pub fn of(evidence: &Evidence) -> Self {
        let case = Case::new(evidence);
        let (found, excluded, not_determinable) = (Vec::new(), Vec::new(), Vec::new());
        let request = request(&case);
        let mut diagnosis = Self { subject: evidence.subject.to_string(), found, excluded, not_determinable, request };
        for symptom in SYMPTOMS {
            match verdict(symptom, &case) {
                Ok(observed) if observed.is_empty() => diagnosis.excluded.push(symptom.entry.code),
                Ok(observed) => diagnosis.found.push(FoundSymptom::new(symptom, observed)),
                Err(because) => {
                    let Entry { code: id, title, .. } = symptom.entry;
                    diagnosis.not_determinable.push(UndeterminedSymptom { id, title, because });
                }
            }
        }
        diagnosis
    }

    /// How many symptoms were found; `None` without one.
    pub fn summary(&self) -> Option<String> {
        let found = self.found.len();
        (found > 0).then(|| format!("{} of {}", counted(found, "symptom"), self.subject))
    }
}

impl FoundSymptom {
    fn new(symptom: &Symptom, observed: BTreeSet<Observation>) -> Self {
        let Entry { code: id, title, why: cause, remedy, source } = symptom.entry;
        let more = observed.len().saturating_sub(MAX_OBSERVATIONS);
        let evidence = observed.into_iter().take(MAX_OBSERVATIONS).collect();
        Self { id, title, evidence, more, cause, remedy, source }
    }
}

/// The command for an agent without a request, of a node that is not ready first.
fn request(case: &Case<'_>) -> Option<String> {
    let conditions = case.conditions().unwrap_or_default().into_iter();
    let ready = conditions.filter(|(_, condition)| condition.type_ == "Ready" && condition.status == "True");
    let ready: BTreeSet<_> = ready.map(|(node, _)| case::name(&node.metadata)).collect();
    let configs = case.node_configs().ok()?.values().filter(|config| config.diagnosis_request().is_none());
    let configs = configs.filter_map(|config| Some((config, config.pool()?)));
    let (config, pool) = configs.min_by_key(|(config, _)| (ready.contains(&*config.name), &config.name))?;
    let annotation = format!("{}={}@{}", annotation::DIAGNOSE, config.name, whole_second(case.now()));
    Some(format!("kubectl annotate wnp {pool} {} --overwrite", shell_quoted(&annotation)))
}

/// What shows a symptom. Without an observation, every part that could have one must be complete.
fn verdict(symptom: &Symptom, case: &Case<'_>) -> Result<BTreeSet<Observation>, Undetermined> {
    let observed: BTreeSet<_> = detect(&symptom.detection, case)?.into_iter().collect();
    let missing = symptom.parts().iter().find_map(|part| case.evidence.missing(*part));
    match missing.filter(|_| observed.is_empty()) {
        Some(missing) => Err(missing.into()),
        None => Ok(observed),
    }
}

fn detect(detection: &Detection, case: &Case<'_>) -> Checked {
    match *detection {
        Detection::Events { about, reasons, texts } => {
            case.events_with(about, reasons, |message| contains_one(message, texts))
        }
        Detection::OtherEvents { about, reason } => {
            case.events_with(about, &[reason], |message| !is_in_a_row(reason, message))
        }
        Detection::Condition { of, statuses, texts } => {
            let is_shown = |found: &NodeCondition| {
                found.type_ == of
                    && statuses.contains(&&*found.status)
                    && contains_one(found.message.as_deref().unwrap_or_default(), texts)
            };
            let shown = case.conditions()?.into_iter().filter(|(_, found)| is_shown(found));
            Ok(shown.map(|(node, condition)| Observation::of_condition(node, condition)).collect())
        }
        Detection::Check { check, .. } => check(case),
        Detection::Agent { check, command, .. } => checks::answered(case, check, command),
        Detection::Log { services, texts, command } => checks::logged(case, services, texts, command),
        Detection::OnNode { command } => Err(Undetermined::OnNode(command)),
    }
}

/// Whether a row has a text of an event with this reason.
fn is_in_a_row(reason: &str, message: &str) -> bool {
    SYMPTOMS.iter().any(|symptom| match symptom.detection {
        Detection::Events { reasons, texts, .. } => reasons.contains(&reason) && contains_one(message, texts),
        _ => false,
    })
}
