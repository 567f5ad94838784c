//! The fixed versions of known issues: the changelogs of kubernetes/kubernetes and kubernetes-csi/csi-proxy, the release notes in
//! the tags of containerd/containerd, and Microsoft's updates in altrhombus/DataForGeeks.

use std::collections::BTreeSet;

use winpool_api::facts::{
    Minor,
    known_issues::{
        ComponentVersion, KnownIssue,
        NodeComponent::{self, Containerd, CsiProxy, KubeProxy, Kubelet, Windows},
        known_issue,
    },
};

use super::{Comparison, windows};

/// What says that a version fixes an issue.
#[derive(Clone, Copy)]
enum Fix {
    /// This text, in the release notes of each fixed version. Of a backport they have the text of the original.
    Notes(&'static str),
    /// The KB article that installs the fixed revision of Windows.
    Article(u32),
}

use Fix::{Article, Notes};

/// A row for each issue that is compared, in their order.
#[rustfmt::skip]
const FIXES: &[(&str, Fix)] = &[
    ("CVE-2023-3676", Notes("CVE-2023-3676")),
    ("CVE-2023-3893", Notes("kubernetes-csi/csi-proxy/pull/306")),
    ("CVE-2023-3955", Notes("CVE-2023-3955")),
    ("CVE-2023-5528", Notes("CVE-2023-5528")),
    ("KB5040437", Article(5_044_281)),
    ("CVE-2022-23471", Notes("GHSA-2qjp-425j-52j9")),
    ("CVE-2022-31030", Notes("GHSA-5ffw-gxpp-mxpf")),
    ("CVE-2024-5321", Notes("CVE-2024-5321")),
    ("CVE-2024-9042", Notes("CVE-2024-9042")),
    ("CVE-2025-64329", Notes("GHSA-m6hq-p25p-ffr2")),
    ("containerd-5405", Notes("Fix symlink resolution for disk mounts on Windows")),
    ("kubernetes-112630", Notes("kubernetes/kubernetes/pull/138367")),
    ("kubernetes-130356", Notes("nodes may fail to report status and renew serving certificates")),
    ("kubernetes-130496", Notes("regression starting pods with postStart hooks specified")),
    ("kubernetes-131427", Notes("the creation of HNS endpoints fails if remote HNS endpoints with the same IP address")),
    ("kubernetes-131506", Notes("ModifyLoadBalancer API updates did not match HNS state")),
    ("kubernetes-134031", Notes("intermittent deletion of ClusterIP load balancers in HNS when internalTrafficPolicy=Local")),
    ("kubernetes-135146", Notes("premature clearing of the terminatedEndpoints map")),
    ("kubernetes-135631", Notes("regression in ipvs and winkernel kube-proxy backends")),
    ("kubernetes-136241", Notes("IPv4 and IPv6 Service load balancers could be incorrectly shared")),
    ("kubernetes-138000", Notes("stale remote HNS endpoint cleanup on Windows when a pod IP is reused")),
    ("kubernetes-140066", Notes("kubelet memory leak regression in 1.36 caused by leaked contexts")),
    ("KB4482887", Article(4_482_887)),
    ("KB4489899", Article(4_489_899)),
    ("Windows-19041.610", Article(4_580_364)),
    ("containerd-10071", Notes("Fix default working directory Windows HostProcess containers")),
    ("containerd-13837", Notes("Use ScrubLogs by default on Windows")),
    ("kubernetes-138727", Notes("kubernetes/kubernetes/pull/138727")),
];

/// The issues of some components with a text in the notes, that text, and a fixed version.
fn with_notes(of: &[NodeComponent]) -> impl Iterator<Item = (&'static KnownIssue, &'static str, [u32; 3])> {
    let rows = FIXES.iter().filter_map(|(id, fix)| match fix {
        Notes(text) => Some((known_issue(id)?, *text)),
        Article(_) => None,
    });
    let rows = rows.filter(|(issue, _)| of.contains(&issue.component));
    rows.flat_map(|(issue, text)| issue.fixed().map(move |ComponentVersion(version)| (issue, text, version)))
}

/// The minors of Kubernetes whose changelogs are compared.
pub fn minors() -> BTreeSet<Minor> {
    with_notes(&[Kubelet, KubeProxy]).map(|(_, _, [_, minor, _])| Minor(minor)).collect()
}

/// Compares the releases of a minor of Kubernetes.
pub fn changelog(minor: Minor, text: &str) -> Comparison {
    let rows = with_notes(&[Kubelet, KubeProxy]).filter(|(_, _, version)| version[1] == minor.0);
    compare(rows, |version| between(text, &format!("\n# v{version}\n"), "\n# v"))
}

/// Compares the releases of containerd. Before the message of each tag is its name: `refs/tags/v2.3.4`.
pub fn containerd(text: &str) -> Comparison {
    compare(with_notes(&[Containerd]), |version| between(text, &format!("refs/tags/v{version}\n"), "\nrefs/tags/"))
}

/// Compares the release of csi-proxy with a fix.
pub fn csi_proxy(text: &str) -> Comparison {
    compare(with_notes(&[CsiProxy]), |_| Some(text))
}

/// Compares the revisions of Windows with the articles that install them.
pub fn articles(text: &str) -> Comparison {
    let history = windows::history(text)?;
    let rows = FIXES.iter().filter_map(|(id, fix)| match fix {
        Article(article) => Some((known_issue(id)?, format!("KB{article}"))),
        Notes(_) => None,
    });
    let fixed = rows.filter(|(issue, _)| issue.component == Windows).flat_map(|(issue, article)| {
        issue.fixed().map(move |ComponentVersion([_, build, revision])| {
            (issue.id, format!("{build}.{revision}"), article.clone())
        })
    });
    let wrong = fixed
        .filter(|(_, build, article)| !history.iter().any(|row| (&row.build, &row.kb_article) == (build, article)));
    Ok(wrong.map(|(id, build, article)| format!("{id}: {article} does not install {build} upstream")).collect())
}

/// The text of a release, from its heading to the next one.
fn between<'t>(text: &'t str, heading: &str, next: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(heading)?;
    Some(rest.split(next).next().unwrap_or(rest))
}

/// The issues that the notes of a fixed version do not name. White space makes no difference.
fn compare<'t>(
    rows: impl Iterator<Item = (&'static KnownIssue, &'static str, [u32; 3])>,
    notes: impl Fn(&str) -> Option<&'t str>,
) -> Comparison {
    let difference = |(issue, text, [major, minor, patch]): (&KnownIssue, &str, [u32; 3])| {
        let version = format!("{major}.{minor}.{patch}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        match notes(&version) {
            None => Some(format!("{}: no notes of {version}", issue.id)),
            Some(notes) if words(notes).contains(text) => None,
            Some(_) => Some(format!("{}: the notes of {version} do not name it", issue.id)),
        }
    };
    Ok(rows.filter_map(difference).collect())
}

#[cfg(test)]
mod tests {
    use winpool_api::facts::{NOT_COMPARED, known_issues::KNOWN_ISSUES};

    use super::*;

    #[test]
    fn every_issue_is_compared_or_says_why_not() {
        let ids: Vec<_> = FIXES.iter().map(|(id, _)| *id).collect();
        let not_compared = |id: &str| NOT_COMPARED.iter().any(|(table, row, _)| (*table, *row) == ("known_issues", id));
        let compared = KNOWN_ISSUES.iter().map(|issue| issue.id).filter(|id| !not_compared(id));
        assert_eq!(ids, compared.collect::<Vec<_>>());
        for (id, fix) in FIXES {
            let issue = known_issue(id).unwrap();
            let is_of_component = match fix {
                Notes(_) => {
                    [Kubelet, KubeProxy, Containerd, CsiProxy].contains(&issue.component) && issue.fixed().count() > 0
                }
                Article(_) => issue.component == Windows,
            };
            assert!(is_of_component, "{id}");
        }
        assert_eq!(minors(), (24..=37).map(Minor).collect());
    }

    #[test]
    fn a_fix_that_the_notes_do_not_name_is_a_difference() {
        let notes = |patch: u32, text: &str| format!("\n# v1.36.{patch}\n\n- {text} ([#1](x))\n");
        let (endpoints, leak) = (
            "Fixed stale remote HNS endpoint\n  cleanup on Windows when a pod IP is reused across nodes",
            "Fixed a kubelet memory leak regression in 1.36 caused by leaked contexts on every Pod sync.",
        );
        let table: [(String, &[&str]); 3] = [
            (notes(3, leak) + &notes(1, endpoints), &[]),
            (notes(3, "nothing") + &notes(1, endpoints), &["kubernetes-140066: the notes of 1.36.3 do not name it"]),
            (notes(3, leak), &["kubernetes-138000: no notes of 1.36.1"]),
        ];
        for (text, expected) in table {
            assert_eq!(changelog(Minor(36), &text).unwrap(), expected);
        }
        assert_eq!(csi_proxy("- ([#306](https://github.com/kubernetes-csi/csi-proxy/pull/306))"), Ok(Vec::new()));
        assert_eq!(csi_proxy("").unwrap(), ["CVE-2023-3893: the notes of 1.1.3 do not name it"]);
        assert!(
            containerd("refs/tags/v1.5.3\n")
                .unwrap()
                .contains(&"containerd-5405: the notes of 1.5.3 do not name it".to_owned())
        );
    }

    #[test]
    fn another_article_of_a_fixed_revision_is_a_difference() {
        let row = |build: &str, article: &str| {
            format!(
                "{{\"build\": \"{build}\", \"os_type\": \"server\", \"release_type\": \"Standard\", \
                 \"release_date\": \"2019-03-01\", \"kb_article\": \"{article}\"}}"
            )
        };
        let list = |rows: &[String]| {
            let last = "{\"lastModified\": \"2026-11-20T01:09:51Z\"}";
            articles(&format!("{{\"metadata\": {last}, \"data\": [{}]}}", rows.join(",")))
        };
        let rows = [
            row("17763.348", "KB4482887"),
            row("17763.379", "KB4489899"),
            row("19041.610", "KB4580364"),
            row("20348.2762", "KB5044281"),
        ];
        assert_eq!(list(&rows), Ok(Vec::new()));
        assert_eq!(list(&rows[1..]).unwrap(), ["KB4482887: KB4482887 does not install 17763.348 upstream"]);
    }
}
