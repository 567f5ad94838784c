//! `winpool lint`: its options, the output formats, and input that exceeds the limits.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use winpool_check::lint::Code;
use winpool_facts::support::NEWEST;

mod integrations;
mod options;
mod page;

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

/// What is printed of a pod that selects Windows nodes without a toleration.
const TAINTS: &str = "winpool: taints not checked of 1 workload: Pod web. A pool has the taint os=windows:NoSchedule by default, and they do not \
     tolerate it: add the toleration, or, other than in a DaemonSet, runtimeClassName: windows-ltsc2022 or the class of another release. \
     With the manifests of the pools the taints are checked\n";

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

#[test]
fn the_default_runtime_is_containerd() {
    let text = format!("{POD}    image: example.com/web:7\n  terminationGracePeriodSeconds: 60\n");
    for (args, found) in [
        (&["--runtime", "docker"][..], &["4 docker-token", "11 grace-period-docker"][..]),
        (&["--runtime", "containerd"], &[]),
        (&[], &[]),
    ] {
        let all = [&["-f", "-", "-o", "json"], args].concat();
        assert_eq!(winpool(Path::new("."), &all, &text).found(), found, "{args:?}");
    }
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

    field-refused: The pod is not created, and its Deployment or Job has no pods.
    image-latest: The tag moves to other Windows builds without notice, and the container then does not start on the same node. Remedy: use the tag of a Windows build, such as ltsc2022, or a digest.

    Run winpool explain CODE for the meaning of a code.
    ");
    let summary = "winpool: 1 error, 1 warning, 0 notes in 1 object\n";
    assert_eq!(run.stderr, format!("winpool: skipped: 1 ConfigMap\n{TAINTS}{summary}"));
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
        (&["-f", "-", "--kubernetes", "1.22"], "--kubernetes: 1.22 is not supported. Use 1.23 or later"),
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
