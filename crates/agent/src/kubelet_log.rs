//! Why a kubelet has ended, by the end of its log.

use jiff::SignedDuration;
use winpool_api::bounds::shortened;
use winpool_core::logs::{LOG_SOURCES, LogWindow, file_lines};

use crate::{diagnosis::paths, host::Host};

/// How much of a log is read, in bytes: a kubelet that works writes more in a few minutes.
const END: u64 = 16 * 1024;
/// The last error of a program of Kubernetes (kubernetes/component-base, `cli/run.go`, 1.30 and 1.37, read 2026-11-29).
const FAILED: &str = "command failed";
const LONGEST: usize = 500;

/// The error with which the kubelet has ended last, without credentials, if its log is where logs are usually.
pub(super) fn last_error(host: &dyn Host) -> Option<String> {
    let source = LOG_SOURCES.iter().find(|source| source.service == "kubelet")?;
    let now = host.now();
    let window = LogWindow { since: now.checked_sub(SignedDuration::from_hours(1)).ok()?, until: now };
    paths(source).iter().find_map(|path| {
        let end = host.read_end(path, END).ok()??;
        let is_cut = u64::try_from(end.len()).is_ok_and(|length| length >= END);
        let lines = file_lines(&String::from_utf8_lossy(&end), window, is_cut, false);
        let line = lines.into_iter().rev().find(|line| line.contains(FAILED))?;
        Some(shortened(line.trim_end(), LONGEST))
    })
}
