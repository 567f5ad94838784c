//! The pages of the documentation: their links exist, and their examples are valid. `e2e/tests/all/documents.rs` runs their
//! commands.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use pulldown_cmark::{Event, Tag, TagEnd};
use serde_json::Value;
use winpool_api::{WindowsNodePool, WindowsRuntimeProfile};
use winpool_facts::platforms::{Platform, Setting, Support, settings};
use winpool_operator::admin::{Metrics, ReconcileOutcome};
use winpool_workload::LookupCounts;

use self::pages::{Page, pages};
use crate::status_page::assert_blocks;

mod addresses;
mod pages;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The anchors that GitHub gives to headings, in their order.
///
/// Source: github-slugger (`test/fixtures.json`, generated from pages of GitHub, read 2026-11): letters become lower case; letters, digits,
/// `-` and `_` are kept, a space becomes `-`, and everything else is removed. A repeated anchor gets the next number that is
/// not in use.
fn anchors<'a>(headings: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    let unique = |heading: &str| {
        let kept = heading.chars().flat_map(char::to_lowercase);
        let kept = kept.filter(|one| one.is_alphanumeric() || [' ', '-', '_'].contains(one));
        let base: String = kept.map(|one| if one == ' ' { '-' } else { one }).collect();
        let mut anchor = base.clone();
        while uses.contains_key(&anchor) {
            let count = uses.entry(base.clone()).or_default();
            *count += 1;
            anchor = format!("{base}-{count}");
        }
        uses.insert(anchor.clone(), 0);
        anchor
    };
    headings.into_iter().map(unique).collect()
}

/// The anchors of a page: those of its headings, and the ids in its HTML.
fn anchors_of(page: &Page) -> BTreeSet<String> {
    let (mut headings, mut open, mut ids) = (Vec::new(), None, BTreeSet::new());
    for event in page.events() {
        match event {
            Event::Start(Tag::Heading { .. }) => open = Some(String::new()),
            Event::Text(text) | Event::Code(text) => open.iter_mut().for_each(|heading| heading.push_str(&text)),
            Event::End(TagEnd::Heading(_)) => headings.extend(open.take()),
            Event::InlineHtml(html) | Event::Html(html) => {
                let id = html.strip_prefix("<a id=\"").and_then(|rest| rest.split('"').next());
                ids.extend(id.map(str::to_owned));
            }
            _ => {}
        }
    }
    ids.extend(anchors(headings.iter().map(String::as_str)));
    ids
}

/// The targets of the links and images of a page.
fn targets(page: &Page) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    };
    page.events().filter_map(target).collect()
}

/// The links of a page that lead to nothing.
fn broken(page: &Page, anchors: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let is_broken = |target: &String| {
        let (file, anchor) = target.split_once('#').map_or((target.as_str(), None), |(file, at)| (file, Some(at)));
        let file = match file {
            "" => root().join(&page.name),
            file => root().join(&page.name).parent().unwrap().join(file),
        };
        let Ok(file) = file.canonicalize() else { return true };
        let Ok(name) = file.strip_prefix(root()) else { return true };
        let known = anchors.get(&name.display().to_string());
        anchor.is_some_and(|anchor| !known.is_some_and(|anchors| anchors.contains(anchor)))
    };
    targets(page).into_iter().filter(|target| !target.starts_with("https://")).filter(is_broken).collect()
}

#[test]
fn links_are_valid() {
    let pages = pages(root());
    let anchors = pages.iter().map(|page| (page.name.clone(), anchors_of(page))).collect();
    let broken: Vec<_> = pages.iter().map(|page| (&page.name, broken(page, &anchors))).collect();
    let broken: Vec<_> = broken.into_iter().filter(|(_, targets)| !targets.is_empty()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let links: usize = pages.iter().map(|page| targets(page).len()).sum();
    assert!(links > 100, "{links} links in {} pages", pages.len());
}

#[test]
fn every_metric_is_documented_and_every_documented_one_exists() {
    let registered: BTreeSet<String> = with_every_metric().text().lines().filter_map(exposed).collect();
    let pages = pages(root()).into_iter().filter(|page| page.name.starts_with("docs/"));
    let is_name = |one: char| one.is_ascii_lowercase() || one == '_';
    let documented: BTreeSet<String> = pages
        .flat_map(|page| page.text.split(|one| !is_name(one)).map(str::to_owned).collect::<Vec<_>>())
        .filter(|name| name.starts_with("winpool_"))
        .collect();
    assert_eq!(documented, registered);
}

/// Metrics with a series of each, because those without one are not exposed.
fn with_every_metric() -> Metrics {
    let metrics = Metrics::default();
    metrics.controller("pool", || 0);
    metrics.reconcile("pool", ReconcileOutcome::Changed, 0.1, None);
    metrics.operation("patch-node", "done");
    metrics.api_request("patch", Some(200), 0.1);
    metrics.ready_before_taint("web", 0.1);
    metrics.images(LookupCounts { found: 1, failed: 0, pending: 0 });
    metrics.synced("Node", true);
    metrics.task_restarts.add("workloads");
    let gauges = [&metrics.cache_objects, &metrics.oversized_objects, &metrics.refused_claims, &metrics.watch_activity];
    gauges.into_iter().for_each(|gauges| gauges.add("Node"));
    metrics
}

/// The name of a metric in the format of Prometheus, from the line of OpenMetrics with its type.
fn exposed(line: &str) -> Option<String> {
    let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
    let suffix = match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    Some(format!("{name}{suffix}"))
}

/// Pages, and the arguments of the command whose output has their first block of text.
const SHOWN: [(&str, &[&str]); 2] = [
    ("README.md", &["adopt", "--nodes", "tests/golden/adopt/cluster.yaml"]),
    ("docs/delivery.md", &["render", "-f", "config/samples", "--target", "aks-nodepool", "--kubernetes", "1.36"]),
];

#[test]
fn the_output_that_a_page_shows_is_that_of_its_command() {
    for (name, arguments) in SHOWN {
        let page = page(name);
        let shown = page.blocks().into_iter().find(|block| block.language == "text").unwrap().text;
        let output = Command::new(env!("CARGO_BIN_EXE_winpool")).args(arguments).current_dir(root()).output();
        let printed = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(printed.contains(&shown), "{name}: {printed}");
    }
}

fn page(name: &str) -> Page {
    pages(root()).into_iter().find(|page| page.name == name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn the_page_about_delivery_has_what_the_document_of_each_platform_takes() {
    let columns = [Platform::Eks, Platform::Aks, Platform::Karpenter, Platform::Rke2, Platform::Rke2WithFlags];
    let cell = |support| match support {
        Support::Native(_) | Support::Flag(_) | Support::File(_) => "yes".to_owned(),
        Support::Always(value) => format!("always {value}"),
        Support::Replaces(_) | Support::NotTaken(_) => "no".to_owned(),
    };
    let row = |setting: Setting| {
        let cells = columns.map(|platform| cell(platform.support(setting)));
        format!("| `{}` | {} |\n", setting.name(), cells.join(" | "))
    };
    let head = "| setting | EKS | AKS | Karpenter | RKE2 | RKE2 up to 1.31 |\n|---|---|---|---|---|---|\n";
    let table = format!("{head}{}", settings().map(row).collect::<String>());
    assert_blocks("docs/delivery.md", [("settings", table)]);
}

#[test]
fn the_path_for_a_platform_has_at_most_400_words() {
    let page = page("docs/platforms.md");
    let long = page.text.split("\n## ").filter(|section| section.split_whitespace().count() > 400);
    let long: Vec<_> = long.filter_map(|section| section.lines().next()).collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn examples_of_resources_are_valid() {
    let mut seen = 0;
    for page in pages(root()) {
        for block in page.blocks().into_iter().filter(|block| block.language == "yaml") {
            for object in serde_saphyr::from_multiple::<Value>(&block.text).unwrap() {
                let problem = match object["kind"].as_str() {
                    Some("WindowsNodePool") => serde_json::from_value::<WindowsNodePool>(object).err(),
                    Some("WindowsRuntimeProfile") => serde_json::from_value::<WindowsRuntimeProfile>(object).err(),
                    _ => continue,
                };
                assert!(problem.is_none(), "{}: {problem:?}", page.name);
                seen += 1;
            }
        }
    }
    assert!(seen >= 3);
}
