//! The objects that winpool shows and prints: samples, pages of the documentation, and the output of commands.

use std::{collections::BTreeSet, fs, process::Command};

use e2e::{
    install::path,
    operator::{binary, workspace},
};
use serde_json::Value;

use super::{
    documents, documents_below, refusal, shared,
    specs::{POOL, PROFILE},
};
use crate::documents::pages::pages;

/// The output of a command in the folder of the repository.
fn printed(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(binary().unwrap()).args(arguments).current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    documents(&String::from_utf8(output.stdout).unwrap())
}

/// The objects of our kinds in the pages: in blocks of YAML, and in what commands read from their input.
fn of_the_pages() -> Vec<Value> {
    let blocks = pages(workspace()).into_iter().flat_map(|page| page.blocks());
    let texts = blocks.flat_map(|block| match block.language.as_str() {
        "yaml" => vec![block.text],
        "sh" => heredocs(&block.text),
        _ => Vec::new(),
    });
    let ours = texts.filter(|text| text.contains("apiVersion: winpool.dev/"));
    let objects = ours.flat_map(|text| documents(&text));
    objects.filter(|object| object["apiVersion"] == "winpool.dev/v1alpha1").collect()
}

/// The documents in a script that are written with `<<`.
fn heredocs(script: &str) -> Vec<String> {
    let (mut texts, mut lines) = (Vec::new(), script.lines());
    while let Some(line) = lines.next() {
        let Some((_, word)) = line.split_once("<<") else { continue };
        let end = word.split_whitespace().next().unwrap_or_default().trim_matches(['\'', '"', '-']).to_owned();
        texts.push(lines.by_ref().take_while(|line| *line != end).collect::<Vec<_>>().join("\n"));
    }
    texts
}

#[tokio::test]
async fn the_objects_of_samples_pages_and_commands_are_created() {
    let (requests, _running) = shared().await;
    let adopt = ["adopt", "--nodes", "tests/golden/adopt/cluster.yaml", "--profiles"];
    let pages = of_the_pages();
    assert!(pages.len() > 5, "{pages:?}");
    // Cluster API's objects, as render prints them for each of its versions, and those that they are rendered from.
    let folders = ["config/samples", "tests/golden/cluster-api"].map(|folder| documents_below(path(folder).as_ref()));
    let pools = documents(&fs::read_to_string(path("tests/golden/platforms/pools.yaml")).unwrap());
    let mut kinds = BTreeSet::new();
    for mut object in [folders.concat(), printed(&adopt), pages, pools].concat() {
        // The only namespace of the control plane.
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        // Built-in kinds need other objects.
        if !version.starts_with("winpool.dev/") && !version.contains("cluster.x-k8s.io/") {
            continue;
        }
        assert_eq!(refusal(&requests, &object).await, "", "{object}");
        kinds.insert(format!("{version} {kind}"));
    }
    let of_cluster_api =
        ["KubeadmConfig", "KubeadmConfigTemplate"].map(|kind| format!("bootstrap.cluster.x-k8s.io/v1beta2 {kind}"));
    let ours = [POOL, PROFILE].map(|kind| format!("winpool.dev/v1alpha1 {kind}"));
    assert_eq!(kinds, of_cluster_api.into_iter().chain(ours).collect());
}
