//! `winpool lint`: a bad and a good manifest for each code, the output formats, ignored codes, and untrusted input.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use winpool_check::{
    lint::{self, Code, Severity, TargetCluster},
    manifests::{Budget, Manifests},
};
use winpool_facts::{ContainerRuntime, Minor, support::NEWEST};

mod corpus;
mod fuzz;
mod integrations;
mod known_issue;
mod options;
mod page;
mod placement;

struct Run {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    /// The findings as `line code`.
    fn found(&self) -> Vec<String> {
        let findings = self.json()["findings"].as_array().unwrap().clone();
        findings.iter().map(|one| format!("{} {}", one["line"], one["code"].as_str().unwrap())).collect()
    }
}

fn winpool(folder: &Path, args: &[&str], stdin: &str) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_winpool")).arg("lint").args(args).current_dir(folder), stdin)
}

fn run(command: &mut Command, stdin: &str) -> Run {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may close its input before the end.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { status: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
}

/// Lints a text on standard input.
fn lint_text(text: &str) -> Run {
    winpool(Path::new("."), &["-f", "-", "-o", "json"], text)
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint")
}

/// A valid pod for Windows. Further fields of the container can be appended.
const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows}
  containers:
  - name: web
    resources: {limits: {memory: 1Gi}}
";

/// A pod with one container, or a DaemonSet of such pods.
fn pod(kind: &str, spec: &str, image: &str) -> String {
    let container = format!("containers: [{{name: a, image: '{image}', resources: {{limits: {{memory: 1Gi}}}}}}]");
    match kind {
        "Pod" => format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{{spec}, {container}}}\n"),
        _ => format!(
            "---\napiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  template:\n    \
             metadata: {{labels: {{app: a}}}}\n    spec: {{{spec}, {container}}}\n"
        ),
    }
}

#[test]
fn every_code_has_a_bad_and_a_good_manifest() {
    let entries = fs::read_dir(corpus()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir());
    let folders: BTreeSet<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    // A code that requires a registry lookup has no file.
    let names = Code::ALL.iter().filter(|code| **code != Code::ImageCannotRun).map(|code| code.name().to_owned());
    assert_eq!(folders, names.collect());
    for code in folders {
        let bad_text = fs::read_to_string(corpus().join(&code).join("bad.yaml")).unwrap();
        let marked = bad_text.lines().enumerate().filter(|(_, line)| line.ends_with("# bad"));
        let expected: Vec<_> = marked.map(|(index, _)| format!("{} {code}", index + 1)).collect();
        assert!(!expected.is_empty(), "{code}: no line is marked");
        let [bad, good] = ["bad", "good"].map(|name| check_file(&corpus().join(&code).join(format!("{name}.yaml"))));
        assert_eq!(codes(&bad), expected, "{code}: {:?}", bad.findings);
        let fails = code.parse::<Code>().unwrap().severity() != Severity::Note;
        let only_notes = bad.findings.iter().all(|found| found.severity == Severity::Note);
        assert_eq!(only_notes, !fails, "{code}");
        assert_eq!(codes(&good), Vec::<String>::new(), "{code}: {:?}", good.findings);
    }
}

/// The findings in a file, with the options in its comment, such as `# args: --kubernetes 1.31 --runtime docker`.
fn check_file(file: &Path) -> lint::LintReport {
    let manifests = Manifests::read(&[file.to_owned()], &mut Budget::bounded()).unwrap();
    let text = fs::read_to_string(file).unwrap();
    let args: Vec<_> =
        text.lines().find_map(|line| line.strip_prefix("# args: ")).unwrap_or_default().split(' ').collect();
    let value = |option: &str| args.iter().position(|arg| *arg == option).map(|index| args[index + 1]);
    let minor = value("--kubernetes").map_or(NEWEST, |text| text.parse().unwrap());
    let runtime = if value("--runtime") == Some("docker") {
        ContainerRuntime::CriDockerd
    } else {
        ContainerRuntime::Containerd(())
    };
    let is_default = value("--kubernetes").is_none();
    lint::check(manifests, TargetCluster { minor, is_default, runtime }, &|_| None)
}

/// The findings as `line code`.
fn codes(report: &lint::LintReport) -> Vec<String> {
    report.findings.iter().map(|found| format!("{} {}", found.line, found.finding.code)).collect()
}

#[test]
fn the_default_runtime_is_containerd() {
    let text = format!("{POD}    image: example.com/web:7\n  terminationGracePeriodSeconds: 60\n");
    for (args, found) in [
        (&["--runtime", "docker"][..], &["11 grace-period-docker"][..]),
        (&["--runtime", "containerd"], &[]),
        (&[], &[]),
    ] {
        let all = [&["-f", "-", "-o", "json"], args].concat();
        assert_eq!(winpool(Path::new("."), &all, &text).found(), found, "{args:?}");
    }
}

#[test]
fn a_registry_lookup_finds_incompatible_images() {
    use winpool_core::image::{ImagePlatform, ImagePlatforms, Lookup};
    let folder = tempfile::tempdir().unwrap();
    let build = "{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}";
    let pod = POD.replace("{kubernetes.io/os: windows}", build);
    fs::write(folder.path().join("pod.yaml"), format!("{pod}    image: example.com/web:7\n")).unwrap();
    let found = |os: &str, os_version: &str| {
        let manifests = Manifests::read(&[folder.path().join("pod.yaml")], &mut Budget::bounded()).unwrap();
        let platform =
            ImagePlatform { os: os.into(), architecture: "amd64".into(), os_version: os_version.parse().ok() };
        let lookup = Lookup::Found(ImagePlatforms { platforms: vec![platform] });
        codes(&lint::check(manifests, target(), &|_| Some(lookup.clone())))
    };
    let none: [&str; 0] = [];
    assert_eq!(found("windows", "10.0.20348.1"), none);
    assert_eq!(found("windows", "10.0.17763.1"), ["10 image-cannot-run"]);
    assert_eq!(found("linux", ""), ["10 image-cannot-run"]);
}

fn target() -> TargetCluster {
    TargetCluster { minor: Minor(34), is_default: false, runtime: ContainerRuntime::Containerd(()) }
}

#[test]
fn text_is_a_line_for_each_finding_and_a_summary() {
    let text = format!(
        "{POD}    image: example.com/web:latest\n    securityContext: {{privileged: true}}\n---\nkind: ConfigMap\n"
    );
    let run = winpool(Path::new("."), &["-f", "-", "--kubernetes", "1.34"], &text);
    assert_eq!(run.status, 1);
    insta::assert_snapshot!(run.stdout, @r"
    -:10: warning image-latest: spec.containers[0].image: example.com/web:latest has the tag latest
    -:11: error field-refused: spec.containers[0].securityContext.privileged: privileged is rejected since Kubernetes 1.23. Remedy: remove it. For access to the host, use a HostProcess container (windowsOptions.hostProcess: true)

    field-refused: The pod is not created, and its Deployment or Job has no pods. Remedy: remove the field, or use the Windows equivalent.
    image-latest: The tag moves to other Windows builds without notice, and the container then does not start on the same node. Remedy: use the tag of a Windows build, such as ltsc2022, or a digest.

    Run winpool explain CODE for the meaning of a code.
    ");
    assert_eq!(run.stderr, "winpool: skipped: 1 ConfigMap\nwinpool: 1 error, 1 warning, 0 notes in 1 object\n");
}

#[test]
fn every_kind_of_workload_is_checked_at_its_pod_template() {
    let pod = "os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}, containers: [{name: a, image: 'a:1', \
               resources: {limits: {memory: 1Gi}}}], hostPID: true";
    let kinds = [
        ("v1", "Pod", format!("spec: {{{pod}}}"), "spec.hostPID"),
        ("v1", "PodTemplate", format!("template: {{spec: {{{pod}}}}}"), "template.spec.hostPID"),
        (
            "v1",
            "ReplicationController",
            format!("spec: {{template: {{spec: {{{pod}}}}}}}"),
            "spec.template.spec.hostPID",
        ),
        ("apps/v1", "Deployment", format!("spec: {{template: {{spec: {{{pod}}}}}}}"), "spec.template.spec.hostPID"),
        ("apps/v1", "ReplicaSet", format!("spec: {{template: {{spec: {{{pod}}}}}}}"), "spec.template.spec.hostPID"),
        ("apps/v1", "StatefulSet", format!("spec: {{template: {{spec: {{{pod}}}}}}}"), "spec.template.spec.hostPID"),
        ("apps/v1", "DaemonSet", format!("spec: {{template: {{spec: {{{pod}}}}}}}"), "spec.template.spec.hostPID"),
        ("batch/v1", "Job", format!("spec: {{template: {{spec: {{{pod}}}}}}}"), "spec.template.spec.hostPID"),
        (
            "batch/v1",
            "CronJob",
            format!("spec: {{jobTemplate: {{spec: {{template: {{spec: {{{pod}}}}}}}}}}}"),
            "spec.jobTemplate.spec.template.spec.hostPID",
        ),
    ];
    let items: String = kinds
        .iter()
        .map(|(version, kind, body, _)| {
            format!("- {{apiVersion: {version}, kind: {kind}, metadata: {{name: a}}, {body}}}\n")
        })
        .collect();
    let run = lint_text(&format!("apiVersion: v1\nkind: List\nitems:\n{items}"));
    let findings = run.json()["findings"].as_array().unwrap().clone();
    assert_eq!(findings.len(), kinds.len(), "{}", run.stdout);
    for (index, ((_, kind, _, path), finding)) in kinds.iter().zip(&findings).enumerate() {
        let expected = json!({"object": format!("{kind} a"), "path": path, "line": index + 4, "code": "field-refused"});
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(finding[field], *value, "{kind}");
        }
    }
}

#[test]
fn a_minor_newer_than_the_tables_is_reported() {
    let text = format!("{POD}    image: example.com/web:7\n");
    let next = format!("1.{}", NEWEST.0 + 1);
    let notice = |minor: &str| {
        let run = winpool(Path::new("."), &["-f", "-", "--kubernetes", minor], &text);
        run.stderr.contains("its feature gates too. Upgrade winpool")
    };
    assert!(notice(&next) && !notice(&NEWEST.to_string()));
}

#[test]
fn linux_pods_are_checked_by_the_rules_for_linux_only() {
    let linux = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: nginx\n    \
                 securityContext: {privileged: true}\n  tolerations: [{key: gpu, operator: Exists}]\n";
    assert_eq!(lint_text(linux).found(), Vec::<String>::new());
}

#[test]
fn a_code_is_ignored_by_an_option_a_comment_or_an_annotation() {
    let latest = format!("{POD}    image: example.com/web:latest\n");
    assert_eq!(lint_text(&latest).found(), ["10 image-latest"]);
    let option = winpool(Path::new("."), &["-f", "-", "-o", "json", "--ignore", "image-latest"], &latest);
    assert_eq!((option.found(), option.status), (Vec::new(), 0));
    let none: [&str; 0] = [];
    let ignored = [
        latest.replace("web:latest", "web:latest # winpool:ignore image-latest"),
        latest.replace("    image", "    # winpool:ignore image-latest - built on the host\n    image"),
        latest
            .replace("{name: web}", "{name: web, annotations: {winpool.dev/lint-ignore: \"sub-path, image-latest\"}}")
            + "    volumeMounts: [{name: a, mountPath: /a, subPath: b}]\n",
    ];
    for text in ignored {
        assert_eq!(lint_text(&text).found(), none, "{text}");
    }
    let elsewhere = latest.replace("  containers", "  # winpool:ignore image-latest\n  containers");
    assert_eq!(lint_text(&elsewhere).found(), ["7 unused-ignore", "11 image-latest"]);
    let mistyped = latest.replace("{name: web}", "{name: web, annotations: {winpool.dev/lint-ignore: image-last}}");
    let run = lint_text(&mistyped);
    assert_eq!(run.found(), ["3 unused-ignore", "10 image-latest"]);
    assert!(run.stdout.contains("unknown code `image-last`"), "{}", run.stdout);
    let two = format!("{}---\n{latest}", ignored_by_annotation(&latest));
    assert_eq!(lint_text(&two).found(), ["21 image-latest"], "an annotation applies to its own object only");
}

fn ignored_by_annotation(text: &str) -> String {
    text.replace("{name: web}", "{name: web, annotations: {winpool.dev/lint-ignore: image-latest}}")
}

#[test]
fn an_annotation_of_a_pod_template_applies_to_its_object() {
    let text = fs::read_to_string(corpus().join("local-traffic-policy/good.yaml")).unwrap();
    let latest = text.replace("web:7", "web:latest");
    let found = lint_text(&latest).found();
    assert_eq!(found.len(), 1, "{found:?}");
    let ignored = latest.replace(
        "      labels: {app: web}",
        "      labels: {app: web}\n      annotations: {winpool.dev/lint-ignore: image-latest}",
    );
    assert_eq!(lint_text(&ignored).found(), Vec::<String>::new());
}

#[test]
fn invalid_usage_exits_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let table: [(&[&str], &str); 8] = [
        (&[], "<PATH>"),
        (&["-f", "nowhere"], "nowhere: No such file"),
        (&["-f", "-", "-f", "-"], "standard input can be read only once"),
        (&["-f", "-", "--ignore", "image-last"], "--ignore: unknown code `image-last`"),
        (&["-", "--config", "none.yaml"], "none.yaml:1: No such file"),
        (&["-", "--baseline", "none.json"], "baseline none.json: cannot be read: No such file"),
        (&["-", "--write-baseline"], "--write-baseline needs the name of a file: --baseline FILE"),
        (&["-f", "-", "--kubernetes", "1.29"], "--kubernetes: 1.29 is not supported. Use 1.30 or later"),
    ];
    for (args, text) in table {
        let run = winpool(folder.path(), args, "");
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(text), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn an_unreadable_file_is_reported_with_its_line_and_a_remedy() {
    let table = [
        ("a.yaml", "kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", "a.yaml:3: error unreadable: ", "templates"),
        ("b.yaml", "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", "b.yaml:1: error unreadable: ", "templates"),
        ("d.yaml", "kind: Pod\nspec: [\n", "d.yaml:", "correct the YAML"),
        ("e.yaml", "a: {b: 1}\n", "e.yaml:1: error unreadable: kind: ", "write apiVersion and kind"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, text, place, remedy) in table {
        fs::write(folder.path().join(name), text).unwrap();
        let run = winpool(folder.path(), &["-f", name], "");
        assert_eq!(run.status, 1, "{name}: {}", run.stderr);
        assert!(run.stdout.starts_with(place) && run.stdout.contains(remedy), "{name}: {}", run.stdout);
    }
    // The findings of other files are reported.
    fs::write(folder.path().join("z.yaml"), format!("{POD}    image: web\n")).unwrap();
    let run = winpool(folder.path(), &["-f", "a.yaml", "-f", "z.yaml", "-o", "json"], "");
    assert_eq!(run.found(), ["3 unreadable", "10 image-untagged"]);
}

#[test]
fn invalid_image_references_and_missing_specs_are_findings() {
    for image in ["''", "'Web'", "'web:7:8'", "'web@sha256:12'", "'a b'", "'http://a/b'"] {
        let run = lint_text(&format!("{POD}    image: {image}\n"));
        assert_eq!(run.found(), ["10 image-invalid"], "{image}");
    }
    for (text, line) in [("kind: Pod\n", 1), ("kind: Pod\nspec: 7\n", 2), ("kind: Pod\nspec: {containers: []}\n", 2)] {
        assert_eq!(lint_text(text).found(), [format!("{line} pod-invalid")], "{text}");
    }
}

#[test]
fn a_finding_does_not_hide_others() {
    let latest = format!("{POD}    image: example.com/web:latest\n");
    // A value of the wrong type, and the fields and images of the same pod.
    let typed =
        format!("{latest}    env:\n    - {{name: PORT, value: 8080}}\n    securityContext: {{privileged: true}}\n");
    assert_eq!(lint_text(&typed).found(), ["10 image-latest", "12 pod-invalid", "13 field-refused"]);
    // Consequences of an invalid value are not reported.
    let image = format!("{POD}    image: 7\n").replace("{limits: {memory: 1Gi}}", "[memory]");
    assert_eq!(lint_text(&image).found(), ["9 pod-invalid", "10 pod-invalid"]);
    // An unreadable document among others.
    let stream = format!("{latest}---\nkind: [\n---\n{latest}---\nkind: Pod\nkind: Pod\n---\n{latest}");
    let expected =
        ["10 image-latest", "12 unreadable", "23 image-latest", "25 pod-invalid", "26 unreadable", "37 image-latest"];
    assert_eq!(lint_text(&stream).found(), expected);
}

#[test]
fn os_name_in_another_case_is_invalid_and_checked_as_windows() {
    let text = format!("{POD}    image: example.com/web:latest\n").replace("{name: windows}", "{name: Windows}");
    assert_eq!(lint_text(&text).found(), ["5 pod-invalid", "10 image-latest"]);
    let alone = text.replace("  nodeSelector: {kubernetes.io/os: windows}\n", "");
    let found = lint_text(&alone).found();
    assert_eq!(found, ["4 os-selector-missing", "5 pod-invalid", "9 image-latest"]);
}

#[test]
fn the_items_of_a_list_are_checked_one_by_one() {
    let pod = format!("{POD}    image: example.com/web:latest\n");
    let (_, body) = pod.split_once("kind: Pod\n").unwrap();
    let item: String = body.lines().map(|line| format!("  {line}\n")).collect();
    let list = format!("apiVersion: v1\nkind: PodList\nitems:\n- {}", item.trim_start());
    let run = lint_text(&list);
    assert_eq!(run.found(), ["11 image-latest"]);
    assert_eq!(run.json()["findings"][0]["object"], "Pod web");
}

#[test]
fn a_long_stream_is_checked_up_to_an_unreadable_document() {
    let report = check(&(format!("{POD}    image: example.com/web:7\n---\n").repeat(1_000) + "kind: [\n"));
    assert_eq!(codes(&report), ["11001 unreadable"]);
    assert_eq!(report.objects, 1_000);
}

/// A short document whose aliases expand to 9^12 items.
fn yaml_bomb() -> String {
    let level = |index: u8| {
        let (name, below) = (char::from(b'b' + index), char::from(b'a' + index));
        format!("{name}: &{name} [{}]\n", vec![format!("*{below}"); 9].join(", "))
    };
    format!("kind: Pod\na: &a [x, x, x, x, x, x, x, x, x]\n{}", (0..12).map(level).collect::<String>())
}

#[test]
fn input_that_exceeds_the_limits_is_an_error() {
    let json = format!("{{\"kind\": \"Pod\", \"a\": [{}0]}}", "0,".repeat(2_000_000));
    let deep = format!("kind: Pod\na: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let large = format!("kind: Pod\na: {}\n", "x".repeat(50_000_000));
    let table = [
        ("bomb", yaml_bomb(), "too many values"),
        ("many values", json, "too many values"),
        ("deep", deep, "recursion limit"),
        ("50 MB", large, "larger than 32 MiB"),
    ];
    for (name, text, expected) in table {
        let mut bounded = Command::new("sh");
        // Kilobytes of address space, including the program and its stacks.
        bounded.args(["-c", "ulimit -v 600000; exec \"$0\" lint -f -", env!("CARGO_BIN_EXE_winpool")]);
        let run = run(&mut bounded, &text);
        assert_eq!(run.status, 1, "{name}: {}", run.stderr);
        assert!(run.stdout.contains("-:") && run.stdout.contains(expected), "{name}: {}", run.stdout);
    }
}

/// The properties of the written objects in the published schema (sarif-schema-2.1.0.json, errata 01). Required ones
/// are marked with `!`.
const SARIF: [(&str, &[&str]); 12] = [
    ("", &["$schema", "version!", "runs!", "inlineExternalProperties", "properties"]),
    ("runs", &["tool!", "columnKind", "results", "artifacts", "invocations", "properties"]),
    ("runs.tool", &["driver!", "extensions", "properties"]),
    ("runs.tool.driver", &["name!", "version", "semanticVersion", "informationUri", "rules", "properties"]),
    (
        "runs.tool.driver.rules",
        &[
            "id!",
            "name",
            "shortDescription",
            "fullDescription",
            "help",
            "helpUri",
            "defaultConfiguration",
            "properties",
        ],
    ),
    ("runs.tool.driver.rules.help", &["text!", "markdown", "properties"]),
    ("runs.tool.driver.rules.defaultConfiguration", &["enabled", "level", "rank", "parameters", "properties"]),
    ("runs.results", &["ruleId", "ruleIndex", "level", "message!", "locations", "fingerprints", "properties"]),
    ("runs.results.message", &["text", "markdown", "id", "arguments", "properties"]),
    ("runs.results.locations", &["id", "physicalLocation", "logicalLocations", "message", "properties"]),
    ("runs.results.locations.physicalLocation", &["artifactLocation", "region", "contextRegion", "properties"]),
    ("runs.results.locations.physicalLocation.region", &["startLine", "startColumn", "endLine", "endColumn"]),
];

#[test]
fn sarif_conforms_to_its_schema() {
    let text = format!("{POD}    image: example.com/web:latest\n    securityContext: {{privileged: true}}\n");
    let log = winpool(Path::new("."), &["-f", "-", "-o", "sarif"], &text).json();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-schema-2.1.0.json"));
    for (path, allowed) in SARIF {
        let objects = path.split('.').filter(|step| !step.is_empty()).fold(vec![&log], |values, step| {
            let below = values.into_iter().filter_map(|value| value.get(step));
            below.flat_map(|value| value.as_array().map_or(vec![value], |items| items.iter().collect())).collect()
        });
        assert!(!objects.is_empty(), "{path}");
        for object in objects {
            let written: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
            let known = |name: &str| allowed.iter().any(|allowed| allowed.trim_end_matches('!') == name);
            assert!(written.iter().all(|name| known(name)), "{path}: {written:?}");
            let required = allowed.iter().filter_map(|name| name.strip_suffix('!'));
            assert!(required.into_iter().all(|name| written.contains(&name)), "{path}: {written:?}");
        }
    }
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let names: Vec<_> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    assert_eq!(names, Code::ALL.iter().map(|code| code.name()).collect::<Vec<_>>());
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for (result, line) in results.iter().zip([10, 11]) {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["region"], json!({"startLine": line}));
        assert_eq!(place["artifactLocation"], json!({"uri": "stdin"}));
    }
}

#[test]
fn several_files_are_checked_together() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(corpus().join("image-build/bad.yaml")).unwrap();
    let [pool, pod] = [0, 1].map(|index| text.split("---\n").nth(index).unwrap());
    fs::write(folder.path().join("pool.yaml"), pool).unwrap();
    fs::write(folder.path().join("pod.yaml"), pod).unwrap();
    let alone = winpool(folder.path(), &["-f", "pod.yaml", "-o", "json"], "");
    assert_eq!(alone.found(), ["10 image-unchecked"], "the nodes are unknown");
    let together = winpool(folder.path(), &["-f", ".", "-o", "json"], "");
    assert_eq!(together.found(), ["10 image-build"]);
    assert_eq!(together.json()["findings"][0]["file"], "./pod.yaml");
}

#[test]
fn endpoints_in_the_manifests_are_counted() {
    let pods = pod("Deployment", "os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}", "a:1");
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {app: a}}\n";
    let slice = |number: usize, count: usize| {
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: a-{number}, labels: \
             {{kubernetes.io/service-name: a}}}}\naddressType: IPv4\nendpoints: [{}]\n",
            vec!["{addresses: [10.0.0.1]}"; count].join(", ")
        )
    };
    for (count, expected) in
        [(24, None), (25, Some("the Service has 1025 endpoints, and Windows supports at most 1024"))]
    {
        let report = check(&format!("{pods}{service}{}{}", slice(1, 1000), slice(2, count)));
        let message = report.findings.first().map(|found| found.finding.message());
        assert_eq!(message.is_some(), expected.is_some(), "{message:?}");
        assert!(message.unwrap_or_default().starts_with(expected.unwrap_or_default()));
    }
}

fn check(text: &str) -> lint::LintReport {
    check_bytes(text.as_bytes())
}

fn check_bytes(bytes: &[u8]) -> lint::LintReport {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let manifests = Manifests::read(&[file.path().to_owned()], &mut Budget::bounded()).unwrap();
    lint::check(manifests, target(), &|_| None)
}
