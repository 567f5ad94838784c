//! Workflows name the commits of actions, and one exact version of Rust.

use std::{fs, path::Path};

use toml::Table;

#[test]
fn every_action_of_a_workflow_is_pinned_to_a_commit_with_its_version_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let files = fs::read_dir(folder).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let uses: Vec<String> = files
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| line.split_once("uses: "))
                .map(|(_, uses)| uses.to_owned())
                .collect::<Vec<_>>()
        })
        .filter(|uses| !uses.starts_with("./"))
        .collect();
    assert!(uses.len() >= 10, "{uses:?}");
    let is_pinned = |uses: &&String| {
        let (commit, version) = uses.split_once('@').and_then(|(_, at)| at.split_once(" # v")).unwrap_or_default();
        commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) && !version.is_empty()
    };
    let moving: Vec<_> = uses.iter().filter(|uses| !is_pinned(uses)).collect();
    assert!(moving.is_empty(), "{moving:?}");
}

#[test]
fn workflows_and_images_are_built_by_one_exact_version_of_rust() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workflows = fs::read_dir(folder.join(".github/workflows")).unwrap().map(|entry| entry.unwrap().path());
    let texts = workflows.chain([folder.join("Containerfile")]).map(|file| fs::read_to_string(file).unwrap());
    let images: Vec<String> = texts
        .flat_map(|text| {
            let lines = text.lines().filter_map(|line| {
                line.trim().strip_prefix("container: ").or_else(|| line.strip_prefix("ARG BUILDER="))
            });
            lines.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(images.len() >= 4, "{images:?}");
    for image in &images {
        assert_eq!(*image, images[0], "all name one image");
    }
    let tag = images[0].strip_prefix("rust:").and_then(|tag| tag.split('-').next()).unwrap();
    let numbers: Vec<u32> = tag.split('.').map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers.len(), 3, "{tag} names a patch release");
    let manifest: Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
    let least = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let least: Vec<u32> = least.split('.').map(|number| number.parse().unwrap()).collect();
    assert!(numbers[..2] >= least[..], "{tag} is at least the version in Cargo.toml");
}
