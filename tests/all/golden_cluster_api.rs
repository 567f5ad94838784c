//! The templates of Cluster API's machines as golden files in `tests/golden/cluster-api`: those of the pools in `pools.yaml`
//! there, for two minors with a containerd of each generation.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use winpool::render::{Documents, Input, machine_objects};
use winpool_check::{
    manifests::{BootstrapTemplates, Budget, ManifestSet, Manifests},
    render::snapshot,
};
use winpool_core::Objects;
use winpool_facts::{ContainerdVersion, Minor};
use winpool_rules::pool::configs::ExpectedNode;

use crate::golden;

const MACHINES: [(Minor, ContainerdVersion); 2] =
    [(Minor(30), ContainerdVersion::new(1, 7, 0)), (Minor(36), ContainerdVersion::new(2, 2, 0))];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cluster-api")
}

fn rendered((kubelet, containerd): (Minor, ContainerdVersion)) -> Documents {
    let manifests = Manifests::read(&[folder().join("pools.yaml")], &mut Budget::unbounded()).unwrap();
    let templates = BootstrapTemplates::among(&manifests.objects);
    let resources = ManifestSet::new(manifests).unwrap();
    let snapshot = snapshot(&resources, Objects::default(), "winpool-system");
    let expected_nodes = [ExpectedNode { kubelet, containerd: Some(containerd) }];
    let input =
        Input { snapshot: &snapshot, expected_nodes: &expected_nodes, resources: &resources, templates: &templates };
    machine_objects(&input).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The names of the templates.
pub fn names() -> Vec<String> {
    MACHINES.into_iter().flat_map(|machine| rendered(machine).files().into_keys()).collect()
}

/// The files by path, without the digest in the name of an object.
fn expected() -> BTreeMap<PathBuf, String> {
    let mut golden = BTreeMap::new();
    for machine @ (kubelet, containerd) in MACHINES {
        let directory = format!("kubelet-{kubelet}-containerd-{}", containerd.line());
        for (name, text) in rendered(machine).files() {
            let (name, _digest) = name.rsplit_once('-').unwrap();
            let path = Path::new(&directory).join(format!("{name}.yaml"));
            assert_eq!(golden.insert(path, text), None, "{name} is the only one");
        }
    }
    golden
}

#[test]
fn the_templates_are_those_of_the_golden_files() {
    golden::check(&folder(), &expected(), "golden_cluster_api");
}

/// The specification of a KubeadmConfigTemplate or a KubeadmConfig.
fn spec(object: &Value) -> Value {
    object.pointer("/spec/template/spec").unwrap_or(&object["spec"]).clone()
}

/// The arguments of the kubelet, by name.
fn take_arguments(spec: &mut Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"].take();
    list.as_array().unwrap().iter().map(|item| (text(&item["name"]), text(&item["value"]))).collect()
}

/// The output of `winpool render --target` for files in a folder.
fn output(folder: &Path, file: &str, target: &str, more: &[&str]) -> Output {
    let arguments = ["render", "-f", file, "--target", target];
    Command::new(env!("CARGO_BIN_EXE_winpool")).args(arguments).args(more).current_dir(folder).output().unwrap()
}

/// The output for an edited `pools.yaml`: its status and text on standard error.
fn problems(edit: impl Fn(&str) -> String, more: &[&str]) -> (Option<i32>, String) {
    let parent = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(folder().join("pools.yaml")).unwrap();
    fs::write(parent.path().join("pools.yaml"), edit(&text)).unwrap();
    let output = output(parent.path(), "pools.yaml", "cluster-api", more);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn objects_are_printed_in_the_requested_format() {
    let output = output(&folder(), "pools.yaml", "cluster-api", &["-o", "json"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let items = list["items"].as_array().unwrap();
    let kinds: Vec<_> = items.iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["KubeadmConfig", "KubeadmConfigTemplate", "KubeadmConfigTemplate"]);
    assert!(items.iter().all(|item| item["apiVersion"] == "bootstrap.cluster.x-k8s.io/v1beta2"));
    assert!(stderr.contains("pool plain-2019 has no spec.delivery.clusterAPI"), "{stderr}");
    assert!(!stderr.contains("skipped objects"), "{stderr}");
}

#[test]
fn problems_of_a_template_are_reported_at_its_file_and_line() {
    let (status, stderr) = problems(|text| text.replace("name: base-windows }", "name: other }"), &[]);
    assert_eq!(status, Some(1), "{stderr}");
    let text = "spec.delivery.clusterAPI.templateFrom.name: there is no KubeadmConfigTemplate other of namespace clusters in \
                the files: add its file with -f, or correct the name";
    assert!(stderr.contains(text), "{stderr}");

    let twice = |text: &str| {
        let (_, template) = text.split_once("---\napiVersion: bootstrap").unwrap();
        format!("{text}---\napiVersion: bootstrap{template}")
    };
    let (_, stderr) = problems(twice, &[]);
    assert!(stderr.contains("KubeadmConfigTemplate base-windows is defined at pools.yaml:"), "{stderr}");

    let mirror = |text: &str| text.replace("path: C:/defender-exclude-calico.ps1", "path: C:/k/winpool/containerd.ps1");
    let (_, stderr) = problems(mirror, &[]);
    assert!(stderr.contains("spec.template.spec.files[1].path: the template has the file"), "{stderr}");
    let line = stderr.split("pools.yaml:").nth(1).and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
    let text = fs::read_to_string(folder().join("pools.yaml")).unwrap();
    let expected = text.lines().position(|line| line.contains("- path: C:/defender")).unwrap() + 1;
    assert_eq!(line, Some(expected), "{stderr}");

    let (_, stderr) = problems(|text| text.replace("x-k8s.io/v1beta2", "x-k8s.io/v1beta1"), &[]);
    let text = "apiVersion: bootstrap.cluster.x-k8s.io/v1beta1 is not bootstrap.cluster.x-k8s.io/v1beta2: write the template in \
                v1beta2, as kubectl get kubeadmconfigtemplates.v1beta2.bootstrap.cluster.x-k8s.io prints it with Cluster API 1.11";
    assert!(stderr.contains(text), "{stderr}");
}

#[test]
fn options_without_effect_on_the_target_are_rejected() {
    let table: [(&str, &[&str], &str); 2] = [
        ("kubeadm", &["-o", "json"], "--output cannot be used with --target kubeadm"),
        ("cluster-api", &["--nodes", "nodes.yaml"], "--nodes cannot be used with --target cluster-api"),
    ];
    for (target, more, expected) in table {
        let output = output(&folder(), "pools.yaml", target, more);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

/// The documents of a target by file.
fn documents(target: &str, file: &str, more: &[&str]) -> BTreeMap<String, String> {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("out");
    let more = [&["--out", directory.to_str().unwrap()], more].concat();
    let output = output(&folder(), file, target, &more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = golden::found(&directory).into_iter().map(|(path, text)| (path.to_str().unwrap().to_owned(), text));
    files.filter(|(name, _)| !name.starts_with('.')).collect()
}

#[test]
fn the_patches_of_a_cluster_class_turn_the_template_into_the_one_of_winpool() {
    let text = fs::read_to_string(folder().join("pools.yaml")).unwrap();
    let parsed = serde_saphyr::from_multiple::<Value>(&text).unwrap();
    let azure = parsed.iter().find(|object| object["kind"] == "KubeadmConfigTemplate").unwrap().clone();
    let more = ["--kubernetes", "1.36", "--containerd", "2.2", "--machine-deployment-class", "windows"];
    let files = documents("clusterclass-patch", "pools.yaml", &more);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["azure-2022.yaml", "batch-2025.yaml", "web-2022.yaml"]);
    let expected = rendered(MACHINES[1]);
    for (name, text) in files {
        let pool = name.trim_end_matches(".yaml");
        let document: Value = serde_saphyr::from_str(&text).unwrap();
        let patch = &document["spec"]["patches"][0];
        let mut template = match pool {
            "azure-2022" => azure.clone(),
            _ => {
                serde_json::json!({"spec": {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {
                    "criSocket": "npipe:////./pipe/containerd-containerd",
                }}}}}})
            }
        };
        for definition in patch["definitions"].as_array().unwrap() {
            check_definition(definition, pool == "batch-2025");
            let operations: json_patch::Patch = serde_json::from_value(definition["jsonPatches"].clone()).unwrap();
            json_patch::patch(&mut template, &operations).unwrap();
        }
        let is_wanted = |object: &Value| object["metadata"]["labels"]["winpool.dev/pool"] == pool;
        let wanted = expected.objects.iter().find(|(_, object)| is_wanted(object));
        let (mut after, mut wanted) = (spec(&template), spec(&wanted.unwrap().1));
        assert_eq!(take_arguments(&mut after), take_arguments(&mut wanted), "{pool}");
        assert_eq!(after, wanted, "{pool}");
    }
}

/// Checks what the webhook of ClusterClass checks: `core/webhooks/admission/patch_validation.go` of Cluster API 1.14.
fn check_definition(definition: &Value, is_machine_pool: bool) {
    let selector = &definition["selector"];
    assert_eq!(selector["apiVersion"], "bootstrap.cluster.x-k8s.io/v1beta2");
    assert_eq!(selector["kind"], "KubeadmConfigTemplate");
    let field = if is_machine_pool { "machinePoolClass" } else { "machineDeploymentClass" };
    assert_eq!(selector["matchResources"], serde_json::json!({field: {"names": ["windows"]}}));
    let operations = definition["jsonPatches"].as_array().unwrap();
    assert!((1..=100).contains(&operations.len()));
    for operation in operations {
        let (op, path) = (operation["op"].as_str().unwrap(), operation["path"].as_str().unwrap());
        assert!(path.starts_with("/spec/template/spec/") && path.len() <= 512, "{path}");
        assert!(["add", "replace"].contains(&op) && !operation["value"].is_null(), "{operation}");
        let indices = path.split('/').filter(|part| *part == "-" || part.parse::<usize>().is_ok());
        assert!(indices.eq(path.ends_with("/-").then_some("-")) && (op == "add" || !path.ends_with("/-")), "{path}");
    }
}

#[test]
fn a_variable_and_the_version_of_the_machines_enable_a_patch() {
    let files = documents("clusterclass-patch", "pools.yaml", &["--kubernetes", "1.35,1.36", "--containerd", "2.2"]);
    let document: Value = serde_saphyr::from_str(&files["web-2022.yaml"]).unwrap();
    let variable = &document["spec"]["variables"][0];
    assert_eq!((&variable["name"], &variable["required"]), (&"winpoolWeb2022".into(), &false.into()));
    let schema = &variable["schema"]["openAPIV3Schema"];
    assert_eq!((&schema["type"], &schema["default"]), (&"boolean".into(), &false.into()));
    let enabled: Vec<_> = document["spec"]["patches"].as_array().unwrap().iter().map(|one| &one["enabledIf"]).collect();
    let expected = ["1.35", "1.36"].map(|minor| {
        format!("{{{{ and .winpoolWeb2022 (semverCompare \"~{minor}.0-0\" .builtin.machineDeployment.version) }}}}")
    });
    assert_eq!(enabled, expected.iter().collect::<Vec<_>>());
    let comment = &files["azure-2022.yaml"];
    assert!(comment.contains("made for the content of KubeadmConfigTemplate base-windows"), "{comment}");
    let fields = "files, joinConfiguration.nodeRegistration.kubeletExtraArgs, joinConfiguration.nodeRegistration.taints, \
                  joinConfiguration.patches, postKubeadmCommands, preKubeadmCommands";
    let line = format!("# - these fields do not exist, or are replaced: {fields}");
    assert!(files["web-2022.yaml"].lines().any(|found| found == line), "{}", files["web-2022.yaml"]);
    for line in [
        "# - these lists exist, and get further items: files, postKubeadmCommands, preKubeadmCommands",
        "# - these fields have the known values, and are replaced: joinConfiguration.nodeRegistration.kubeletExtraArgs",
    ] {
        assert!(comment.lines().any(|found| found == line), "{comment}");
    }

    let output =
        output(&folder(), "pools.yaml", "clusterclass-patch", &["--kubernetes", "1.36", "--containerd", "2.1,2.2"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("a ClusterClass cannot distinguish the versions of containerd"), "{stderr}");
}
