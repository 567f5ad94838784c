//! `winpool lint`: a bad and a good twin of each code, the forms of its output, silences, and input from strangers.

#![allow(clippy::unwrap_used, clippy::panic)] // what cannot be run or read fails the test

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use winpool::{
    commands::lint,
    domain::lint::{Code, Severity, Target},
    facts::{Minor, runtimes::Runtime, support::NEWEST},
    manifests::{Budget, Manifests},
};

#[path = "lint/fuzz.rs"]
mod fuzz;
#[path = "lint/page.rs"]
mod page;
#[path = "lint/placement.rs"]
mod placement;

struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    /// The findings as `line code`.
    fn found(&self) -> Vec<String> {
        let findings = self.json()["findings"].as_array().unwrap().clone();
        findings.iter().map(|one| format!("{} {}", one["line"], one["code"].as_str().unwrap())).collect()
    }
}

fn winpool(folder: &Path, args: &[&str], stdin: &str) -> Ended {
    run(Command::new(env!("CARGO_BIN_EXE_winpool")).arg("lint").args(args).current_dir(folder), stdin)
}

fn run(command: &mut Command, stdin: &str) -> Ended {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A reader that has seen enough closes its end.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { status: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
}

/// What is wrong with a text on standard input.
fn linted(text: &str) -> Ended {
    winpool(Path::new("."), &["-f", "-", "-o", "json"], text)
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint")
}

/// A pod for Windows without a fault; behind it more of its container can be written.
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
fn every_code_has_a_bad_and_a_good_twin() {
    let entries = fs::read_dir(corpus()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir());
    let folders: BTreeSet<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    // Of what only a registry can say there is no file.
    let codes = Code::ALL.iter().filter(|code| **code != Code::ImageCannotRun).map(|code| code.name().to_owned());
    assert_eq!(folders, codes.collect());
    for code in folders {
        let bad_text = fs::read_to_string(corpus().join(&code).join("bad.yaml")).unwrap();
        let marked = bad_text.lines().enumerate().filter(|(_, line)| line.ends_with("# bad"));
        let expected: Vec<_> = marked.map(|(index, _)| format!("{} {code}", index + 1)).collect();
        assert!(!expected.is_empty(), "{code}: no line is marked");
        let [bad, good] = ["bad", "good"].map(|twin| judged(&corpus().join(&code).join(format!("{twin}.yaml"))));
        assert_eq!(told(&bad), expected, "{code}: {:?}", bad.findings);
        let fails = code.parse::<Code>().unwrap().severity() != Severity::Note;
        assert_eq!(bad.passes(), !fails, "{code}");
        assert_eq!(told(&good), Vec::<String>::new(), "{code}: {:?}", good.findings);
    }
}

/// The findings in a file, for what its first line asks: `# args: --kubernetes 1.31 --runtime docker`.
fn judged(file: &Path) -> lint::Report {
    let manifests = Manifests::read(&[file.to_owned()], &mut Budget::bounded()).unwrap();
    let text = fs::read_to_string(file).unwrap();
    let words: Vec<_> =
        text.lines().find_map(|line| line.strip_prefix("# args: ")).unwrap_or_default().split(' ').collect();
    let asked = |option: &str| words.iter().position(|word| *word == option).map(|index| words[index + 1]);
    let minor = asked("--kubernetes").map_or(NEWEST, |text| text.parse().unwrap());
    let runtime = if asked("--runtime") == Some("docker") { Runtime::CriDockerd } else { Runtime::Containerd };
    lint::check(manifests, Target { minor, runtime }, &|_| None)
}

/// The findings as `line code`.
fn told(report: &lint::Report) -> Vec<String> {
    report.findings.iter().map(|found| format!("{} {}", found.line, found.finding.code)).collect()
}

#[test]
fn the_runtime_is_docker_where_somebody_says_so_or_the_minor_had_nothing_else() {
    let text = format!("{POD}    image: example.com/web:7\n  terminationGracePeriodSeconds: 60\n")
        .replace("  os: {name: windows}\n", "");
    let docker = |args: &[&str]| {
        let all = [&["-f", "-", "-o", "json", "--ignore", "os-name-missing"], args].concat();
        winpool(Path::new("."), &all, &text).found() == ["10 grace-period-docker"]
    };
    assert!(docker(&["--kubernetes", "1.23"]) && docker(&["--runtime", "docker"]));
    assert!(!docker(&["--kubernetes", "1.24"]) && !docker(&["--kubernetes", "1.23", "--runtime", "containerd"]));
}

#[test]
fn a_registry_says_what_a_name_cannot() {
    use winpool::domain::image::{Content, Lookup, Platform};
    let folder = tempfile::tempdir().unwrap();
    let build = "{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}";
    let pod = POD.replace("{kubernetes.io/os: windows}", build);
    fs::write(folder.path().join("pod.yaml"), format!("{pod}    image: example.com/web:7\n")).unwrap();
    let found = |os: &str, os_version: &str| {
        let manifests = Manifests::read(&[folder.path().join("pod.yaml")], &mut Budget::bounded()).unwrap();
        let platform = Platform { os: os.into(), architecture: "amd64".into(), os_version: os_version.parse().ok() };
        let lookup = Lookup::Found(Content { platforms: vec![platform] });
        told(&lint::check(manifests, target(), &|_| Some(lookup.clone())))
    };
    let none: [&str; 0] = [];
    assert_eq!(found("windows", "10.0.20348.1"), none);
    assert_eq!(found("windows", "10.0.17763.1"), ["10 image-cannot-run"]);
    assert_eq!(found("linux", ""), ["10 image-cannot-run"]);
}

fn target() -> Target {
    Target { minor: Minor(34), runtime: Runtime::Containerd }
}

#[test]
fn text_is_a_line_for_each_finding_and_a_summary() {
    let text = format!(
        "{POD}    image: example.com/web:latest\n    securityContext: {{privileged: true}}\n---\nkind: ConfigMap\n"
    );
    let ended = winpool(Path::new("."), &["-f", "-", "--kubernetes", "1.34"], &text);
    assert_eq!(ended.status, 1);
    insta::assert_snapshot!(ended.stdout, @r"
    -:10: warning image-latest: spec.containers[0].image: example.com/web:latest may be another image tomorrow. The tag moves to another Windows build without a word, and what ran on a host yesterday does not start today. Remedy: write the tag of a Windows build, such as ltsc2022, or a digest
    -:11: error field-refused: spec.containers[0].securityContext.privileged: privileged, refused since Kubernetes 1.23. The pod is not created, and a Deployment or Job stays without pods. Remedy: remove it; for access to the host use a HostProcess container: windowsOptions.hostProcess: true
    ");
    assert_eq!(ended.stderr, "winpool: passed over: 1 ConfigMap\nwinpool: 1 error, 1 warning, 0 notes in 1 object\n");
}

#[test]
fn every_kind_of_workload_is_looked_at_where_its_pod_is() {
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
    let ended = linted(&format!("apiVersion: v1\nkind: List\nitems:\n{items}"));
    let findings = ended.json()["findings"].as_array().unwrap().clone();
    assert_eq!(findings.len(), kinds.len(), "{}", ended.stdout);
    for (index, ((_, kind, _, path), finding)) in kinds.iter().zip(&findings).enumerate() {
        let expected = json!({"object": format!("{kind} a"), "path": path, "line": index + 4, "code": "field-refused"});
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(finding[field], *value, "{kind}");
        }
    }
}

#[test]
fn a_minor_decides_what_is_refused() {
    let text = format!("{POD}    image: example.com/web:7\n  hostUsers: false\n");
    for (minor, code) in [("1.24", "field-ignored"), ("1.25", "field-refused")] {
        let ended = winpool(Path::new("."), &["-f", "-", "-o", "json", "--kubernetes", minor], &text);
        assert_eq!(ended.found(), [format!("11 {code}")], "{minor}");
    }
}

#[test]
fn a_minor_newer_than_the_tables_is_said_to_be_so() {
    let text = format!("{POD}    image: example.com/web:7\n");
    let next = format!("1.{}", NEWEST.0 + 1);
    let notice = |minor: &str| {
        let ended = winpool(Path::new("."), &["-f", "-", "--kubernetes", minor], &text);
        ended.stderr.contains("its feature gates are not checked")
    };
    assert!(notice(&next) && !notice(&NEWEST.to_string()));
}

#[test]
fn pods_of_linux_get_only_the_rules_that_concern_them() {
    let linux = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: nginx\n    \
                 securityContext: {privileged: true}\n  tolerations: [{key: gpu, operator: Exists}]\n";
    assert_eq!(linted(linux).found(), Vec::<String>::new());
}

#[test]
fn a_code_is_silenced_by_an_option_a_comment_or_an_annotation() {
    let latest = format!("{POD}    image: example.com/web:latest\n");
    assert_eq!(linted(&latest).found(), ["10 image-latest"]);
    let option = winpool(Path::new("."), &["-f", "-", "-o", "json", "--ignore", "image-latest"], &latest);
    assert_eq!((option.found(), option.status), (Vec::new(), 0));
    let none: [&str; 0] = [];
    let silenced = [
        latest.replace("web:latest", "web:latest # winpool:ignore image-latest"),
        latest.replace("    image", "    # winpool:ignore image-latest - built on the host\n    image"),
        latest
            .replace("{name: web}", "{name: web, annotations: {winpool.dev/lint-ignore: \"sub-path, image-latest\"}}")
            + "    volumeMounts: [{name: a, mountPath: /a, subPath: b}]\n",
    ];
    for text in silenced {
        assert_eq!(linted(&text).found(), none, "{text}");
    }
    let elsewhere = latest.replace("  containers", "  # winpool:ignore image-latest\n  containers");
    assert_eq!(linted(&elsewhere).found(), ["7 unused-ignore", "11 image-latest"]);
    let mistyped = latest.replace("{name: web}", "{name: web, annotations: {winpool.dev/lint-ignore: image-last}}");
    let ended = linted(&mistyped);
    assert_eq!(ended.found(), ["3 unused-ignore", "10 image-latest"]);
    assert!(ended.stdout.contains("there is no code `image-last`"), "{}", ended.stdout);
    let two = format!("{}---\n{latest}", silenced_by_annotation(&latest));
    assert_eq!(linted(&two).found(), ["21 image-latest"], "an annotation is for its own object only");
}

fn silenced_by_annotation(text: &str) -> String {
    text.replace("{name: web}", "{name: web, annotations: {winpool.dev/lint-ignore: image-latest}}")
}

#[test]
fn an_annotation_of_a_pod_template_is_for_its_object() {
    let text = fs::read_to_string(corpus().join("local-traffic-policy/good.yaml")).unwrap();
    let latest = text.replace("web:7", "web:latest");
    let found = linted(&latest).found();
    assert_eq!(found.len(), 1, "{found:?}");
    let silenced = latest.replace(
        "      labels: {app: web}",
        "      labels: {app: web}\n      annotations: {winpool.dev/lint-ignore: image-latest}",
    );
    assert_eq!(linted(&silenced).found(), Vec::<String>::new());
}

#[test]
fn wrong_usage_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("latin.yaml"), b"kind: \xe9\n").unwrap();
    let table: [(&[&str], &str); 6] = [
        (&[], "--filename"),
        (&["-f", "nowhere"], "nowhere: No such file"),
        (&["-f", "."], "latin.yaml: "),
        (&["-f", "-", "-f", "-"], "standard input can be read once"),
        (&["-f", "-", "--ignore", "image-last"], "--ignore: there is no code `image-last`"),
        (&["-f", "-", "--kubernetes", "1.9"], "Windows nodes began with Kubernetes 1.14"),
    ];
    for (args, text) in table {
        let ended = winpool(folder.path(), args, "");
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(text), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn what_is_no_manifest_is_told_with_its_place_and_what_to_do() {
    let table = [
        (
            "a.yaml",
            "kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n",
            "a.yaml:3: error unreadable: ",
            "helm template",
        ),
        ("b.yaml", "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", "b.yaml:1: error unreadable: ", "helm template"),
        ("c.jsonnet", "local k = import 'k.libsonnet';\n{ kind: 'Pod' }\n", "c.jsonnet:", "jsonnet"),
        ("d.yaml", "kind: Pod\nspec: [\n", "d.yaml:", "correct the YAML"),
        ("e.yaml", "a: {b: 1}\n", "e.yaml:1: error unreadable: kind: ", "write apiVersion and kind"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, text, place, remedy) in table {
        fs::write(folder.path().join(name), text).unwrap();
        let ended = winpool(folder.path(), &["-f", name], "");
        assert_eq!(ended.status, 1, "{name}: {}", ended.stderr);
        assert!(ended.stdout.starts_with(place) && ended.stdout.contains(remedy), "{name}: {}", ended.stdout);
    }
    // One file that cannot be read does not hide what is wrong in the others.
    fs::write(folder.path().join("z.yaml"), format!("{POD}    image: web\n")).unwrap();
    let ended = winpool(folder.path(), &["-f", "a.yaml", "-f", "z.yaml", "-o", "json"], "");
    assert_eq!(ended.found(), ["3 unreadable", "10 image-untagged"]);
}

#[test]
fn images_that_are_no_references_and_pods_without_a_spec_are_findings() {
    for image in ["''", "'Web'", "'web:7:8'", "'web@sha256:12'", "'{{ .Values.image }}'", "'a b'", "'http://a/b'"] {
        let ended = linted(&format!("{POD}    image: {image}\n"));
        assert_eq!(ended.found(), ["10 image-invalid"], "{image}");
    }
    for (text, line) in [("kind: Pod\n", 1), ("kind: Pod\nspec: 7\n", 2), ("kind: Pod\nspec: {containers: []}\n", 2)] {
        assert_eq!(linted(text).found(), [format!("{line} pod-invalid")], "{text}");
    }
}

#[test]
fn one_mistake_hides_no_other() {
    let latest = format!("{POD}    image: example.com/web:latest\n");
    // A value of another type, and the fields and images of the same pod.
    let typed =
        format!("{latest}    env:\n    - {{name: PORT, value: 8080}}\n    securityContext: {{privileged: true}}\n");
    assert_eq!(linted(&typed).found(), ["10 image-latest", "12 pod-invalid", "13 field-refused"]);
    // What follows from the value alone is not told.
    let image = format!("{POD}    image: 7\n").replace("{limits: {memory: 1Gi}}", "[memory]");
    assert_eq!(linted(&image).found(), ["9 pod-invalid", "10 pod-invalid"]);
    // A document that cannot be read, among others.
    let stream = format!("{latest}---\nkind: [\n---\n{latest}---\nkind: Pod\nkind: Pod\n---\n{latest}");
    let expected =
        ["10 image-latest", "12 unreadable", "23 image-latest", "25 pod-invalid", "26 unreadable", "37 image-latest"];
    assert_eq!(linted(&stream).found(), expected);
}

#[test]
fn a_system_in_another_case_is_that_system_and_wrong() {
    let text = format!("{POD}    image: example.com/web:latest\n").replace("{name: windows}", "{name: Windows}");
    assert_eq!(linted(&text).found(), ["5 pod-invalid", "10 image-latest"]);
    let alone = text.replace("  nodeSelector: {kubernetes.io/os: windows}\n", "");
    let found = linted(&alone).found();
    assert_eq!(found, ["4 os-selector-missing", "5 pod-invalid", "9 image-latest"]);
}

#[test]
fn lists_of_one_kind_are_judged_item_by_item() {
    let pod = format!("{POD}    image: example.com/web:latest\n");
    let (_, body) = pod.split_once("kind: Pod\n").unwrap();
    let item: String = body.lines().map(|line| format!("  {line}\n")).collect();
    let list = format!("apiVersion: v1\nkind: PodList\nitems:\n- {}", item.trim_start());
    let ended = linted(&list);
    assert_eq!(ended.found(), ["11 image-latest"]);
    assert_eq!(ended.json()["findings"][0]["object"], "Pod web");
}

#[test]
fn a_long_stream_with_a_mistake_is_judged_whole() {
    let report = check(&(format!("{POD}    image: example.com/web:7\n---\n").repeat(1_000) + "kind: [\n"));
    assert_eq!(told(&report), ["11001 unreadable"]);
    assert_eq!(report.objects, 1_000);
}

/// A document that is a few lines long, and unfolded would have 9^12 items.
fn yaml_bomb() -> String {
    let level = |index: u8| {
        let (name, below) = (char::from(b'b' + index), char::from(b'a' + index));
        format!("{name}: &{name} [{}]\n", vec![format!("*{below}"); 9].join(", "))
    };
    format!("kind: Pod\na: &a [x, x, x, x, x, x, x, x, x]\n{}", (0..12).map(level).collect::<String>())
}

#[test]
fn what_would_take_all_memory_ends_in_an_error() {
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
        // Kilobytes of address space, in which the program and its stacks are too.
        bounded.args(["-c", "ulimit -v 600000; exec \"$0\" lint -f -", env!("CARGO_BIN_EXE_winpool")]);
        let ended = run(&mut bounded, &text);
        assert_eq!(ended.status, 1, "{name}: {}", ended.stderr);
        assert!(ended.stdout.contains("-:") && ended.stdout.contains(expected), "{name}: {}", ended.stdout);
    }
}

/// What the published schema (sarif-schema-2.1.0.json, errata 01) allows of the objects that we write: the names of
/// their properties, those that are required marked with `!`.
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
fn sarif_is_as_its_schema_asks() {
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
fn several_files_are_judged_together() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(corpus().join("image-build/bad.yaml")).unwrap();
    let [pool, pod] = [0, 1].map(|index| text.split("---\n").nth(index).unwrap());
    fs::write(folder.path().join("pool.yaml"), pool).unwrap();
    fs::write(folder.path().join("pod.yaml"), pod).unwrap();
    let alone = winpool(folder.path(), &["-f", "pod.yaml", "-o", "json"], "");
    assert_eq!(alone.found(), Vec::<String>::new(), "nobody knows the hosts");
    let together = winpool(folder.path(), &["-f", ".", "-o", "json"], "");
    assert_eq!(together.found(), ["10 image-build"]);
    assert_eq!(together.json()["findings"][0]["file"], "./pod.yaml");
}

#[test]
fn endpoints_are_counted_where_they_are_written() {
    let pods = pod("Deployment", "os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}", "a:1");
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {app: a}}\n";
    let slice = |number: usize, count: usize| {
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: a-{number}, labels: \
             {{kubernetes.io/service-name: a}}}}\naddressType: IPv4\nendpoints: [{}]\n",
            vec!["{addresses: [10.0.0.1]}"; count].join(", ")
        )
    };
    for (count, expected) in [(24, None), (25, Some("1025 endpoints, at most 1024"))] {
        let report = check(&format!("{pods}{service}{}{}", slice(1, 1000), slice(2, count)));
        let message = report.findings.first().map(|found| found.finding.message.clone());
        assert_eq!(message.is_some(), expected.is_some(), "{message:?}");
        assert!(message.unwrap_or_default().starts_with(expected.unwrap_or_default()));
    }
}

fn check(text: &str) -> lint::Report {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let manifests = Manifests::read(&[file.path().to_owned()], &mut Budget::bounded()).unwrap();
    lint::check(manifests, target(), &|_| None)
}
