//! winpool's annotations on MachineDeployments and MachinePools: for the autoscaler, which of those it wrote, and from what the
//! template is rendered that it lets them refer to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use winpool_api::names::annotation;
use winpool_facts::cluster_api::capacity;

use super::views::{GroupKind, MachineGroup};
use crate::{
    operation::Write,
    pool::{Pool, Snapshot, snapshot::is_config_name},
};

/// The annotations for the autoscaler that winpool wrote.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct Written {
    pool: String,
    /// The values by key: another value is one of another client.
    values: BTreeMap<String, String>,
}

impl Written {
    fn read(group: &MachineGroup) -> Option<Self> {
        serde_json::from_str(group.annotations.get(annotation::AUTOSCALING)?).ok()
    }
}

/// The changes of annotations for the autoscaler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnnotationChanges {
    /// The annotations to set, and to remove (`None`).
    pub set: BTreeMap<String, Option<String>>,
    /// The annotations that another client set to another value. They are left alone.
    pub foreign: Vec<String>,
}

/// Compares the annotations of a group with the desired ones.
pub fn changes(group: &MachineGroup, pool: &str, desired: &BTreeMap<&'static str, String>) -> AnnotationChanges {
    let before = Written::read(group).unwrap_or_default();
    let mut changes = AnnotationChanges::default();
    let mut values = BTreeMap::new();
    for key in capacity::ALL {
        let (current, desired) = (group.annotations.get(key), desired.get(key));
        let ours = current.is_some() && before.values.get(key) == current;
        match (current, desired) {
            (Some(current), Some(desired)) if current == desired => {
                values.extend(ours.then(|| (key.to_owned(), desired.clone())))
            }
            (Some(_), Some(_)) if !ours => changes.foreign.push(key.to_owned()),
            (_, Some(desired)) => {
                changes.set.insert(key.to_owned(), Some(desired.clone()));
                values.insert(key.to_owned(), desired.clone());
            }
            (Some(_), None) if ours => drop(changes.set.insert(key.to_owned(), None)),
            (_, None) => {}
        }
    }
    let after = (!values.is_empty()).then(|| Written { pool: pool.to_owned(), values });
    if after.as_ref() != Some(&before) && (after.is_some() || group.annotations.contains_key(annotation::AUTOSCALING)) {
        changes.set.insert(annotation::AUTOSCALING.to_owned(), after.map(|after| json!(after).to_string()));
    }
    changes
}

/// The template to which winpool let a group refer, and the digest of its inputs, by the record on the group.
fn recorded(group: &MachineGroup) -> Option<(&str, &str)> {
    group.annotations.get(annotation::RENDERED_FROM)?.split_once(' ')
}

/// Whether the record on a group says that winpool let it refer to a template which was rendered from these inputs.
pub fn is_recorded(group: &MachineGroup, template: &str, rendered_from: &str) -> bool {
    recorded(group) == Some((template, rendered_from))
}

/// The record of the template to which a group refers, unless the group has it.
pub fn record(group: &MachineGroup, template: &str, rendered_from: &str) -> Option<String> {
    let is_new = !rendered_from.is_empty() && !is_recorded(group, template, rendered_from);
    is_new.then(|| format!("{template} {rendered_from}"))
}

/// Removes the annotations of a pool from groups that it no longer selects.
pub fn abandoned(snapshot: &Snapshot, pool: &Pool) -> Vec<Write> {
    removals(snapshot, pool, |group| !group.paused && !pool.cluster_api().is_some_and(|rules| rules.selects(group)))
}

/// Removes the annotations of a pool that is deleted, also from paused groups: otherwise they would remain.
pub fn of_deleted(snapshot: &Snapshot, pool: &Pool) -> Vec<Write> {
    removals(snapshot, pool, |_| true)
}

fn removals(snapshot: &Snapshot, pool: &Pool, from: impl Fn(&MachineGroup) -> bool) -> Vec<Write> {
    let Some(objects) = snapshot.cluster_api.installed() else { return Vec::new() };
    let removal = |group: &MachineGroup| {
        let describes = Written::read(group).is_some_and(|written| written.pool == pool.name);
        let mut set = if describes { changes(group, &pool.name, &BTreeMap::new()).set } else { BTreeMap::new() };
        let is_recorded = recorded(group).is_some_and(|(template, _)| is_config_name(&pool.name, template));
        set.extend(is_recorded.then(|| (annotation::RENDERED_FROM.to_owned(), None)));
        let body = json!({"metadata": {"annotations": set}});
        let change = if describes {
            "no longer describe new nodes to the autoscaler"
        } else {
            "remove the record of its template"
        };
        (!set.is_empty()).then(|| Write { change: Some(change.to_owned()), ..group.patch(body) })
    };
    let groups = GroupKind::ALL.into_iter().flat_map(|kind| objects.groups(kind));
    groups.filter(|group| pool.has_machines_in(&group.namespace) && from(group)).filter_map(removal).collect()
}
