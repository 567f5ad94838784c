//! What the pool's workloads add to its status.

use std::collections::BTreeMap;

use super::Case;
use crate::{
    api::{
        RuntimeClassUse, WorkloadCounts,
        names::{condition, reason},
    },
    domain::{
        conditions::{Truth, Verdict, some_of, some_stories},
        workload::{PoolWorkloads, Trap, Trapped, Workloads},
    },
};

/// How many workloads a message names of each trap.
const NAMED: usize = 5;

/// The counts; `None` when workloads are not looked at.
pub fn counts(case: &Case) -> Option<WorkloadCounts> {
    match case.snapshot.workloads {
        Workloads::Off => return None,
        Workloads::Waiting => return case.pool.status.workloads.clone(),
        Workloads::Known(_) => {}
    }
    let nothing = PoolWorkloads::default();
    let workloads = case.workloads().unwrap_or(&nothing);
    let mut classes: Vec<RuntimeClassUse> =
        workloads.classes.iter().map(|(name, pods)| RuntimeClassUse { name: name.clone(), pods: *pods }).collect();
    // A class of the pool that nobody uses is free to go, and is told as such.
    for class in &case.spec.runtime_classes {
        if !workloads.classes.contains_key(&class.name) {
            classes.push(RuntimeClassUse { name: class.name.clone(), pods: 0 });
        }
    }
    classes.sort_by(|a, b| b.pods.cmp(&a.pods).then_with(|| a.name.cmp(&b.name)));
    Some(WorkloadCounts {
        pods: workloads.pods,
        cannot_run: workloads.cannot_run,
        suspected: workloads.suspected,
        unknown: workloads.unknown,
        runtime_classes: classes,
    })
}

/// `WorkloadsPlaced`.
pub fn workloads_placed(case: &Case) -> Verdict {
    let verdict =
        |status: Truth, reason, message: String| Verdict::new(condition::WORKLOADS_PLACED, status, reason, message);
    let unknown = |message: &str| verdict(Truth::Unknown, reason::NOT_LOOKED_AT, message.to_owned());
    match case.snapshot.workloads {
        Workloads::Off => return unknown("workloads are not looked at (--workloads=off)"),
        Workloads::Waiting => {
            return unknown("the pods are not known yet: if that stays so, apply config/rbac/workloads.yaml");
        }
        Workloads::Known(_) => {}
    }
    let traps: Vec<(Trap, &Trapped)> = case
        .workloads()
        .into_iter()
        .flat_map(|workloads| &workloads.traps)
        .filter(|(trap, _)| **trap != Trap::ImagesCannotRun)
        .map(|(trap, trapped)| (*trap, trapped))
        .collect();
    let Some((worst, trapped)) = traps.first() else {
        let message = "every pod is where it should be, and would come back there";
        return verdict(Truth::True, reason::PLACED, message.to_owned());
    };
    // The first is the reason of the condition.
    let others = traps.iter().skip(1).map(|(trap, trapped)| format!("{}: {}", trap.reason(), stories(trapped)));
    let message = std::iter::once(stories(trapped)).chain(others).collect::<Vec<_>>().join(". ");
    if worst.is_advice() {
        return verdict(Truth::True, reason::PLACED_WITH_WARNINGS, message).about(trapped.count);
    }
    verdict(Truth::False, worst.reason(), message).about(trapped.count)
}

/// The images that cannot run, as a story; with how many workloads it is about.
pub fn images_that_cannot_run(case: &Case) -> Option<(String, usize)> {
    let trapped = case.workloads()?.traps.get(&Trap::ImagesCannotRun)?;
    Some((stories(trapped), trapped.count))
}

/// The first five workloads with their stories, those with the same story together.
fn stories(trapped: &Trapped) -> String {
    let mut by_story: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (workload, story) in trapped.first.iter().take(NAMED) {
        by_story.entry(story).or_default().push(workload.to_string());
    }
    let told = some_stories(by_story.into_iter().map(|(story, workloads)| format!("{}: {story}", some_of(workloads))));
    match trapped.count.saturating_sub(NAMED) {
        0 => told,
        1 => format!("{told}; and 1 workload more"),
        more => format!("{told}; and {more} workloads more"),
    }
}
