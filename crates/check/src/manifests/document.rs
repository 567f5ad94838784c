//! Documents that are not Kubernetes objects.

use derive_more::Display;
use winpool_core::placeholder;

/// A document or file that is for another program.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
#[display("{place} {reason}")]
pub struct Ignored {
    /// The file and the line, or the file.
    place: String,
    reason: &'static str,
}

impl Ignored {
    /// A document without a kind, such as the values of a chart.
    pub(super) fn without_kind(place: String) -> Self {
        Self { place, reason: "has no kind" }
    }

    /// A file that is not text.
    pub(super) fn not_text(place: String) -> Self {
        Self { place, reason: "is not text" }
    }

    /// A document that cannot be read, in the file with this text; `None` if it looks like a Kubernetes manifest.
    pub(super) fn of_unreadable(file: &str, line: usize, text: &str, at_fault: &str) -> Option<Self> {
        let begins = |field: &str| text.lines().any(|line| line.trim_start_matches(['"', ' ', '{']).starts_with(field));
        let is_manifest = begins("apiVersion") && begins("kind");
        // The syntax of templates, such as those of Helm.
        let is_template = text.contains("{{") || placeholder::is_no_yaml(at_fault);
        let reason = match (is_template, is_manifest) {
            (true, _) => "is a template",
            (false, false) => "has another format",
            (false, true) => return None,
        };
        Some(Self { place: format!("{file}:{line}"), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_document_is_ignored_unless_it_looks_like_a_manifest() {
        let table = [
            ("kind: Pod\nname: {{ .Values.name }}\n", Some("a.yaml:3 is a template")),
            ("apiVersion: v1\nkind: Pod\nspec: {{ .x }}\n", Some("a.yaml:3 is a template")),
            ("apiVersion: v1\nkind: Pod\nname: {app}-web\n", Some("a.yaml:3 is a template")),
            ("apiVersion: v1\nkind: Pod\nLABELS_OF_POD\n", Some("a.yaml:3 is a template")),
            ("apiVersion: v1\nkind: Pod\nspec: [\n", None),
            ("apiVersion: v1\nkind: Pod\nspec: [\"$(POD_IP)\"\n", None),
            ("{\"apiVersion\": \"v1\",\n \"kind\": \"Pod\",\n", None),
            ("{\n  // a comment\n  \"compilerOptions\": {}\n}\n", Some("a.yaml:3 has another format")),
            ("version: 2\nkind: [\n", Some("a.yaml:3 has another format")),
        ];
        for (text, expected) in table {
            let at_fault = text.lines().nth(2).unwrap_or_default();
            let found = Ignored::of_unreadable("a.yaml", 3, text, at_fault).map(|ignored| ignored.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
