//! The files for pre-commit and GitHub Actions, and the JSON schemas.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use winpool::commands::lint::LintDocument;

use super::{POD, run, winpool};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(root().join(file)).unwrap()).unwrap()
}

/// Compares a file with its generated text; UPDATE_DOCS=1 writes it.
fn assert_generated(file: &str, text: &str) {
    let path = root().join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{file} differs from the types: UPDATE_DOCS=1 renews it");
}

#[test]
fn the_schema_of_the_json_output_is_that_of_its_types() {
    let schema = json!(schemars::schema_for!(LintDocument<'static>));
    assert_generated("docs/schemas/lint.schema.json", &format!("{schema:#}\n"));
}

#[test]
fn the_json_output_conforms_to_its_schema() {
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(root().join("docs/schemas/lint.schema.json")).unwrap()).unwrap();
    let pod = format!("{POD}    image: example.com/web:latest\n---\nkind: ConfigMap\n");
    for (args, text) in [
        (&["-", "-o", "json"][..], pod.as_str()),
        (&["-", "-o", "json"], ""),
        (&["missed", "other-formats", "-o", "json"], ""),
    ] {
        let output = winpool(&root().join("tests/lint-corpus"), args, text).json();
        assert_eq!(violations(&schema, &schema, &output, ""), Vec::<String>::new());
    }
    let wrong = json!({"findings": [{"code": 1}], "summary": {}, "more": 1});
    let found = violations(&schema, &schema, &wrong, "").join("\n");
    for expected in [".findings[0].code: not string", ".findings[0].file: is required", ".summary.errors: is required"]
    {
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn the_schemas_of_the_resources_are_those_of_the_crds() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["crds", "-o", "json-schema", "--out", folder.path().to_str().unwrap()];
    assert_eq!(run(Command::new(env!("CARGO_BIN_EXE_winpool")).args(args), "").status, 0);
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let text = fs::read_to_string(folder.path().join(&file)).unwrap();
        assert_generated(&format!("docs/schemas/{}", file.display()), &text);
    }
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("windowsnodepool-winpool-v1alpha1.json")).unwrap())
            .unwrap();
    let pool = |spec: Value| json!({"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": "web"}, "spec": spec});
    let valid = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"a": "b"}}});
    assert_eq!(violations(&schema, &schema, &pool(valid), ""), Vec::<String>::new());
    let invalid = violations(&schema, &schema, &pool(json!({"windowsVersion": 1809, "taint": []})), "");
    assert_eq!(invalid, [".spec.taint: is unknown", ".spec.windowsVersion: not string"]);
}

/// The violations of a JSON schema with the keywords that our schemas have.
fn violations(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    const ANNOTATIONS: [&str; 7] = ["$schema", "$defs", "title", "description", "format", "default", "examples"];
    /// Not needed for the objects of these tests.
    const BOUNDS: [&str; 9] = [
        "maxLength",
        "minLength",
        "maxItems",
        "minItems",
        "maxProperties",
        "minProperties",
        "pattern",
        "minimum",
        "maximum",
    ];
    let mut found = Vec::new();
    let Some(keywords) = schema.as_object() else { return found };
    for (keyword, argument) in keywords {
        match keyword.as_str() {
            "$ref" => {
                let pointer = argument.as_str().unwrap().strip_prefix('#').unwrap();
                found.extend(violations(root, root.pointer(pointer).unwrap(), value, path));
            }
            "type" => {
                let is_of = |name: &Value| match name.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    other => panic!("unknown type {other}"),
                };
                let names = argument.as_array().cloned().unwrap_or_else(|| vec![argument.clone()]);
                if !names.iter().any(is_of) {
                    found.push(format!("{path}: not {}", names[0].as_str().unwrap()));
                }
            }
            "properties" => {
                let known = argument.as_object().unwrap();
                for (name, value) in value.as_object().into_iter().flatten() {
                    let path = format!("{path}.{name}");
                    match (known.get(name), schema.get("additionalProperties")) {
                        (Some(schema), _) => found.extend(violations(root, schema, value, &path)),
                        (None, Some(Value::Bool(false))) => found.push(format!("{path}: is unknown")),
                        (None, _) => {}
                    }
                }
            }
            "additionalProperties" if !keywords.contains_key("properties") => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    found.extend(violations(root, argument, value, &format!("{path}.{name}")));
                }
            }
            "additionalProperties" => {}
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(violations(root, argument, value, &format!("{path}[{index}]")));
                }
            }
            "required" => {
                let names = argument.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                let missing = names.filter(|name| value.is_object() && value.get(name).is_none());
                found.extend(missing.map(|name| format!("{path}.{name}: is required")));
            }
            "enum" if !argument.as_array().unwrap().contains(value) => found.push(format!("{path}: not in {argument}")),
            "const" if argument != value => found.push(format!("{path}: not {argument}")),
            "oneOf"
                if !argument.as_array().unwrap().iter().any(|one| violations(root, one, value, path).is_empty()) =>
            {
                found.push(format!("{path}: none of {argument}"));
            }
            "enum" | "const" | "oneOf" => {}
            other => assert!(ANNOTATIONS.contains(&other) || BOUNDS.contains(&other), "unknown keyword {other}"),
        }
    }
    found.sort();
    found
}

#[test]
fn every_pre_commit_hook_runs_on_files() {
    let hooks = yaml(".pre-commit-hooks.yaml");
    let hooks = hooks.as_array().unwrap();
    assert_eq!(hooks.len(), 2);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pod.yaml"), format!("{POD}    image: example.com/web:latest\n")).unwrap();
    fs::write(folder.path().join("values.yaml"), "image: a\n").unwrap();
    for hook in hooks {
        for field in ["id", "name", "description", "entry", "language", "types_or"] {
            assert!(!hook[field].is_null(), "{hook} has no {field}");
        }
        let words: Vec<_> = hook["entry"].as_str().unwrap().split(' ').collect();
        assert_eq!(words[..2], ["winpool", "lint"]);
        let args = [&words[2..], &["pod.yaml", "values.yaml"]].concat();
        let run = winpool(folder.path(), &args, "");
        assert!(run.status == 1 && run.stdout.starts_with("pod.yaml:10: warning image-latest"), "{}", run.stderr);
    }
}

#[test]
fn the_github_action_runs_lint_with_its_inputs() {
    let action = yaml("action.yml");
    let inputs = action["inputs"].as_object().unwrap();
    let steps = action["runs"]["steps"].as_array().unwrap();
    assert_eq!((&action["runs"]["using"], steps.len()), (&json!("composite"), 2));
    assert!(steps.iter().all(|step| step["shell"] == "bash"));
    let lint = &steps[1];
    let variables = lint["env"].as_object().unwrap();
    for name in inputs.keys() {
        let variable = format!("INPUT_{}", name.to_uppercase().replace('-', "_"));
        assert_eq!(variables[&variable], format!("${{{{ inputs.{name} }}}}"), "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("deploy")).unwrap();
    fs::write(folder.path().join("deploy/pod.yaml"), format!("{POD}    image: example.com/web:latest\n")).unwrap();
    let execute = |values: &[(&str, &str)]| {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", lint["run"].as_str().unwrap()]);
        command.current_dir(folder.path()).env("INPUT_WINPOOL", env!("CARGO_BIN_EXE_winpool"));
        for variable in variables.keys().filter(|name| *name != "INPUT_WINPOOL") {
            let given = values.iter().find(|(name, _)| name == variable);
            command.env(variable, given.map_or("", |(_, value)| value));
        }
        run(&mut command, "")
    };
    let found = execute(&[("INPUT_PATHS", "deploy"), ("INPUT_KUBERNETES", "1.34")]);
    assert_eq!(found.status, 1, "{}", found.stderr);
    assert!(
        found.stdout.starts_with("::warning file=deploy/pod.yaml,line=10,title=image-latest::"),
        "{}",
        found.stdout
    );
    let lenient = execute(&[("INPUT_PATHS", "deploy deploy/pod.yaml"), ("INPUT_FAIL_ON", "error")]);
    assert_eq!(lenient.status, 0, "{}", lenient.stderr);
    assert_eq!(execute(&[("INPUT_PATHS", "deploy"), ("INPUT_BASELINE", "none.json")]).status, 2);
    assert_eq!(execute(&[("INPUT_PATHS", "deploy"), ("INPUT_CONFIG", "none.yaml")]).status, 2);
}
