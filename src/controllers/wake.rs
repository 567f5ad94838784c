//! Which passes follow from which change.

use std::{collections::BTreeSet, sync::Arc};

use super::{cause::Cause, queue::Asker, unassigned};
use crate::{
    api::names::label,
    cluster::{Caches, Change, View},
    domain::{
        node::WindowsNode,
        pool::{ConfigMapView, Pool, ProfileView, RuntimeClassView, assignment},
    },
};

/// Asks for the passes that follow from a change.
#[derive(Clone)]
pub struct Wake {
    /// What is known, with the change in it.
    pub caches: Arc<Caches>,
    /// Passes of pools.
    pub pools: Asker<Cause>,
    /// Passes of profiles.
    pub profiles: Asker<Cause>,
    /// The pass over the nodes that are in no pool.
    pub unassigned: Asker<Cause>,
}

impl Wake {
    /// A node changed: the pools that have it, match it, or would take it.
    pub fn node(&self, change: &Change<WindowsNode>) {
        let pools = self.caches.pools.all();
        let known = pools.values().map(AsRef::as_ref);
        let affected = assignment::affected(known, change.before.as_deref(), change.after.as_deref());
        ask(&self.pools, affected, change);
        ask(&self.unassigned, [unassigned::KEY.to_owned()], change);
    }

    /// A pool changed: itself; if it now says something else to others, all pools, since nodes and RuntimeClasses may
    /// move between them, and the profiles that it names.
    pub fn pool(&self, change: &Change<Pool>) {
        ask(&self.pools, [change.name().to_owned()], change);
        if concerns_others(change) {
            ask(&self.pools, self.caches.pools.all().into_keys(), change);
            ask(&self.profiles, either(change, profile_of), change);
            ask(&self.unassigned, [unassigned::KEY.to_owned()], change);
        }
    }

    /// A profile changed: itself; if it now says something else, the pools that name it.
    pub fn profile(&self, change: &Change<ProfileView>) {
        ask(&self.profiles, [change.name().to_owned()], change);
        if differs(change, |profile| &profile.profile) {
            let pools = self.caches.pools.all().into_values();
            let users = pools.filter(|pool| profile_of(pool).as_deref() == Some(change.name()));
            ask(&self.pools, users.map(|pool| pool.name.clone()), change);
        }
    }

    /// A RuntimeClass changed: the pools that name it and the pool that it was made for.
    pub fn runtime_class(&self, change: &Change<RuntimeClassView>) {
        let pools = self.caches.pools.all().into_values();
        let named = pools.filter(|pool| names_class(pool, change.name())).map(|pool| pool.name.clone());
        let made_for = either(change, |class| class.label(label::POOL).map(str::to_owned));
        ask(&self.pools, named.chain(made_for), change);
    }

    /// A ConfigMap changed: the pool that it was rendered for.
    pub fn config_map(&self, change: &Change<ConfigMapView>) {
        ask(&self.pools, either(change, |map| map.pool.clone()), change);
    }

    /// The lowest version of the API servers changed: all pools.
    pub fn api_server(&self) {
        for pool in self.caches.pools.all().keys() {
            self.pools.ask(pool, Cause::here("version of the API server changed".to_owned()));
        }
    }
}

fn ask<V: View>(asker: &Asker<Cause>, objects: impl IntoIterator<Item = String>, change: &Change<V>) {
    for object in objects {
        asker.ask(&object, Cause::here(change.words()));
    }
}

/// Whether more than the pool's own pass depends on what changed. Its conditions, counts and annotations are its own.
fn concerns_others(change: &Change<Pool>) -> bool {
    differs(change, |pool| (&pool.uid, pool.deleting, &pool.spec, &pool.status.applied))
}

fn profile_of(pool: &Pool) -> Option<String> {
    pool.spec.as_ref().ok()?.profile.clone()
}

fn names_class(pool: &Pool, name: &str) -> bool {
    pool.spec.as_ref().is_ok_and(|spec| spec.runtime_classes.iter().any(|class| class.name == name))
}

/// Whether a part of the object was or is another, or came or went.
fn differs<'a, V, P: PartialEq>(change: &'a Change<V>, part: impl Fn(&'a V) -> P) -> bool {
    change.before.as_deref().map(&part) != change.after.as_deref().map(&part)
}

/// What the object named before and what it names now.
fn either<V>(change: &Change<V>, named: impl Fn(&V) -> Option<String>) -> BTreeSet<String> {
    change.before.as_deref().into_iter().chain(change.after.as_deref()).filter_map(named).collect()
}
