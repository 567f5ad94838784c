//! Specs that an API server accepts, and specs that it rejects: those in `specs.yaml`, and what is too long or too many.

use std::{collections::BTreeMap, sync::LazyLock};

pub const POOL: &str = "WindowsNodePool";
pub const PROFILE: &str = "WindowsRuntimeProfile";
pub const NODE_CONFIG: &str = "WindowsNodeConfig";

pub const TEXT: &str = include_str!("specs.yaml");

/// The violation by a pool whose name is too long. It has no path.
pub const LONG_NAME: &str = "metadata.name becomes a label value on the nodes: write at most 63 characters";

/// The start of the message about [`unknown_versions`].
pub const UNKNOWN_VERSION: &str = "unknown Windows version: write one of ltsc2016, ";

/// The lines of a list in the file.
fn lines(list: &str) -> impl Iterator<Item = &'static str> {
    static LISTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| serde_saphyr::from_str(TEXT).unwrap());
    LISTS[list].lines()
}

/// The specs in a list, each with the line that follows it.
fn pairs(list: &str) -> Vec<(String, &'static str)> {
    let lines: Vec<_> = lines(list).collect();
    lines.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].trim_start())).collect()
}

/// A valid spec of a pool, with an additional part, which may also set the version.
pub fn pool(part: &str) -> String {
    match part.starts_with("windowsVersion:") {
        true => format!("{{fallback: true, {part}}}"),
        false => format!("{{windowsVersion: ltsc2022, nodeSelector: {{matchLabels: {{agentpool: web}}}}, {part}}}"),
    }
}

/// A pool with this Windows version.
pub fn of_version(version: &str) -> String {
    format!("{{windowsVersion: \"{version}\", fallback: true}}")
}

/// Unknown Windows versions.
pub fn unknown_versions() -> impl Iterator<Item = &'static str> {
    [""].into_iter().chain(lines("unknownVersions"))
}

/// Kind and spec in YAML.
pub fn accepted() -> Vec<(&'static str, String)> {
    let pools = lines("acceptedPools").map(str::to_owned);
    let pools = pools.chain(lines("acceptedVersions").map(of_version)).chain(lines("acceptedParts").map(pool));
    let pools = pools.map(|spec| (POOL, spec));
    let profiles = lines("acceptedProfiles").map(|spec| (PROFILE, spec.to_owned()));
    pools.chain(profiles).chain(lines("acceptedNodeConfigs").map(|spec| (NODE_CONFIG, spec.to_owned()))).collect()
}

/// Kind, spec in YAML, and the violation of a rule as `path: message`.
pub fn rejected() -> Vec<(&'static str, String, &'static str)> {
    let of = |kind, pairs: Vec<(String, _)>| pairs.into_iter().map(move |(spec, violation)| (kind, spec, violation));
    let parts = pairs("rejectedParts").into_iter().map(|(part, violation)| (pool(&part), violation)).collect();
    let pools = of(POOL, pairs("rejectedPools")).chain(of(POOL, parts));
    let profiles = of(PROFILE, pairs("rejectedProfiles"));
    pools.chain(profiles).chain(of(NODE_CONFIG, pairs("rejectedNodeConfigs"))).collect()
}

/// Specs that violate the rest of the schema: kind, spec in YAML, and path.
pub fn by_schema() -> Vec<(&'static str, String, &'static str)> {
    let many = |count: usize, item: fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    let too_many = [
        (format!("taints: [{}]", many(17, |n| format!("{{key: a{n}, effect: NoExecute}}"))), "spec.taints"),
        (format!("runtimeClasses: [{}]", many(9, |n| format!("{{name: a{n}}}"))), "spec.runtimeClasses"),
        (format!("labels: {{{}}}", many(33, |n| format!("a{n}: b"))), "spec.labels"),
        (format!("profileRef: {{name: {}}}", "a".repeat(254)), "spec.profileRef.name"),
    ];
    let parts = pairs("refusedParts").into_iter().chain(too_many).map(|(part, path)| (POOL, pool(&part), path));
    let long = format!("{{containerd: {{extraConfig: '#{}'}}}}", "a".repeat(16384));
    let profiles = pairs("refusedProfiles").into_iter().chain([(long, "spec.containerd.extraConfig")]);
    parts.chain(profiles.map(|(spec, path)| (PROFILE, spec, path))).collect()
}
