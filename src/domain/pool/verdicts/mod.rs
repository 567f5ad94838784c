//! The conditions of a pool that is acted on, each a function of what was seen and done.

mod asked;
mod kubelet;
mod runtime;
mod windows;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

pub use asked::{
    class_states, config_rendered, nodes_assigned, nodes_configured, profile_resolved, runtime_class_ready, spec_valid,
};
pub use kubelet::{config_in_effect, is_skewed, version_skew};
pub use runtime::runtime_supported;
pub use windows::{is_mismatched, os_mismatch, os_supported};
pub use workloads::{counts as workload_counts, workloads_placed};

use super::{
    Members, Pool, Snapshot, Spec,
    plan::{Active, Member},
};
use crate::{
    api::{SelectorOperator, SelectorRequirement, bounds::shortened, names::label},
    domain::{
        conditions::{Verdict, some_of, some_stories},
        operation::{Done, Outcome, Shortfall, TaintPart},
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

    /// The end of a message about nodes of the pool: how to list them. Where nothing is written, they have no label of
    /// the pool.
    fn list(&self) -> String {
        if self.withheld {
            return self.list_matching();
        }
        format!("kubectl get nodes -l {}={}", label::POOL, self.pool.name)
    }

    /// The end of a message about nodes that match the pool, though another pool may have them: how to list them.
    fn list_matching(&self) -> String {
        let windows = format!("{}=windows", label::OS);
        let Members::Selector(selector) = &self.spec.members else {
            return format!("kubectl get nodes -l {windows}");
        };
        let labels = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let requirements = selector.match_expressions.iter().map(as_kubectl_reads_it);
        let chosen = std::iter::once(windows).chain(labels).chain(requirements).collect::<Vec<_>>().join(",");
        // Parentheses and exclamation marks mean something to a shell.
        let quote = if selector.match_expressions.is_empty() { "" } else { "'" };
        format!("kubectl get nodes -l {quote}{chosen}{quote}")
    }

    /// Stories, and how to list the nodes that they are about.
    fn tell(&self, stories: &Stories) -> String {
        match stories.count() {
            0 => stories.to_string(),
            _ => format!("{stories}; {}", self.list()),
        }
    }

    /// Whether a node has everything now.
    pub fn guarded(&self, member: &Member) -> bool {
        member.plan.complete() && (member.plan.change.is_none() || self.written(member))
    }

    /// Whether labels and taints were written; the name of a configuration is another condition's.
    fn written(&self, member: &Member) -> bool {
        match self.nodes_done.get(member.node.name.as_str()) {
            Some(Outcome::Done) => true,
            Some(Outcome::Partly { written, why: Shortfall::Waits(..) }) => written.taints == TaintPart::All,
            _ => false,
        }
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

/// A requirement as the flag -l of kubectl takes it.
fn as_kubectl_reads_it(requirement: &SelectorRequirement) -> String {
    let SelectorRequirement { key, operator, values } = requirement;
    match operator {
        SelectorOperator::In => format!("{key} in ({})", values.join(",")),
        SelectorOperator::NotIn => format!("{key} notin ({})", values.join(",")),
        SelectorOperator::Exists => key.clone(),
        SelectorOperator::DoesNotExist => format!("!{key}"),
    }
}

/// What is to say of nodes: each story once, behind the nodes that it is about.
#[derive(Default)]
struct Stories<'a>(BTreeMap<String, BTreeSet<&'a str>>);

impl<'a> Stories<'a> {
    fn add(&mut self, story: String, nodes: impl IntoIterator<Item = &'a str>) {
        self.0.entry(story).or_default().extend(nodes);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many nodes they are about.
    fn count(&self) -> usize {
        self.0.values().flatten().collect::<BTreeSet<_>>().len()
    }
}

impl fmt::Display for Stories<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.0.iter().map(|(story, nodes)| match nodes.len() {
            0 => story.clone(),
            _ => format!("{}: {story}", some_of(nodes)),
        });
        f.write_str(&some_stories(told))
    }
}

/// How many characters of a text that a node reports are quoted.
const QUOTED: usize = 128;

/// The story of a node whose version cannot be read.
fn unreadable(what: &str, text: &str) -> String {
    match text {
        "" => format!("no {what} is reported: look whether the kubelet runs"),
        _ => format!("{what} {:?} cannot be read: upgrade winpool", shortened(text, QUOTED)),
    }
}

/// The first of what was found, worst first, with the messages of all.
fn worst_of(found: Vec<Verdict>) -> Option<Verdict> {
    let message = found.iter().map(|verdict| verdict.message.as_str()).collect::<Vec<_>>().join(". ");
    found.into_iter().next().map(|worst| Verdict { message, ..worst })
}
