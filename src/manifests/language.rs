//! Texts that are no manifests yet: templates and programs that make manifests.

use std::path::Path;

const HELM: &str = "this is a template: pass what it renders: helm template … | winpool … -f -";

/// The ends of file names, and what to do with such a file.
const BY_EXTENSION: [(&str, &str); 10] = [
    ("tpl", HELM),
    ("gotmpl", HELM),
    ("jsonnet", "this is Jsonnet: pass its output: jsonnet … | winpool … -f -"),
    ("libsonnet", "this is Jsonnet: pass its output: jsonnet … | winpool … -f -"),
    ("cue", "this is CUE: pass its output: cue export … | winpool … -f -"),
    ("dhall", "this is Dhall: pass its output: dhall-to-yaml … | winpool … -f -"),
    ("k", "this is KCL: pass its output: kcl run … | winpool … -f -"),
    ("pkl", "this is Pkl: pass its output: pkl eval -f yaml … | winpool … -f -"),
    ("ts", "this is a program: pass the manifests that it makes"),
    ("py", "this is a program: pass the manifests that it makes"),
];

/// What to do with a text that is no manifest, if it is in a language of which manifests are made.
pub fn remedy(name: &str, text: &str) -> Option<&'static str> {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let by_extension = BY_EXTENSION.iter().find(|(known, _)| *known == extension).map(|(_, remedy)| *remedy);
    by_extension.or_else(|| text.contains("{{").then_some(HELM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_known_by_the_name_of_the_file_or_by_its_marks() {
        let table = [
            ("app.jsonnet", "local k = 1;", "this is Jsonnet"),
            ("templates/app.yaml", "kind: {{ .Values.kind }}", "this is a template"),
            ("-", "{{- range .Values.list }}", "this is a template"),
            ("app.cue", "kind: \"Pod\"", "this is CUE"),
        ];
        for (name, text, expected) in table {
            assert!(remedy(name, text).unwrap().starts_with(expected), "{name}");
        }
        assert_eq!(remedy("app.yaml", "kind: [\n"), None);
    }
}
