//! The files for pre-commit and GitHub Actions, and the JSON schemas.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use winpool::lint::LintDocument;

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
