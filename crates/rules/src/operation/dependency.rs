//! The objects that could not be written, and the writes that depend on them.

use std::collections::BTreeSet;

use winpool_core::kind::Kind;

/// What must be written before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// The object of a kind with this name, or `namespace/name`.
    Object(Kind, String),
    All(Kind),
}

/// The objects that could not be written.
#[derive(Clone, Debug, Default)]
pub struct Unwritten(pub(super) BTreeSet<(Kind, String)>);

impl Unwritten {
    /// Whether an object could not be written.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&(kind, name.to_owned()))
    }

    /// Whether a dependency could not be written.
    pub fn contains(&self, dependency: &Dependency) -> bool {
        match dependency {
            Dependency::Object(kind, name) => self.has(*kind, name),
            Dependency::All(kind) => self.0.iter().any(|(unwritten, _)| unwritten == kind),
        }
    }
}
