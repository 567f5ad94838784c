//! The taints of others that the taints of a pool replace.

use winpool_api::Taint;

use super::{Pool, Snapshot, Spec};

/// Two pools that replace taints of each other, which can only be a mistake: neither does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutualReplacement {
    pub pool: String,
    /// The taint of the other pool that this one replaces.
    pub taint: Taint,
}

/// The first taint of the second pool that the first pool replaces.
pub fn replaced<'s>(by: &'s Spec, of: &Spec) -> Option<&'s Taint> {
    by.replaces_taints.iter().find(|taint| of.taints.contains(taint))
}

/// The first pool whose taints this one replaces, and that replaces a taint of this one.
pub fn mutual(snapshot: &Snapshot, pool: &Pool, spec: &Spec) -> Option<MutualReplacement> {
    let mut others = snapshot.pools.values().filter(|other| other.name != pool.name && !other.deleting);
    others.find_map(|other| {
        let of_other = other.spec.as_ref().ok()?;
        let taint = replaced(spec, of_other).filter(|_| replaced(of_other, spec).is_some())?;
        Some(MutualReplacement { pool: other.name.clone(), taint: taint.clone() })
    })
}
