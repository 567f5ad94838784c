//! `winpool doctor`: which known symptoms a pool, a node or a pod has, by what was read of the cluster.
//!
//! A symptom is found with what shows it, excluded if everything that could show it was read, or else not determinable. An error that
//! no symptom explains is reported as it is.

mod case;
mod checks;
mod errors;
mod evidence;
mod reduction;
mod subject;
mod symptoms;
mod unexplained;

use std::collections::BTreeSet;

use case::{Case, Checked, contains_one, name, node_of};
use k8s_openapi::api::core::v1::{NodeCondition, Pod};
use serde::Serialize;
use symptoms::{Detection, Rank};
use winpool_api::names::annotation;
use winpool_core::{
    kubernetes::{shell_quoted, whole_second},
    object_key,
    text::counted,
};
use winpool_facts::catalogue::Entry;

pub use case::{Observation, Undetermined};
pub use checks::{access_reviews, has_gmsa_webhook, registry_image, waiting_images};
pub use evidence::{
    DiagnosisSubject, Evidence, EvidenceLayer, EvidencePart, ImageContent, LogContent, NodeLog, RegistryImage,
    Unavailable,
};
pub use reduction::reduced;
pub use symptoms::{SYMPTOMS, Symptom, explaining};
pub use unexplained::UnexplainedError;

/// How many observations of a symptom are reported.
const MAX_OBSERVATIONS: usize = 5;

/// The symptoms of a pool, a node or a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    pub subject: String,
    /// The causes first.
    pub found: Vec<FoundSymptom>,
    /// The errors that no symptom explains, the newest first, and how many more there are.
    pub unexplained: Vec<UnexplainedError>,
    pub more_unexplained: usize,
    /// What was found, and need not have to do with a failure.
    pub also: Vec<FoundSymptom>,
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
    /// What to do, with the names of the first pod and node.
    pub remedy: String,
    pub source: &'static str,
    /// All that shows it.
    #[serde(skip)]
    all: Vec<Observation>,
    #[serde(skip)]
    rank: Rank,
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
        let (mut found, mut excluded, mut not_determinable) = (Vec::new(), Vec::new(), Vec::new());
        for symptom in SYMPTOMS {
            match verdict(symptom, &case) {
                Ok(observed) if observed.is_empty() => excluded.push(symptom.entry.code),
                Ok(observed) => found.push(FoundSymptom::new(symptom, &case, observed)),
                Err(because) => {
                    let Entry { code: id, title, .. } = symptom.entry;
                    not_determinable.push(UndeterminedSymptom { id, title, because });
                }
            }
        }
        found.sort_by_key(|symptom| symptom.rank);
        let (unexplained, more_unexplained) = unexplained::unexplained(&case, &found);
        let (also, found) = found.into_iter().partition(|symptom: &FoundSymptom| symptom.rank == Rank::Also);
        let subject = evidence.subject.to_string();
        let request = request(&case);
        Self { subject, found, unexplained, more_unexplained, also, excluded, not_determinable, request }
    }

    /// How many symptoms and other errors were found; `None` without one.
    pub fn summary(&self) -> Option<String> {
        let symptoms = self.found.len();
        let errors = self.unexplained.len() + self.more_unexplained;
        let other = || format!("{} that no symptom explains", counted(errors, "error"));
        let parts: Vec<String> =
            [(symptoms > 0).then(|| counted(symptoms, "symptom").to_string()), (errors > 0).then(other)]
                .into_iter()
                .flatten()
                .collect();
        (!parts.is_empty()).then(|| format!("{} of {}", parts.join(" and "), self.subject))
    }
}

impl FoundSymptom {
    fn new(symptom: &Symptom, case: &Case<'_>, observed: BTreeSet<Observation>) -> Self {
        let Entry { code: id, title, why: cause, remedy, source } = symptom.entry;
        let more = observed.len().saturating_sub(MAX_OBSERVATIONS);
        let all: Vec<_> = observed.into_iter().collect();
        let evidence = all.iter().take(MAX_OBSERVATIONS).cloned().collect();
        let remedy = all.first().map_or_else(|| remedy.to_owned(), |first| remedy_for(remedy, case, first));
        Self { id, title, evidence, more, cause, remedy, source, all, rank: symptom.rank }
    }
}

/// A remedy with the names of the object that shows a symptom, as far as it has them.
fn remedy_for(remedy: &str, case: &Case<'_>, shown: &Observation) -> String {
    let pods = case.pods().unwrap_or_default();
    let key = shown.object.strip_prefix("Pod ");
    let pod = key.and_then(|key| pods.into_iter().find(|pod| object_key(&pod.metadata) == key));
    let node = shown.object.strip_prefix("Node ").or_else(|| pod.map(node_of)).unwrap_or_default();
    // Several nodes have no name for a command.
    with_names(remedy, pod, if node.contains(", ") { "" } else { node })
}

/// A text whose commands have the names of a pod and a node instead of NAMESPACE, POD and NODE, as far as there are any.
fn with_names(text: &str, pod: Option<&Pod>, node: &str) -> String {
    let mut text = text.to_owned();
    if let Some(Pod { metadata, .. }) = pod {
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        text = text.replace("NAMESPACE", namespace).replace("POD", name(metadata));
    }
    if node.is_empty() {
        return text;
    }
    // NODE-PORT is the port of a Service.
    text.split("NODE-").map(|part| part.replace("NODE", node)).collect::<Vec<_>>().join("NODE-")
}

/// The command for an agent without a request, of a node that is not ready first.
fn request(case: &Case<'_>) -> Option<String> {
    let conditions = case.conditions().unwrap_or_default().into_iter();
    let ready = conditions.filter(|(_, condition)| condition.type_ == "Ready" && condition.status == "True");
    let ready: BTreeSet<_> = ready.map(|(node, _)| name(&node.metadata)).collect();
    let configs = case.node_configs().ok()?.values().filter(|config| config.diagnosis_request().is_none());
    let configs = configs.filter_map(|config| Some((config, config.pool()?)));
    let (config, pool) = configs.min_by_key(|(config, _)| (ready.contains(&*config.name), &config.name))?;
    let annotation = format!("{}={}@{}", annotation::DIAGNOSE, config.name, whole_second(case.now()));
    Some(format!("kubectl annotate wnp {pool} {} --overwrite", shell_quoted(&annotation)))
}

/// What shows a symptom. Without an observation, every part that could have one must be complete.
fn verdict(symptom: &Symptom, case: &Case<'_>) -> Result<BTreeSet<Observation>, Undetermined> {
    let observed: BTreeSet<_> = detect(symptom, case)?.into_iter().collect();
    let missing = symptom.parts().iter().find_map(|part| case.evidence.missing(*part));
    match missing.filter(|_| observed.is_empty()) {
        Some(missing) => Err(missing.into()),
        None => Ok(observed),
    }
}

fn detect(symptom: &Symptom, case: &Case<'_>) -> Checked {
    let code = symptom.entry.code;
    match symptom.detection {
        Detection::Errors { .. } => {
            let errors = case.errors()?.iter();
            let explained = errors.filter(|error| error.row.is_some_and(|row| row.entry.code == code));
            Ok(explained.map(|error| error.shown.clone()).collect())
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
        Detection::Log { services, command, .. } => checks::logged(case, code, services, command),
        Detection::OnNode { command } => Err(Undetermined::OnNode(command)),
    }
}
