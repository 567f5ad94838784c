//! Problems with a resource, and their remedies.

use derive_more::Display;

/// A problem with a field. Displayed as `path: wrong: remedy`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Display)]
#[display("{path}: {wrong}: {remedy}")]
pub struct Problem {
    /// The path of the field, such as `spec.taints[1].key`.
    pub path: String,
    /// What is wrong, in lower case, such as ``"a b" is not a label key``.
    pub wrong: String,
    /// What to do, in the imperative and in lower case.
    pub remedy: String,
}

impl Problem {
    pub fn new(path: impl Into<String>, wrong: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.into(), wrong: wrong.into(), remedy: remedy.into() }
    }

    /// Several problems in one line, for the message of a condition.
    pub fn list(problems: &[Self]) -> String {
        problems.iter().map(Self::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// Why something is not as specified, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
#[display("{problem}. {remedy}")]
pub struct Explanation {
    /// What is wrong, as a sentence without its period.
    pub problem: String,
    /// What to do, as a sentence without its period.
    pub remedy: String,
}

/// The path of a field of the object at `path`.
pub fn join(path: &str, field: &str) -> String {
    match path {
        "" => field.to_owned(),
        _ if field.is_empty() => path.to_owned(),
        _ => format!("{path}.{field}"),
    }
}

/// Whether a path is equal to `outer` or below it.
pub fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
