//! The built binary, offline: its output and its exit status.

mod bad_input;
mod habits;
mod start;

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

const POOLS: &str = "\
apiVersion: winpool.dev/v1alpha1
kind: WindowsRuntimeProfile
metadata: {name: standard}
spec:
  containerd:
    registryMirrors: [{registry: docker.io, endpoints: [\"https://mirror.example\"]}]
---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: web-2022}
spec:
  windowsVersion: \"ltsc2022\"
  nodeSelector: {matchLabels: {agentpool: web}}
  profileRef: {name: standard}
---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: batch-2022}
spec:
  windowsVersion: \"ltsc2022\"
  nodeSelector: {matchLabels: {agentpool: batch}}
  taints: [{key: batch, effect: NoSchedule}]
";

const NODES: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: win-1
    resourceVersion: \"17\"
    labels: {kubernetes.io/os: windows, agentpool: web}
  status:
    nodeInfo: {kernelVersion: 10.0.20348.4529, kubeletVersion: v1.34.2, containerRuntimeVersion: containerd://1.7.28}
- apiVersion: v1
  kind: Node
  metadata: {name: linux-1, labels: {kubernetes.io/os: linux}}
";

struct CommandOutput {
    status: i32,
    stdout: String,
    stderr: String,
}

fn winpool(folder: &Path, args: &[&str]) -> CommandOutput {
    winpool_reading(folder, args, "")
}

fn winpool_reading(folder: &Path, args: &[&str], stdin: &str) -> CommandOutput {
    let mut child = Command::new(env!("CARGO_BIN_EXE_winpool"))
        .args(args)
        .current_dir(folder)
        .env("KUBECONFIG", folder.join("no-kubeconfig"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { status: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn names(text: &str) -> Vec<String> {
    let objects = serde_saphyr::from_multiple::<Value>(text).unwrap();
    let name = |object: Value| {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        // Without the digest.
        format!("{kind} {}", if kind == "ConfigMap" { name.rsplit_once('-').unwrap().0 } else { name })
    };
    objects.into_iter().map(name).collect()
}

#[test]
fn render_prints_each_object_once_in_order() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let render = ["render", "-f", ".", "--kubernetes", "1.36,1.34", "--containerd", "2.2"];
    let output = winpool(folder.path(), &render);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    assert_eq!(
        names(&output.stdout),
        ["RuntimeClass windows-ltsc2022", "ConfigMap web-2022", "ConfigMap web-2022"],
        "the class is shared, and each minor has a configuration"
    );
}

#[test]
fn render_output_is_reproducible_for_files_and_standard_input() {
    let folder = folder(&[("pools.yaml", POOLS), ("nodes.yaml", NODES)]);
    let render = |input: &str, stdin: &str| {
        winpool_reading(folder.path(), &["render", "-f", input, "--nodes", "nodes.yaml"], stdin).stdout
    };
    let first = render("pools.yaml", "");
    assert!(first.contains("ConfigMap") && first.contains("kind: Node"), "{first}");
    assert_eq!(render("pools.yaml", ""), first);
    assert_eq!(render("-", POOLS), first);
}

#[test]
fn rendering_for_a_minor_newer_than_the_tables_prints_a_note() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let notice = |args: &[&str]| {
        let output = winpool(folder.path(), &[&["render", "-f", "pools.yaml"], args].concat());
        assert!(output.stderr.starts_with("winpool: rendered for kubelet 1."), "{}", output.stderr);
        output.stderr.contains("so 1.38 is treated as 1.37, its feature gates too. Upgrade winpool")
    };
    assert!(notice(&["--kubernetes", "1.38"]));
    assert!(!notice(&[]) && !notice(&["--kubernetes", "1.37"]));
}

#[test]
fn old_tables_print_a_note_to_stderr_and_do_not_change_the_output() {
    let crds = |today: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_winpool"));
        let output = command.args(["crds"]).env("WINPOOL_TODAY", today).output().unwrap();
        (output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let ((fresh, no_note), (old, note)) = (crds("2026-08-22"), crds("2029-01-01"));
    assert_eq!((fresh == old, no_note.as_str()), (true, ""));
    assert!(note.starts_with("winpool: tables of this winpool are more than 9 months old, the oldest from "), "{note}");
}

#[test]
fn render_as_json_is_one_list() {
    let folder = folder(&[("pools.yaml", POOLS), ("nodes.yaml", NODES)]);
    let render = ["render", "-f", "pools.yaml", "--nodes", "nodes.yaml", "-o"];
    let json = winpool(folder.path(), &[&render[..], &["json"]].concat());
    let yaml = winpool(folder.path(), &[&render[..], &["yaml"]].concat());
    let list: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((list["apiVersion"].as_str(), list["kind"].as_str()), (Some("v1"), Some("List")));
    assert_eq!(list["items"], Value::Array(serde_saphyr::from_multiple(&yaml.stdout).unwrap()));
}

#[test]
fn a_rendered_node_is_its_patch_without_the_resource_version() {
    let folder = folder(&[("pools.yaml", POOLS), ("nodes.yaml", NODES)]);
    let output = winpool(folder.path(), &["render", "-f", "pools.yaml", "--nodes", "nodes.yaml"]);
    let objects = serde_saphyr::from_multiple::<Value>(&output.stdout).unwrap();
    let node = objects.iter().find(|object| object["kind"] == "Node").unwrap();
    assert_eq!(node["metadata"]["name"], "win-1");
    assert_eq!(node["metadata"]["labels"]["winpool.dev/pool"], "web-2022");
    assert_eq!(node["spec"]["taints"][0]["key"], "os");
    assert_eq!(node["metadata"].get("resourceVersion"), None);
    let config = node["metadata"]["annotations"]["winpool.dev/config"].as_str().unwrap();
    assert!(objects.iter().any(|object| object["kind"] == "ConfigMap" && object["metadata"]["name"] == config));
}

#[test]
fn render_into_a_folder_writes_objects_and_the_files_for_a_node() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let render = ["render", "-f", "pools.yaml", "--kubernetes", "1.34", "--containerd", "2.1", "--out", "out"];
    assert_eq!(winpool(folder.path(), &render).status, 0);
    let out = folder.path().join("out");
    assert!(fs::read_to_string(out.join("runtimeclass-windows-ltsc2022.yaml")).unwrap().contains("kind: RuntimeClass"));
    let config = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap()).find(|entry| entry.path().is_dir()).unwrap();
    for file in ["kubelet.yaml", "kubelet.args", "containerd.toml", "certs.d/docker.io/hosts.toml"] {
        assert!(config.path().join(file).is_file(), "{file}");
    }
}

/// Whether a folder has a file whose path ends so.
fn has_file_below(folder: &Path, suffix: &str) -> bool {
    let mut files = walkdir::WalkDir::new(folder).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    files.any(|entry| entry.path().ends_with(suffix))
}

#[test]
fn files_for_kubeadm_are_a_patch_and_the_other_files_of_the_node() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let render = ["render", "-f", "pools.yaml", "--kubernetes", "1.30", "--containerd", "1.7", "--target", "kubeadm"];
    let output = winpool(folder.path(), &[&render[..], &["--out", "out"]].concat());
    assert_eq!(output.status, 0, "{}", output.stderr);
    let out = folder.path().join("out");
    // kubeadm reads the target before the suffix `0`, and the type of the patch after the `+`.
    for file in
        ["patches/kubeletconfiguration0+merge.yaml", "kubelet.args", "containerd.toml", "certs.d/docker.io/hosts.toml"]
    {
        assert!(has_file_below(&out, file), "{file}");
    }
    let printed = winpool(folder.path(), &render).stdout;
    assert!(printed.contains("/patches/kubeletconfiguration0+merge.yaml <==\n# kubeadm merges"), "{printed}");
}

#[test]
fn a_target_names_the_pools_that_it_leaves_out_and_fails_if_it_was_to_have_them() {
    let folder = folder(&[("pools.yaml", POOLS), ("old.yaml", &POOLS.replacen("\"ltsc2022\"", "\"ltsc2019\"", 1))]);
    let without_profile = "pool batch-2022 has no profile, and nothing is rendered for it";
    let retired = "pool web-2022: AKS has no known image with Windows 10.0.17763, and nothing is rendered for it";
    let table = [
        ("pools.yaml", "kubeadm", 0, without_profile),
        ("pools.yaml", "aks-nodepool", 0, "pool batch-2022: "),
        ("old.yaml", "aks-nodepool", 1, retired),
        ("pools.yaml", "cluster-api", 1, "nothing is rendered for any pool"),
    ];
    for (file, target, status, part) in table {
        let output = winpool(folder.path(), &["render", file, "--target", target, "--kubernetes", "1.36"]);
        assert_eq!((output.status, output.stderr.contains(part)), (status, true), "{target}: {}", output.stderr);
        assert_eq!(output.stdout.is_empty(), target == "cluster-api", "the other pools are rendered");
    }
}

#[test]
fn complete_files_require_the_options_of_the_cluster() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let render = ["render", "-f", "pools.yaml", "--kubernetes", "1.36", "--containerd", "2.3", "--standalone"];
    let output = winpool(folder.path(), &render);
    assert_eq!((output.status, output.stdout.as_str()), (1, ""));
    for remedy in ["--cluster-dns", "--cluster-domain", "--client-ca-file"] {
        assert!(output.stderr.contains(remedy), "{remedy}: {}", output.stderr);
    }
    let cluster = [
        "--cluster-dns",
        "10.96.0.10,fd00::a",
        "--cluster-domain",
        "cluster.local",
        "--client-ca-file",
        "C:\\k\\ca.crt",
    ];
    let output = winpool(folder.path(), &[&render[..], &cluster, &["--out", "out"]].concat());
    assert_eq!(output.status, 0, "{}", output.stderr);
    let node = folder.path().join("out/web-2022/kubelet-1.36-containerd-2.3-10.0.20348");
    let kubelet: Value = serde_saphyr::from_str(&fs::read_to_string(node.join("kubelet.yaml")).unwrap()).unwrap();
    assert_eq!(kubelet["clusterDNS"], json!(["10.96.0.10", "fd00::a"]));
    assert_eq!(kubelet["authentication"]["x509"]["clientCAFile"], "C:\\k\\ca.crt");
    assert_eq!(kubelet["containerRuntimeEndpoint"], "npipe:////./pipe/containerd-containerd");
    assert!(node.join("certs.d/docker.io/hosts.toml").is_file());
}

#[test]
fn problems_are_reported_with_file_line_and_path_and_nothing_is_written() {
    let bad = "\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: web}
spec:
  windowsVersion: \"ltsc2022\"
  nodeSelector:
    matchLabels: {agentpool: web}
  taints:
  - key: os
    effect: NoScheduling
";
    let unresolved = POOLS.replace("profileRef: {name: standard}", "profileRef: {name: standart}");
    let folder = folder(&[("a/bad.yaml", bad), ("b/worse.yaml", "spec: [\n"), ("c.yaml", &unresolved)]);
    let render = ["render", "-f", "a", "-f", "b", "--out", "out"];
    let output = winpool(folder.path(), &render);
    assert_eq!((output.status, output.stdout.as_str()), (1, ""));
    assert!(output.stderr.starts_with("winpool: 2 problems in the input, nothing is written\n"), "{}", output.stderr);
    assert!(output.stderr.contains("\na/bad.yaml:10: spec.taints[0].effect: "), "{}", output.stderr);
    assert!(output.stderr.contains("\nb/worse.yaml:"), "{}", output.stderr);
    assert!(!folder.path().join("out").exists());

    let output = winpool(folder.path(), &["render", "-f", "c.yaml"]);
    assert_eq!((output.status, output.stdout.as_str()), (1, ""));
    let expected = "\nc.yaml:14: spec.profileRef.name: there is no WindowsRuntimeProfile standart in the files: ";
    assert!(output.stderr.contains(expected), "{}", output.stderr);
}

#[test]
fn what_cannot_be_rendered_for_a_minor_is_a_problem_of_the_profile() {
    let gated = POOLS.replace(
        "spec:\n  containerd:",
        "spec:\n  kubelet:\n    featureGates: {WindowsGracefulNodeShutdown: true}\n  containerd:",
    );
    let folder = folder(&[("pools.yaml", &gated)]);
    let output = winpool(folder.path(), &["render", "-f", "pools.yaml", "--kubernetes", "1.30,1.34"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("\npools.yaml:6: spec.kubelet.featureGates"), "{}", output.stderr);
    assert!(output.stderr.contains("(pool web-2022, kubelet 1.30, "), "{}", output.stderr);
}

#[test]
fn what_does_not_work_on_a_node_is_a_problem_of_the_profile_with_the_name_of_the_node() {
    let with = |settings: &str| POOLS.replace("spec:\n  containerd:", &format!("spec:\n  {settings}\n  containerd:"));
    let small = NODES.replace("  status:\n", "  status:\n    capacity: {cpu: \"4\", memory: 1Gi, pods: \"110\"}\n");
    let folder = folder(&[
        ("reserves.yaml", &with("kubelet: {systemReserved: {memory: 8Gi}}")),
        ("pause.yaml", &with("pauseImage: {source: Upstream, tag: \"3.5\"}")),
        ("fits.yaml", &with("pauseImage: {source: Upstream, tag: \"3.9\"}")),
        ("nodes.yaml", NODES),
        ("small.yaml", &small),
    ]);
    let pause = "\npause.yaml:5: spec.pauseImage.tag: registry.k8s.io/pause:3.5 has no entry for 10.0.20348, so no pod can \
                 start there (pool web-2022";
    let table: [(&[&str], i32, String); 6] = [
        (&["-f", "reserves.yaml", "--nodes", "nodes.yaml"], 0, String::new()),
        (
            &["-f", "reserves.yaml", "--nodes", "small.yaml"],
            1,
            "\nreserves.yaml:5: spec.kubelet.systemReserved.memory: 8692Mi of memory are reserved, but the node has only 1Gi (pool web-2022, win-1): \
             reserve less, or use another profile for these nodes"
                .to_owned(),
        ),
        (&["-f", "pause.yaml", "--nodes", "nodes.yaml"], 1, format!("{pause}, win-1): write a tag")),
        (&["-f", "pause.yaml", "--kubernetes", "1.34", "--containerd", "1.7"], 1, format!("{pause}): write a tag")),
        (&["-f", "fits.yaml", "--nodes", "nodes.yaml"], 0, String::new()),
        (&["-f", "fits.yaml"], 0, String::new()),
    ];
    for (args, status, message) in table {
        let output = winpool(folder.path(), &[&["render"], args].concat());
        assert_eq!(output.status, status, "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(&message), "{args:?}: {}", output.stderr);
        assert_eq!(output.stdout.is_empty(), status == 1, "{args:?}");
    }
    let linted = winpool(folder.path(), &["lint", "-f", "pause.yaml"]);
    assert_eq!(linted.status, 1, "{}", linted.stdout);
    assert!(linted.stdout.contains("spec.pauseImage.tag"), "{}", linted.stdout);
}

#[test]
fn the_exit_status_is_2_for_usage_errors_and_3_without_a_cluster() {
    let folder = folder(&[("pools.yaml", POOLS), ("empty/readme.txt", "")]);
    let table: [(&[&str], i32, &str); 9] = [
        (&["render"], 2, "--filename"),
        (&["render", "-f", "nowhere"], 2, "nowhere: No such file"),
        (&["render", "-f", "empty"], 2, "empty: has no .yaml, .yml or .json file"),
        (&["render", "-f", "-", "--nodes", "-"], 2, "standard input can be read only once"),
        (&["render", "-f", "pools.yaml", "--cluster-dns", "10.96.0.10"], 2, "--standalone"),
        (&["render", "-f", "pools.yaml", "--standalone", "--target", "kubeadm"], 2, "cannot be used with"),
        (&["render", "-f", "pools.yaml", "--standalone", "--cluster-dns", "kube-dns"], 2, "--cluster-dns"),
        (&["plan"], 3, "KUBECONFIG"),
        (&["cleanup", "--dry-run"], 3, "KUBECONFIG"),
    ];
    for (args, status, text) in table {
        let output = winpool(folder.path(), args);
        assert_eq!((output.status, output.stdout.as_str()), (status, ""), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(text), "{args:?}: {}", output.stderr);
    }
}

#[test]
fn lint_reports_failed_registry_lookups() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  os: {name: windows}\n  nodeSelector: {kubernetes.io/os: windows}\n  \
               containers: [{name: a, image: '127.0.0.1:1/team/app:1', resources: {limits: {memory: 1Gi}}}]\n";
    let folder = folder(&[("pod.yaml", pod)]);
    let args = ["lint", "-f", "pod.yaml", "--registry", "--registry-plain-http", "127.0.0.1:1"];
    let output = winpool(folder.path(), &args);
    assert_eq!(output.status, 0, "{} {}", output.stdout, output.stderr);
    let note = "winpool: lookup of image 127.0.0.1:1/team/app:1 failed: ";
    assert!(output.stderr.contains(note), "{}", output.stderr);
    let output = winpool(folder.path(), &[&args[..], &["-o", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(report["summary"]["unanswered"]["127.0.0.1:1/team/app:1"].is_string(), "{report}");
}

#[test]
fn objects_of_other_kinds_are_skipped_and_listed() {
    let folder = folder(&[
        ("pools.yaml", POOLS),
        ("app.yaml", "apiVersion: apps/v1\nkind: Deployment\n"),
        ("kustomization.yaml", "resources: []\n"),
    ]);
    let output = winpool(folder.path(), &["render", "-f", ".", "--kubernetes", "1.34", "--containerd", "2.1"]);
    assert_eq!(output.status, 0);
    assert!(output.stderr.contains("skipped objects of other kinds: Deployment"), "{}", output.stderr);
    assert!(output.stderr.contains("kustomization.yaml:1 has no kind"), "{}", output.stderr);
}
