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

use self::pages::{Page, pages};

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

#[test]
fn anchors_are_those_of_github() {
    for (headings, expected) in [
        (&["The first pool"][..], &["the-first-pool"][..]),
        (&["What is a pool?"], &["what-is-a-pool"]),
        (&["`/readyz`, /livez and spec.mode"], &["readyz-livez-and-specmode"]),
        (&["Upgrade: 1.24 - 1.25"], &["upgrade-124---125"]),
        (&["A & B", "snake_case"], &["a--b", "snake_case"]),
        (&["Größe", "it’s"], &["größe", "its"]),
        (&["echo", "echo", "echo 1", "echo-1", "echo"], &["echo", "echo-1", "echo-1-1", "echo-1-2", "echo-2"]),
        (&["foxtrot-1", "foxtrot", "foxtrot"], &["foxtrot-1", "foxtrot", "foxtrot-2"]),
    ] {
        assert_eq!(anchors(headings.iter().copied()), expected, "{headings:?}");
    }
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
fn a_link_or_an_image_that_leads_to_nothing_is_found() {
    let page = |text: &str| Page { name: "docs/page.md".to_owned(), text: text.to_owned() };
    let anchors =
        BTreeMap::from([("docs/install.md".to_owned(), anchors_of(&page("# Verify\n\nText <a id=\"x.y\"></a>")))]);
    for (text, expected) in [
        (
            "[a](install.md) [b](install.md#verify) [c](install.md#x.y) [d](../README.md) [e](https://example.com/x)",
            None,
        ),
        ("[a](missing.md)", Some("missing.md")),
        ("[a](install.md#verified)", Some("install.md#verified")),
        ("[a](#here)", Some("#here")),
        ("![a](images/missing.svg)", Some("images/missing.svg")),
        ("[a](install.md \"the title\") [b]\n\n[b]: missing.md", Some("missing.md")),
        ("[a](../../outside.md)", Some("../../outside.md")),
    ] {
        let expected: Vec<_> = expected.map(str::to_owned).into_iter().collect();
        assert_eq!(broken(&page(text), &anchors), expected, "{text}");
    }
}

#[test]
fn the_report_of_the_page_about_platforms_is_that_of_the_samples() {
    let page = pages(root()).into_iter().find(|page| page.name == "docs/delivery/platforms.md").unwrap();
    let shown = page.blocks().into_iter().find(|block| block.language == "text").unwrap().text;
    let mut command = Command::new(env!("CARGO_BIN_EXE_winpool"));
    let output = command
        .args(["render", "-f", "config/samples", "--target", "aks-nodepool", "--kubernetes", "1.36"])
        .current_dir(root())
        .output();
    let printed = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(printed.contains(&shown), "{printed}");
}

#[test]
fn every_page_is_linked_from_another_one() {
    let pages = pages(root());
    let linked: BTreeSet<_> = pages
        .iter()
        .flat_map(|page| {
            let folder = root().join(&page.name).parent().unwrap().to_owned();
            let file =
                move |target: String| folder.join(target.split('#').next().unwrap_or_default()).canonicalize().ok();
            let own = root().join(&page.name);
            targets(page).into_iter().filter_map(file).filter(move |file| *file != own)
        })
        .collect();
    let alone: Vec<_> =
        pages.iter().map(|page| &page.name).filter(|name| !linked.contains(&root().join(name))).collect();
    assert_eq!(alone, ["README.md"]);
}

#[test]
fn every_block_names_its_language() {
    const LANGUAGES: [&str; 10] =
        ["console", "diff", "dockerfile", "json", "lua", "powershell", "sh", "text", "toml", "yaml"];
    for page in pages(root()) {
        for block in page.blocks() {
            let known = LANGUAGES.contains(&block.language.as_str());
            assert!(known, "{}: a block has the language `{}`:\n{}", page.name, block.language, block.text);
        }
    }
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
