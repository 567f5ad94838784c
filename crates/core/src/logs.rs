//! The logs of nodes: which are read, and the lines of one, without credentials.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::masking::{MASK, masked};

#[derive(Clone, Copy, Debug)]
pub struct LogSource {
    /// The provider in the Windows event log Application.
    pub service: &'static str,
    /// Where it may be below `C:\var\log` if there is no such provider.
    pub files: &'static [&'static str],
    /// Where RKE2 writes it below its directory `agent`, which only the agent of winpool can read.
    pub of_rke2: Option<&'static str>,
}

/// The logs that are read. The names of files are those that a kubelet tries itself, `heuristicsCopyFileLogs` in
/// <https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_server_journal.go>, and that of
/// <https://github.com/kubernetes-sigs/sig-windows-tools/blob/master/hostprocess/PrepareNode.ps1>. The provider of nssm is in
/// <https://github.com/puppetlabs/nssm/blob/a1c32603645df5c4b0b0a13b89a51db06340c1b2/event.cpp>. Those of RKE2 are in
/// <https://docs.rke2.io/reference/logging> and in `pkg/executor/pebinary/pebinary.go` of rancher/rke2 0d48392a. Read on 2026-11-26 and
/// 2026-11-27.
pub const LOG_SOURCES: [LogSource; 4] = [
    LogSource {
        service: "kubelet",
        files: &["kubelet.log", "kubelet/kubelet.log", "kubelet/kubelet.err.log"],
        of_rke2: Some("logs/kubelet.log"),
    },
    LogSource {
        service: "containerd",
        files: &["containerd.log", "containerd/containerd.log"],
        of_rke2: Some("containerd/containerd.log"),
    },
    LogSource {
        service: "kube-proxy",
        files: &["kube-proxy.log", "kube-proxy/kube-proxy.log"],
        of_rke2: Some("logs/kube-proxy.log"),
    },
    LogSource { service: "nssm", files: &[], of_rke2: None },
];

/// The time of which logs are read.
#[derive(Clone, Copy, Debug)]
pub struct LogWindow {
    pub since: Timestamp,
    pub until: Timestamp,
}

/// The most that the time of a zone differs from UTC.
const ZONES: SignedDuration = SignedDuration::from_hours(14);
/// The number of spaces before a wrapped part of a message in the table of events.
const INDENT: &str = "        ";

/// The lines of a table of events, as the kubelet writes it: sorted by time, and with `Format-Table -AutoSize -Wrap`. If its end is
/// cut off, its last line is not used, of which a credential could be cut in two.
pub fn event_lines(table: &str, is_cut: bool) -> Vec<String> {
    complete_lines(unwrapped(table), false, is_cut)
}

/// The lines of a file of this time, as far as they show it. If its beginning or its end is cut off, the line that is cut in two
/// is not used.
pub fn file_lines(text: &str, window: LogWindow, begin_is_cut: bool, end_is_cut: bool) -> Vec<String> {
    let mut is_old = false;
    let mut lines = complete_lines(text.lines().map(str::to_owned).collect(), begin_is_cut, end_is_cut);
    lines.retain(|line| {
        if let Some(at) = written_at(line, window.until) {
            is_old = at < window.since;
        }
        !is_old
    });
    lines
}

fn complete_lines(mut lines: Vec<String>, begin_is_cut: bool, end_is_cut: bool) -> Vec<String> {
    if end_is_cut {
        lines.pop();
    }
    masked_lines(lines.into_iter().skip(usize::from(begin_is_cut)))
}

/// Wrapped messages in one line each. A part that is as wide as the table may end within a word.
fn unwrapped(table: &str) -> Vec<String> {
    let width = table.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or_default();
    let (mut lines, mut is_full) = (Vec::<String>::new(), false);
    for line in table.lines().map(str::trim_end) {
        match lines.last_mut().filter(|_| line.starts_with(INDENT)) {
            Some(last) => {
                last.push_str(if is_full { "" } else { " " });
                last.push_str(line.trim_start());
            }
            None => lines.push(line.to_owned()),
        }
        is_full = line.chars().count() == width;
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// Lines without credentials, also without private keys, which have several lines.
pub fn masked_lines(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_key = false;
    let masked = lines.map(|line| {
        is_key |= line.contains("-----BEGIN") && line.contains("PRIVATE KEY");
        let masked = if is_key { MASK.to_owned() } else { masked(&line) };
        is_key &= !line.contains("-----END");
        masked
    });
    masked.collect()
}

/// The latest time at which a line may have been written, if it begins as those of klog, or has a field `time` as those of
/// containerd. klog writes the time of the node's zone, and no year.
fn written_at(line: &str, until: Timestamp) -> Option<Timestamp> {
    if let Some((_, rest)) = line.split_once("time=\"") {
        return rest.split_once('"')?.0.parse().ok();
    }
    let day = line.strip_prefix(['I', 'W', 'E', 'F'])?;
    let year = until.to_zoned(TimeZone::UTC).year();
    let in_year = |year: i16| -> Option<Timestamp> {
        let text = format!("{year}-{}-{}T{}Z", day.get(..2)?, day.get(2..4)?, day.get(5..13)?);
        text.parse::<Timestamp>().ok()?.checked_add(ZONES).ok()
    };
    in_year(year).filter(|at| at.duration_since(until) <= ZONES * 2).or_else(|| in_year(year - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> LogWindow {
        let at = |text: &str| text.parse().unwrap();
        LogWindow { since: at("2026-01-02T03:00:00Z"), until: at("2026-01-03T03:00:00Z") }
    }

    #[test]
    fn a_wrapped_message_is_one_line_before_it_is_masked() {
        let table = "\n   ProviderName: nssm\n\nTimeCreated          Message\n-----------          -------\n\
                     1/5/2022 1:53:30 AM  Program kubelet.exe for service\n                     kubelet exited, token=hunter22-pl\n\
                     \u{20}                    anted\n1/5/2022 1:54:30 AM  Started\n";
        let expected = [
            "1/5/2022 1:53:30 AM  Program kubelet.exe for service kubelet exited, token=***",
            "1/5/2022 1:54:30 AM  Started",
        ];
        assert_eq!(event_lines(table, false)[3..], expected);
        assert_eq!(event_lines(table, true)[3..], expected[..1], "a line that may be cut in two is not used");
    }

    #[test]
    fn lines_of_a_file_are_of_the_time_whole_and_masked() {
        let text = "word=hunter2-cut\nE1231 10:00:00.000000 1 a.go:1] last year\n  its second line\n\
                    E0103 02:00:00.000000 1 a.go:1] new --password=hunter22\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n\
                    -----END RSA PRIVATE KEY-----\ntime=\"2026-01-01T00:00:00Z\" level=error msg=old\n\
                    time=\"2026-01-03T00:00:00.5Z\" level=error msg=new\ncut";
        let new = "E0103 02:00:00.000000 1 a.go:1] new --password=***";
        let expected = [new, "***", "***", "***", "time=\"2026-01-03T00:00:00.5Z\" level=error msg=new"];
        assert_eq!(file_lines(text, window(), true, true), expected);
    }

    #[test]
    fn the_time_of_a_line_is_that_of_klog_or_containerd() {
        let at = |line: &str| written_at(line, window().until).map(|at| at.to_string());
        let table = [
            ("E0102 16:57:08.673912    1180 hnsV2.go:36] x", Some("2026-01-03T06:57:08Z")),
            ("I1231 00:00:00.000000 1 a.go:1] x", Some("2025-12-31T14:00:00Z")),
            ("time=\"2026-01-02T22:05:26Z\" level=debug", Some("2026-01-02T22:05:26Z")),
            ("Error: x", None),
            ("", None),
        ];
        for (line, expected) in table {
            assert_eq!(at(line).as_deref(), expected, "{line}");
        }
    }
}
