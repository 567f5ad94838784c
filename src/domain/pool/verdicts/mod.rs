//! The conditions of a pool that is acted on, each a function of what was seen and done.

mod asked;
mod flags;
mod workloads;

use std::collections::{BTreeMap, HashMap};

pub use asked::{
    class_states, config_rendered, nodes_assigned, nodes_configured, profile_resolved, runtime_class_ready,
};
pub use flags::{
    config_in_effect, is_mismatched, is_skewed, os_mismatch, os_supported, runtime_supported, version_skew,
};
pub use workloads::{counts as workload_counts, workloads_placed};

use super::{
    Members, Pool, Snapshot, Spec,
    plan::{Active, Member},
};
use crate::{
    api::names::label,
    domain::{
        conditions::{some_of, some_stories},
        operation::{Done, Outcome},
        profile::Profile,
        workload::{PoolWorkloads, Workloads},
    },
};

/// What the verdicts are about.
pub struct Case<'a> {
    /// The world.
    pub snapshot: &'a Snapshot,
    /// The pool.
    pub pool: &'a Pool,
    /// Its spec.
    pub spec: &'a Spec,
    /// The plan's parts.
    pub active: &'a Active,
    /// What was done.
    pub done: &'a Done,
    /// What became of the writes to nodes.
    pub nodes_done: HashMap<&'a str, &'a Outcome>,
    /// Whether nothing but status is written.
    pub withheld: bool,
}

impl Case<'_> {
    fn nodes<'a>(&'a self, wrong: impl Fn(&Member) -> bool + 'a) -> Vec<&'a Member> {
        self.active.members.iter().filter(|member| wrong(member)).collect()
    }

    /// The end of a message about nodes: how to list them. Where nothing is written, they have no label of the pool.
    fn list(&self) -> String {
        let chosen = match &self.spec.members {
            _ if !self.withheld => format!("{}={}", label::POOL, self.pool.name),
            Members::Selector(selector) => {
                let labels = selector.match_labels.iter().map(|(key, value)| format!(",{key}={value}"));
                format!("{}=windows{}", label::OS, labels.collect::<String>())
            }
            Members::Fallback => format!("{}=windows", label::OS),
        };
        format!("kubectl get nodes -l {chosen}")
    }

    /// Whether a node has everything now.
    pub fn guarded(&self, member: &Member) -> bool {
        member.plan.complete() && (member.plan.change.is_none() || self.written(member))
    }

    fn written(&self, member: &Member) -> bool {
        self.nodes_done.get(member.node.name.as_str()) == Some(&&Outcome::Done)
    }

    /// The profile that the pool names, if it can be used.
    fn profile(&self) -> Option<&Profile> {
        self.snapshot.profiles.get(self.spec.profile.as_ref()?)?.profile.as_ref().ok()
    }

    /// The workloads of the pool, as far as any are known.
    fn workloads(&self) -> Option<&PoolWorkloads> {
        match &self.snapshot.workloads {
            Workloads::Known(pools) => pools.get(&self.pool.name).map(AsRef::as_ref),
            Workloads::Off | Workloads::Waiting => None,
        }
    }

    fn today(&self) -> jiff::civil::Date {
        self.snapshot.now.to_zoned(jiff::tz::TimeZone::UTC).date()
    }
}

fn names<'a>(members: &'a [&Member]) -> impl Iterator<Item = &'a str> {
    members.iter().map(|member| member.node.name.as_str())
}

/// Nodes by what is to say of them: each story once, with the nodes that it is about.
fn by_story<'a>(told: impl IntoIterator<Item = (String, &'a Member)>) -> String {
    let mut nodes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (story, member) in told {
        nodes.entry(story).or_default().push(&member.node.name);
    }
    some_stories(nodes.into_iter().map(|(story, nodes)| format!("{story}: {}", some_of(nodes))))
}
