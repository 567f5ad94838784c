//! The objects that could not be written.

use std::collections::BTreeSet;

use crate::revert::Target;

/// The objects that could not be written.
#[derive(Clone, Debug, Default)]
pub struct Unwritten(BTreeSet<(Target, String)>);

impl Unwritten {
    /// Adds an object.
    pub fn add(&mut self, target: Target, name: &str) {
        self.0.insert((target, name.to_owned()));
    }

    /// Whether any object of a kind could not be written.
    pub fn has_any(&self, target: Target) -> bool {
        self.0.iter().any(|(unwritten, _)| *unwritten == target)
    }

    /// Whether an object could not be written.
    pub fn has(&self, target: Target, name: &str) -> bool {
        self.0.contains(&(target, name.to_owned()))
    }
}
