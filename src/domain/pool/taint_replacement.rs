//! The taints of others that the taints of a pool replace.

use super::{Pool, Snapshot, Spec};
use crate::api::Taint;

/// Two pools that replace taints of each other, which nobody can intend: neither does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutualReplacement {
    /// The other pool.
    pub pool: String,
    /// The taint of the other pool that this one replaces.
    pub taint: Taint,
}

/// The first pool whose taints this one replaces, and that replaces a taint of this one.
pub fn mutual(snapshot: &Snapshot, pool: &Pool, spec: &Spec) -> Option<MutualReplacement> {
    let others = snapshot.pools.values().filter(|other| other.name != pool.name && !other.deleting);
    others.into_iter().find_map(|other| {
        let of_other = other.spec.as_ref().ok()?;
        let taint = spec.replaces_taints.iter().find(|taint| of_other.taints.contains(taint))?;
        let replaces_own = of_other.replaces_taints.iter().any(|taint| spec.taints.contains(taint));
        replaces_own.then(|| MutualReplacement { pool: other.name.clone(), taint: taint.clone() })
    })
}
