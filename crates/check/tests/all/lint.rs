//! The checks of manifests: a bad and a good manifest for each code, what is checked, and untrusted input. The paths are relative to
//! the crate.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use winpool_check::{
    lint::{self, Code, Finding, LintReport, LocatedFinding, LookupFn, Severity, TargetCluster},
    manifests::{Budget, FileSelection, Manifests, Others},
};
use winpool_core::{
    image::{ImagePlatform, ImagePlatforms, Lookup},
    join,
};
use winpool_facts::{ContainerRuntime, Minor, support::NEWEST};

mod corpus;
mod fuzz;
mod known_issue;
mod placement;

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

/// Checks files and folders for a minor, or for the newest if none is given.
fn lint(paths: &[PathBuf], minor: Option<Minor>, runtime: ContainerRuntime, lookups: &LookupFn<'_>) -> LintReport {
    let selection = FileSelection { others: Others::InDirectories, ..FileSelection::default() };
    let manifests = Manifests::read_selected(paths, &mut Budget::bounded(), selection).unwrap();
    let target = TargetCluster { minor: minor.unwrap_or(NEWEST), is_default: minor.is_none(), runtime };
    lint::check(manifests, target, lookups)
}

fn check_bytes(bytes: &[u8], minor: Option<Minor>, lookups: &LookupFn<'_>) -> LintReport {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    lint(&[file.path().to_owned()], minor, ContainerRuntime::Containerd(()), lookups)
}

fn check(text: &str) -> LintReport {
    check_bytes(text.as_bytes(), Some(Minor(34)), &|_| None)
}

/// The findings as `line code`.
fn codes(report: &LintReport) -> Vec<String> {
    report.findings.iter().map(|found| format!("{} {}", found.line, found.finding.code)).collect()
}

fn found(text: &str) -> Vec<String> {
    codes(&check(text))
}

#[test]
fn every_code_has_a_bad_and_a_good_manifest() {
    let entries = fs::read_dir("tests/lint").unwrap();
    let folders: BTreeSet<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // A code that requires a registry lookup has no file.
    let of_registry = [Code::ImageCannotRun, Code::ImageUpdatesBehind];
    let names = Code::ALL.iter().filter(|code| !of_registry.contains(code)).map(|code| code.name().to_owned());
    assert_eq!(folders, names.collect());
    for code in folders {
        let file = |name: &str| PathBuf::from(format!("tests/lint/{code}/{name}.yaml"));
        let bad_text = fs::read_to_string(file("bad")).unwrap();
        let marked = bad_text.lines().enumerate().filter(|(_, line)| line.ends_with("# bad"));
        let expected: Vec<_> = marked.map(|(index, _)| format!("{} {code}", index + 1)).collect();
        assert!(!expected.is_empty(), "{code}: no line is marked");
        let [bad, good] = ["bad", "good"].map(|name| check_file(file(name)));
        assert_eq!(codes(&bad), expected, "{code}: {:?}", bad.findings);
        let fails = code.parse::<Code>().unwrap().severity() != Severity::Note;
        let only_notes = bad.findings.iter().all(|found| found.severity == Severity::Note);
        assert_eq!(only_notes, !fails, "{code}");
        assert_eq!(codes(&good), [""; 0], "{code}: {:?}", good.findings);
    }
}

/// The findings in a file, with the options in its comment, such as `# args: --kubernetes 1.31 --runtime docker`.
fn check_file(file: PathBuf) -> LintReport {
    let text = fs::read_to_string(&file).unwrap();
    let args = text.lines().find_map(|line| line.strip_prefix("# args: ")).unwrap_or_default();
    let value = |option: &str| args.split(' ').skip_while(|arg| *arg != option).nth(1);
    let docker = value("--runtime").filter(|name| *name == "docker").map(|_| ContainerRuntime::CriDockerd);
    let minor = value("--kubernetes").map(|text| text.parse().unwrap());
    lint(&[file], minor, docker.unwrap_or(ContainerRuntime::Containerd(())), &|_| None)
}

#[test]
fn a_registry_lookup_finds_incompatible_images() {
    let build = "{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}";
    let pod = POD.replace("{kubernetes.io/os: windows}", build) + "    image: example.com/web:7\n";
    for (os, os_version, expected) in [
        ("windows", "10.0.20348.1", &[][..]),
        ("windows", "10.0.17763.1", &["10 image-cannot-run"]),
        ("linux", "", &["10 image-cannot-run"]),
    ] {
        let platform =
            ImagePlatform { os: os.into(), architecture: "amd64".into(), os_version: os_version.parse().ok() };
        let lookup = Lookup::Found(ImagePlatforms { platforms: vec![platform] });
        let report = check_bytes(pod.as_bytes(), Some(Minor(34)), &|_| Some(lookup.clone()));
        assert_eq!(codes(&report), expected, "{os} {os_version}");
    }
}

#[test]
fn a_registry_lookup_finds_images_that_are_more_updates_behind_than_the_profile_allows() {
    let pool = "---\napiVersion: winpool.dev/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: web}\nspec:\n  \
                windowsVersion: \"ltsc2022\"\n  fallback: true\n  profileRef: {name: standard}\n---\n\
                apiVersion: winpool.dev/v1alpha1\nkind: WindowsRuntimeProfile\nmetadata: {name: standard}\nspec:";
    let behind = "in pool web, according to its registry example.com/web:7 has a base image of 2025-12, 11 updates behind \
                  (10.0.20348 (ltsc2022))";
    let host_process = "securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}, hostNetwork: true, ";
    let table = [
        ("{maxImageUpdatesBehind: 10}", "", "10.0.20348.4529", Some(behind)),
        ("{maxImageUpdatesBehind: 11}", "", "10.0.20348.4529", None),
        ("{maxImageUpdatesBehind: 0}", "", "10.0.20348.5870", None),
        ("{}", "", "10.0.20348.4529", None),
        ("{maxImageUpdatesBehind: 10}", host_process, "10.0.20348.4529", None),
    ];
    for (profile, more, os_version, expected) in table {
        let spec = format!(
            "{more}os: {{name: windows}}, nodeSelector: {{kubernetes.io/os: windows}}, tolerations: [{{key: os, operator: Exists}}]"
        );
        let text = format!("{}{pool} {profile}\n", pod("Pod", &spec, "example.com/web:7"));
        let platform =
            ImagePlatform { os: "windows".into(), architecture: "amd64".into(), os_version: os_version.parse().ok() };
        let lookup = Lookup::Found(ImagePlatforms { platforms: vec![platform] });
        let report = check_bytes(text.as_bytes(), Some(Minor(34)), &|_| Some(lookup.clone()));
        let found = report.findings.iter().find(|found| found.finding.code == Code::ImageUpdatesBehind);
        assert_eq!(
            found.map(|found| found.finding.problem.as_str()),
            expected,
            "{profile} {os_version}: {:?}",
            codes(&report)
        );
    }
}

#[test]
fn a_code_is_ignored_by_a_comment_or_an_annotation() {
    let latest = format!("{POD}    image: example.com/web:latest\n");
    assert_eq!(found(&latest), ["10 image-latest"]);
    let annotated = |codes: &str| {
        latest.replace("{name: web}", &format!("{{name: web, annotations: {{winpool.dev/lint-ignore: {codes}}}}}"))
    };
    let volume = "    volumeMounts: [{name: a, mountPath: /a, subPath: b}]\n";
    let table: [(String, &[&str]); 6] = [
        (latest.replace("web:latest", "web:latest # winpool:ignore image-latest"), &[]),
        (latest.replace("    image", "    # winpool:ignore image-latest - built on the host\n    image"), &[]),
        (annotated("\"sub-path, image-latest\"") + volume, &[]),
        (
            latest.replace("  containers", "  # winpool:ignore image-latest\n  containers"),
            &["7 unused-ignore", "11 image-latest"],
        ),
        (annotated("image-last"), &["3 unused-ignore", "10 image-latest"]),
        // An annotation applies to its own object only.
        (format!("{}---\n{latest}", annotated("image-latest")), &["21 image-latest"]),
    ];
    for (text, expected) in table {
        assert_eq!(found(&text), expected, "{text}");
    }
    assert_eq!(
        check(&annotated("image-last")).findings[0].finding.problem,
        "unknown code `image-last`, did you mean image-latest?"
    );
}

#[test]
fn several_files_are_checked_together() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string("tests/lint/image-build/bad.yaml").unwrap();
    let parts: Vec<_> = text.split("---\n").collect();
    let file = folder.path().join("pod.yaml");
    fs::write(folder.path().join("pool.yaml"), parts[0]).unwrap();
    fs::write(&file, parts[1]).unwrap();
    let lint = |path: &Path| lint(&[path.to_owned()], None, ContainerRuntime::Containerd(()), &|_| None);
    assert_eq!(codes(&lint(&file)), ["10 image-build"], "by the class that winpool creates by default");
    let together = lint(folder.path());
    assert_eq!(codes(&together), ["10 image-build"]);
    assert_eq!(together.findings[0].file, file.to_str().unwrap());
}

#[test]
fn a_file_of_containerd_is_checked_if_it_is_named() {
    let setting = "version = 3\nplugins.'io.containerd.cri.v1.runtime'.cni.bin_dir = 'C:/opt/cni/bin'";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    for (comment, expected) in [("", &["2 cni-bin-dir"][..]), (" # winpool:ignore cni-bin-dir", &[])] {
        fs::write(&file, format!("{setting}{comment}\n")).unwrap();
        let of = |path: &Path| lint(&[path.to_owned()], None, ContainerRuntime::Containerd(()), &|_| None);
        let report = of(&file);
        assert_eq!(codes(&report), expected);
        assert_eq!(report.objects, 1);
        assert_eq!((of(directory.path()).findings.len(), of(directory.path()).objects), (0, 0), "in a folder");
    }
}

#[test]
fn every_kind_of_workload_is_checked_at_its_pod_template() {
    let pod = "spec: {os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}, containers: [{name: a, image: 'a:1', \
               resources: {limits: {memory: 1Gi}}}], hostPID: true}";
    let kinds = [
        ("v1", "Pod", ""),
        ("v1", "PodTemplate", "template"),
        ("v1", "ReplicationController", "spec.template"),
        ("apps/v1", "Deployment", "spec.template"),
        ("apps/v1", "ReplicaSet", "spec.template"),
        ("apps/v1", "StatefulSet", "spec.template"),
        ("apps/v1", "DaemonSet", "spec.template"),
        ("batch/v1", "Job", "spec.template"),
        ("batch/v1", "CronJob", "spec.jobTemplate.spec.template"),
    ];
    let item = |(version, kind, template): &(&str, &str, &str)| {
        let steps = template.rsplit('.').filter(|step| !step.is_empty());
        let body = steps.fold(pod.to_owned(), |body, step| format!("{step}: {{{body}}}"));
        format!("- {{apiVersion: {version}, kind: {kind}, metadata: {{name: a}}, {body}}}\n")
    };
    let items: String = kinds.iter().map(item).collect();
    let report = check(&format!("apiVersion: v1\nkind: List\nitems:\n{items}"));
    let found: Vec<_> =
        report.findings.iter().map(|found| (found.line, found.object.as_str(), &found.finding)).collect();
    assert_eq!(found.len(), kinds.len(), "{found:?}");
    for (index, ((_, kind, template), (line, object, finding))) in kinds.iter().zip(found).enumerate() {
        assert_eq!((line, object, finding.code), (index + 4, format!("{kind} a").as_str(), Code::FieldRefused));
        assert_eq!(finding.path, join(template, "spec.hostPID"));
    }
}

#[test]
fn linux_pods_are_checked_by_the_rules_for_linux_only() {
    let linux = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: nginx\n    \
                 securityContext: {privileged: true}\n  tolerations: [{key: gpu, operator: Exists}]\n";
    assert_eq!(found(linux), [""; 0]);
}

#[test]
fn an_annotation_of_a_pod_template_applies_to_its_object() {
    let text = fs::read_to_string("tests/lint/local-traffic-policy/good.yaml").unwrap();
    let latest = text.replace("web:7", "web:latest");
    assert_eq!(found(&latest).len(), 1);
    let ignored = latest.replace(
        "      labels: {app: web}",
        "      labels: {app: web}\n      annotations: {winpool.dev/lint-ignore: image-latest}",
    );
    assert_eq!(found(&ignored), [""; 0]);
}

#[test]
fn invalid_image_references_and_missing_specs_are_findings() {
    for image in ["''", "'Web'", "'web:7:8'", "'web@sha256:12'", "'a b'", "'http://a/b'"] {
        assert_eq!(found(&format!("{POD}    image: {image}\n")), ["10 image-invalid"], "{image}");
    }
    for (text, line) in [("kind: Pod\n", 1), ("kind: Pod\nspec: 7\n", 2), ("kind: Pod\nspec: {containers: []}\n", 2)] {
        assert_eq!(found(text), [format!("{line} pod-invalid")], "{text}");
    }
}

#[test]
fn a_finding_does_not_hide_others() {
    let latest = format!("{POD}    image: example.com/web:latest\n");
    // A value of the wrong type, and the fields and images of the same pod.
    let typed =
        format!("{latest}    env:\n    - {{name: PORT, value: 8080}}\n    securityContext: {{privileged: true}}\n");
    assert_eq!(found(&typed), ["10 image-latest", "12 pod-invalid", "13 field-refused"]);
    // Consequences of an invalid value are not reported.
    let image = format!("{POD}    image: 7\n").replace("{limits: {memory: 1Gi}}", "[memory]");
    assert_eq!(found(&image), ["9 pod-invalid", "10 pod-invalid"]);
    // An unreadable document among others.
    let stream = format!("{latest}---\nkind: [\n---\n{latest}---\nkind: Pod\nkind: Pod\n---\n{latest}");
    let expected =
        ["10 image-latest", "12 unreadable", "23 image-latest", "25 pod-invalid", "26 unreadable", "37 image-latest"];
    assert_eq!(found(&stream), expected);
}

#[test]
fn os_name_in_another_case_is_invalid_and_checked_as_windows() {
    let text = format!("{POD}    image: example.com/web:latest\n").replace("{name: windows}", "{name: Windows}");
    assert_eq!(found(&text), ["5 pod-invalid", "10 image-latest"]);
    let alone = text.replace("  nodeSelector: {kubernetes.io/os: windows}\n", "");
    assert_eq!(found(&alone), ["4 os-selector-missing", "5 pod-invalid", "9 image-latest"]);
}

#[test]
fn the_items_of_a_list_are_checked_one_by_one() {
    let pod = format!("{POD}    image: example.com/web:latest\n");
    let (_, body) = pod.split_once("kind: Pod\n").unwrap();
    let item: String = body.lines().map(|line| format!("  {line}\n")).collect();
    let list = format!("apiVersion: v1\nkind: PodList\nitems:\n- {}", item.trim_start());
    let report = check(&list);
    assert_eq!(codes(&report), ["11 image-latest"]);
    assert_eq!(report.findings[0].object, "Pod web");
}

#[test]
fn a_long_stream_is_checked_up_to_an_unreadable_document() {
    let report = check(&(format!("{POD}    image: example.com/web:7\n---\n").repeat(1_000) + "kind: [\n"));
    assert_eq!(codes(&report), ["11001 unreadable"]);
    assert_eq!(report.objects, 1_000);
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
