//! Documents that are not Kubernetes objects.

use winpool_core::placeholder;

/// Why a document that cannot be read is ignored, in the file with this text; `None` if it looks like a Kubernetes manifest.
pub(super) fn ignored(file: &str, line: usize, text: &str, at_fault: &str) -> Option<String> {
    let begins = |field: &str| text.lines().any(|line| line.trim_start_matches(['"', ' ', '{']).starts_with(field));
    let is_manifest = begins("apiVersion") && begins("kind");
    // The syntax of templates, such as those of Helm.
    let is_template = text.contains("{{") || placeholder::is_no_yaml(at_fault);
    match (is_template, is_manifest) {
        (true, _) => Some(format!("{file}:{line} is a template")),
        (false, false) => Some(format!("{file}:{line} has another format")),
        (false, true) => None,
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
            assert_eq!(ignored("a.yaml", 3, text, at_fault).as_deref(), expected, "{text}");
        }
    }
}
