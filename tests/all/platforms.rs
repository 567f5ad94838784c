//! The command line builds for Linux, macOS and Windows: code for one operating system is code for Unix or for Windows,
//! and each of the two has the other beside it.

use std::{fs, path::Path};

use walkdir::WalkDir;

/// The conditions of compilation that may occur, besides `test` and features.
const ALLOWED: [&str; 3] = ["unix", "windows", "not(windows)"];

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for path in WalkDir::new(folder).into_iter().map(|entry| entry.unwrap().into_path()) {
        if path.extension().is_some_and(|end| end == "rs") {
            found.push((path.display().to_string(), fs::read_to_string(path).unwrap()));
        }
    }
}

/// The conditions of `cfg`, `cfg!` and `cfg_attr` in a source.
fn conditions(text: &str) -> Vec<&str> {
    let after = |begin: &str| text.split(begin).skip(1).collect::<Vec<_>>();
    let whole = after("cfg(").into_iter().chain(after("cfg!(")).filter_map(|rest| rest.split([']', '\n']).next());
    let whole = whole.filter_map(|rest| rest.rsplit_once(')').map(|(condition, _)| condition.trim()));
    let attributes =
        after("cfg_attr(").into_iter().filter_map(|rest| rest.split_once(',').map(|(first, _)| first.trim()));
    let all = whole.chain(attributes);
    all.filter(|condition| !["test", "not(test)"].contains(condition) && !condition.contains("feature = ")).collect()
}

#[test]
fn no_code_is_for_one_unix_only() {
    let mut found = Vec::new();
    for folder in ["src", "crates"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    }
    assert!(found.len() > 200);
    let mut seen = 0;
    for (file, text) in &found {
        let conditions = conditions(text);
        for condition in &conditions {
            assert!(ALLOWED.contains(condition), "{file}: cfg({condition}) may exclude macOS or Windows");
        }
        assert!(!conditions.contains(&"unix") || conditions.contains(&"windows"), "{file}: nothing for Windows");
        // Tables of facts have paths as data.
        let is_data = file.contains("winpool-api/src/facts/");
        for only_linux in ["os::linux", "\"/proc/", "\"/sys/", "\"/dev/"] {
            assert!(is_data || !text.contains(only_linux), "{file}: {only_linux} exists on Linux only");
        }
        seen += conditions.len();
    }
    assert!(seen >= 6, "{seen} conditions");
}

#[test]
fn conditions_are_found_in_attributes_and_macros() {
    let text = "#[cfg(unix)]\nfn a() {}\n#[cfg(test)]\nmod b {}\n#[cfg(not(feature = \"otlp\"))]\nfn c() {}\n#[cfg_attr(not(windows), allow(dead_code))]\n\
                const X: bool = cfg!(target_os = \"linux\");\n#[cfg(all(unix, target_arch = \"arm\"))]\n";
    assert_eq!(conditions(text), ["unix", "all(unix, target_arch = \"arm\")", "target_os = \"linux\"", "not(windows)"]);
}
