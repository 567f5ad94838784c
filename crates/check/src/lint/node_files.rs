//! Files that any part of an object writes to a Windows machine, as `files` of a KubeadmConfig and the patches of a ClusterClass have
//! them, and the check of containerd's, also of those that are no part of an object.

use serde_json::Value;
use toml::de::{DeTable, DeValue};
use winpool_facts::containerd::{BIN_DIR, WITHOUT_BIN_DIR};
use winpool_render::containerd::loses_bin_dir;
use winpool_rules::upgrade::without_bin_dir;

use super::{Code, Finding, LocatedFinding};
use crate::manifests::NodeFile;

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
        if file.ends_with(".toml") {
            findings.extend(content.as_str().and_then(|text| lost_bin_dir(at, text)));
        }
    });
    findings
}

fn lost_bin_dir(at: &str, text: &str) -> Option<Finding> {
    loses_bin_dir(&[text]).then(|| Finding::new(Code::CniBinDir, at, without_bin_dir(WITHOUT_BIN_DIR).problem))
}

/// The same for a file that is no part of an object.
pub fn of_file(NodeFile { name, text }: &NodeFile) -> Option<LocatedFinding> {
    let (offset, finding) = match DeTable::parse(text) {
        Ok(table) => (offset(table.get_ref(), BIN_DIR), lost_bin_dir(&BIN_DIR.join("."), text)?),
        Err(error) => {
            let finding = Finding::new(Code::Unreadable, "", error.message()).with_remedy("correct the TOML");
            (error.span().map(|span| span.start), finding)
        }
    };
    let before = offset.and_then(|offset| text.get(..offset)).unwrap_or_default();
    Some(LocatedFinding::at(name.clone(), before.matches('\n').count() + 1, finding, String::new()))
}

/// Where the value at a path begins, in bytes.
fn offset(table: &DeTable<'_>, path: &[&str]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let value = table.get(*first)?;
    match value.get_ref() {
        DeValue::Table(inner) if !rest.is_empty() => offset(inner, rest),
        _ => Some(value.span().start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_containerd_is_judged_with_the_line_of_its_setting() {
        let v3 =
            "version = 3\n# of the CNI\n[plugins.'io.containerd.cri.v1.runtime'.cni]\n  bin_dir = 'C:/opt/cni/bin'\n";
        let lists = format!("{v3}  bin_dirs = ['C:/opt/cni/bin']\n");
        let v2 = "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.cni]\nbin_dir = 'C:/opt/cni/bin'\n";
        let table = [
            (v3, Some((Code::CniBinDir, 4))),
            (&v3.replace('\n', "\r\n"), Some((Code::CniBinDir, 4))),
            (&lists, None),
            (v2, None),
            ("", None),
            ("version = 3\nroot = C:/data\n", Some((Code::Unreadable, 2))),
            ("version: 3\n", Some((Code::Unreadable, 1))),
            ("plugins = 1\n", None),
        ];
        for (text, expected) in table {
            let found = of_file(&NodeFile { name: "config.toml".to_owned(), text: text.to_owned() });
            assert_eq!(found.map(|found| (found.finding.code, found.line)), expected, "{text}");
        }
    }
}
