//! `winpool adopt`: pools and profiles for existing nodes.

mod properties;
mod tables;

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use winpool_api::Mode;
use winpool_check::adopt::{AdoptOptions, Adoption, adopt};

use winpool_model::{Model, POOL, pool};

/// What is written for the nodes of a model.
fn adoption(model: &Model) -> Adoption {
    adopt(&model.snapshot(), &AdoptOptions::default())
}

/// Applies the pools in this mode.
fn apply(model: &mut Model, adoption: &Adoption, mode: Mode) {
    for adopted in &adoption.pools {
        let spec = serde_json::to_value(adopted.spec(mode)).unwrap();
        model.put(POOL, &adopted.name, pool(spec));
    }
}

fn class(handler: &str, selector: &Value, tolerations: &Value) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {}, "handler": handler,
        "scheduling": {"nodeSelector": selector, "tolerations": tolerations},
    })
}

fn cluster() -> String {
    format!("{}/tests/golden/adopt/cluster.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the binary, and returns its exit status, stdout and stderr.
fn winpool(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_winpool")).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_pools_and_profiles_of_a_fleet_on_three_clouds() {
    let folder = tempfile::tempdir().unwrap();
    let (status, stdout, stderr) = winpool(folder.path(), &["adopt", "--nodes", &cluster()]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    insta::assert_snapshot!("fleet", stdout);
}

#[test]
fn the_output_is_read_by_render_and_lint() {
    let folder = tempfile::tempdir().unwrap();
    let (_, yaml, _) = winpool(folder.path(), &["adopt", "--nodes", &cluster(), "--profiles"]);
    fs::write(folder.path().join("pools.yaml"), yaml).unwrap();
    for command in ["render", "lint"] {
        let (status, _, stderr) = winpool(folder.path(), &[command, "-f", "pools.yaml"]);
        assert_eq!(status, 0, "{command}: {stderr}");
    }
}

#[test]
fn files_json_and_one_text_have_the_same_objects() {
    let folder = tempfile::tempdir().unwrap();
    let (_, yaml, _) = winpool(folder.path(), &["adopt", "--nodes", &cluster()]);
    let expected: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
    let (_, json, _) = winpool(folder.path(), &["adopt", "--nodes", &cluster(), "-o", "json"]);
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["items"].as_array().unwrap(), &expected);

    let (status, stdout, stderr) = winpool(folder.path(), &["adopt", "--nodes", &cluster(), "--out", "pools"]);
    assert_eq!((status, stdout.as_str()), (0, ""));
    assert!(stderr.contains("7 pools for 16 Windows nodes. 1 node already belongs to a pool."), "{stderr}");
    for object in &expected {
        let part = |pointer: &str| object.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let name = format!("pools/{}-{}.yaml", part("/kind").to_lowercase(), part("/metadata/name"));
        let text = fs::read_to_string(folder.path().join(&name)).unwrap();
        assert_eq!(&serde_saphyr::from_str::<Value>(&text).unwrap(), object, "{name}");
    }
}

#[test]
fn a_label_of_the_user_divides_the_nodes_first() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["adopt", "--nodes", &cluster(), "--pool-label", "team", "-o", "json"];
    let (status, json, _) = winpool(folder.path(), &arguments);
    let list: Value = serde_json::from_str(&json).unwrap();
    let pools = list["items"].as_array().unwrap().iter().filter(|object| object["kind"] == POOL);
    let names: Vec<_> = pools.map(|pool| pool["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(status, 0);
    let expected = ["ads", "shop", "win22", "win25", "windows-2019", "batch-22", "win-ltsc2022", "win-ltsc2025"];
    assert_eq!(names, expected);
}

#[test]
fn bad_input_is_reported_with_its_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let node = |labels: &str, kernel: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: win-1, labels: {{kubernetes.io/os: windows{labels}}}}}\n\
             status: {{nodeInfo: {{kernelVersion: '{kernel}'}}}}\n"
        )
    };
    for (name, text) in [
        (
            "linux.yaml",
            "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {kubernetes.io/os: linux}}\n".to_owned(),
        ),
        ("client.yaml", node("", "10.0.19044.1")),
        ("unlabelled.yaml", node("", "10.0.20348.1")),
        ("unknown.yaml", node("", "")),
        ("invalid.yaml", "kind: RuntimeClass\napiVersion: node.k8s.io/v1\nhandler: 5\n".to_owned()),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let table: [(&[&str], i32, &str); 8] = [
        (&["--nodes", "linux.yaml"], 1, "there is no node with label kubernetes.io/os=windows"),
        (
            &["--nodes", "client.yaml"],
            1,
            "node win-1 is in no pool: spec.windowsVersion: unknown Windows version \"10.0.19044\"",
        ),
        (&["--nodes", "unlabelled.yaml"], 1, "node win-1 is in no pool. Give it a label, and select by it"),
        (&["--nodes", "unknown.yaml"], 1, "node win-1 reports no Windows version"),
        (&["--nodes", "invalid.yaml"], 1, "invalid.yaml:3: handler"),
        (&["--nodes", "none.yaml"], 2, "none.yaml"),
        (&["--nodes", "linux.yaml", "--pool-label", "a b"], 2, "--pool-label: `a b` is not the key of a label"),
        (&["--pool-label", "winpool.dev/pool"], 2, "--pool-label: winpool.dev/pool is set by winpool"),
    ];
    for (arguments, expected, message) in table {
        let (status, _, stderr) = winpool(folder.path(), &[&["adopt"], arguments].concat());
        assert_eq!(status, expected, "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
    let (_, stdout, _) = winpool(folder.path(), &["adopt", "--nodes", "unlabelled.yaml"]);
    assert!(stdout.contains("# Problem: node win-1 is in no pool."), "{stdout}");
}
