//! Lines for the person who waits.

use std::io::Write;

/// Writes a line to standard error, past the capture of the test harness: a passing test shows it too.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
