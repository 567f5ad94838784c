//! Progress lines for the user.

use std::io::Write;

/// Writes a line to standard error that the test harness does not capture, so that passing tests show it too.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
