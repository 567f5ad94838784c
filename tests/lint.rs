//! `winpool lint`: a bad and a good twin of each code, the forms of its output, silences, and input from strangers.

#![allow(clippy::unwrap_used, clippy::panic)] // what cannot be run or read fails the test

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use proptest::prelude::*;
use serde_json::{Value, json};
use winpool::{
    commands::lint,
    domain::lint::{Code, Severity, Target},
    facts::{Minor, runtimes::Runtime},
    manifests::{Budget, Manifests},
};

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

#[test]
fn every_code_has_a_bad_and_a_good_twin() {
    let folders: BTreeSet<_> =
        fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // Of what only a registry can say there is no file.
    let codes = Code::ALL.iter().filter(|code| **code != Code::ImageCannotRun).map(|code| code.name().to_owned());
    assert_eq!(folders, codes.collect());
    for code in folders {
        let [bad, good] = ["bad", "good"].map(|twin| {
            let file = format!("{code}/{twin}.yaml");
            let text = fs::read_to_string(corpus().join(&file)).unwrap();
            let args = text.lines().find_map(|line| line.strip_prefix("# args: ")).unwrap_or_default();
            let args: Vec<_> = ["-f", &file, "-o", "json"].into_iter().chain(args.split_whitespace()).collect();
            (winpool(&corpus(), &args, ""), text)
        });
        let marked = bad.1.lines().enumerate().filter(|(_, line)| line.ends_with("# bad"));
        let expected: Vec<_> = marked.map(|(index, _)| format!("{} {code}", index + 1)).collect();
        assert!(!expected.is_empty(), "{code}: no line is marked");
        assert_eq!(bad.0.found(), expected, "{code}: {}", bad.0.stdout);
        let fails = code.parse::<Code>().unwrap().severity() != Severity::Note;
        assert_eq!(bad.0.status, i32::from(fails), "{code}");
        assert_eq!((good.0.found(), good.0.status), (Vec::new(), 0), "{code}: {}", good.0.stdout);
    }
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
        let report = lint::check(manifests, target(), &|_| Some(lookup.clone()));
        report.findings.iter().map(|found| format!("{} {}", found.line, found.finding.code)).collect::<Vec<_>>()
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
    let (pool, pod) = text.split_once("---\n").unwrap();
    fs::write(folder.path().join("pool.yaml"), pool).unwrap();
    fs::write(folder.path().join("pod.yaml"), pod).unwrap();
    let alone = winpool(folder.path(), &["-f", "pod.yaml", "-o", "json"], "");
    assert_eq!(alone.found(), Vec::<String>::new(), "nobody knows the hosts");
    let together = winpool(folder.path(), &["-f", ".", "-o", "json"], "");
    assert_eq!(together.found(), ["10 image-build"]);
    assert_eq!(together.json()["findings"][0]["file"], "./pod.yaml");
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/lint.md")).unwrap()
}

#[test]
fn the_page_explains_every_code_with_lines_that_are_found_and_lines_that_are_not() {
    let page = page();
    let sections: Vec<_> = page.split("\n### ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let headings: Vec<_> = sections.iter().map(|(heading, _)| *heading).collect();
    assert_eq!(headings, Code::ALL.iter().map(|code| code.name()).collect::<Vec<_>>());
    for (code, (name, section)) in Code::ALL.iter().zip(sections) {
        let words = section.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [code.severity().word(), code.title(), code.why(), code.remedy()] {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&text), "{name}: {text}");
        }
        let Some(diff) = section.split("```diff\n").nth(1).and_then(|rest| rest.split("```").next()) else {
            assert_eq!(*code, Code::ImageCannotRun, "{name} has no example");
            continue;
        };
        let trimmed = |text: String| text.lines().map(|line| line.trim().to_owned()).collect::<BTreeSet<_>>();
        let read = |twin: &str| trimmed(fs::read_to_string(corpus().join(format!("{name}/{twin}.yaml"))).unwrap());
        let (bad, good) = (read("bad"), read("good"));
        assert!(diff.starts_with("- "), "{name}");
        for line in diff.lines() {
            match line.split_at(2) {
                ("- ", line) => assert!(bad.contains(&format!("{} # bad", line.trim())), "{name}: {line}"),
                ("+ ", line) => assert!(good.contains(line.trim()), "{name}: {line}"),
                _ => panic!("{name}: {line}"),
            }
        }
    }
}

#[test]
fn the_page_has_every_field_that_is_refused_with_its_minor() {
    let page = page();
    use winpool::facts::pod_fields::{REFUSED, REFUSED_UNLISTED};
    for field in REFUSED.iter().chain(REFUSED_UNLISTED) {
        let row = page.lines().find(|line| line.starts_with(&format!("| {} |", field.since))).unwrap();
        assert!(row.contains(&format!("`{}`", field.path)), "{}", field.path);
    }
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = page();
    let block = |begin: &str| page.split(begin).nth(1).unwrap().split("\n```").next().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("app.yaml"), block("```yaml\n")).unwrap();
    let ended = winpool(folder.path(), &["-f", "app.yaml", "--kubernetes", "1.34"], "");
    let printed = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(block("$ winpool lint -f app.yaml --kubernetes 1.34\n"), printed.trim_end());
}

/// Names and values that rules look for, so that what is made up reaches them.
const WORDS: [&str; 40] = [
    "kind",
    "apiVersion",
    "Pod",
    "Service",
    "Deployment",
    "DaemonSet",
    "RuntimeClass",
    "WindowsNodePool",
    "v1",
    "apps/v1",
    "winpool.dev/v1alpha1",
    "node.k8s.io/v1",
    "metadata",
    "name",
    "annotations",
    "labels",
    "spec",
    "template",
    "os",
    "windows",
    "containers",
    "initContainers",
    "image",
    "nginx:latest",
    "securityContext",
    "windowsOptions",
    "hostProcess",
    "nodeSelector",
    "kubernetes.io/os",
    "tolerations",
    "operator",
    "Exists",
    "volumes",
    "emptyDir",
    "resources",
    "limits",
    "memory",
    "selector",
    "runtimeClassName",
    "winpool.dev/lint-ignore",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        word().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An object of a kind that is looked at, with anything where the rules look.
fn object() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        ("v1", "Pod"),
        ("v1", "Service"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "CronJob"),
        ("node.k8s.io/v1", "RuntimeClass"),
        ("winpool.dev/v1alpha1", "WindowsNodePool"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
    ]);
    (kinds, value(), value(), value(), value()).prop_map(|((version, kind), metadata, scheduling, container, more)| {
        let pod = json!({"nodeSelector": scheduling, "securityContext": more, "os": {"name": "windows"},
            "containers": [container, {"name": "a", "image": "a:1", "securityContext": more, "volumeMounts": [more]}],
            "volumes": [more]});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "endpoints": more, "scheduling": scheduling,
            "spec": {"template": {"metadata": metadata, "spec": pod}, "selector": scheduling, "containers": pod["containers"],
                "securityContext": more, "externalTrafficPolicy": "Local", "sessionAffinity": more}})
    })
}

fn check(text: &str) -> lint::Report {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let manifests = Manifests::read(&[file.path().to_owned()], &mut Budget::bounded()).unwrap();
    lint::check(manifests, target(), &|_| None)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn made_up_objects_never_panic(objects in prop::collection::vec(prop_oneof![object(), value()], 0..4)) {
        let text: Vec<_> = objects.iter().map(Value::to_string).collect();
        check(&text.join("\n---\n"));
    }

    #[test]
    fn made_up_text_never_panics(lines in prop::collection::vec("[ -]{0,6}[a-z{}\\[\\]&*:|>\"'#!%@,]{0,12}(: )?\\PC{0,8}", 0..12)) {
        check(&lines.join("\n"));
    }

    /// Whatever is cut out of a manifest or put into it.
    #[test]
    fn broken_manifests_never_panic(begin in 0_usize..400, length in 0_usize..40, put in "\\PC{0,6}") {
        let text = format!("{POD}    image: example.com/web:latest # winpool:ignore image-latest\n  tolerations: [{{operator: Exists}}]\n");
        let begin = begin.min(text.len());
        let end = (begin + length).min(text.len());
        check(&format!("{}{put}{}", &text[..begin], &text[end..]));
    }
}
