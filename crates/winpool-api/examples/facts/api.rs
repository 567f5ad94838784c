//! The generated life cycles of API versions in kubernetes/api, and the types of k8s-openapi for several minors.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use winpool_api::facts::{
    Minor,
    api_versions::{API_VERSIONS, NEWER_FIELDS, ServedVersion},
    support::OLDEST,
};

use super::Comparison;

/// The minor of the types of winpool, in the sources of k8s-openapi.
const OLD: &str = "v1_33";
/// The later minors, some of whose fields are removed again.
const NEWER: [&str; 4] = ["v1_34", "v1_35", "v1_36", "v1_37"];
/// The groups of the types of workloads.
const GROUPS: [&str; 3] = ["apps", "batch", "core"];
/// The types from which those of all fields of workloads are reached, without their status.
const ROOTS: [&str; 9] = [
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

/// Compares the first minor that serves an API version of each kind, and the first that does not, with
/// `zz_generated.prerelease-lifecycle.go`.
pub fn lifecycle(api_version: &str, text: &str) -> Comparison {
    if !text.contains(") APILifecycleIntroduced(") {
        return Err("no life cycles".to_owned());
    }
    let rows = API_VERSIONS.iter().flat_map(|(kind, versions)| versions.iter().map(move |version| (*kind, version)));
    let own = rows.filter(|(_, version)| version.api_version == api_version);
    Ok(own.flat_map(|(kind, version)| of_kind(kind, version, text)).collect())
}

fn of_kind(kind: &str, version: &ServedVersion, text: &str) -> Vec<String> {
    let Some(introduced) = minor_in(text, kind, "Introduced") else {
        return vec![format!("{} has no {kind} upstream", version.api_version)];
    };
    let since = Some(introduced).filter(|minor| *minor > OLDEST);
    let removed = minor_in(text, kind, "Removed");
    let difference = |what: &str, own: Option<Minor>, upstream: Option<Minor>| {
        let name = |minor: Option<Minor>| minor.map_or_else(|| "none".to_owned(), |minor| minor.to_string());
        let text = || format!("{what} of {kind} is {} upstream, not {}", name(upstream), name(own));
        (own != upstream).then(text)
    };
    let since = difference("the first minor", version.since, since);
    since.into_iter().chain(difference("the minor of the removal", version.removed, removed)).collect()
}

/// The minor that a function `APILifecycleIntroduced` or `APILifecycleRemoved` of a kind returns.
fn minor_in(text: &str, kind: &str, event: &str) -> Option<Minor> {
    let function = format!("func (in *{kind}) APILifecycle{event}() (major, minor int) {{\n\treturn 1, ");
    let (_, rest) = text.split_once(&function)?;
    rest.lines().next()?.trim().parse().ok().map(Minor)
}

/// Compares the fields that the types of workloads got, in the sources of k8s-openapi.
pub fn newer_fields(sources: &Path) -> Comparison {
    let of_minor = |minor| types(&sources.join("src").join(minor));
    let old = of_minor(OLD)?;
    let mut new: BTreeMap<String, OpenApiType> = BTreeMap::new();
    for (name, found) in NEWER.into_iter().map(of_minor).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        let known = new.entry(name).or_default();
        known.fields.extend(found.fields);
        known.uses.extend(found.uses);
    }
    let mut reached: BTreeSet<&str> = ROOTS.into();
    let mut next: Vec<&str> = ROOTS.into();
    while let Some(name) = next.pop() {
        let used = new.get(name).into_iter().flat_map(|found| &found.uses).filter(|name| !name.ends_with("Status"));
        next.extend(used.map(String::as_str).filter(|name| reached.insert(name)));
    }
    let added = |name: &&str| {
        let fields: Vec<_> = new.get(*name)?.fields.difference(&old.get(*name)?.fields).cloned().collect();
        (!fields.is_empty()).then(|| (format!("io.k8s.api.{name}"), fields))
    };
    let upstream: BTreeMap<String, Vec<String>> = reached.iter().filter_map(added).collect();
    let texts = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect();
    let own: BTreeMap<String, Vec<String>> =
        NEWER_FIELDS.iter().map(|(name, fields)| ((*name).to_owned(), texts(fields))).collect();
    let missing = upstream.iter().filter(|(name, fields)| own.get(*name) != Some(fields));
    let missing = missing.map(|(name, fields)| format!("the new fields of {name} are {}", fields.join(", ")));
    let removed = own.keys().filter(|name| !upstream.contains_key(*name));
    Ok(missing.chain(removed.map(|name| format!("{name} has no new fields"))).collect())
}

/// The names of the fields of a type, and the types that it uses.
#[derive(Default)]
struct OpenApiType {
    fields: BTreeSet<String>,
    uses: Vec<String>,
}

/// The types of one minor, by name without the prefix `io.k8s.api.`.
fn types(folder: &Path) -> Result<BTreeMap<String, OpenApiType>, String> {
    let mut types = BTreeMap::new();
    for group in GROUPS {
        let folder = folder.join("api").join(group).join("v1");
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries.flatten() {
            let text = fs::read_to_string(entry.path()).map_err(|error| error.to_string())?;
            let name =
                text.strip_prefix("// Generated from definition io.k8s.api.").and_then(|rest| rest.lines().next());
            if let Some(name) = name {
                types.insert(name.to_owned(), OpenApiType { fields: keys(&text), uses: uses(&text) });
            }
        }
    }
    Ok(types)
}

/// The names of the fields, as `"name" => Field::Key_name`.
fn keys(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => Field::"));
    lines.map(|(name, _)| name.to_owned()).collect()
}

/// The types in the declarations, as `crate::api::core::v1::Volume`.
fn uses(text: &str) -> Vec<String> {
    let name = |rest: &str| {
        let path = rest.split(|char: char| !(char.is_ascii_alphanumeric() || char == ':' || char == '_')).next()?;
        let parts: Vec<_> = path.split("::").collect();
        (parts.len() == 3).then(|| parts.join("."))
    };
    let declarations = text.lines().filter(|line| line.trim_start().starts_with("pub "));
    declarations.flat_map(|line| line.split("crate::api::").skip(1)).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_first_or_last_minor_is_a_difference() {
        let function = |event: &str, minor: u32| {
            format!("func (in *CronJob) APILifecycle{event}() (major, minor int) {{\n\treturn 1, {minor}\n}}\n")
        };
        let beta = |removed| function("Introduced", 8) + &function("Removed", removed);
        assert_eq!(lifecycle("batch/v1beta1", &beta(25)), Ok(Vec::new()));
        let differs = "the minor of the removal of CronJob is 1.26 upstream, not 1.25".to_owned();
        assert_eq!(lifecycle("batch/v1beta1", &beta(26)), Ok(vec![differs]));
        assert!(lifecycle("batch/v1beta1", "package v1beta1").is_err());
        let other = beta(25).replace("CronJob", "Job");
        assert_eq!(lifecycle("batch/v1beta1", &other).unwrap(), ["batch/v1beta1 has no CronJob upstream"]);
    }

    #[test]
    fn the_fields_and_types_of_a_generated_type_are_read() {
        let text = "pub struct A {\n    pub v: Option<crate::api::core::v1::Volume>,\n}\n\"v\" => Field::Key_v,\n_ => Field::Other,\n";
        assert_eq!(keys(text), BTreeSet::from(["v".to_owned()]));
        assert_eq!(uses(text), ["core.v1.Volume"]);
    }
}
