//! The notation of new settings: maps in block notation, lists in flow notation, and every string in double quotes,
//! because kubelets read YAML 1.1, in which `on`, `1_000` and `12:30` are not strings.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Plain scalars that YAML 1.1 does not read as strings.
const NOT_STRINGS: &[&str] = &["y", "yes", "n", "no", "on", "off", "true", "false", "null"];

/// The lines of a mapping in block notation, without line ends.
pub(super) fn block(map: &Map<String, Value>, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in map {
        let name = format!("{}{}:", " ".repeat(indent), key(name));
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                lines.push(name);
                lines.extend(block(inner, indent + 2));
            }
            value => lines.push(format!("{name} {}", flow(value))),
        }
    }
    lines
}

/// A value in flow notation, which is also valid JSON.
pub(super) fn flow(value: &Value) -> String {
    let lines = format!("{value:#}");
    let joined = lines.lines().flat_map(|line| [line.trim_start(), if line.ends_with(',') { " " } else { "" }]);
    let mut result = String::new();
    for c in joined.flat_map(str::chars) {
        if is_escaped(c) {
            // Writing to a String does not fail.
            let _ = write!(result, "\\u{:04x}", u32::from(c));
        } else {
            result.push(c);
        }
    }
    result
}

fn key(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let is_reserved = NOT_STRINGS.contains(&name.to_ascii_lowercase().as_str());
    if is_plain && !is_reserved { name.to_owned() } else { flow(&name.into()) }
}

/// Whether a character is not printable in YAML, or a line end in YAML 1.1, although JSON does not escape it. All of them
/// have at most four digits.
fn is_escaped(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}
