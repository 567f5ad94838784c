//! The pages of the documentation: their links exist, and their examples are valid.

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

#[test]
fn links_are_valid() {
    for (path, page) in pages() {
        let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("https://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(file.exists(), "{}: {target} does not exist", path.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let anchor = |line: &str| {
                    line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-").replace(['?', ':'], "")
                };
                let found = text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
                assert!(found, "{}: no heading {heading} in {}", path.display(), file.display());
            }
        }
    }
}

#[test]
fn examples_of_resources_are_valid() {
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

/// The arguments of a command line; single quotes group one.
fn arguments(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let arguments = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    arguments.collect()
}

/// What a command reads: the samples, or the file that the page shows before the words "in `FILE`:".
fn input<'a>(line: &str, page: &'a str) -> Option<Option<(String, &'a str)>> {
    if line.contains("config/samples") {
        return Some(None);
    }
    let file = line.split("-f ").nth(1)?.split(' ').next()?;
    let (before, _) = page.split_once(&format!("in `{file}`:"))?;
    let text = before.rsplit("```yaml\n").next()?.split("```").next()?;
    Some(Some((file.to_owned(), text)))
}

#[test]
fn every_documented_render_command_works_on_the_samples() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for (path, page) in pages() {
        for line in page.lines().filter(|line| line.starts_with("winpool render ")) {
            let Some(input) = input(line, &page) else { continue };
            if let Some((name, text)) = input {
                fs::write(folder.path().join(name), text).unwrap();
            }
            let line = line.split(" #").next().unwrap();
            let arguments = arguments(&line.replace("config/samples", root().join("config/samples").to_str().unwrap()));
            let output =
                Command::new(env!("CARGO_BIN_EXE_winpool")).args(&arguments[1..]).current_dir(&folder).output();
            let output = output.unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {line}: {stderr}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 15, "{seen} commands");
    for rendered in
        ["rendered", "whole/web-2022/kubelet-1.36-containerd-2.3-10.0.20348", "for-kubeadm", "for-cluster-api"]
    {
        assert!(folder.path().join(rendered).is_dir(), "{rendered}");
    }
}
