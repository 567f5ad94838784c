//! Documents that are not Kubernetes objects.

use std::fmt;

/// A document or file that is for another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The file and the line, or the file.
    place: String,
    reason: Reason,
}

/// Why a document is for another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// It has no kind, such as the values of a chart.
    NoKind,
    /// It has the syntax of templates, such as those of Helm.
    Template,
    /// It is not readable as YAML or JSON, and has no API version and kind.
    OtherFormat,
    NotText,
}

impl Ignored {
    /// A document without a kind.
    pub(super) fn without_kind(place: String) -> Self {
        Self { place, reason: Reason::NoKind }
    }

    /// A file that is not text.
    pub(super) fn not_text(place: String) -> Self {
        Self { place, reason: Reason::NotText }
    }

    /// A document that cannot be read, in the file with this text; `None` if it looks like a Kubernetes manifest.
    pub(super) fn of_unreadable(file: &str, line: usize, text: &str) -> Option<Self> {
        let begins = |field: &str| text.lines().any(|line| line.trim_start_matches(['"', ' ', '{']).starts_with(field));
        let is_manifest = begins("apiVersion") && begins("kind");
        let reason = match (text.contains("{{"), is_manifest) {
            (true, _) => Reason::Template,
            (false, false) => Reason::OtherFormat,
            (false, true) => return None,
        };
        Some(Self { place: format!("{file}:{line}"), reason })
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            Reason::NoKind => "has no kind",
            Reason::Template => "is a template",
            Reason::OtherFormat => "has another format",
            Reason::NotText => "is not text",
        };
        write!(f, "{} {reason}", self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_document_is_ignored_unless_it_looks_like_a_manifest() {
        let table = [
            ("kind: Pod\nname: {{ .Values.name }}\n", Some("a.yaml:7 is a template")),
            ("apiVersion: v1\nkind: Pod\nspec: {{ .x }}\n", Some("a.yaml:7 is a template")),
            ("apiVersion: v1\nkind: Pod\nspec: [\n", None),
            ("{\"apiVersion\": \"v1\",\n \"kind\": \"Pod\",\n", None),
            ("{\n  // a comment\n  \"compilerOptions\": {}\n}\n", Some("a.yaml:7 has another format")),
            ("version: 2\nkind: [\n", Some("a.yaml:7 has another format")),
        ];
        for (text, expected) in table {
            let found = Ignored::of_unreadable("a.yaml", 7, text).map(|ignored| ignored.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
