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

/// The path of a field of what is at `path`.
pub fn join(path: &str, field: &str) -> String {
    match path {
        "" => field.to_owned(),
        _ if field.is_empty() => path.to_owned(),
        _ => format!("{path}.{field}"),
    }
}

/// Whether a path is that of something, or of a field or an item in it.
pub fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.wrong, self.remedy)
    }
}
