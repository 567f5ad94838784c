//! Every command of the pages, run by a shell in a copy of the repository, with kubectl, winpool and helm in the `PATH` and a
//! control plane as the current context.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use e2e::{
    assets,
    cluster::{Cluster, NODE_LABEL, SOON, pool_spec},
    cluster_api::{
        CLUSTER, NAMESPACE,
        controllers::create_cluster,
        provider::{self, SimulatedMachines},
    },
    control_plane::{ControlPlane, Options, User},
    kubelet::SimulatedNode,
    operator::{binary, winpool, workspace},
    wait::until,
};
use serde_json::{Value, json};
use winpool::admission_policies::FIRST_WITH_MUTATING;

use crate::cluster_api::end_to_end::start_controllers;

use self::pages::{Block, Page, pages};

#[path = "../../../tests/all/docs/pages.rs"]
pub mod pages;

/// Commands that are not run here: what their lines begin with, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("az ", "needs a subscription to Azure"),
    ("cargo ", "builds"),
    ("e2e/wine-run.sh ", "needs a build for Windows"),
    ("export CARGO_TARGET_", "is for a build for Windows"),
    ("make ", "builds: the workflows run these targets"),
    ("WINPOOL_BINARY=", "runs these tests"),
    ("(cd dist && sha256sum ", "needs the files of a release, which release/build.sh verifies"),
    ("cosign ", "needs a signed release"),
    ("ctr ", "needs containerd and a registry; installation::images runs these commands"),
    ("gh ", "needs a signed release"),
    ("git ", "publishes a release"),
    ("helm test ", "needs a kubelet that runs pods; installation::pods has this command"),
    ("oc ", "needs OpenShift"),
    ("podman ", "needs a container engine and a registry"),
    ("sha256sum ", "needs the files of a release"),
    ("skopeo ", "needs skopeo and a registry"),
    ("yq ", "needs yq"),
    ("kubeconform ", "needs kubeconform; lint::integrations validates with these schemas"),
    ("winpool completions ", "writes to folders of the system; cli::habits has this command"),
    ("winpool man ", "writes to folders of the system; cli::habits has this command"),
    ("kubectl -n winpool-system logs ", "the simulated kubelets have no logs; installation::pods reads some"),
    (
        "winpool policies --mutating ",
        "needs a beta API of Kubernetes 1.34 and 1.35, which is off unless it is switched on",
    ),
    ("winpool cleanup --trust-records", "asks; commands::cleanup has this command"),
    ("winpool cleanup        #", "asks; commands::options answers on a terminal"),
    ("winpool check", "its exit status is that of the installation; commands::status has this command"),
    ("winpool status", "its exit status is that of the pools; commands::status has these commands"),
    ("winpool doctor ", "its exit status is that of what it finds; workloads::doctor has these commands"),
    ("winpool verify web-2022  ", "takes its time; workloads::verify has this command"),
    ("winpool verify web-2022 -o junit ", "takes its time; workloads::verify has this command"),
    ("winpool lint app.yaml ", "lint::page compares its output"),
    ("winpool recommend web-2022 ", "measures for minutes; winpool::recommend compares its output"),
    ("winpool migrate web --to large ", "images::migrate compares its output"),
    ("winpool migrate web-2022 --to large ", "needs two pools; migrate::tests has the outcomes"),
];

/// The pages of which nothing runs: one shows what `make run` prints, with times and names of pods, which differ, and one needs a Windows
/// machine.
const READ_ONLY: [&str; 2] = ["docs/demonstration.md", "docs/first-run.md"];

/// The pages that expect another cluster than the one that the others share.
const APART: [&str; 2] = ["docs/install.md", "docs/delivery/cluster-api.md"];

/// What needs a later Kubernetes than these tests may have, and its first minor version.
const FROM: &[(&str, u32)] = &[("kubectl apply -k config/policies/mutating", FIRST_WITH_MUTATING.0)];

/// The commands that report problems in this cluster, so that their exit status is 1.
const PROBLEMS: &[&str] =
    &["winpool plan --kubernetes 1.36 ", "winpool render -f base.yaml -f pool.yaml --target autoscaler-hints"];

/// What a page expects to be there before one of its commands, as commands of a shell.
const BEFORE: &[(&str, &str, &str)] = &[
    ("docs/command-line.md", "kubectl winpool", "kubectl config rename-context admin staging"),
    ("README.md", "winpool adopt >", "kubectl delete wnp spare"),
    // A pool with `fallback: true`, and the pools that README.md applies, leave no node to adopt.
    ("docs/adopting.md", "winpool adopt >", "kubectl delete wnp spare old --ignore-not-found"),
    (
        "docs/gitops.md",
        "kubectl -n argocd",
        "kubectl create namespace argocd && kubectl -n argocd create configmap argocd-cm",
    ),
    ("docs/guard-rails.md", "kubectl label namespace shop", "kubectl create namespace shop"),
    (
        "docs/delivery.md",
        "kubectl -n kube-system get configmap kube-proxy",
        "mkdir profiles && printf '%s\\n' 'apiVersion: winpool.dev/v1alpha1' 'kind: WindowsRuntimeProfile' 'metadata: {name: web}' \
         'spec: {kubeProxy: {winDSR: true}}' --- 'apiVersion: winpool.dev/v1alpha1' 'kind: WindowsNodePool' 'metadata: {name: web}' \
         'spec: {windowsVersion: ltsc2022, nodeSelector: {matchLabels: {agentpool: web}}, profileRef: {name: web}}' \
         >profiles/web.yaml && kubectl -n kube-system create configmap kube-proxy \
         --from-literal='config.conf=kind: KubeProxyConfiguration'",
    ),
    ("docs/lint.md", "helm template", "ln -s charts/winpool chart"),
    (
        "docs/lint.md",
        "kustomize build",
        "ln -s config/samples pools; mkdir overlays; ln -s ../config/default overlays/production",
    ),
    (
        "docs/lint.md",
        "winpool lint deploy/ --baseline .winpool-baseline.json --write",
        "mkdir deploy; cp app.yaml deploy",
    ),
    (
        "docs/security.md",
        "kubectl -n winpool-system scale deployment winpool --replicas=0",
        "kubectl apply -f install.yaml",
    ),
    ("docs/status.md", "kubectl get wnp  ", "kubectl apply -f config/samples"),
    ("docs/install.md", "helm install", "kubectl delete -f install.yaml --ignore-not-found"),
    // kubectl has cached that the former commands removed the kinds.
    ("docs/install.md", "kubectl -n winpool-system rollout status", "rm -r ~/.kube/cache"),
    ("docs/install.md", "kubectl delete -k config/default", "kubectl apply -k config/default"),
    ("docs/install.md", "kubectl delete -k crds", "kubectl apply -f install.yaml"),
    ("docs/install.md", "kubectl -n winpool-system scale", "kubectl apply -f install.yaml"),
];

/// The files that commands of a page read: the page, which of its blocks of YAML, and the name.
const FILES: &[(&str, usize, &str)] = &[
    ("README.md", 0, "web-2022.yaml"),
    ("docs/delivery/cluster-api.md", 0, "base.yaml"),
    ("docs/delivery/cluster-api.md", 1, "machines.yaml"),
    ("docs/delivery/cluster-api.md", 2, "pool.yaml"),
    ("docs/identity.md", 0, "payroll.yaml"),
    ("docs/lint.md", 0, "app.yaml"),
    ("docs/platforms.md", 0, "kubeadm.yaml"),
    ("docs/platforms.md", 1, "eks.yaml"),
    ("docs/platforms.md", 2, "aks.yaml"),
    ("docs/platforms.md", 3, "gke.yaml"),
    ("docs/platforms.md", 4, "rke2.yaml"),
    ("docs/platforms.md", 5, "openshift.yaml"),
];

/// How many seconds the commands of a block may take.
const LIMIT: &str = "600";

/// Whether a command begins with a text, which may have the end of the line as its last character.
fn begins(command: &str, text: &str) -> bool {
    format!("{command}\n").starts_with(text)
}

/// The commands of a block: lines, together with those that complete them.
fn commands(block: &Block) -> Vec<String> {
    let lines = block.text.lines();
    let lines: Vec<&str> = match block.language.as_str() {
        "sh" => lines.collect(),
        "console" => lines.filter_map(|line| line.strip_prefix("$ ")).collect(),
        _ => return Vec::new(),
    };
    let (mut commands, mut open) = (Vec::new(), String::new());
    for line in lines.into_iter().filter(|line| !line.is_empty()) {
        open.push_str(line);
        open.push('\n');
        let complete = Command::new("bash").args(["-n", "-c", &open]).stderr(Stdio::null()).status().unwrap().success();
        if complete {
            commands.push(std::mem::take(&mut open).trim_end().to_owned());
        }
    }
    assert_eq!(open, "", "the last command of a block is not complete");
    commands
}

/// The copy of the repository in which the commands of a page run.
struct Checkout {
    folder: PathBuf,
    minor: u32,
}

impl Checkout {
    /// Makes it below the folder of a control plane.
    fn new(control_plane: &ControlPlane, page: &Page) -> Self {
        let folder = control_plane.directory().join("checkouts").join(page.name.replace('/', "-"));
        for inner in ["bin", "home/.local/bin", "log"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        for name in ["charts", "config", "crds", "docs", "install.yaml"] {
            symlink(workspace().join(name), folder.join(name)).unwrap();
        }
        let checkout = Self { folder, minor: control_plane.version().minor };
        let kubectl = control_plane.assets().kubectl.display().to_string();
        checkout.program("kubectl", &format!("exec '{kubectl}' \"$@\""));
        checkout.program("kustomize", &format!("shift\nexec '{kubectl}' kustomize \"$@\""));
        checkout.program("helm", &format!("exec '{}' \"$@\"", assets::program("helm").unwrap().display()));
        checkout.program("winpool", &format!("exec '{}' \"$@\"", binary().unwrap().display()));
        let kubeconfig = fs::read_to_string(control_plane.kubeconfig(User::Admin)).unwrap();
        fs::write(checkout.folder.join("kubeconfig"), kubeconfig).unwrap();
        checkout.write_files(page);
        checkout
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.folder.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Writes the files that a page shows: each block of YAML whose name the text gives, with the infrastructure provider of the tests.
    fn write_files(&self, page: &Page) {
        for (of, index, name) in FILES.iter().filter(|(of, ..)| *of == page.name) {
            let blocks: Vec<_> = page.blocks().into_iter().filter(|block| block.language == "yaml").collect();
            let block = blocks.get(*index).unwrap_or_else(|| panic!("{of} has no YAML for {name}"));
            fs::write(self.folder.join(name), block.text.replace("AzureMachineTemplate", "TestMachineTemplate"))
                .unwrap();
        }
    }

    /// Runs a script in the folder. Returns its exit status and its output.
    fn shell(&self, script: &str) -> (i32, String) {
        let path = format!(
            "{}:{}:{}",
            self.folder.join("bin").display(),
            self.folder.join("home/.local/bin").display(),
            std::env::var("PATH").unwrap()
        );
        let output = Command::new("timeout")
            .args([LIMIT, "bash", "-c", script])
            .current_dir(&self.folder)
            .env("PATH", path)
            .env("HOME", self.folder.join("home"))
            .env("XDG_CACHE_HOME", cache())
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.code().unwrap_or(-1), text)
    }

    /// Runs the commands of a block in one shell, and returns those that have another exit status than the page promises.
    fn failures(&self, page: &str, block: &Block) -> Vec<String> {
        let all = commands(block);
        let run = all.iter().filter(|command| !NOT_RUN.iter().any(|(begin, _)| begins(command, begin)));
        let run: Vec<_> = run
            .filter(|command| FROM.iter().all(|(begin, minor)| !begins(command, begin) || *minor <= self.minor))
            .collect();
        let mut script = "set -o pipefail\n".to_owned();
        for (index, command) in run.iter().enumerate() {
            let before = BEFORE.iter().filter(|(of, begin, _)| *of == page && begins(command, begin));
            for (_, _, before) in before {
                script.push_str(&format!("({before}) >log/before 2>&1 || {{ cat log/before; exit 90; }}\n"));
            }
            script.push_str(&format!("{{ {command}\n}} >log/{index} 2>&1; echo $? >log/{index}.status\n"));
        }
        let (status, output) = self.shell(&script);
        assert_eq!(status, 0, "{page}: what it expects is not there: {output}\n{script}");
        let log = |name: String| fs::read_to_string(self.folder.join("log").join(name)).unwrap();
        let failed = |(index, command): (usize, &&String)| {
            let expected = i32::from(PROBLEMS.iter().any(|begin| begins(command, begin)));
            let status: i32 = log(format!("{index}.status")).trim().parse().unwrap();
            let written = command.split(" #").next().and_then(|command| command.split(" --out ").nth(1));
            let written = written.and_then(|rest| rest.split_whitespace().next());
            let missing = written.filter(|folder| !self.folder.join(folder).is_dir());
            (status != expected || missing.is_some())
                .then(|| format!("{page}: {command}\n  status {status}, not {expected}; {}", log(index.to_string())))
        };
        run.iter().enumerate().filter_map(failed).collect()
    }
}

/// The cache of helm, which is that of the user.
fn cache() -> PathBuf {
    let home = || Path::new(&std::env::var("HOME").unwrap()).join(".cache");
    std::env::var("XDG_CACHE_HOME").map_or_else(|_| home(), PathBuf::from)
}

/// Runs the commands of pages, and panics with all that fail.
fn run_pages<'a>(control_plane: &ControlPlane, pages: impl IntoIterator<Item = &'a Page>) {
    let failures = pages.into_iter().flat_map(|page| {
        let checkout = Checkout::new(control_plane, page);
        page.blocks().iter().flat_map(|block| checkout.failures(&page.name, block)).collect::<Vec<_>>()
    });
    let failures: Vec<_> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn page(name: &str) -> Page {
    pages(workspace()).into_iter().find(|page| page.name == name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn every_exception_is_a_command_of_a_page() {
    let all: Vec<_> = pages(workspace())
        .iter()
        .flat_map(|page| {
            page.blocks().iter().flat_map(commands).map(|command| (page.name.clone(), command)).collect::<Vec<_>>()
        })
        .collect();
    assert!(all.len() > 120, "{} commands", all.len());
    let used = |begin: &str| all.iter().any(|(_, command)| begins(command, begin));
    let texts = NOT_RUN.iter().map(|(begin, _)| begin).chain(FROM.iter().map(|(begin, _)| begin)).chain(PROBLEMS);
    let unused: Vec<_> = texts.filter(|begin| !used(begin)).collect();
    assert!(unused.is_empty(), "no page has these commands any more: {unused:?}");
    for (of, begin, _) in BEFORE {
        assert!(all.iter().any(|(page, command)| page == of && begins(command, begin)), "{of} has no {begin}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_pages_works_with_a_running_operator() {
    // A page deletes a namespace, which needs the controllers.
    let options = Options { scheduler: false, ..Options::default() };
    let cluster = Cluster::start_with(options).await.unwrap();
    let windows = |name: &str, pool: &str| SimulatedNode::windows(name, "10.0.20348.2700").label(NODE_LABEL, pool);
    let nodes =
        vec![windows("web-1", "web"), windows("web-2", "web"), windows("old-1", "old"), SimulatedNode::linux("l")];
    let _kubelets = cluster.start_kubelets(nodes).await.unwrap();
    let _operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.kubectl(&["apply", "-f", workspace().join("config/samples").to_str().unwrap()]).unwrap();
    cluster.until_tainted("web-2022", ("os", "windows"), 2).await.unwrap();
    // The operator writes nothing while the commands run: the pool shares no RuntimeClass with others.
    cluster.apply_pool("web", pool_spec("other", json!({ "runtimeClasses": [] }))).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    let together = |page: &&Page| !APART.contains(&page.name.as_str()) && !READ_ONLY.contains(&page.name.as_str());
    run_pages(&cluster.control_plane, pages(workspace()).iter().filter(together));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_page_about_installation_works_on_an_empty_cluster() {
    let control_plane = Arc::new(ControlPlane::start(Options::default()).await.unwrap());
    let cluster = Cluster::connect(control_plane).await.unwrap();
    let _kubelets = cluster.start_kubelets(vec![SimulatedNode::linux("linux-1")]).await.unwrap();
    run_pages(&cluster.control_plane, [&page("docs/install.md")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_page_about_cluster_api_works_and_its_machines_are_configured() {
    /// The version of the machines of the page, which kubeadm wants for the control plane too.
    const VERSION: &str = "v1.35.2";
    let (fixture, _controllers) = start_controllers(Options::default()).await;
    let cluster = &fixture.cluster;
    assert_eq!((NAMESPACE, CLUSTER), ("default", "prod"), "the Cluster of the page");
    create_cluster(cluster, VERSION).await.unwrap();
    provider::create(&cluster.client, "TestMachineTemplate", "prod-web", json!({"template": {"spec": {}}}))
        .await
        .unwrap();
    let kubelets = Arc::new(cluster.start_kubelets(Vec::new()).await.unwrap());
    let like = SimulatedNode::windows("", "10.0.20348.4405").runtime("containerd://2.3.7").kubelet(VERSION);
    let _machines = SimulatedMachines::start(cluster.client.clone(), kubelets, like);
    run_pages(&cluster.control_plane, [&page("docs/delivery/cluster-api.md")]);
    let columns = || async { Ok(cluster.status("web").await?.columns.configured) };
    until("the machines of the page are configured", SOON, columns, |configured| configured == "3/3").await.unwrap();
}

#[tokio::test]
async fn winpool_plan_prints_what_the_page_about_adoption_shows() {
    let cluster = Cluster::start().await.unwrap();
    let page = page("docs/adopting.md");
    let block = |language: &str| page.blocks().into_iter().find(|block| block.language == language).unwrap().text;
    let nodes = ["web-1", "web-2"].map(|name| SimulatedNode::windows(name, "10.0.20348.2700").label(NODE_LABEL, "web"));
    let _kubelets = cluster.start_kubelets(nodes.into()).await.unwrap();
    cluster.kubectl(&["create", "namespace", "shop"]).unwrap();
    for (kind, name) in [("Deployment", "web"), ("DaemonSet", "logs")] {
        let image = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
        let template = json!({
            "metadata": { "labels": { "app": name } },
            "spec": {
                "nodeSelector": { "kubernetes.io/os": "windows" },
                "containers": [{ "name": "app", "image": image }],
            },
        });
        let workload = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name, "namespace": "shop" },
            "spec": { "selector": { "matchLabels": { "app": name } }, "template": template },
        });
        cluster.kubectl_with_input(&["apply", "-f", "-"], &workload).unwrap();
    }
    let pool: Value = serde_saphyr::from_str(&block("yaml")).unwrap();
    cluster.kubectl_with_input(&["apply", "-f", "-"], &pool).unwrap();
    let output = winpool(&cluster.control_plane, User::Admin, &["plan"]).unwrap();
    // More lines follow, about the versions of the control plane and the nodes of this test.
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with(&block("text")), "{printed}");
    assert_eq!(output.status.code(), Some(1));
}
