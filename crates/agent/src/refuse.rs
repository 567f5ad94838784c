//! Refusals, and reads that refuse.

use std::fmt::Display;

use super::{
    change_plan::{Refusal, RefusalReason},
    host::Host,
};

/// A refusal: what is wrong, and the remedy. Both are sentences without the full stop.
pub(super) fn refuse(reason: RefusalReason, wrong: impl Display, remedy: impl Display) -> Refusal {
    Refusal { reason, message: format!("{wrong}. {remedy}.") }
}

/// A file, service or program that cannot be read.
pub(super) fn unreadable(what: impl Display, error: impl Display) -> Refusal {
    refuse(RefusalReason::Unreadable, format!("{what}: {error}"), "Correct it. Nothing was changed")
}

/// The content of a file; `None` if it does not exist.
pub(super) fn read(host: &dyn Host, path: &str) -> Result<Option<Vec<u8>>, Refusal> {
    host.read(path).map_err(|error| unreadable(path, error))
}

/// The names of the files in a directory, sorted.
pub fn list(host: &dyn Host, directory: &str) -> Result<Vec<String>, Refusal> {
    let mut names = host.list(directory).map_err(|error| unreadable(directory, error))?;
    names.sort();
    Ok(names)
}
