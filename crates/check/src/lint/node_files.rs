//! Files that any part of an object writes to a Windows machine, as `files` of a KubeadmConfig and the patches of a ClusterClass have
//! them, and the check of containerd's.

use serde_json::Value;
use winpool_facts::containerd::WITHOUT_BIN_DIR;
use winpool_render::containerd::loses_bin_dir;
use winpool_rules::upgrade::without_bin_dir;

use super::{Code, Finding};

/// Calls `visit` with the path of the content in the object, the path of the file, and the content.
pub fn files(object: &Value, visit: &mut dyn FnMut(&str, &str, &Value)) {
    collect(object, "", visit);
}

fn collect(value: &Value, path: &str, visit: &mut dyn FnMut(&str, &str, &Value)) {
    match value {
        Value::Object(fields) => {
            if let (Some(file), Some(content)) = (fields.get("path").and_then(Value::as_str), fields.get("content"))
                && file.as_bytes().get(1) == Some(&b':')
            {
                visit(&format!("{path}.content"), file, content);
            }
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                // The template of a patch of a ClusterClass is text.
                let template = (name == "template" && value.is_string()).then(|| document(value));
                collect(template.as_ref().unwrap_or(value), &path, visit);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{path}[{index}]"), visit);
            }
        }
        _ => {}
    }
}

/// The YAML document of a text; null if it has none, such as a text with placeholders.
pub fn document(text: &Value) -> Value {
    text.as_str().and_then(|text| serde_saphyr::from_str(text).ok()).unwrap_or_default()
}

/// The TOML files whose directory of the CNI the newest containerd ignores.
pub fn containerd(object: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    files(object, &mut |at, file, content| {
        if file.ends_with(".toml") && content.as_str().is_some_and(|text| loses_bin_dir(&[text])) {
            findings.push(Finding::new(Code::CniBinDir, at, without_bin_dir(WITHOUT_BIN_DIR).problem));
        }
    });
    findings
}
