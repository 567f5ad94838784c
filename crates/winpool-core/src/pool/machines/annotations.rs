//! winpool's annotations on MachineDeployments and MachinePools, and which of those for the autoscaler it wrote.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use winpool_api::{facts::cluster_api::capacity, names::annotation};

use super::views::{GroupKind, MachineGroup};
use crate::{
    operation::Write,
    pool::{Pool, Snapshot},
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
    /// The record on a group.
    fn read(group: &MachineGroup) -> Option<Self> {
        serde_json::from_str(group.annotations.get(annotation::AUTOSCALING)?).ok()
    }
}

/// The changes of annotations for the autoscaler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The annotations to set, and to remove (`None`).
    pub set: BTreeMap<String, Option<String>>,
    /// The annotations that another client set to another value. They are left alone.
    pub foreign: Vec<String>,
}

/// Compares the annotations of a group with the desired ones.
pub fn changes(group: &MachineGroup, pool: &str, desired: &BTreeMap<&'static str, String>) -> Changes {
    let before = Written::read(group).unwrap_or_default();
    let mut changes = Changes::default();
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

/// Removes the annotations of a pool from groups that it no longer selects.
pub fn abandoned(snapshot: &Snapshot, pool: &Pool) -> Vec<Write> {
    removals(snapshot, pool, |group| !group.paused && !pool.machines().is_some_and(|rules| rules.selects(group)))
}

/// Removes the annotations of a pool that is deleted, also from paused groups: otherwise they would remain.
pub fn of_deleted(snapshot: &Snapshot, pool: &Pool) -> Vec<Write> {
    removals(snapshot, pool, |_| true)
}

fn removals(snapshot: &Snapshot, pool: &Pool, from: impl Fn(&MachineGroup) -> bool) -> Vec<Write> {
    let Some(objects) = snapshot.cluster_api.installed() else { return Vec::new() };
    let of_pool = |group: &&MachineGroup| {
        Written::read(group).is_some_and(|written| written.pool == pool.name)
            && pool.has_machines_in(&group.namespace)
            && from(group)
    };
    let groups = GroupKind::ALL.into_iter().flat_map(|kind| objects.groups(kind));
    groups
        .filter(of_pool)
        .map(|group| {
            let set = changes(group, &pool.name, &BTreeMap::new()).set;
            let body = json!({"metadata": {"annotations": set}});
            let change = Some("no longer describe new nodes to the autoscaler".to_owned());
            Write { change, ..group.patch(objects.version, body) }
        })
        .collect()
}
