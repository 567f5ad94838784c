//! `Cargo.lock` contains no crate that `deny.toml` bans, also without a run of `cargo deny`; workflows name the commits of actions,
//! and one version of Rust.

use std::{fs, path::Path};

use toml::{Table, Value};

fn read(file: &str) -> Table {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap().parse().unwrap()
}

fn list<'a>(table: &'a Value, key: &str) -> &'a [Value] {
    table.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(table: &'a Value, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The names of the packages that depend on a crate. A dependency is written `name`, or `name version` if there are
/// several versions.
fn dependents<'a>(lock: &'a Table, name: &str) -> Vec<&'a str> {
    let depends = |package: &&Value| {
        let mut names = list(package, "dependencies").iter().filter_map(Value::as_str);
        names.any(|dependency| dependency.split(' ').next() == Some(name))
    };
    lock["package"].as_array().unwrap().iter().filter(depends).map(|package| text(package, "name")).collect()
}

/// Each banned crate with its dependents. A crate with wrappers is allowed if only these depend on it.
fn violations(deny: &Table, lock: &Table) -> Vec<String> {
    let present = |name: &str| lock["package"].as_array().unwrap().iter().any(|package| text(package, "name") == name);
    let violation = |ban: &Value| {
        let (name, wrappers) = (text(ban, "crate"), list(ban, "wrappers"));
        assert!(!name.is_empty(), "deny.toml: a ban without a crate: {ban}");
        let allowed = |by: &str| wrappers.iter().any(|wrapper| wrapper.as_str() == Some(by));
        let wrong: Vec<_> = dependents(lock, name).into_iter().filter(|by| !allowed(by)).collect();
        let banned = present(name) && (wrappers.is_empty() || !wrong.is_empty());
        banned.then(|| format!("{name}, brought by {}: {}", wrong.join(", "), text(ban, "reason")))
    };
    list(&deny["bans"], "deny").iter().filter_map(violation).collect()
}

#[test]
fn no_banned_crate_is_a_dependency() {
    let (deny, lock) = (read("deny.toml"), read("Cargo.lock"));
    let bans = list(&deny["bans"], "deny");
    assert!(bans.len() >= 5, "deny.toml has too few bans: {bans:?}");
    assert_eq!(violations(&deny, &lock), Vec::<String>::new());
}

#[test]
fn every_wrapper_of_a_banned_crate_depends_on_it() {
    let (deny, lock) = (read("deny.toml"), read("Cargo.lock"));
    for ban in list(&deny["bans"], "deny") {
        for wrapper in list(ban, "wrappers").iter().filter_map(Value::as_str) {
            let name = text(ban, "crate");
            assert!(dependents(&lock, name).contains(&wrapper), "deny.toml: {wrapper} does not need {name} any more");
        }
    }
}

#[test]
fn a_banned_crate_is_found_for_every_dependent() {
    let deny = r#"
        [bans]
        deny = [{ crate = "old", reason = "gone" }, { crate = "clock", wrappers = ["engine"], reason = "one clock" }]
    "#;
    let table = [
        (r#"{ name = "app", dependencies = ["older", "clockwork 1.0.0"] }"#, vec![]),
        (r#"{ name = "app", dependencies = ["old"] }, { name = "old" }"#, vec!["old, brought by app: gone"]),
        (r#"{ name = "app", dependencies = ["old 0.1.0"] }, { name = "old" }"#, vec!["old, brought by app: gone"]),
        (r#"{ name = "engine", dependencies = ["clock"] }, { name = "clock" }"#, vec![]),
        (
            r#"{ name = "app", dependencies = ["clock 1.0.0"] }, { name = "engine", dependencies = ["clock"] }, { name = "clock" }"#,
            vec!["clock, brought by app: one clock"],
        ),
    ];
    for (packages, expected) in table {
        let lock = format!("package = [{packages}]").parse().unwrap();
        assert_eq!(violations(&deny.parse().unwrap(), &lock), expected, "{packages}");
    }
}

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
    let least = text(&read("Cargo.toml")["workspace"]["package"], "rust-version").to_owned();
    let least: Vec<u32> = least.split('.').map(|number| number.parse().unwrap()).collect();
    assert!(numbers[..2] >= least[..], "{tag} is at least the version in Cargo.toml");
}
