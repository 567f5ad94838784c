//! The objects that could not be written.

use std::collections::BTreeSet;

use crate::domain::revert::Target;

/// The objects that could not be written.
#[derive(Clone, Debug, Default)]
pub struct Unwritten(BTreeSet<(Target, String)>);

impl Unwritten {
    pub(super) fn add_object(&mut self, target: Target, name: &str) {
        self.0.insert((target, name.to_owned()));
    }

    pub(super) fn has_object(&self, target: Target, name: &str) -> bool {
        self.0.contains(&(target, name.to_owned()))
    }
}
