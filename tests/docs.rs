//! The pages for people: they name every condition and reason, their links lead somewhere, and their examples are valid.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use winpool::api::{WindowsNodePool, WindowsRuntimeProfile};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<(PathBuf, String)> {
    let below = |folder: &str| fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let docs = below("docs").chain(below("docs/delivery")).chain([root().join("README.md")]);
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The values of the constants in a module of `names.rs`.
fn names(module: &str) -> Vec<String> {
    let source = fs::read_to_string(root().join("src/api/names.rs")).unwrap();
    let module = source.split(&format!("pub mod {module} {{")).nth(1).unwrap().split("\n}").next().unwrap();
    let constants = module.lines().filter(|line| line.trim_start().starts_with("pub const"));
    constants.map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn every_condition_and_reason_is_explained() {
    let page = fs::read_to_string(root().join("docs/status.md")).unwrap();
    let (conditions, reasons) = (names("condition"), names("reason"));
    assert!(conditions.len() > 10 && reasons.len() > 30, "{conditions:?} {reasons:?}");
    for name in conditions.iter().chain(&reasons).filter(|name| *name != "Ready") {
        assert!(page.contains(&format!("`{name}`")), "docs/status.md does not explain {name}");
    }
}

#[test]
fn every_reason_that_is_explained_exists() {
    let page = fs::read_to_string(root().join("docs/status.md")).unwrap();
    let known = [names("condition"), names("reason")].concat();
    let rows = page.lines().filter(|line| line.starts_with('|'));
    // The columns for conditions and reasons: all but what it means and what to do.
    let cells = rows.flat_map(|row| {
        let cells = row.trim_matches('|').split('|').collect::<Vec<_>>();
        cells
            .get(..cells.len().saturating_sub(2))
            .unwrap_or_default()
            .join(" ")
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    for name in cells {
        assert!(known.contains(&name), "docs/status.md explains {name}, which there is not");
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    for (path, page) in pages() {
        let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("https://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(file.exists(), "{}: {target} leads nowhere", path.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let anchor =
                    |line: &str| line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-").replace('?', "");
                let found = text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
                assert!(found, "{}: no heading {heading} in {}", path.display(), file.display());
            }
        }
    }
}

#[test]
fn examples_of_our_resources_are_valid() {
    let mut seen = 0;
    for (path, page) in pages() {
        for block in page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            for object in serde_saphyr::from_multiple::<Value>(block).unwrap() {
                let problem = match object["kind"].as_str() {
                    Some("WindowsNodePool") => serde_json::from_value::<WindowsNodePool>(object).err(),
                    Some("WindowsRuntimeProfile") => serde_json::from_value::<WindowsRuntimeProfile>(object).err(),
                    _ => continue,
                };
                assert!(problem.is_none(), "{}: {problem:?}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 3);
}

/// The words of a command line, of which single quotes keep one together.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn every_command_that_renders_works_on_the_samples() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for (path, page) in pages() {
        for line in page.lines().filter(|line| line.starts_with("winpool render ") && line.contains("config/samples")) {
            let line = line.split(" #").next().unwrap();
            let words = words(&line.replace("config/samples", root().join("config/samples").to_str().unwrap()));
            let output = Command::new(env!("CARGO_BIN_EXE_winpool")).args(&words[1..]).current_dir(&folder).output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {line}: {said}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 5, "{seen} commands");
    for rendered in ["rendered", "whole/web-2022/kubelet-1.36-containerd-2.3-10.0.20348", "for-kubeadm"] {
        assert!(folder.path().join(rendered).is_dir(), "{rendered}");
    }
}
