//! The advisories of feeds that the tables of facts say nothing about.

use release::feed::not_judged;
use serde_json::json;

#[test]
fn an_advisory_of_a_feed_is_named_unless_a_table_has_one_of_its_ids() {
    let known = json!({"id": "CVE-2023-5528", "summary": "Insufficient input sanitization"});
    let of_linux = json!({"id": "GO-2025-3701", "aliases": ["CVE-2025-47291", "GHSA-cxfp-7pvr-95ff"]});
    let new = json!({"id": "GO-2027-0001", "aliases": ["GHSA-aaaa-bbbb-cccc", "CVE-2027-0001"], "summary": "a\u{1b}b"});
    let of_github = json!({"ghsa_id": "GHSA-aaaa-bbbb-cccc", "cve_id": null, "summary": "new"});
    let table = [
        (
            "Kubernetes",
            json!({"version": "https://jsonfeed.org/version/1.1", "items": [known, new]}),
            vec!["CVE-2027-0001: "],
        ),
        ("OSV, one", of_linux.clone(), vec![]),
        ("OSV, a list", json!([of_linux, new]), vec!["CVE-2027-0001: "]),
        ("OSV, an answer", json!({"vulns": [known]}), vec![]),
        ("GitHub", json!([of_github]), vec!["GHSA-aaaa-bbbb-cccc: new"]),
        ("an empty feed", json!([]), vec![]),
    ];
    for (name, feed, expected) in table {
        let found = not_judged(&feed).unwrap();
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        assert!(found.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{name}: {found:?}");
        assert!(!found.concat().contains('\u{1b}'), "{name}");
    }
    for feed in [json!({}), json!(null), json!([{"summary": "no id"}])] {
        assert_eq!(
            not_judged(&feed).unwrap_err().to_string(),
            "an advisory has none of id, cve_id, ghsa_id and aliases"
        );
    }
}
