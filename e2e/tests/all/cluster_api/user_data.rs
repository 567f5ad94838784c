//! The user data of a machine, as the bootstrap provider writes it from a template of winpool, read by cloudbase-init's own
//! package. No server is started.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{operator::binary, windows_node::user_data::Done};
use serde_json::{Value, json};

/// What the package cloudinit of this version of the bootstrap provider writes for `input.json`, whose `NewNode` ran with Go.
const RECORDED: &str = "v1.14.0-rc.1.txt";

const PLACEHOLDER: &str = "This placeholder file is used to create the /run/cluster-api sub directory in a way that is \
                           compatible with both Linux and Windows (mkdir -p /run/cluster-api does not work with Windows)";
const JOIN: &str = "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > \
                    /run/cluster-api/bootstrap-success.complete";

/// The objects of a list.
fn list<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().into_iter().flatten()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The user data that the provider writes from the spec of a KubeadmConfig whose files have their content.
fn user_data(spec: &Value, join: &str) -> String {
    let indented = |content: &str| content.split('\n').map(|line| format!("      {line}\n")).collect::<String>();
    let file = |file: &Value| {
        let mut written = format!("-   path: {}\n", text(file, "path"));
        for (field, quote) in [("encoding", "\""), ("owner", ""), ("permissions", "'")] {
            match text(file, field) {
                "" => {}
                value => written += &format!("    {field}: {quote}{value}{quote}\n"),
            }
        }
        written + "    content: |\n" + &indented(text(file, "content"))
    };
    let commands = |field: &str| list(spec, field).map(|command| format!("  - {command}\n")).collect::<String>();
    let own = |path: &str| format!("-   path: {path}\n    owner: root:root\n    permissions: '0640'\n");
    let boot = commands("bootCommands");
    [
        "## template: jinja\n#cloud-config\n\nwrite_files:\n",
        &list(spec, "files").map(file).collect::<String>(),
        &own("/run/kubeadm/kubeadm-join-config.yaml"),
        &format!("    content: |\n      ---\n{}", indented(join)),
        &own("/run/cluster-api/placeholder"),
        &format!("    content: \"{PLACEHOLDER}\"\n"),
        // cloudbase-init does not run them.
        &if boot.is_empty() { boot } else { format!("bootcmd:\n{boot}") },
        "runcmd:\n",
        &commands("preKubeadmCommands"),
        &format!("  - {JOIN}\n"),
        &commands("postKubeadmCommands"),
    ]
    .concat()
}

fn recorded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/cluster_api/user_data");
    fs::read_to_string(folder.join(name)).unwrap()
}

const PLATFORMS: &str = "plugins.\"io.containerd.cri.v1.images\".runtime_platforms";

/// A pool and a profile with what user data may lose: a file of more than 10,240 characters, delimiters of the template engine, and
/// percent signs and letters outside of ASCII in the variables of the proxy.
fn pool() -> String {
    let table = |index| format!("      [{PLATFORMS}.\"team-{index:03}-ä\"]\n      platform = \"windows/amd64\"\n");
    let tables: String = (0..140).map(table).collect();
    format!(
        r#"apiVersion: winpool.dev/v1alpha1
kind: WindowsRuntimeProfile
metadata: {{name: standard}}
spec:
  kubelet:
    extra: {{contentType: "it's {{{{ $env:PATH }}}} {{% if x %}}"}}
  containerd:
    registryMirrors:
    - {{registry: docker.io, endpoints: ["https://mirror.example"], caFile: 'C:\certs\{{{{ team }}}}.pem'}}
    extraConfig: |
{tables}  proxy: {{httpsProxy: "http://proxy.example:3128", noProxy: "10.0.0.0/8,.münchen.example,%USERDOMAIN%"}}
---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {{name: web}}
spec:
  windowsVersion: ltsc2022
  nodeSelector: {{matchLabels: {{agentpool: web}}}}
  profileRef: {{name: standard}}
  delivery:
    method: ClusterAPI
    clusterAPI:
      namespace: default
      clusterName: prod
      machineDeployments: {{matchLabels: {{winpool: web}}}}
"#
    )
}

/// The spec of the template of the pool, with the content of the files in its Secret, as the provider reads it.
fn template() -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool.yaml");
    fs::write(&path, pool()).unwrap();
    let arguments = ["--target", "cluster-api", "--kubernetes", "1.36", "--containerd", "2.2"];
    let mut command = Command::new(binary().unwrap());
    let output = command.args(["render", "-o", "json", "-f"]).arg(&path).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_kind = |kind: &str| list(&objects, "items").find(|object| object["kind"] == kind).unwrap();
    let mut spec = of_kind("KubeadmConfigTemplate")["spec"]["template"]["spec"].clone();
    for file in spec["files"].as_array_mut().unwrap() {
        if let Some(key) = file.pointer("/contentFrom/secret/key").and_then(Value::as_str) {
            file["content"] = of_kind("Secret")["stringData"][key].clone();
        }
    }
    spec
}

/// The file that a machine should have. A literal block of YAML has lines that end with a line feed.
fn expected(file: &Value) -> (String, String) {
    let content = text(file, "content");
    let content = match text(file, "encoding") {
        "base64" => String::from_utf8(STANDARD.decode(content).unwrap()).unwrap(),
        _ => content.replace("\r\n", "\n"),
    };
    (text(file, "path").replace('/', "\\"), content)
}

#[test]
fn the_user_data_of_these_tests_is_that_of_the_bootstrap_provider() {
    let input: Value = serde_json::from_str(&recorded("input.json")).unwrap();
    assert_eq!(user_data(&input, text(&input, "joinConfiguration")), recorded(RECORDED));
}

#[test]
fn cloudbase_init_writes_every_file_whole_and_runs_the_commands_in_order() {
    let spec = template();
    let join = json!({"kind": "JoinConfiguration", "nodeRegistration": {"name": "{{ ds.meta_data.local_hostname }}"}});
    let done = Done::read(&user_data(&spec, &join.to_string())).unwrap();
    let files: Vec<(String, String)> =
        done.files.iter().map(|file| (file.path.clone(), file.text().unwrap())).collect();
    let (of_provider, of_template) = (&files[files.len() - 2..], &files[..files.len() - 2]);
    assert_eq!(of_template, list(&spec, "files").map(expected).collect::<Vec<_>>());
    assert_eq!(of_provider[0].1, "---\n{\"kind\":\"JoinConfiguration\",\"nodeRegistration\":{\"name\":\"web-1\"}}\n");
    assert!(done.files.iter().all(|file| !file.append));

    let contents: BTreeMap<_, _> = of_template.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let content = |path: &str| contents[path];
    let kubelet = content(r"C:\k\winpool\patches\kubeletconfiguration0+merge.yaml");
    assert!(kubelet.contains("it's {{ $env:PATH }} {% if x %}"), "{kubelet}");
    let containerd = content(r"C:\Program Files\containerd\conf.d\50-winpool.toml");
    assert!(containerd.chars().count() > 10_240 && containerd.contains("team-139-ä"));
    let hosts = content(r"C:\Program Files\containerd\certs.d\docker.io\hosts.toml");
    assert!(hosts.contains(r"C:\certs\{{ team }}.pem"), "{hosts}");
    for script in [r"C:\k\winpool\containerd.ps1", r"C:\k\winpool\kubelet.ps1"] {
        let script = content(script);
        // Windows PowerShell reads a file without a mark of its encoding in that of the system.
        assert!(script.is_ascii(), "{script}");
        let variable = "('NO_PROXY=10.0.0.0/8,.m' + [char]0x00FC + 'nchen.example,%USERDOMAIN%')";
        assert!(script.contains(variable), "{script}");
    }

    let run = |script: &str| {
        format!("powershell -NoProfile -NonInteractive -ExecutionPolicy Bypass -File C:/k/winpool/{script}.ps1")
    };
    let commands = ["rem cmd".to_owned(), run("containerd"), JOIN.to_owned(), run("kubelet"), String::new()];
    // cmd expands percent signs.
    assert!(commands.iter().all(|command| !command.contains('%')));
    assert_eq!(done.scripts, [commands.join("\r\n")]);
}
