//! The nodes where a configuration failed, so that each failure is reported once.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use winpool_rules::status::rollout::{FailedNode, FailureKey};

/// The failures that were reported and still exist, by pool. Clones share them. After a restart of the operator they are
/// reported again.
#[derive(Clone, Default)]
pub struct FailedNodes(Arc<Mutex<HashMap<String, BTreeSet<FailureKey>>>>);

impl FailedNodes {
    /// Replaces the failures of a pool, and returns those that are new.
    pub fn update(&self, pool: &str, failed: Vec<FailedNode>) -> Vec<FailedNode> {
        let mut all = self.0.lock();
        let before = all.remove(pool).unwrap_or_default();
        if !failed.is_empty() {
            all.insert(pool.to_owned(), failed.iter().map(|failed| failed.key.clone()).collect());
        }
        failed.into_iter().filter(|failed| !before.contains(&failed.key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use winpool_core::kind::Kind;
    use winpool_rules::{
        pool::rollout::FailureReason,
        status::event::{Event, Regarding},
    };

    use super::*;

    #[test]
    fn a_failure_is_new_once_until_it_has_ended() {
        let failed = |names: &str| -> Vec<FailedNode> {
            let failed = |name: &str| FailedNode {
                key: FailureKey { node_uid: name.into(), config: "web-1".into(), attempt: 1, kind: "TimedOut" },
                reason: FailureReason::TimedOut,
                event: Event {
                    about: Regarding::new(Kind::NODE, name, name),
                    warning: true,
                    reason: "ConfigFailed".into(),
                    action: "Deliver",
                    message: String::new(),
                },
            };
            names.split_whitespace().map(failed).collect()
        };
        let nodes = FailedNodes::default();
        for (pool, now, expected) in [
            ("web", "a", "a"),
            ("web", "a b", "b"),
            ("batch", "a", "a"),
            ("web", "a b", ""),
            ("web", "b", ""),
            ("web", "a b", "a"),
            ("web", "", ""),
            ("web", "b", "b"),
        ] {
            let new: Vec<_> = nodes.update(pool, failed(now)).into_iter().map(|failed| failed.key.node_uid).collect();
            assert_eq!(new.join(" "), expected, "{pool}: {now}");
        }
    }
}
