//! The security advisories about Kubernetes and containerd that are no known issue of a Windows node, with the reason.
//!
//! Sources, for summaries and fixed versions: golang/vulndb, `data/osv` at a752ea54 (2026-08-20), and kubernetes-sigs/cve-feed-osv,
//! `vulns` at 9760a225 (2024-11-18); for checkpoints `internal/cri/server/container_checkpoint.go` of containerd v2.4.2, which is built
//! for other systems than Linux. What no advisory says of Windows follows from the code that the fixes change (read 2026-11-29): modes of
//! directories (commit 7c59e8e9e), which `Mkdir` in `syscall/syscall_windows.go` of Go does not use; `applyNaive` (commit cada13298), which
//! `pkg/archive/tar_opts_windows.go` of v2.1.0 does not call; and `WithUser` in `pkg/oci/spec_opts.go`, whose numbers have no effect in a
//! specification for Windows, where a process runs as the user of a name. The records of CVE-2026-95837 and CVE-2026-95838
//! (GHSA-rp3h-jf77-q9p4) are of CVEProject/cvelistV5 (2026-11-16).
//!
//! In neither table, because their texts were not found (read 2026-11-29): GHSA-8647-2jxj-p2rc and GHSA-hc94-p972-ch66, which containerd
//! 2.3.7 and 2.4.2 fix, and GHSA-5p7c-hggf-c748 (2.3.7), as their release notes say.

use super::known_issues::KNOWN_ISSUES;

/// A reason, and the ids.
#[rustfmt::skip]
pub const NO_ISSUE: &[(&str, &[&str])] = &[
    ("every release of Kubernetes 1.30 and containerd 1.7 has the fix", &[
        "CVE-2015-5305", "CVE-2015-7528", "CVE-2015-7561", "CVE-2016-1905", "CVE-2017-1000056", "CVE-2017-1002101", "CVE-2017-1002102", "CVE-2018-1002100",
        "CVE-2018-1002101", "CVE-2018-1002102", "CVE-2018-1002105", "CVE-2019-1002100", "CVE-2019-1002101", "CVE-2019-11243",
        "CVE-2019-11244", "CVE-2019-11245", "CVE-2019-11247", "CVE-2019-11248", "CVE-2019-11249", "CVE-2019-11250",
        "CVE-2019-11251", "CVE-2019-11253", "CVE-2019-11254", "CVE-2020-10749", "CVE-2020-15157", "CVE-2020-15257",
        "CVE-2020-8551", "CVE-2020-8552", "CVE-2020-8555", "CVE-2020-8557", "CVE-2020-8558", "CVE-2020-8559", "CVE-2020-8563",
        "CVE-2020-8564", "CVE-2020-8565", "CVE-2020-8566", "CVE-2021-25735", "CVE-2021-25736", "CVE-2021-25737",
        "CVE-2021-25741", "CVE-2021-25743", "CVE-2021-25749", "CVE-2021-32760", "CVE-2021-41103", "CVE-2021-43816",
        "CVE-2022-23648", "CVE-2022-3162", "CVE-2022-3172", "CVE-2022-3294", "CVE-2023-2431", "CVE-2023-25153",
        "CVE-2023-25173", "CVE-2023-2727", "CVE-2023-2728", "CVE-2024-0793", "CVE-2024-3177", "GHSA-5j5w-g665-5m35",
        "GHSA-c9cp-9c75-9v8c",
    ]),
    ("it is of the control plane", &["CVE-2020-8562", "CVE-2024-7598", "CVE-2025-13281", "CVE-2025-4563", "CVE-2025-5187"]),
    ("containerd makes and restores checkpoints on Linux only", &["CVE-2025-0426", "CVE-2026-50195", "CVE-2026-53489", "CVE-2026-53492", "CVE-2026-95837"]),
    ("directories of Windows have no mode", &["CVE-2024-25621"]),
    ("the layers of Windows are unpacked by other code", &["CVE-2025-47290", "CVE-2026-95838", "GHSA-rp3h-jf77-q9p4"]),
    ("the users of Windows have no numbers", &["CVE-2024-40635", "CVE-2026-46680"]),
    ("cgroups and RAPL are of Linux", &["CVE-2025-47291", "GHSA-7ww5-4wqc-m92c"]),
];

/// Whether an advisory is a known issue, or none of a Windows node.
pub fn is_judged(id: &str) -> bool {
    let is_id = |known: &str| known.eq_ignore_ascii_case(id);
    KNOWN_ISSUES.iter().any(|issue| is_id(issue.entry.code) || is_id(issue.entry.source))
        || NO_ISSUE.iter().any(|(_, ids)| ids.iter().any(|known| is_id(known)))
}

pub(super) const COUNT: usize = {
    let (mut count, mut reason) = (0, 0);
    while reason < NO_ISSUE.len() {
        count += NO_ISSUE[reason].1.len();
        reason += 1;
    }
    count
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_advisory_is_judged_by_its_id_or_by_that_of_its_source() {
        let table = [
            ("CVE-2026-35469", true),
            ("cve-2026-35469", true),
            ("GHSA-pc3f-x583-g7j2", true),
            ("CVE-2025-5187", true),
            ("CVE-2025-518", false),
            ("CVE-2024-10220", true),
            ("GHSA-jpcc-p29g-p8mq", true),
            ("CVE-2016-1905", true),
            ("", false),
        ];
        for (id, expected) in table {
            assert_eq!(is_judged(id), expected, "{id}");
        }
    }

    #[test]
    fn an_id_is_in_one_table_once() {
        let ids: Vec<_> = NO_ISSUE.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        let known = |id: &&str| super::super::known_issues::known_issue(id).is_some();
        assert_eq!(ids.into_iter().find(known), None);
    }
}
