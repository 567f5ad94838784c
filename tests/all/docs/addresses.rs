//! The address of the repository, which is in `Cargo.toml`, and the links of alerts and findings into it.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

use super::{anchors_of, pages::pages, root};

const ADDRESS: &str = env!("CARGO_PKG_REPOSITORY");

/// The links of the alerts, and those of the findings of `winpool lint`.
fn links() -> Vec<String> {
    let rules = std::fs::read_to_string(root().join("config/prometheus/rules.yaml")).unwrap();
    let rules: Value = serde_saphyr::from_str(&rules).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap().iter();
    let alerts = groups.flat_map(|group| group["rules"].as_array().unwrap());
    let runbooks: Vec<_> = alerts.map(|alert| alert["annotations"]["runbook_url"].clone()).collect();

    let mut lint = Command::new(env!("CARGO_BIN_EXE_winpool"));
    let output = lint.args(["lint", "config/namespace.yaml", "-o", "sarif"]).current_dir(root()).output().unwrap();
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    let driver = &log["runs"][0]["tool"]["driver"];
    let of_codes = driver["rules"].as_array().unwrap().iter().map(|rule| rule["helpUri"].clone());
    let all: Vec<Value> = runbooks.into_iter().chain(of_codes).chain([driver["informationUri"].clone()]).collect();
    all.iter().map(|link| link.as_str().unwrap().to_owned()).collect()
}

#[test]
fn links_of_alerts_and_findings_lead_to_sections_of_pages() {
    let pages: BTreeMap<_, _> = pages(root()).into_iter().map(|page| (page.name.clone(), anchors_of(&page))).collect();
    let links = links();
    assert!(links.len() > 60, "{links:?}");
    for link in links {
        let path = link.strip_prefix(ADDRESS).and_then(|rest| rest.strip_prefix("/blob/main/")).unwrap_or(&link);
        let (page, anchor) = path.split_once('#').map_or((path, None), |(page, anchor)| (page, Some(anchor)));
        let anchors = pages.get(page).unwrap_or_else(|| panic!("{link} leads to no page"));
        assert!(anchor.is_none_or(|anchor| anchors.contains(anchor)), "{link} leads to no section");
    }
}

#[test]
fn the_file_for_security_insights_names_files_that_exist_and_this_repository() {
    let text = std::fs::read_to_string(root().join("SECURITY-INSIGHTS.yml")).unwrap();
    let addresses: Vec<_> = text.split_whitespace().filter(|word| word.starts_with("https://")).collect();
    assert!(addresses.len() > 15, "{addresses:?}");
    for address in addresses.into_iter().filter(|address| !address.contains("ossf/")) {
        let path = address.strip_prefix(ADDRESS).unwrap_or_else(|| panic!("{address}"));
        assert!(path.strip_prefix("/blob/main/").is_none_or(|path| root().join(path).is_file()), "{address}");
    }
}
