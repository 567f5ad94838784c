//! The built binary, offline: what it prints, and with which exit status it ends.

#![allow(clippy::unwrap_used, clippy::panic)] // what cannot be run or read fails the test

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

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

struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

fn winpool(folder: &Path, args: &[&str]) -> Ended {
    winpool_reading(folder, args, "")
}

fn winpool_reading(folder: &Path, args: &[&str], stdin: &str) -> Ended {
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
    Ended { status: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
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
        // The digest behind the pool's name is not what these tests are about.
        format!("{kind} {}", if kind == "ConfigMap" { name.rsplit_once('-').unwrap().0 } else { name })
    };
    objects.into_iter().map(name).collect()
}

#[test]
fn render_prints_every_object_once_and_in_order() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let render = ["render", "-f", ".", "--kubernetes", "1.36,1.34", "--containerd", "2.2"];
    let ended = winpool(folder.path(), &render);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    assert_eq!(
        names(&ended.stdout),
        ["RuntimeClass windows-ltsc2022", "ConfigMap web-2022", "ConfigMap web-2022"],
        "the class is shared, and each minor has its configuration"
    );
}

#[test]
fn render_gives_the_same_bytes_every_time_and_from_anywhere() {
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
fn what_is_rendered_for_a_minor_newer_than_the_tables_is_said_to_be_so() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let notice = |args: &[&str]| {
        let ended = winpool(folder.path(), &[&["render", "-f", "pools.yaml"], args].concat());
        ended.stderr.contains("is answered as 1.36, and its feature gates are not checked: upgrade winpool")
    };
    assert!(notice(&["--kubernetes", "1.37"]));
    assert!(!notice(&[]) && !notice(&["--kubernetes", "1.36"]));
}

#[test]
fn old_tables_are_said_to_be_old_on_stderr_and_change_no_answer() {
    let crds = |today: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_winpool"));
        let output = command.args(["crds"]).env("WINPOOL_TODAY", today).output().unwrap();
        (output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let ((fresh, quiet), (old, told)) = (crds("2026-08-22"), crds("2029-01-01"));
    assert_eq!((fresh == old, quiet.as_str()), (true, ""));
    assert!(told.starts_with("winpool: tables of this winpool are more than 9 months old, the oldest of "), "{told}");
}

#[test]
fn render_says_for_what_it_renders_when_nobody_chose() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let ended = winpool(folder.path(), &["render", "-f", "pools.yaml"]);
    assert_eq!(ended.status, 0);
    assert!(ended.stderr.starts_with("winpool: rendered for kubelet 1."), "{}", ended.stderr);
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
fn a_rendered_node_is_its_patch_without_the_lock() {
    let folder = folder(&[("pools.yaml", POOLS), ("nodes.yaml", NODES)]);
    let ended = winpool(folder.path(), &["render", "-f", "pools.yaml", "--nodes", "nodes.yaml"]);
    let objects = serde_saphyr::from_multiple::<Value>(&ended.stdout).unwrap();
    let node = objects.iter().find(|object| object["kind"] == "Node").unwrap();
    assert_eq!(node["metadata"]["name"], "win-1");
    assert_eq!(node["metadata"]["labels"]["winpool.dev/pool"], "web-2022");
    assert_eq!(node["spec"]["taints"][0]["key"], "os");
    assert_eq!(node["metadata"].get("resourceVersion"), None);
    let config = node["metadata"]["annotations"]["winpool.dev/config"].as_str().unwrap();
    assert!(objects.iter().any(|object| object["kind"] == "ConfigMap" && object["metadata"]["name"] == config));
}

#[test]
fn render_into_a_folder_writes_objects_and_the_files_of_a_node() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let render = ["render", "-f", "pools.yaml", "--kubernetes", "1.34", "--containerd", "2.1", "--out", "out"];
    assert_eq!(winpool(folder.path(), &render).status, 0);
    let out = folder.path().join("out");
    assert!(fs::read_to_string(out.join("runtimeclass-windows-ltsc2022.yaml")).unwrap().contains("kind: RuntimeClass"));
    let config = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap()).find(|entry| entry.path().is_dir()).unwrap();
    for file in ["kubelet.yaml", "kubelet.args", "containerd.toml", "certs.d/docker.io/hosts.toml"] {
        assert!(config.path().join(file).is_file(), "{file}");
    }
    assert_eq!(winpool(folder.path(), &render).status, 0, "its own folder may be replaced");
    let elsewhere = [&render[..8], &["."]].concat();
    let refused = winpool(folder.path(), &elsewhere);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(folder.path().join("pools.yaml").exists());
}

/// A KubeletConfiguration as kubeadm writes it, before it applies patches.
const OF_KUBEADM: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: 'C:/etc/kubernetes/pki/ca.crt'}}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
evictionHard: {nodefs.available: 1%}
maxPods: 250
rotateCertificates: true
tlsCipherSuites: [TLS_AES_128_GCM_SHA256]
";

/// The file of each kind, by the end of its path, below a folder.
fn file_below(folder: &Path, end: &str) -> String {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.ends_with(end) {
                return fs::read_to_string(entry).unwrap();
            }
        }
    }
    panic!("no {end} below {}", folder.display());
}

#[test]
fn files_for_kubeadm_are_a_patch_that_merges_into_its_configuration() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let render = ["render", "-f", "pools.yaml", "--kubernetes", "1.25", "--containerd", "1.7", "--target", "kubeadm"];
    let ended = winpool(folder.path(), &[&render[..], &["--out", "out"]].concat());
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let out = folder.path().join("out");
    // kubeadm reads the target before the suffix `0`, and the type of the patch behind the `+`.
    let patch = file_below(&out, "patches/kubeletconfiguration0+merge.yaml");
    for other in ["kubelet.args", "containerd.toml", "certs.d/docker.io/hosts.toml"] {
        assert!(!file_below(&out, other).is_empty(), "{other}");
    }

    let (before, patch): (Value, Value) =
        (serde_saphyr::from_str(OF_KUBEADM).unwrap(), serde_saphyr::from_str(&patch).unwrap());
    let mut after = before.clone();
    json_patch::merge(&mut after, &patch);
    for kept in ["authentication", "clusterDNS", "clusterDomain", "rotateCertificates", "tlsCipherSuites"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
    assert_eq!(after["maxPods"], 110);
    assert_eq!(after["evictionHard"]["nodefs.available"], "10%");
    assert_eq!(after["systemReserved"]["memory"], "2Gi");

    let printed = winpool(folder.path(), &render).stdout;
    assert!(printed.contains("/patches/kubeletconfiguration0+merge.yaml <==\n# A part of"), "{printed}");
    let ended =
        winpool(folder.path(), &[&render[..4], &["1.24", "--containerd", "1.6", "--target", "kubeadm"]].concat());
    assert_eq!((ended.status, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.contains("kubeadm 1.24 has no patches for KubeletConfiguration"), "{}", ended.stderr);
}

#[test]
fn whole_files_are_refused_until_the_cluster_is_known() {
    let folder = folder(&[("pools.yaml", POOLS)]);
    let render = ["render", "-f", "pools.yaml", "--kubernetes", "1.36", "--containerd", "2.3", "--standalone"];
    let ended = winpool(folder.path(), &render);
    assert_eq!((ended.status, ended.stdout.as_str()), (1, ""));
    for remedy in ["--cluster-dns", "--cluster-domain", "--client-ca-file"] {
        assert!(ended.stderr.contains(remedy), "{remedy}: {}", ended.stderr);
    }
    let cluster = [
        "--cluster-dns",
        "10.96.0.10,fd00::a",
        "--cluster-domain",
        "cluster.local",
        "--client-ca-file",
        "C:\\k\\ca.crt",
    ];
    let ended = winpool(folder.path(), &[&render[..], &cluster, &["--out", "out"]].concat());
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let node = folder.path().join("out/web-2022/kubelet-1.36-containerd-2.3-10.0.20348");
    let kubelet: Value = serde_saphyr::from_str(&fs::read_to_string(node.join("kubelet.yaml")).unwrap()).unwrap();
    assert_eq!(kubelet["clusterDNS"], serde_json::json!(["10.96.0.10", "fd00::a"]));
    assert_eq!(kubelet["authentication"]["x509"]["clientCAFile"], "C:\\k\\ca.crt");
    assert_eq!(kubelet["containerRuntimeEndpoint"], "npipe:////./pipe/containerd-containerd");
    let containerd: toml::Table = fs::read_to_string(node.join("containerd.toml")).unwrap().parse().unwrap();
    assert_eq!(containerd["version"].as_integer(), Some(4));
    assert!(node.join("certs.d/docker.io/hosts.toml").is_file());
}

#[test]
fn bad_input_is_told_with_file_line_and_path_and_nothing_is_written() {
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
    let ended = winpool(folder.path(), &render);
    assert_eq!((ended.status, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.starts_with("winpool: 2 mistakes in the input, nothing is written\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("\na/bad.yaml:10: spec.taints[0].effect: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("\nb/worse.yaml:"), "{}", ended.stderr);
    assert!(!folder.path().join("out").exists());

    let ended = winpool(folder.path(), &["render", "-f", "c.yaml"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (1, ""));
    let expected = "\nc.yaml:14: spec.profileRef.name: there is no WindowsRuntimeProfile standart in the files: ";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_rendered_for_a_minor_is_a_mistake_of_the_profile() {
    let gated = POOLS.replace(
        "spec:\n  containerd:",
        "spec:\n  kubelet:\n    featureGates: {WindowsGracefulNodeShutdown: true}\n  containerd:",
    );
    let folder = folder(&[("pools.yaml", &gated)]);
    let ended = winpool(folder.path(), &["render", "-f", "pools.yaml", "--kubernetes", "1.30,1.34"]);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("\npools.yaml:6: spec.kubelet.featureGates"), "{}", ended.stderr);
    assert!(ended.stderr.contains("(pool web-2022, kubelet 1.30, "), "{}", ended.stderr);
}

#[test]
fn every_mistake_is_told_at_once_in_words_that_know_nothing_of_types() {
    let bad = POOLS
        .replace(
            "windowsVersion: \"ltsc2022\"\n  nodeSelector: {matchLabels: {agentpool: web}}",
            "windowsVersion: 1809\n  mode: Watch",
        )
        .replace("effect: NoSchedule}]", "effect: NoSchedule}, {key: batch, effect: NoSchedule}]\n  paused: 1")
        .replace("endpoints: [", "endpoints: [5, ");
    let folder = folder(&[("pools.yaml", &bad)]);
    let ended = winpool(folder.path(), &["render", "-f", "pools.yaml"]);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let told: Vec<_> = ended.stderr.lines().skip(1).collect();
    let expected = [
        "pools.yaml:6: spec.containerd.registryMirrors[0].endpoints[0]: 5 is not a text: write it in quotes",
        "pools.yaml:11: spec.nodeSelector: no nodes are chosen: write either spec.nodeSelector, or spec.fallback: true for \
         the nodes that no other pool matches",
        "pools.yaml:12: spec.windowsVersion: 1809 is not a text: write it in quotes",
        "pools.yaml:13: spec.mode: \"Watch\" is not a value of this field: write one of Enforce, Observe",
        "pools.yaml:22: spec.taints[1]: a node can have one taint batch:NoSchedule: remove the duplicate",
        "pools.yaml:23: spec.paused: 1 is not true or false: write true or false",
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_cannot_work_on_a_node_is_a_mistake_of_the_profile_that_names_the_node() {
    let with = |settings: &str| POOLS.replace("spec:\n  containerd:", &format!("spec:\n  {settings}\n  containerd:"));
    let small = NODES.replace("  status:\n", "  status:\n    capacity: {cpu: \"4\", memory: 1Gi, pods: \"110\"}\n");
    let folder = folder(&[
        ("reserves.yaml", &with("kubelet: {systemReserved: {memory: 8Gi}}")),
        ("pause.yaml", &with("pauseImage: {source: Upstream, tag: \"3.5\"}")),
        ("fits.yaml", &with("pauseImage: {source: Upstream, tag: \"3.9\"}")),
        ("nodes.yaml", NODES),
        ("small.yaml", &small),
    ]);
    let pause = "\npause.yaml:5: spec.pauseImage.tag: registry.k8s.io/pause:3.5 has no entry that 10.0.20348 can run: no pod could \
                 start there (pool web-2022";
    let table: [(&[&str], i32, String); 6] = [
        (&["-f", "reserves.yaml", "--nodes", "nodes.yaml"], 0, String::new()),
        (
            &["-f", "reserves.yaml", "--nodes", "small.yaml"],
            1,
            "\nreserves.yaml:5: spec.kubelet.systemReserved.memory: 8692Mi of memory are kept and the node has 1Gi (pool web-2022, win-1): \
             write less, or give these nodes a profile of their own"
                .to_owned(),
        ),
        (&["-f", "pause.yaml", "--nodes", "nodes.yaml"], 1, format!("{pause}, win-1): write a tag")),
        (&["-f", "pause.yaml", "--kubernetes", "1.34", "--containerd", "1.7"], 1, format!("{pause}): write a tag")),
        (&["-f", "fits.yaml", "--nodes", "nodes.yaml"], 0, String::new()),
        (&["-f", "fits.yaml"], 0, String::new()),
    ];
    for (args, status, told) in table {
        let ended = winpool(folder.path(), &[&["render"], args].concat());
        assert_eq!(ended.status, status, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&told), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout.is_empty(), status == 1, "{args:?}");
    }
    let linted = winpool(folder.path(), &["lint", "-f", "pause.yaml"]);
    assert_eq!(linted.status, 1, "{}", linted.stdout);
    assert!(linted.stdout.contains("spec.pauseImage.tag"), "{}", linted.stdout);
}

#[test]
fn wrong_usage_ends_with_2_and_no_cluster_with_3() {
    let folder = folder(&[("pools.yaml", POOLS), ("empty/readme.txt", "")]);
    let table: [(&[&str], i32, &str); 12] = [
        (&["render"], 2, "--filename"),
        (&["render", "-f", "nowhere"], 2, "nowhere: No such file"),
        (&["render", "-f", "empty"], 2, "empty: has no .yaml, .yml or .json file"),
        (&["render", "-f", "pools.yaml", "--kubernetes", "1.2.3.x"], 2, "1.2 had none"),
        (&["render", "-f", "pools.yaml", "--containerd", "9.9"], 2, "containerd 9.9 is not known"),
        (&["render", "-f", "-", "--nodes", "-"], 2, "standard input can be read once"),
        (&["render", "-f", "pools.yaml", "--cluster-dns", "10.96.0.10"], 2, "--standalone"),
        (&["render", "-f", "pools.yaml", "--standalone", "--target", "kubeadm"], 2, "cannot be used with"),
        (&["render", "-f", "pools.yaml", "--standalone", "--cluster-dns", "kube-dns"], 2, "--cluster-dns"),
        (&["plan", "--kubernetes", "soon"], 2, "`soon` is not a Kubernetes version"),
        (&["plan"], 3, "KUBECONFIG"),
        (&["cleanup", "--dry-run"], 3, "KUBECONFIG"),
    ];
    for (args, status, text) in table {
        let ended = winpool(folder.path(), args);
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(text), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn lint_says_which_registries_did_not_answer() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  os: {name: windows}\n  nodeSelector: {kubernetes.io/os: windows}\n  \
               containers: [{name: a, image: '127.0.0.1:1/team/app:1', resources: {limits: {memory: 1Gi}}}]\n";
    let folder = folder(&[("pod.yaml", pod)]);
    let args = ["lint", "-f", "pod.yaml", "--registry", "--registry-plain-http", "127.0.0.1:1"];
    let ended = winpool(folder.path(), &args);
    assert_eq!(ended.status, 0, "{} {}", ended.stdout, ended.stderr);
    let told = "winpool: nobody knows what 127.0.0.1:1/team/app:1 is for: ";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let ended = winpool(folder.path(), &[&args[..], &["-o", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(report["summary"]["unanswered"]["127.0.0.1:1/team/app:1"].is_string(), "{report}");
}

#[test]
fn objects_of_other_kinds_are_passed_over_and_named() {
    let folder = folder(&[
        ("pools.yaml", POOLS),
        ("app.yaml", "apiVersion: apps/v1\nkind: Deployment\n"),
        ("kustomization.yaml", "resources: []\n"),
    ]);
    let ended = winpool(folder.path(), &["render", "-f", ".", "--kubernetes", "1.34", "--containerd", "2.1"]);
    assert_eq!(ended.status, 0);
    assert!(ended.stderr.contains("objects of other kinds are not looked at: Deployment"), "{}", ended.stderr);
    assert!(ended.stderr.contains("kustomization.yaml:1 has no kind"), "{}", ended.stderr);
}
