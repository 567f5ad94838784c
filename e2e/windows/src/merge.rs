//! Drop-in files of the kubelet.

use std::{fs, io, path::PathBuf};

use serde_json::Value;

/// The content of the `.conf` files in a directory, in the order of their names.
///
/// # Errors
/// When the directory or a file cannot be read.
pub fn drop_ins(directory: &str) -> io::Result<Vec<(PathBuf, String)>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    paths.sort();
    paths.into_iter().map(|path| Ok((path.clone(), fs::read_to_string(&path)?))).collect()
}

/// Overlays a configuration with another: maps are merged, everything else is replaced.
pub fn overlay(base: &mut Value, other: Value) {
    match (base, other) {
        (Value::Object(base), Value::Object(other)) => {
            for (name, value) in other {
                overlay(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, other) => *base = other,
    }
}
