//! A mistake in a resource, and what to write instead.

use std::fmt;

/// A mistake: where it is, what is wrong, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The field, such as `spec.taints[1].key`.
    pub path: String,
    /// What is wrong, such as ``"a b" is not a label key``.
    pub wrong: String,
    /// What to write instead.
    pub remedy: String,
}

impl Problem {
    /// A mistake at a path.
    pub fn new(path: impl Into<String>, wrong: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.into(), wrong: wrong.into(), remedy: remedy.into() }
    }

    /// All of them in one line, for a condition's message.
    pub fn list(problems: &[Self]) -> String {
        problems.iter().map(Self::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.wrong, self.remedy)
    }
}
