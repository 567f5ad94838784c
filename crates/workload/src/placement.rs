//! The pools that the pods of a workload can be scheduled to, or why there is none.

use std::collections::BTreeMap;

use derive_more::Display;
use winpool_api::{Taint, names::label};
use winpool_core::text::some_of;

use super::{
    Scheduling, System, Template,
    scheduling_state::{ClassState, NodeGroup, PoolState, SchedulingState},
};

/// Why pods are not scheduled to any pool. Displayed with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum Unschedulable {
    #[display("RuntimeClass {class} does not exist. {}", match of_pools.as_slice() {
        [] => "Create it, or remove runtimeClassName".to_owned(),
        classes => format!("Use one of {}", some_of(classes)),
    })]
    RuntimeClassNotFound { class: String, of_pools: Vec<String> },
    /// The nodeSelector and the RuntimeClass require different values of a label.
    #[display(
        "nodeSelector has {key}={own_value} and RuntimeClass {class} has {key}={class_value}, so the API server rejects the \
         pods. Remove one of the two"
    )]
    SelectorConflict { class: String, key: String, class_value: String, own_value: String },
    #[display("no node matches: the nodes of pool {pool} {unmet}. Correct nodeSelector or affinity")]
    NoMatchingNode {
        /// The pool whose nodes meet the most requirements.
        pool: String,
        unmet: NodeRequirement,
    },
    #[display(
        "taint {taint} of pool {pool} is not tolerated. Add the toleration{}",
        class.as_ref().map_or_else(String::new, |class| format!(", or runtimeClassName: {class}"))
    )]
    UntoleratedTaint { pool: String, taint: Taint, class: Option<String> },
    /// The container runtime does not have the handler of the RuntimeClass.
    #[display(
        "the container runtime of pool {pool} does not have handler {handler} of RuntimeClass {class}. Use a RuntimeClass with {}",
        available.join(" or ")
    )]
    HandlerMissing { pool: String, class: String, handler: String, available: Vec<String> },
}

/// A requirement of a pod on its node. Displayed as the predicate of a sentence about nodes that do not meet it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum NodeRequirement {
    #[display("do not have {_0}")]
    Label(NodeLabel),
    #[display("do not match the node affinity")]
    Affinity,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("{key}={value}")]
pub struct NodeLabel {
    pub key: String,
    pub value: String,
}

/// A pool with the groups of its nodes that match a pod.
#[derive(Clone, Debug)]
pub struct MatchingPool<'a> {
    pub pool: &'a PoolState,
    /// The groups; at least one.
    pub groups: Vec<&'a NodeGroup>,
}

/// A pod's spec with what its RuntimeClass adds when it is created.
pub struct EffectiveSpec<'a> {
    template: &'a Template,
    scheduling: Scheduling,
    pub class: Option<(&'a str, &'a ClassState)>,
}

impl<'a> EffectiveSpec<'a> {
    /// Adds the scheduling of the RuntimeClass, as the RuntimeClass admission plugin does: selectors are merged by key,
    /// tolerations are united.
    ///
    /// # Errors
    /// The RuntimeClass does not exist, or the API server rejects the pod because the selectors conflict.
    pub fn of(template: &'a Template, state: &'a SchedulingState) -> Result<Self, Unschedulable> {
        let Some(name) = template.runtime_class.as_deref() else { return Ok(Self::without_class(template)) };
        let Some(class) = state.classes.get(name) else {
            let of_pools = state.pools.iter().flat_map(|pool| &pool.classes).map(|(class, _)| class);
            let of_pools = of_pools.filter(|class| state.classes.contains_key(*class)).cloned().collect();
            return Err(Unschedulable::RuntimeClassNotFound { class: name.to_owned(), of_pools });
        };
        for (key, class_value) in &class.scheduling.node_selector {
            if let Some(own_value) = template.scheduling.node_selector.get(key).filter(|own| *own != class_value) {
                return Err(Unschedulable::SelectorConflict {
                    class: name.to_owned(),
                    key: key.clone(),
                    class_value: class_value.clone(),
                    own_value: own_value.clone(),
                });
            }
        }
        Ok(Self::with_class(template, name, class))
    }

    /// The same for an existing pod. Its selector may have former values of the RuntimeClass, and gets the current ones
    /// when the pod is created again.
    ///
    /// # Errors
    /// The RuntimeClass does not exist.
    pub fn of_pod(template: &'a Template, state: &'a SchedulingState) -> Result<Self, Unschedulable> {
        let name = template.runtime_class.as_deref();
        match name.and_then(|name| Some((name, state.classes.get(name)?))) {
            Some((name, class)) => Ok(Self::with_class(template, name, class)),
            None => Self::of(template, state),
        }
    }

    /// The spec as the DaemonSet controller reads it: without the RuntimeClass.
    pub fn without_class(template: &'a Template) -> Self {
        Self { template, scheduling: template.scheduling.clone(), class: None }
    }

    fn with_class(template: &'a Template, name: &'a str, class: &'a ClassState) -> Self {
        let mut scheduling = template.scheduling.clone();
        scheduling.node_selector.extend(class.scheduling.node_selector.clone());
        scheduling.tolerations.extend(class.scheduling.tolerations.iter().cloned());
        Self { template, scheduling, class: Some((name, class)) }
    }

    /// The operating system of the pod, if the spec or the RuntimeClass determines it.
    pub fn system(&self) -> Option<System> {
        self.template.system(|_| self.class.and_then(|(_, class)| class.system))
    }

    /// Whether it is for Windows, or its operating system is undetermined and it tolerates a taint of a pool by key.
    pub fn is_for_windows(&self, state: &SchedulingState) -> bool {
        match self.system() {
            Some(system) => system == System::Windows,
            None => state.pools.iter().flat_map(|pool| &pool.taints).any(|taint| self.tolerates_by_key(taint)),
        }
    }

    fn tolerates_by_key(&self, taint: &Taint) -> bool {
        let own = &self.template.scheduling.tolerations;
        own.iter().any(|toleration| !toleration.key.is_empty() && toleration.tolerates(taint))
    }

    /// The labels of its nodeSelector, with those of its RuntimeClass.
    pub fn node_selector(&self) -> &BTreeMap<String, String> {
        &self.scheduling.node_selector
    }

    /// The names of the nodes that it selects by name.
    fn selected_hosts(&self) -> impl Iterator<Item = &str> {
        let by_selector = self.scheduling.node_selector.get(label::HOSTNAME).map(String::as_str);
        by_selector.into_iter().chain(self.template.affinity_hosts())
    }

    pub fn selected_values<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s str> {
        let required = self.template.affinity.iter().flatten().filter(move |requirement| requirement.key == key);
        let selected = self.scheduling.node_selector.get(key);
        selected.into_iter().chain(required.flat_map(|requirement| &requirement.values)).map(String::as_str)
    }

    /// Whether the selector and the affinity match a node with these labels and this host name. Requirements on labels
    /// that are not `known` count as met. Taints are ignored.
    pub fn matches(&self, labels: &BTreeMap<String, String>, host: &str, known: impl Fn(&str) -> bool) -> bool {
        let mut selected = self.scheduling.node_selector.iter().filter(|(key, _)| known(key));
        selected.all(|(key, value)| labels.get(key) == Some(value))
            && self.template.affinity_matches(labels, host, &known)
    }

    /// The requirements that a node does not meet, with the arguments of [`Self::matches`].
    pub fn unmet(
        &self,
        labels: &BTreeMap<String, String>,
        host: &str,
        known: impl Fn(&str) -> bool,
    ) -> Vec<NodeRequirement> {
        let selected = self.scheduling.node_selector.iter();
        let mut unmet: Vec<NodeRequirement> = selected
            .filter(|(key, value)| known(key) && labels.get(*key) != Some(value))
            .map(|label| NodeRequirement::Label(label.into()))
            .collect();
        if !self.template.affinity_matches(labels, host, known) {
            unmet.push(NodeRequirement::Affinity);
        }
        unmet
    }

    /// The first taint that is not tolerated, if every group has one.
    pub fn untolerated_in_all<'k>(&self, groups: &[&'k NodeGroup]) -> Option<&'k Taint> {
        let taints: Option<Vec<_>> = groups.iter().map(|group| self.untolerated(&group.taints)).collect();
        taints?.first().copied()
    }

    /// The first taint that is not tolerated and keeps the pod from being scheduled.
    pub fn untolerated<'k>(&self, taints: &'k [Taint]) -> Option<&'k Taint> {
        let hard = taints.iter().filter(|taint| taint.excludes_pods());
        hard.into_iter().find(|taint| !self.scheduling.tolerates(taint))
    }

    /// Whether the selector and the affinity match any node of a group. Taints are ignored.
    pub fn selects(&self, state: &SchedulingState, pool: &str, group: &NodeGroup) -> bool {
        let in_group = |host: &&str| {
            let node = state.node(host).filter(|node| node.pool.as_deref() == Some(pool));
            node.is_some_and(|node| node.group.as_deref() == Some(group))
        };
        let matches = |host| self.matches(&group.labels_on(host), host, |key| group.is_label_known(key));
        matches("") || self.selected_hosts().filter(in_group).any(matches)
    }

    /// The pools that the selector and the affinity match, the pool of the RuntimeClass first. Taints are ignored.
    pub fn selected_pools<'g>(&self, state: &'g SchedulingState) -> Vec<MatchingPool<'g>> {
        let matching = |pool: &'g PoolState| MatchingPool {
            pool,
            groups: pool.groups.iter().filter(|group| self.selects(state, &pool.name, group)).collect(),
        };
        let mut pools: Vec<MatchingPool> =
            state.pools.iter().map(matching).filter(|matching| !matching.groups.is_empty()).collect();
        let has_class =
            |pool: &PoolState| self.class.is_some_and(|(class, _)| pool.classes.iter().any(|(name, _)| name == class));
        pools.sort_by_key(|matching| !has_class(matching.pool));
        pools
    }

    /// Whether the pod can be scheduled to Windows nodes in no pool.
    pub fn fits_unassigned_nodes(&self, state: &SchedulingState) -> bool {
        let mut hosts = vec![""];
        hosts.extend(self.selected_hosts());
        state.unassigned.iter().any(|nodes| {
            let matches = |host: &&str| {
                let mut labels = nodes.labels.clone();
                labels.insert(label::HOSTNAME.to_owned(), (*host).to_owned());
                self.matches(&labels, host, |key| !nodes.individual.contains(key))
            };
            self.untolerated(&nodes.taints).is_none() && hosts.iter().any(matches)
        })
    }

    /// The pools that the pod can be scheduled to.
    ///
    /// # Errors
    /// The reason, for the pool that matches best, if there is none.
    pub fn schedulable_pools<'g>(&self, state: &'g SchedulingState) -> Result<Vec<MatchingPool<'g>>, Unschedulable> {
        let selected = self.selected_pools(state);
        if selected.is_empty() {
            return Err(self.best_mismatch(state));
        }
        let tolerated = |MatchingPool { pool, groups }: &MatchingPool<'g>| {
            let tolerates = |group: &&NodeGroup| self.untolerated(&group.taints).is_none();
            let groups: Vec<_> = groups.iter().copied().filter(tolerates).collect();
            (!groups.is_empty()).then_some(MatchingPool { pool, groups })
        };
        let (suitable, without_handler): (Vec<_>, Vec<_>) = selected
            .iter()
            .filter_map(tolerated)
            .partition(|matching: &MatchingPool| self.missing_handler(matching).is_none());
        let reason = || match without_handler.first() {
            Some(matching) => self.missing_handler(matching),
            None => self.untolerated_taint(state, &selected),
        };
        match suitable.is_empty().then(reason).flatten() {
            Some(reason) => Err(reason),
            None => Ok(suitable),
        }
    }

    /// The pools that a pod for Windows can be scheduled to; none for other pods.
    pub fn windows_pools<'g>(&self, state: &'g SchedulingState) -> Vec<MatchingPool<'g>> {
        if self.is_for_windows(state) { self.schedulable_pools(state).unwrap_or_default() } else { Vec::new() }
    }

    /// The first unmet requirement of the nodes that meet the most, regardless of the order of groups.
    fn best_mismatch(&self, state: &SchedulingState) -> Unschedulable {
        let unmet_by = |group: &NodeGroup| self.unmet(&group.labels_on(""), "", |key| group.is_label_known(key));
        let least = |pool: &PoolState| {
            let unmet = pool.groups.iter().map(unmet_by).map(|unmet| (unmet.len(), unmet)).min();
            unmet.map(|(count, unmet)| (count, pool.name.clone(), unmet))
        };
        let least = state.pools.iter().filter_map(least).min_by_key(|(count, ..)| *count);
        let (_, pool, unmet) = least.unwrap_or_default();
        Unschedulable::NoMatchingNode { pool, unmet: unmet.into_iter().next().unwrap_or(NodeRequirement::Affinity) }
    }

    /// For a DaemonSet: the RuntimeClass that it needs to select its nodes, with the labels that only the RuntimeClass
    /// selects. `selected` has the pools that it selects with the RuntimeClass. `None` if the template selects the same
    /// nodes without it.
    pub fn labels_only_in_class(
        &self,
        state: &SchedulingState,
        selected: &[MatchingPool<'_>],
    ) -> Option<(&str, Vec<NodeLabel>)> {
        let (name, class) = self.class?;
        let own = &self.template.scheduling.node_selector;
        let of_class = class.scheduling.node_selector.iter();
        let missing: Vec<NodeLabel> =
            of_class.filter(|(key, value)| own.get(*key) != Some(value)).map(NodeLabel::from).collect();
        let count = |pools: &[MatchingPool<'_>]| pools.iter().map(|matching| matching.groups.len()).sum::<usize>();
        // Where a label is unknown, the nodes with and without it are in the same group.
        let are_known = || {
            let mut groups = selected.iter().flat_map(|matching| &matching.groups);
            groups.all(|group| missing.iter().all(|label| group.is_label_known(&label.key)))
        };
        let selects_the_same = || {
            let alone = Self::without_class(self.template);
            self.template.selects_some_nodes() && are_known() && count(&alone.selected_pools(state)) == count(selected)
        };
        (!missing.is_empty() && !selects_the_same()).then_some((name, missing))
    }

    fn untolerated_taint(&self, state: &SchedulingState, selected: &[MatchingPool<'_>]) -> Option<Unschedulable> {
        let mut groups =
            selected.iter().flat_map(|matching| matching.groups.iter().map(move |group| (matching.pool, *group)));
        let (pool, taint) = groups.find_map(|(pool, group)| Some((pool, self.untolerated(&group.taints)?)))?;
        let class = pool.classes.iter().map(|(class, _)| class).find(|class| state.classes.contains_key(*class));
        let class = class.filter(|_| self.class.is_none()).cloned();
        Some(Unschedulable::UntoleratedTaint { pool: pool.name.clone(), taint: taint.clone(), class })
    }

    /// The handler of the RuntimeClass, if no node has it.
    fn missing_handler(&self, MatchingPool { pool, groups }: &MatchingPool<'_>) -> Option<Unschedulable> {
        let (name, class) = self.class?;
        let handler = class.handler.as_str();
        let available = groups.iter().find_map(|group| group.handlers.as_ref())?;
        let lacks = |group: &&NodeGroup| group.handlers.as_ref().is_some_and(|handlers| handlers.lack(handler));
        groups.iter().all(lacks).then(|| Unschedulable::HandlerMissing {
            pool: pool.name.clone(),
            class: name.to_owned(),
            handler: handler.to_owned(),
            available: available.names().into_iter().map(str::to_owned).collect(),
        })
    }
}

impl From<(&String, &String)> for NodeLabel {
    fn from((key, value): (&String, &String)) -> Self {
        Self { key: key.clone(), value: value.clone() }
    }
}
