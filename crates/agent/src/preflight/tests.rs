use super::{candidate::DIRECTORY, *};
use crate::{
    plan::plan,
    tests::{
        fake::{FakeHost, data, output},
        layouts,
    },
};

const GOOD: &str = "E1122 1 run.go:72] \"command failed\" err=\"failed to run Kubelet: no client provided, cannot use webhook authentication\"\n";
const KUBELET: (&str, &str) = ("kubelet.yaml", "kind: KubeletConfiguration\nmaxPods: 110\n");
const ARGS: (&str, &str) = ("kubelet.args", "--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS\n");
const CONTAINERD: (&str, &str) =
    ("containerd.toml", "version = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'p:2'\n");

/// A node whose programs have these outputs in a check.
fn with_outputs(mut node: FakeHost, kubelet: ProgramOutput, containerd: ProgramOutput) -> FakeHost {
    node.0.get_mut().programs.push(("kubelet.exe", "--config", kubelet));
    node.0.get_mut().programs.push(("containerd.exe", "--config", containerd));
    node
}

fn checked(node: &FakeHost, files: &[(&str, &str)]) -> Result<(), Refusal> {
    let (layout, plan) = plan(node, &data(files)).unwrap();
    let before = node.0.borrow().files.clone();
    node.0.borrow_mut().runs.clear();
    let result = preflight(node, &layout, &plan);
    assert_eq!(node.0.borrow().files, before, "all files of the check are removed");
    assert!(node.0.borrow().written.keys().all(|path| path.starts_with(DIRECTORY)));
    result
}

fn good(node: FakeHost) -> FakeHost {
    with_outputs(node, output(1, "", GOOD), output(0, "version = 3\n", ""))
}

const ISOLATED: &str = r"--root-dir=C:\Program Files\winpool\preflight\root --cert-dir=C:\Program Files\winpool\preflight\pki --container-runtime-endpoint=npipe:////./pipe/winpool-none";

#[test]
fn the_programs_of_the_node_check_the_changed_files_apart_from_the_running_ones() {
    let directory = DIRECTORY;
    let remove = format!(r"C:\Windows\System32\cmd.exe /d /c rmdir /s /q {directory}");
    let pull = || "pull p:2".to_owned();
    let containerd = |program: &str| format!(r"{program} --config {directory}\config.toml config dump");
    let table = [
        (
            layouts::kubeadm(),
            vec![ARGS],
            vec![
                format!(
                    r"C:\k\kubelet.exe --config={directory}\kubelet.yaml {ISOLATED} --windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS --resolv-conf="
                ),
                remove.clone(),
            ],
        ),
        (
            layouts::nssm(),
            vec![KUBELET],
            vec![format!(r"C:\k\kubelet.exe --config={directory}\kubelet.yaml {ISOLATED}"), remove.clone()],
        ),
        (
            layouts::rke2(),
            vec![KUBELET, ARGS],
            vec![
                format!(
                    r"C:\var\lib\rancher\rke2\bin\kubelet.exe --config-dir={directory}\kubelet.conf.d {ISOLATED} --windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS"
                ),
                remove.clone(),
            ],
        ),
        (
            layouts::plain(),
            vec![KUBELET, CONTAINERD],
            vec![
                containerd(r"C:\Süd Knoten\containerd.exe"),
                format!(
                    r"C:\Süd Knoten\kubelet.exe --config={directory}\kubelet.yaml --config-dir={directory}\kubelet.conf.d {ISOLATED}"
                ),
                pull(),
                remove,
            ],
        ),
        (layouts::kubeadm(), vec![CONTAINERD], vec![containerd(r"C:\Program Files\containerd\containerd.exe"), pull()]),
        (layouts::kubeadm(), vec![("environment", "NO_PROXY=.svc\n")], vec![]),
    ];
    for (node, files, expected) in table {
        let node = good(node);
        checked(&node, &files).unwrap_or_else(|refusal| panic!("{}", refusal.message));
        assert_eq!(node.0.borrow().runs, expected);
    }
}

#[test]
fn a_file_of_resolvers_that_the_node_does_not_have_is_refused() {
    let file = ("kubelet.yaml", "resolvConf: C:\\etc\\resolv.conf\n");
    let refusal = checked(&good(layouts::kubeadm()), &[file]).unwrap_err();
    assert!(refusal.message.contains(r"C:\etc\resolv.conf does not exist"), "{}", refusal.message);
    let node = good(layouts::kubeadm());
    node.put(r"C:\etc\resolv.conf", b"nameserver 10.0.0.1\n".to_vec());
    checked(&node, &[file]).unwrap_or_else(|refusal| panic!("{}", refusal.message));
}

#[test]
fn the_fields_that_are_removed_from_the_file_of_the_kubelet_are_named() {
    let node = layouts::kubeadm();
    let cluster = "singleProcessOOMKill: false\nuserNamespaces: {idsPerPod: 65536}\nmaxPods: 50\n";
    node.put(layouts::KUBEADM_CONFIG, cluster.as_bytes().to_vec());
    let removed = |node: &FakeHost| -> Vec<&'static str> {
        let (layout, plan) = plan(node, &data(&[KUBELET])).unwrap();
        let candidate = Candidate::new(node, &layout, &plan);
        let removed = candidate.removed_fields().into_iter();
        removed.inspect(|(path, _)| assert_eq!(*path, layouts::KUBEADM_CONFIG)).map(|(_, field)| field).collect()
    };
    assert_eq!(removed(&node), ["singleProcessOOMKill", "userNamespaces"]);
    assert_eq!(removed(&node.kubelet("1.32.0")), ["singleProcessOOMKill"]);
    assert_eq!(removed(&layouts::kubeadm()), [""; 0]);
}

#[test]
fn the_checked_files_are_those_of_the_plan_with_all_others_that_the_programs_read() {
    let node = good(layouts::kubeadm());
    node.put(r"C:\Program Files\containerd\conf.d\10-site.toml", b"version = 3\n".to_vec());
    node.put(r"C:\Program Files\containerd\conf.d\50-winpool.toml", b"version = 3\n".to_vec());
    checked(&node, &[KUBELET, CONTAINERD]).unwrap();
    let written = &node.0.borrow().written;
    let imports = r"imports = ['C:\Program Files\containerd\conf.d\10-site.toml', 'C:\Program Files\winpool\preflight\50-winpool.toml']";
    let main = &written[r"C:\Program Files\winpool\preflight\config.toml"];
    assert!(main.contains(imports), "{main}");
    assert_eq!(written[r"C:\Program Files\winpool\preflight\50-winpool.toml"], CONTAINERD.1);
    let kubelet = &written[r"C:\Program Files\winpool\preflight\kubelet.yaml"];
    assert!(kubelet.ends_with("maxPods: 110\n"), "{kubelet}");
    // The kubelet resolves it relative to the directory of its file.
    assert!(kubelet.contains(r#"clientCAFile: "C:\\var\\lib\\kubelet\\etc\\kubernetes\\pki\\ca.crt""#), "{kubelet}");
    let rke2 = good(layouts::rke2());
    checked(&rke2, &[KUBELET]).unwrap();
    let names: Vec<_> = rke2.0.borrow().written.keys().map(|path| path[DIRECTORY.len()..].to_owned()).collect();
    let expected = [
        r"\kubelet.conf.d\00-rke2-defaults.conf",
        r"\kubelet.conf.d\20-cli-config-dir\extra.conf",
        r"\kubelet.conf.d\50-winpool.conf",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_program_that_does_not_accept_the_files_is_quoted() {
    let timeout = ProgramOutput { code: None, stdout: Vec::new(), stderr: b"waiting\n".to_vec() };
    let bad = "I1122 start\nE1122 err=\"failed to validate kubelet configuration, error: maxPods\"\nE1122 end\n";
    let ok = output(0, "", "");
    let table = [
        (
            output(1, "", bad),
            ok.clone(),
            "kubelet.exe does not accept the configuration: E1122 err=\"failed to validate",
        ),
        (timeout.clone(), ok.clone(), "kubelet.exe did not end within 60 s: waiting"),
        (output(1, "", "something new\n"), ok.clone(), "does not accept the configuration: something new"),
        (output(0, "", ""), ok, "does not accept the configuration: no output"),
        (
            output(1, "", GOOD),
            output(1, "", "containerd: failed to unmarshal TOML\n"),
            "containerd.exe does not accept the configuration: containerd: failed to unmarshal TOML",
        ),
        (output(1, "", GOOD), timeout, "containerd.exe did not end within 60 s: waiting"),
    ];
    for (kubelet, containerd, text) in table {
        let refusal =
            checked(&with_outputs(layouts::kubeadm(), kubelet, containerd), &[KUBELET, CONTAINERD]).unwrap_err();
        assert_eq!(refusal.reason, RefusalReason::PreflightFailed);
        assert!(refusal.message.contains(text), "{}", refusal.message);
    }
}

#[test]
fn a_pause_image_that_cannot_be_pulled_is_refused_unless_the_change_can_make_it_available() {
    const HOSTS: (&str, &str) = ("hosts.docker.io.toml", "[host.\"https://mirror.example\"]\n");
    const WITH_HOSTS: (&str, &str) = (
        "containerd.toml",
        "version = 3\n[plugins.'io.containerd.cri.v1.images']\npinned_images.sandbox = 'p:2'\n\
         registry.config_path = 'C:\\Program Files\\containerd\\certs.d'\n",
    );
    const PROXY: (&str, &str) = ("environment", "HTTPS_PROXY=http://proxy.example:3128\n");
    const NO_IMAGE: (&str, &str) = ("containerd.toml", "version = 3\nroot = 'D:\\containerd'\n");
    const DENIED: &str = "pull access denied";
    let failed = || Err(RuntimeError::Failed(DENIED.to_owned()));
    let silent = || Err(RuntimeError::Unreachable { address: "pipe".to_owned(), why: "not found".to_owned() });
    for (files, pull, accepted) in [
        (vec![CONTAINERD], Ok(()), true),
        (vec![CONTAINERD], failed(), false),
        (vec![CONTAINERD], silent(), true),
        (vec![WITH_HOSTS], failed(), true),
        (vec![WITH_HOSTS, HOSTS], failed(), true),
        (vec![CONTAINERD, PROXY], failed(), true),
        (vec![NO_IMAGE], failed(), true),
        (vec![KUBELET], failed(), true),
    ] {
        let node = good(layouts::kubeadm());
        node.0.borrow_mut().pull = pull.clone();
        let result = checked(&node, &files);
        assert_eq!(result.is_ok(), accepted, "{files:?} {pull:?}: {result:?}");
        if let Err(refusal) = result {
            assert_eq!(refusal.reason, RefusalReason::PauseImageNotPulled);
            assert!(refusal.message.contains("p:2") && refusal.message.contains(DENIED), "{}", refusal.message);
        }
    }
}
