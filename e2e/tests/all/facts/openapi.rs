//! The types of Kubernetes that k8s-openapi generates for each minor, in the version of `Cargo.lock`.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::Value;
use winpool_facts::{api_versions::NEWER_FIELDS, support::NEWEST};

use super::source::{Table, Upstream, differences};

/// The minor of the types of winpool: the first of the range whose later fields are in the table.
const OWN: u32 = 33;

/// The types from which those of all fields of workloads are reached, without their status.
const WORKLOADS: [&str; 9] = [
    "apps.v1.DaemonSetSpec",
    "apps.v1.DeploymentSpec",
    "apps.v1.ReplicaSetSpec",
    "apps.v1.StatefulSetSpec",
    "batch.v1.CronJobSpec",
    "batch.v1.JobSpec",
    "core.v1.PodSpec",
    "core.v1.PodTemplateSpec",
    "core.v1.ReplicationControllerSpec",
];

/// The names of the fields of a type, and of the types that it uses.
#[derive(Default)]
struct Type {
    fields: BTreeSet<String>,
    uses: BTreeSet<String>,
}

/// Compares the fields that the types of workloads have got. A minor can remove those of an earlier one.
pub fn newer_fields() -> Result<Vec<String>> {
    let folder = package("k8s-openapi")?.join("src");
    let own = types(&folder, OWN)?;
    let mut newer: BTreeMap<String, Type> = BTreeMap::new();
    for minor in OWN + 1..=NEWEST.0 {
        for (name, found) in types(&folder, minor)? {
            let known = newer.entry(name).or_default();
            known.fields.extend(found.fields);
            known.uses.extend(found.uses);
        }
    }
    let mut reached = BTreeSet::from(WORKLOADS);
    let mut next = Vec::from(WORKLOADS);
    while let Some(name) = next.pop() {
        let used = newer.get(name).into_iter().flat_map(|found| &found.uses).map(String::as_str);
        next.extend(used.filter(|name| !name.ends_with("Status") && reached.insert(name)));
    }
    let added = |name: &str| {
        let fields: Vec<_> = newer.get(name)?.fields.difference(&own.get(name)?.fields).cloned().collect();
        let place = format!("k8s-openapi for 1.{} to {NEWEST}", OWN + 1);
        (!fields.is_empty()).then(|| (format!("io.k8s.api.{name}"), (fields.join(", "), place)))
    };
    let upstream: Upstream = reached.into_iter().filter_map(added).collect();
    let table: Table = NEWER_FIELDS.iter().map(|(name, fields)| ((*name).to_owned(), fields.join(", "))).collect();
    Ok(differences(&upstream, &table))
}

/// The folder of a package that the workspace depends on.
fn package(name: &str) -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--filter-platform", "x86_64-unknown-linux-gnu", "--format-version", "1"])
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let manifest =
        packages.iter().find(|package| package["name"] == name).and_then(|one| one["manifest_path"].as_str());
    Ok(Path::new(manifest.context("no manifest")?).parent().context("no folder")?.to_owned())
}

/// The types of the groups of workloads in a minor, by name without the prefix `io.k8s.api.`.
fn types(folder: &Path, minor: u32) -> Result<BTreeMap<String, Type>> {
    let name = Regex::new(r"^// Generated from definition io\.k8s\.api\.(\S+)")?;
    let field = Regex::new(r#""(\w+)" => Field::"#)?;
    let used = Regex::new(r"(?m)^\s*pub .*crate::api::(\w+)::(\w+)::(\w+)")?;
    let mut types = BTreeMap::new();
    for group in ["apps", "batch", "core"] {
        for entry in fs::read_dir(folder.join(format!("v1_{minor}/api/{group}/v1")))? {
            let text = fs::read_to_string(entry?.path())?;
            let Some(name) = name.captures(&text) else { continue };
            let fields = field.captures_iter(&text).map(|found| found[1].to_owned()).collect();
            let uses = used.captures_iter(&text).map(|found| format!("{}.{}.{}", &found[1], &found[2], &found[3]));
            types.insert(name[1].to_owned(), Type { fields, uses: uses.collect() });
        }
    }
    ensure!(!types.is_empty(), "no types of 1.{minor}");
    Ok(types)
}
