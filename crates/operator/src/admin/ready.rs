//! Readiness: required kinds are synced, and no task keeps failing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use tokio::sync::watch;

/// The kinds that are watched, and the tasks that keep failing. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<watch::Sender<State>>);

#[derive(Debug, Default)]
struct State {
    kinds: BTreeMap<&'static str, (Requirement, ListState)>,
    failing: BTreeSet<&'static str>,
}

/// Whether the operator works without a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requirement {
    Required,
    Optional,
}

/// The state of the first list of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListState {
    Pending,
    /// The API server refuses the list, or does not serve the kind.
    Refused,
    Synced,
}

/// Reports the state of one kind.
#[derive(Clone, Debug)]
pub struct KindReadiness {
    kind: &'static str,
    all: Readiness,
}

impl KindReadiness {
    /// The first list is complete. A synced kind stays synced: after a later failure the old copy can still be read.
    pub fn synced(&self) {
        self.set(|_| ListState::Synced);
    }

    /// The list is refused. A synced kind stays synced.
    pub fn refused(&self) {
        self.set(|before| if before == ListState::Synced { before } else { ListState::Refused });
    }

    fn set(&self, next: impl FnOnce(ListState) -> ListState) {
        self.all.0.send_if_modified(|state| {
            let Some((_, list)) = state.kinds.get_mut(self.kind) else { return false };
            let before = *list;
            *list = next(before);
            *list != before
        });
    }
}

impl Readiness {
    /// Adds a kind that the operator needs to be ready.
    pub fn required(&self, kind: &'static str) -> KindReadiness {
        self.register(kind, Requirement::Required)
    }

    /// Adds a kind that only a part of the operator needs. It does not delay readiness if its list is refused.
    pub fn optional(&self, kind: &'static str) -> KindReadiness {
        self.register(kind, Requirement::Optional)
    }

    fn register(&self, kind: &'static str, requirement: Requirement) -> KindReadiness {
        self.0.send_modify(|state| {
            state.kinds.entry(kind).or_insert((requirement, ListState::Pending));
        });
        KindReadiness { kind, all: self.clone() }
    }

    /// Sets whether a task keeps failing.
    pub fn set_failing(&self, task: &'static str, failing: bool) {
        self.0.send_if_modified(|state| match failing {
            true => state.failing.insert(task),
            false => state.failing.remove(task),
        });
    }

    /// Whether every kind is synced, or optional and refused, and no task keeps failing. Without registered kinds the
    /// process is starting, and not ready.
    pub fn is_ready(&self) -> bool {
        let state = self.0.borrow();
        !state.kinds.is_empty() && !state.delays() && state.failing.is_empty()
    }

    /// Waits until an optional kind other than this one is refused.
    pub async fn wait_for_refusal(&self, except: &str) {
        // The channel cannot close: its sender is in `self`.
        let _ =
            self.0.subscribe().wait_for(|state| state.refused(Requirement::Optional).any(|kind| kind != except)).await;
    }
}

impl State {
    fn delays(&self) -> bool {
        self.pending().chain(self.refused(Requirement::Required)).next().is_some()
    }

    /// The kinds whose first list is not complete.
    fn pending(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().filter(|(_, (_, list))| *list == ListState::Pending).map(|(kind, _)| *kind)
    }

    /// The kinds whose list is refused.
    fn refused(&self, requirement: Requirement) -> impl Iterator<Item = &'static str> {
        let refused = (requirement, ListState::Refused);
        self.kinds.iter().filter(move |(_, kind)| **kind == refused).map(|(kind, _)| *kind)
    }
}

impl fmt::Display for Readiness {
    /// `ok` or `starting`, and a line for each problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = self.is_ready();
        let state = self.0.borrow();
        let pending: Vec<_> = state.pending().collect();
        let required: Vec<_> = state.refused(Requirement::Required).collect();
        let optional: Vec<_> = state.refused(Requirement::Optional).collect();
        let failing: Vec<_> = state.failing.iter().copied().collect();
        if ready {
            writeln!(f, "ok")?;
        } else if state.kinds.is_empty() {
            writeln!(f, "starting")?;
        }
        for (text, names) in [
            ("caches not yet synced", pending),
            ("refused by the API server: a permission or a CustomResourceDefinition is missing, see the log", required),
            ("tasks that keep failing, see the log", failing),
            ("not watched, because the API server denies access", optional),
        ] {
            if !names.is_empty() {
                writeln!(f, "{text}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_every_required_kind_is_synced_and_every_optional_one_synced_or_refused() {
        let readiness = Readiness::default();
        let expect = |expected: (bool, &str)| {
            assert_eq!((readiness.is_ready(), readiness.to_string().as_str()), expected);
        };
        expect((false, "starting\n"));
        let (nodes, pods) = (readiness.required("Node"), readiness.optional("Pod"));
        expect((false, "caches not yet synced: Node, Pod\n"));
        nodes.refused();
        pods.refused();
        let refused = "not watched, because the API server denies access: Pod\n";
        let missing =
            "refused by the API server: a permission or a CustomResourceDefinition is missing, see the log: Node\n";
        expect((false, &format!("{missing}{refused}")));
        nodes.synced();
        expect((true, &format!("ok\n{refused}")));
        pods.synced();
        expect((true, "ok\n"));
        nodes.refused();
        pods.refused();
        expect((true, "ok\n"));
        readiness.required("Node");
        expect((true, "ok\n"));
    }

    #[test]
    fn a_task_that_keeps_failing_is_named_until_it_recovers() {
        let readiness = Readiness::default();
        readiness.required("Node").synced();
        readiness.set_failing("workloads", true);
        assert!(!readiness.is_ready());
        assert_eq!(readiness.to_string(), "tasks that keep failing, see the log: workloads\n");
        readiness.set_failing("workloads", false);
        assert!(readiness.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_refusal_of_an_optional_kind_ends_the_wait() {
        let readiness = Readiness::default();
        let (nodes, pods) = (readiness.required("Node"), readiness.optional("Pod"));
        nodes.refused();
        readiness.optional("WindowsNodeConfig").refused();
        let limit = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(limit, readiness.wait_for_refusal("WindowsNodeConfig")).await.is_err());
        pods.refused();
        readiness.wait_for_refusal("WindowsNodeConfig").await;
    }
}
