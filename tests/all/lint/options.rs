//! Options that decide which findings fail, and how they are printed: the configuration file, the baseline, `--fail-on`.

use std::{fs, path::Path};

use serde_json::json;

use super::{POD, winpool};

/// A folder with a pod that has an error, a warning and a note.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = "    securityContext: {windowsOptions: {hostprocess: true}}";
    let text = format!("{POD}    image: example.com/web:latest\n{options}\n").replace("  os: {name: windows}\n", "");
    fs::create_dir(folder.path().join("deploy")).unwrap();
    write(folder.path(), "deploy/pod.yaml", &text);
    folder
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

#[test]
fn the_least_severity_that_fails_is_an_option() {
    let folder = folder();
    let status = |args: &[&str]| winpool(folder.path(), &[&["deploy"], args].concat(), "").status;
    assert_eq!(status(&[]), 1);
    assert_eq!(status(&["--fail-on", "error"]), 1);
    assert_eq!(status(&["--fail-on", "error", "--ignore", "unknown-field"]), 0);
    assert_eq!(status(&["--fail-on", "warning", "--ignore", "unknown-field"]), 1);
    assert_eq!(status(&["--ignore", "unknown-field", "--ignore", "image-latest"]), 0, "a note does not fail");
}

#[test]
fn a_configuration_file_in_the_working_directory_or_above_applies() {
    let folder = folder();
    let found = |args: &[&str]| winpool(folder.path(), &[&["deploy", "-o", "json"], args].concat(), "").found();
    assert_eq!(found(&[]), ["4 os-name-missing", "9 image-latest", "10 unknown-field"]);
    let config = "ignore: [image-latest]\nseverity: {unknown-field: warning, os-name-missing: off}\n";
    write(folder.path(), ".winpool-lint.yaml", config);
    assert_eq!(found(&[]), ["10 unknown-field"]);
    let below = winpool(&folder.path().join("deploy"), &["pod.yaml", "--fail-on", "error"], "");
    assert_eq!(below.status, 0, "{}", below.stderr);
    assert!(below.stdout.starts_with("pod.yaml:10: warning unknown-field: "), "{}", below.stdout);
    write(folder.path(), "other.yaml", "exclude: [deploy/]\n");
    let run = winpool(folder.path(), &["deploy", "--config", "other.yaml"], "");
    assert_eq!((run.status, run.stdout.as_str()), (0, ""));
    assert_eq!(run.stderr, "winpool: 0 errors, 0 warnings, 0 notes in 0 objects\n");
    write(folder.path(), "other.yaml", "excludes: [deploy/]\n");
    let run = winpool(folder.path(), &["deploy", "--config", "other.yaml"], "");
    assert_eq!(
        (run.status, run.stderr.as_str()),
        (2, "winpool: other.yaml:1: excludes: unknown field: write exclude\n")
    );
}

#[test]
fn findings_of_the_baseline_are_not_counted() {
    let folder = folder();
    let run = |args: &[&str]| winpool(folder.path(), &[&["deploy", "--baseline", "known.json"], args].concat(), "");
    let written = run(&["--write-baseline"]);
    assert_eq!((written.status, written.stderr.as_str()), (0, "winpool: 3 findings written to known.json\n"));
    let known = run(&[]);
    assert_eq!((known.status, known.stdout.as_str()), (0, ""));
    let summary = "winpool: 0 errors, 0 warnings, 0 notes in 1 object, and 3 findings of the baseline\n";
    assert_eq!(known.stderr, format!("{}{summary}", super::TAINTS));
    // Lines before a finding move it, and a new finding fails.
    let text = fs::read_to_string(folder.path().join("deploy/pod.yaml")).unwrap();
    write(folder.path(), "deploy/pod.yaml", &format!("# comment\n\n{text}  hostPID: true\n"));
    let more = run(&["-o", "json"]);
    assert_eq!((more.status, more.found()), (1, vec!["13 field-ignored".to_owned()]));
    assert_eq!(more.json()["summary"]["inBaseline"], 3);
    // A finding that no longer exists is reported, unless its file was not checked.
    write(folder.path(), "deploy/pod.yaml", &text.replace(":latest", ":7"));
    let gone = run(&[]).stderr;
    let expected = "1 finding of the baseline does not exist any more: deploy/pod.yaml image-latest Pod web \
                    spec.containers[0].image. Write the baseline again with --write-baseline\n";
    assert!(gone.contains(expected), "{gone}");
    write(folder.path(), "other.yaml", "kind: ConfigMap\n");
    let partial = winpool(folder.path(), &["other.yaml", "--baseline", "known.json"], "");
    assert!(!partial.stderr.contains("of the baseline"), "{}", partial.stderr);
}

#[test]
fn an_unreadable_baseline_is_an_error_with_a_remedy() {
    let folder = folder();
    for (text, expected) in [
        ("[]", "baseline known.json: is not a baseline: "),
        ("{\"version\": 2, \"findings\": []}", "baseline known.json: has version 2, and this winpool reads version 1"),
        ("{\"version\": 1, \"found\": []}", "baseline known.json: is not a baseline: "),
    ] {
        write(folder.path(), "known.json", text);
        let run = winpool(folder.path(), &["deploy", "--baseline", "known.json"], "");
        assert_eq!(run.status, 2, "{text}");
        assert!(run.stderr.contains(expected) && run.stderr.contains("--write-baseline"), "{text}: {}", run.stderr);
    }
}

#[test]
fn nothing_to_check_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let empty = winpool(folder.path(), &["."], "");
    assert_eq!(empty.status, 0);
    let expected = "winpool: nothing to check: . has no .yaml, .yml or .json file\n";
    assert!(empty.stderr.starts_with(expected), "{}", empty.stderr);
    let stdin = winpool(folder.path(), &["-"], " \n");
    assert_eq!(stdin.status, 0);
    assert!(stdin.stderr.starts_with("winpool: nothing to check: standard input is empty\n"), "{}", stdin.stderr);
}

#[test]
fn typed_files_of_other_programs_are_skipped_on_request() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "values.yaml", "image: a\n");
    write(folder.path(), "template.yaml", "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n");
    let files = ["values.yaml", "template.yaml"];
    assert_eq!(winpool(folder.path(), &files, "").status, 1);
    let run = winpool(folder.path(), &[&files[..], &["--skip-other-files"]].concat(), "");
    assert_eq!(run.status, 0);
    let expected =
        "winpool: skipped: 2 documents of other formats: template.yaml:1 is a template, values.yaml:1 has no kind\n";
    assert!(run.stderr.starts_with(expected), "{}", run.stderr);
}

#[test]
fn paths_are_relative_to_the_working_directory_in_reports_for_other_programs() {
    let folder = folder();
    let file = folder.path().join("deploy/pod.yaml");
    let run = |format: &str| winpool(folder.path(), &[file.to_str().unwrap(), "-o", format], "");
    let sarif = run("sarif").json();
    let location = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(location["artifactLocation"], json!({"uri": "deploy/pod.yaml"}));
    let annotations = run("github").stdout;
    assert!(annotations.starts_with("::notice file=deploy/pod.yaml,line=4,title=os-name-missing::"), "{annotations}");
    assert_eq!(annotations.lines().count(), 3);
    let junit = run("junit").stdout;
    assert!(junit.contains("<testsuites name=\"winpool lint\" tests=\"3\" failures=\"2\">"), "{junit}");
}
