//! The part of a pool's status about its workloads.

use std::collections::BTreeMap;

use winpool_api::{
    RuntimeClassUse, WorkloadCounts,
    conditions::{ComputedCondition, WORKLOADS_PLACED},
    names::reason,
};
use winpool_core::text::{counted, some_of};
use winpool_workload::{AffectedWorkloads, IssueKind, StorageState, WorkloadIssue, Workloads};

use super::input::ReportInput;

/// The maximum number of workloads of each kind in a message.
const NAMED: usize = 5;

/// The counts; `None` without pods, or when workloads are not checked.
pub fn counts(input: &ReportInput) -> Option<WorkloadCounts> {
    match input.snapshot.workloads {
        Workloads::Off => return None,
        Workloads::Waiting => return input.pool.status.workloads.clone(),
        Workloads::Known(_) => {}
    }
    let workloads = input.workloads().filter(|workloads| workloads.pods > 0)?;
    let mut classes: Vec<RuntimeClassUse> =
        workloads.classes.iter().map(|(name, pods)| RuntimeClassUse { name: name.clone(), pods: *pods }).collect();
    // Also listed with 0 pods, because a class without pods can be removed.
    for class in &input.spec.runtime_classes {
        if !workloads.classes.contains_key(&class.name) {
            classes.push(RuntimeClassUse { name: class.name.clone(), pods: 0 });
        }
    }
    if classes.iter().all(|class| class.pods == workloads.pods) {
        classes.clear();
    }
    classes.sort_by(|a, b| b.pods.cmp(&a.pods).then_with(|| a.name.cmp(&b.name)));
    Some(WorkloadCounts {
        pods: workloads.pods,
        cannot_run: workloads.cannot_run,
        suspected: workloads.suspected,
        unknown: workloads.unknown,
        updates_behind: workloads.updates_behind,
        runtime_classes: classes,
    })
}

/// `WorkloadsPlaced`; `None` if workloads are not checked, or every pod is where it should be.
pub fn workloads_placed(input: &ReportInput) -> Option<ComputedCondition> {
    match input.snapshot.workloads {
        Workloads::Off => None,
        Workloads::Waiting => {
            let message = "the pods are not read yet. If this persists, apply config/default/workloads.yaml";
            Some(WORKLOADS_PLACED.because(reason::NOT_CHECKED, message))
        }
        Workloads::Known(_) => {
            let found = problems(input);
            let is_problem = found.as_ref().is_some_and(|found| found.reason != reason::PLACED_WITH_WARNINGS);
            match input.snapshot.storage {
                StorageState::Waiting if !is_problem => {
                    let message = "the volumes of pods are not read yet. If this persists, apply config/storage";
                    Some(WORKLOADS_PLACED.because(reason::NOT_CHECKED, message))
                }
                _ => found,
            }
        }
    }
}

fn problems(input: &ReportInput) -> Option<ComputedCondition> {
    let issues = input.workloads().into_iter().flat_map(|workloads| &workloads.issues);
    let issues: Vec<_> = issues.filter(|(kind, _)| !kind.is_os_mismatch()).collect();
    let (worst, affected) = issues.first()?;
    // The first is the reason of the condition.
    let others = issues.iter().skip(1).map(|(kind, affected)| format!("{}: {}", kind.name(), messages(affected)));
    let message = std::iter::once(messages(affected)).chain(others).collect::<Vec<_>>().join(". ");
    let reason = if worst.is_advice() { reason::PLACED_WITH_WARNINGS } else { worst.name() };
    Some(WORKLOADS_PLACED.because(reason, message).about(affected.count))
}

/// The problems of images that concern `OSMismatch`, each with its message and the number of workloads.
pub fn image_mismatches(input: &ReportInput) -> Vec<(IssueKind, String, usize)> {
    let issues = input.workloads().into_iter().flat_map(|workloads| &workloads.issues);
    let of_images = issues.filter(|(kind, _)| kind.is_os_mismatch());
    of_images.map(|(kind, affected)| (*kind, messages(affected), affected.count)).collect()
}

/// The first five workloads with their issues. Workloads with an equal issue are grouped.
fn messages(affected: &AffectedWorkloads) -> String {
    let mut by_issue: BTreeMap<&WorkloadIssue, Vec<String>> = BTreeMap::new();
    for (workload, issue) in affected.first.iter().take(NAMED) {
        by_issue.entry(issue).or_default().push(workload.to_string());
    }
    let named = by_issue.into_iter().map(|(issue, workloads)| format!("{}: {issue}", some_of(workloads)));
    let named = named.collect::<Vec<_>>().join(". ");
    match affected.count.saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}. {} more", counted(more, "workload")),
    }
}
