//! The inputs of the conditions of a pool, and the texts that the conditions share.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    hash::Hash,
};

use winpool_api::{
    conditions::{ComputedCondition, ConditionType},
    names::label,
};
use winpool_core::{
    ForeignText,
    kubernetes::shell_quoted,
    node::WindowsNode,
    text::{Counted, about_nodes, some_messages, some_of},
};
use winpool_render::profile::Profile;
use winpool_workload::PoolWorkloads;

use crate::{
    operation::{Done, Write, WriteError, WriteTarget},
    pool::{
        Members, Pool, Snapshot, Spec,
        plan::{ActivePool, Member},
    },
};

/// The maximum number of quoted characters of a text that a node reports.
const QUOTED: usize = 128;

/// A pool with its plan and the outcomes of its writes.
pub struct ReportInput<'a> {
    pub snapshot: &'a Snapshot,
    pub pool: &'a Pool,
    pub spec: &'a Spec,
    pub active: &'a ActivePool,
    /// The outcomes of the plan's operations.
    pub done: &'a Done,
    /// Whether only status is written.
    pub withheld: bool,
}

impl ReportInput<'_> {
    pub fn nodes<'a>(&'a self, holds: impl Fn(&Member) -> bool + 'a) -> Vec<&'a Member> {
        self.active.members.iter().filter(|member| holds(member)).collect()
    }

    /// The names of the members that are equal in something. Many nodes are, so what follows from it is computed once.
    pub fn groups<'a, K: Eq + Hash>(&'a self, key: impl Fn(&'a WindowsNode) -> K) -> HashMap<K, Vec<&'a str>> {
        let mut groups: HashMap<K, Vec<&str>> = HashMap::new();
        for Member { node, .. } in &self.active.members {
            groups.entry(key(node)).or_default().push(&node.name);
        }
        groups
    }

    /// The last sentence of a message about members: how to list them. If the pool does not write, its nodes do not
    /// have its label.
    pub fn list(&self) -> String {
        list_sentence(&list_nodes(self.pool, self.spec))
    }

    /// The last sentence of a message about matching nodes, even of another pool: how to list them.
    pub fn list_matching(&self) -> String {
        list_sentence(&list_matching(self.spec))
    }

    /// Messages about nodes, with the sentence that lists these nodes.
    pub fn with_list(&self, messages: &NodeMessages) -> String {
        match messages.count() {
            0 => messages.to_string(),
            _ => format!("{messages}. {}", self.list()),
        }
    }

    pub fn profile(&self) -> Option<&Profile> {
        self.snapshot.profile_of(self.spec)
    }

    /// The workloads of the pool, if pods are read.
    pub fn workloads(&self) -> Option<&PoolWorkloads> {
        self.snapshot.workloads.of(&self.pool.name)
    }

    /// The first write of these that failed, with the error.
    pub fn unwritten(&self, is_one: impl Fn(&Write) -> bool) -> Option<(&WriteTarget, &WriteError)> {
        let failed = self.done.failed().find(|(write, _)| is_one(write));
        failed.map(|(write, error)| (&write.object, error))
    }

    pub fn today(&self) -> jiff::civil::Date {
        self.snapshot.now.to_zoned(jiff::tz::TimeZone::UTC).date()
    }
}

/// The command that lists the nodes of a pool. If the pool does not write, its nodes do not have its label.
pub fn list_nodes(pool: &Pool, spec: &Spec) -> String {
    match pool.enforces() {
        true => list_command(&format!("{}={}", label::POOL, pool.name)),
        false => list_matching(spec),
    }
}

/// The sentence that a message about nodes ends with.
pub fn list_sentence(command: &str) -> String {
    format!("List the nodes: {command}")
}

fn list_matching(spec: &Spec) -> String {
    let windows = format!("{}=windows", label::OS);
    match &spec.members {
        Members::Fallback => list_command(&windows),
        selector @ Members::Selector(_) => list_command(&format!("{windows},{selector}")),
    }
}

fn list_command(selector: &str) -> String {
    format!("kubectl get nodes -l {}", shell_quoted(selector))
}

pub fn names<'a>(members: &[&'a Member]) -> Vec<&'a str> {
    members.iter().map(|member| member.node.name.as_str()).collect()
}

/// Messages about nodes: each distinct message with its nodes.
#[derive(Default)]
pub struct NodeMessages<'a>(BTreeMap<String, BTreeSet<&'a str>>);

impl<'a> NodeMessages<'a> {
    pub fn add(&mut self, message: String, nodes: impl IntoIterator<Item = &'a str>) {
        self.0.entry(message).or_default().extend(nodes);
    }

    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The condition with these messages; `None` without messages.
    pub fn because(&self, of: &'static ConditionType, reason: &'static str) -> Option<ComputedCondition> {
        (!self.0.is_empty()).then(|| of.because(reason, self.to_string()).about(self.count()))
    }

    pub fn nodes(&self) -> BTreeSet<&'a str> {
        self.0.values().flatten().copied().collect()
    }

    pub fn count(&self) -> usize {
        self.nodes().len()
    }
}

impl fmt::Display for NodeMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = self.0.iter().map(|(message, nodes)| match nodes.len() {
            0 => message.clone(),
            _ => format!("{}: {message}", some_of(nodes)),
        });
        f.write_str(&some_messages(messages))
    }
}

/// The message about a node whose version cannot be read.
pub fn unreadable(what: &str, text: &ForeignText) -> String {
    match text.raw() {
        "" => format!("no {what} is reported. Check that the kubelet runs"),
        _ => format!("{what} \"{text:.QUOTED$}\" is not known. Upgrade winpool"),
    }
}

/// The condition about some nodes; `None` without nodes. See [`about_nodes`].
pub fn about<T: AsRef<str>>(
    of: &'static ConditionType,
    reason: &'static str,
    nodes: &[T],
    sentence: impl FnOnce(Counted, &str) -> String,
) -> Option<ComputedCondition> {
    Some(of.because(reason, about_nodes(nodes, sentence)?).about(nodes.len()))
}

/// The first of the conditions, which are ordered worst first, with the messages of all.
pub fn worst_of(found: impl IntoIterator<Item = Option<ComputedCondition>>) -> Option<ComputedCondition> {
    let found: Vec<_> = found.into_iter().flatten().collect();
    let message = found.iter().map(|condition| condition.message.as_str()).collect::<Vec<_>>().join(". ");
    found.into_iter().next().map(|worst| ComputedCondition { message, ..worst })
}
