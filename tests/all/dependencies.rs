//! What `cargo deny` checks without its database: licences, forbidden crates and sources, by deny.toml. Its advisories are checked by job
//! `dependencies` of the workflows.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;
use toml::Table;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn deny() -> Table {
    fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

/// The crates for a target, from files that cargo has for a build.
fn metadata(target: &str) -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether an SPDX expression (or one of the older form `A/B`) allows a use under these licences.
fn allowed(expression: &str, licences: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+WITH+");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut at = 0;
    let result = any(&words, &mut at, licences);
    assert_eq!(at, words.len(), "{expression}");
    result
}

fn any(words: &[&str], at: &mut usize, licences: &[&str]) -> bool {
    let mut result = all(words, at, licences);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        result |= all(words, at, licences);
    }
    result
}

fn all(words: &[&str], at: &mut usize, licences: &[&str]) -> bool {
    let mut result = one(words, at, licences);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        result &= one(words, at, licences);
    }
    result
}

fn one(words: &[&str], at: &mut usize, licences: &[&str]) -> bool {
    let word = words[*at];
    *at += 1;
    if word != "(" {
        return licences.contains(&word.replace("+WITH+", " WITH ").as_str());
    }
    let result = any(words, at, licences);
    assert_eq!(words.get(*at), Some(&")"));
    *at += 1;
    result
}

#[test]
fn an_expression_of_licences_is_read_as_spdx_says() {
    let licences = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("Unlicense/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("(GPL-3.0 OR MIT) AND BSD-3-Clause", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
        ("Apache-2.0", false),
    ] {
        assert_eq!(allowed(expression, &licences), expected, "{expression}");
    }
}

/// The names of the crates that depend on the one with this id.
fn parents<'a>(metadata: &'a Value, id: &Value) -> BTreeSet<&'a str> {
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap().iter();
    let parents = nodes.filter(|node| node["dependencies"].as_array().unwrap().contains(id));
    let packages = || metadata["packages"].as_array().unwrap().iter();
    parents.map(|node| packages().find(|one| one["id"] == node["id"]).unwrap()["name"].as_str().unwrap()).collect()
}

#[test]
fn every_crate_has_an_allowed_licence_and_source_and_none_is_forbidden() {
    let deny = deny();
    let texts = |value: &'static str, of: &Table| -> Vec<String> {
        of.get(value)
            .and_then(|list| list.as_array())
            .into_iter()
            .flatten()
            .map(|one| one.as_str().unwrap().to_owned())
            .collect()
    };
    let licences = texts("allow", deny["licenses"].as_table().unwrap());
    let licences: Vec<_> = licences.iter().map(String::as_str).collect();
    for target in texts("targets", deny["graph"].as_table().unwrap()) {
        let metadata = metadata(&target);
        let packages = metadata["packages"].as_array().unwrap();
        assert!(packages.len() > 200, "{target}: {}", packages.len());
        for package in packages {
            let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or("none"));
            assert!(allowed(licence, &licences), "{name}: {licence}");
            let source = package["source"].as_str().unwrap_or("path");
            assert!(
                ["path", "registry+https://github.com/rust-lang/crates.io-index"].contains(&source),
                "{name}: {source}"
            );
        }
        for forbidden in deny["bans"]["deny"].as_array().unwrap() {
            let forbidden = forbidden.as_table().unwrap();
            let wrappers = texts("wrappers", forbidden);
            for package in packages.iter().filter(|one| one["name"].as_str() == forbidden["crate"].as_str()) {
                let parents = parents(&metadata, &package["id"]);
                assert!(
                    !wrappers.is_empty() && parents.iter().all(|parent| wrappers.iter().any(|one| one == parent)),
                    "{}: {}: {parents:?}",
                    package["name"],
                    forbidden["reason"]
                );
            }
        }
    }
}
