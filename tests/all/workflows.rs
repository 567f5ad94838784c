//! Workflows name the commits of actions, and one exact version of Rust.

use std::{fs, path::Path};

use toml::Table;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The lines of all workflows, without indentation.
fn lines() -> Vec<String> {
    let files = fs::read_dir(root().join(".github/workflows")).unwrap();
    let texts = files.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    texts.flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()).collect()
}

#[test]
fn every_action_of_a_workflow_is_pinned_to_a_commit_with_its_version_beside_it() {
    let lines = lines();
    let uses = lines.iter().filter_map(|line| Some(line.split_once("uses: ")?.1));
    let uses: Vec<_> = uses.filter(|uses| !uses.starts_with("./")).collect();
    assert!(uses.len() >= 10, "{uses:?}");
    for uses in uses {
        let (commit, version) = uses.split_once('@').and_then(|(_, at)| at.split_once(" # v")).unwrap_or_default();
        let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_commit && !version.is_empty(), "{uses}");
    }
}

#[test]
fn workflows_and_images_are_built_by_one_exact_version_of_rust() {
    let (lines, containerfile) = (lines(), fs::read_to_string(root().join("Containerfile")).unwrap());
    let builder = containerfile.lines().find_map(|line| line.strip_prefix("ARG BUILDER=")).unwrap();
    let images: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("container: ")).collect();
    assert!(images.len() >= 3 && images.iter().all(|image| *image == builder), "{builder} {images:?}");
    let tag = builder.strip_prefix("rust:").and_then(|tag| tag.split('-').next()).unwrap();
    let numbers: Vec<u32> = tag.split('.').map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers.len(), 3, "{tag} names a patch release");
    let manifest: Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let least = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let least: Vec<u32> = least.split('.').map(|number| number.parse().unwrap()).collect();
    assert!(numbers[..2] >= least[..], "{tag} is at least the version in Cargo.toml");
}
