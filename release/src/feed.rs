//! The advisories of a feed of security issues that the tables of facts say nothing about.
//!
//! A feed is the official one of Kubernetes (`items`), one of OSV (an advisory, a list, or `vulns`), or a list of those of a
//! repository at GitHub.

use anyhow::{Context, Result};
use serde_json::Value;
use winpool_core::foreign_text::ForeignText;
use winpool_facts::advisories::is_judged;

/// The id and the summary of each.
pub fn not_judged(feed: &Value) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for advisory in advisories(feed) {
        let ids = ids(advisory);
        let first = ids.first().context("an advisory has none of id, cve_id, ghsa_id and aliases")?;
        if !ids.iter().any(|id| is_judged(id)) {
            lines.push(format!("{:.40}: {:.120}", ForeignText::from(*first), summary(advisory)));
        }
    }
    Ok(lines)
}

fn advisories(feed: &Value) -> &[Value] {
    let list = ["items", "vulns"].iter().find_map(|key| feed[key].as_array());
    list.or(feed.as_array()).map_or(std::slice::from_ref(feed), Vec::as_slice)
}

/// The ids, a CVE first.
fn ids(advisory: &Value) -> Vec<&str> {
    let aliases = advisory["aliases"].as_array().into_iter().flatten();
    let fields = ["cve_id", "ghsa_id", "id"].iter().map(|key| &advisory[key]);
    let mut ids: Vec<_> = fields.chain(aliases).filter_map(Value::as_str).collect();
    ids.sort_by_key(|id| !id.starts_with("CVE-"));
    ids
}

fn summary(advisory: &Value) -> ForeignText {
    ["summary", "title"].iter().find_map(|key| advisory[key].as_str()).unwrap_or_default().into()
}
