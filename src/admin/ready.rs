//! Whether the operator has what it needs.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio::sync::watch;

/// Which kinds are watched, which of them are synced, and which tasks fail. Clones share one state.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<watch::Sender<State>>);

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State::default())))
    }
}

#[derive(Debug, Default)]
struct State {
    kinds: BTreeMap<&'static str, (Need, Listed)>,
    /// Tasks that fail again and again.
    failing: BTreeMap<&'static str, ()>,
}

/// Whether the operator can do without a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// What became of the first list of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Waiting,
    /// The API server refuses the list, or does not serve the kind.
    Refused,
    Synced,
}

/// Reports what becomes of the first list of one kind.
#[derive(Clone, Debug)]
pub struct Handle {
    kind: &'static str,
    all: Readiness,
}

impl Handle {
    /// The first list is complete. It stays so: a later gap in a watch leaves an old copy, which can still be read.
    pub fn synced(&self) {
        self.set(|_| Listed::Synced);
    }

    /// The list is refused. A kind that was synced before stays so.
    pub fn refused(&self) {
        self.set(|before| if before == Listed::Synced { before } else { Listed::Refused });
    }

    fn set(&self, next: impl FnOnce(Listed) -> Listed) {
        self.all.0.send_if_modified(|state| {
            let Some((_, listed)) = state.kinds.get_mut(self.kind) else { return false };
            let before = *listed;
            *listed = next(before);
            *listed != before
        });
    }
}

impl Readiness {
    /// Adds a kind without which the operator is not ready.
    pub fn required(&self, kind: &'static str) -> Handle {
        self.register(kind, Need::Required)
    }

    /// Adds a kind that only a part of the operator needs. It is waited for until the API server refuses it.
    pub fn optional(&self, kind: &'static str) -> Handle {
        self.register(kind, Need::Optional)
    }

    fn register(&self, kind: &'static str, need: Need) -> Handle {
        self.0.send_modify(|state| {
            state.kinds.entry(kind).or_insert((need, Listed::Waiting));
        });
        Handle { kind, all: self.clone() }
    }

    /// Whether a task fails again and again.
    pub fn task(&self, task: &'static str, fails: bool) {
        self.0.send_if_modified(|state| match fails {
            true => state.failing.insert(task, ()).is_none(),
            false => state.failing.remove(task).is_some(),
        });
    }

    /// Whether everything that the operator needs is there. A process without any kind has not begun, and is not ready.
    pub fn is_ready(&self) -> bool {
        let state = self.0.borrow();
        !state.kinds.is_empty() && state.waiting().next().is_none() && state.failing.is_empty()
    }

    /// Waits until an optional kind is refused.
    pub async fn until_an_optional_kind_is_refused(&self) {
        // The channel cannot close: its sender is in `self`.
        let _ = self.0.subscribe().wait_for(|state| state.refused().next().is_some()).await;
    }
}

impl State {
    /// The kinds that are waited for.
    fn waiting(&self) -> impl Iterator<Item = &'static str> {
        let waits = |(need, listed): &(Need, Listed)| match listed {
            Listed::Waiting => true,
            Listed::Refused => *need == Need::Required,
            Listed::Synced => false,
        };
        self.kinds.iter().filter(move |(_, kind)| waits(kind)).map(|(kind, _)| *kind)
    }

    /// The optional kinds that are refused.
    fn refused(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().filter(|(_, kind)| **kind == (Need::Optional, Listed::Refused)).map(|(kind, _)| *kind)
    }
}

impl fmt::Display for Readiness {
    /// What is missing, a line for each problem; `ok` or `starting` where nothing is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = self.is_ready();
        let state = self.0.borrow();
        let waiting: Vec<_> = state.waiting().collect();
        let refused: Vec<_> = state.refused().collect();
        let failing: Vec<_> = state.failing.keys().copied().collect();
        if ready {
            writeln!(f, "ok")?;
        } else if state.kinds.is_empty() {
            writeln!(f, "starting")?;
        }
        for (text, names) in [
            ("caches not yet synced", waiting),
            ("tasks that fail again and again, see the log", failing),
            ("not watched, because the API server denies access", refused),
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
        let told = |expected: (bool, &str)| {
            assert_eq!((readiness.is_ready(), readiness.to_string().as_str()), expected);
        };
        told((false, "starting\n"));
        let (nodes, pods) = (readiness.required("Node"), readiness.optional("Pod"));
        told((false, "caches not yet synced: Node, Pod\n"));
        nodes.refused();
        pods.refused();
        let refused = "not watched, because the API server denies access: Pod\n";
        told((false, &format!("caches not yet synced: Node\n{refused}")));
        nodes.synced();
        told((true, &format!("ok\n{refused}")));
        pods.synced();
        told((true, "ok\n"));
        nodes.refused();
        pods.refused();
        told((true, "ok\n"));
        readiness.required("Node");
        told((true, "ok\n"));
    }

    #[test]
    fn a_task_that_fails_again_and_again_is_named_until_it_recovers() {
        let readiness = Readiness::default();
        readiness.required("Node").synced();
        readiness.task("workloads", true);
        assert!(!readiness.is_ready());
        assert_eq!(readiness.to_string(), "tasks that fail again and again, see the log: workloads\n");
        readiness.task("workloads", false);
        assert!(readiness.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_kind_is_waited_for_only_if_it_is_optional() {
        let readiness = Readiness::default();
        let (nodes, pods) = (readiness.required("Node"), readiness.optional("Pod"));
        nodes.refused();
        let limit = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(limit, readiness.until_an_optional_kind_is_refused()).await.is_err());
        pods.refused();
        readiness.until_an_optional_kind_is_refused().await;
    }
}
