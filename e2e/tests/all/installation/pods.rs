//! `install.yaml` and the chart as pods of a kubelet with containerd and runc, beside simulated Windows nodes. In a long test they are those
//! of a release, with its image; else the program is the one of the other tests, in an image with its libraries.

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};

use anyhow::{Result, ensure};
use e2e::{
    audit::Request,
    cluster::{Cluster, DEFAULT_TAINT, SOON, pool_spec},
    control_plane::{ControlPlane, OPERATOR_NAMESPACE, Options, User},
    kubelet::{Kubelets, SimulatedNode},
    linux_node::{Archive, LinuxNode},
    operator::{winpool, workspace},
    wait::{eventually, size},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};

use super::{helm_in, install_yaml, repository, upgrade::last_release};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is installed.
struct Files {
    image: Archive,
    install_yaml: String,
    chart: String,
}

impl Files {
    fn of_the_sources(cluster: &Cluster) -> Result<Self> {
        let image = Archive::of_operator(cluster.control_plane.directory())?;
        Ok(Self { image, install_yaml: install_yaml(), chart: "charts/winpool".to_owned() })
    }

    /// The files in `dist`.
    fn of_the_release(_: &Cluster) -> Result<Self> {
        let file = |name: &str| -> Result<PathBuf> {
            let path = workspace().join("dist").join(name);
            ensure!(path.exists(), "no {}: make release writes it", path.display());
            Ok(path)
        };
        let path = file(&format!("winpool-{VERSION}-image.tar"))?;
        let [install_yaml, chart] = [file("install.yaml")?, file(&format!("winpool-{VERSION}.tgz"))?];
        let [install_yaml, chart] = [install_yaml, chart].map(|path| path.display().to_string());
        Ok(Self { image: Archive { repository: repository(), path }, install_yaml, chart })
    }
}

/// A cluster with a node that runs pods, and a Windows node `w1`.
struct Fixture {
    files: Files,
    _kubelets: Kubelets,
    _node: LinuxNode,
    cluster: Cluster,
}

impl Fixture {
    async fn start() -> Result<Self> {
        let options = Options { pods: true, ..Options::default() };
        let cluster = Cluster::connect(Arc::new(ControlPlane::start(options).await?)).await?;
        let files = size::<fn(&Cluster) -> Result<Files>>(Files::of_the_sources, Files::of_the_release)(&cluster)?;
        let node = LinuxNode::start(&cluster, std::slice::from_ref(&files.image)).await?;
        let windows =
            SimulatedNode::windows("w1", "10.0.20348.2700").label("agentpool", "web").runtime("containerd://2.4.2");
        let kubelets = cluster.start_kubelets(vec![windows]).await?;
        Ok(Self { files, _kubelets: kubelets, _node: node, cluster })
    }

    fn helm(&self, arguments: &[&str]) -> String {
        let namespace = ["--namespace", OPERATOR_NAMESPACE];
        helm_in(&self.cluster.control_plane, &[arguments, &namespace].concat()).unwrap()
    }

    /// The pods of the Deployment: two, ready, which were never restarted.
    async fn replicas(&self) -> Result<BTreeSet<String>> {
        let pods = self.cluster.namespaced::<Pod>(OPERATOR_NAMESPACE);
        let labelled = ListParams::default().labels("app.kubernetes.io/name=winpool");
        let ready = || async {
            let pods = pods.list(&labelled).await?.items;
            let names: BTreeSet<_> = pods.iter().map(ResourceExt::name_any).collect();
            let states: Vec<_> =
                pods.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref()).collect();
            let ready = states.iter().flat_map(|states| states.iter()).filter(|state| state.ready).count();
            ensure!((names.len(), ready) == (2, 2), "{states:?}");
            Ok((names, states.iter().flat_map(|states| states.iter()).map(|state| state.restart_count).sum::<i32>()))
        };
        let (names, restarts) = eventually("two replicas are ready", SOON, ready).await?;
        ensure!(restarts == 0, "{restarts} restarts");
        Ok(names)
    }

    /// Waits until one of two ready pods leads, and neither of the former ones is left.
    async fn until_led(&self, former: &BTreeSet<String>) -> BTreeSet<String> {
        let led = || async {
            let (replicas, leader) = (self.replicas().await?, self.cluster.leader().await?);
            ensure!(replicas.is_disjoint(former) && replicas.contains(&leader), "{leader} of {replicas:?}");
            Ok(replicas)
        };
        eventually("one of two new replicas leads", SOON, led).await.unwrap()
    }

    /// The operator applies a change of the pool, nothing that the replicas do is forbidden, and `winpool check` finds nothing.
    async fn works(&self, change: &str) {
        let label = json!({"spec": {"labels": {"change": change}}});
        self.cluster.edit_pool("web", label).await.unwrap();
        let applied = || async {
            let label = self.cluster.label("w1", "change").await?;
            ensure!(label.as_deref() == Some(change), "{label:?}");
            Ok(())
        };
        eventually("the change is on the node", SOON, applied).await.unwrap();
        self.cluster.until_ready("web").await.unwrap();
        let replicas = self.replicas().await.unwrap();
        let forbidden = self.cluster.requests().unwrap().into_iter().filter(Request::is_forbidden);
        let forbidden = forbidden.filter(|request| replicas.iter().any(|pod| request.agent.contains(pod)));
        assert_eq!(forbidden.collect::<Vec<_>>(), []);
        let check = winpool(&self.cluster.control_plane, User::Admin, &["check", "--wait", "1m"]).unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    }

    /// The pods whose tokens the API server has accepted.
    fn authenticated(&self) -> BTreeSet<String> {
        let log = fs::read_to_string(self.cluster.control_plane.directory().join("audit.log")).unwrap();
        let user = User::Operator.name();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let events = events.filter(|event| event["user"]["username"] == user.as_str());
        let pod = |event: Value| {
            event["user"]["extra"]["authentication.kubernetes.io/pod-name"][0].as_str().map(str::to_owned)
        };
        events.map(|event| pod(event).expect("a token that is bound to a pod")).collect()
    }

    /// The objects of the operator that are left, without the CRDs.
    fn left(&self) -> String {
        let kinds = "deployments,replicasets,pods,serviceaccounts,services,roles,rolebindings,clusterroles,clusterrolebindings,\
                     poddisruptionbudgets,networkpolicies,validatingadmissionpolicies";
        let all = self.cluster.kubectl(&["get", kinds, "-A", "-o", "name"]).unwrap();
        all.lines().filter(|line| line.contains("winpool")).collect::<Vec<_>>().join(" ")
    }

    /// Nothing is left but the CRDs, the pool, and what nodes use.
    async fn is_removed(&self) {
        let removed = || async {
            let left = self.left();
            ensure!(left.is_empty(), "{left}");
            Ok(())
        };
        eventually("the operator is removed", SOON, removed).await.unwrap();
        self.cluster.until_taints("w1", &[DEFAULT_TAINT]).await.unwrap();
        self.cluster.pool("web").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn installed_by_one_file_and_by_the_chart_two_replicas_run_as_pods_until_they_are_removed() {
    let fixture = Fixture::start().await.unwrap();
    let cluster = &fixture.cluster;
    let folder = cluster.control_plane.directory().to_owned();

    cluster.kubectl(&["apply", "-f", &fixture.files.install_yaml]).unwrap();
    cluster
        .kubectl(&["-n", OPERATOR_NAMESPACE, "rollout", "status", "deployment", "winpool", "--timeout=180s"])
        .unwrap();
    cluster.apply_profile("standard", json!({})).await.unwrap();
    let fields = json!({"profileRef": {"name": "standard"}});
    cluster.apply_pool_and_wait("web", pool_spec("web", fields)).await.unwrap();
    let label = r"jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}";
    let standard = cluster.kubectl(&["get", "namespace", OPERATOR_NAMESPACE, "-o", label]).unwrap();
    assert_eq!(standard, "restricted", "also of the chart, which is installed in the same namespace");
    let first = fixture.until_led(&BTreeSet::new()).await;
    fixture.works("installed").await;
    assert_eq!(fixture.authenticated(), first);

    let leader = cluster.leader().await.unwrap();
    cluster.kubectl(&["-n", OPERATOR_NAMESPACE, "delete", "pod", &leader, "--wait=false"]).unwrap();
    let second = fixture.until_led(&BTreeSet::from([leader])).await;
    fixture.works("another-leads").await;
    let delete = ["delete", "-f", &fixture.files.install_yaml, "-l", "app.kubernetes.io/name=winpool"];
    cluster.kubectl(&delete).unwrap();
    fixture.is_removed().await;
    // The permission to release it was removed before the leader: another one would wait for 20 seconds.
    cluster.kubectl(&["-n", OPERATOR_NAMESPACE, "delete", "lease", "winpool"]).unwrap();

    let release = last_release();
    let chart = release.path().join("charts/winpool").display().to_string();
    // The CRDs are those of the file.
    fixture.helm(&["install", "winpool", &chart, "--take-ownership"]);
    fixture.helm(&["upgrade", "winpool", &fixture.files.chart, "--wait"]);
    let third = fixture.until_led(&second).await;
    fixture.works("upgraded").await;
    let values = ["--set", "log.level=debug", "--set", "podDisruptionBudget.enabled=true"];
    fixture.helm(&[&["upgrade", "winpool", &fixture.files.chart, "--wait"], &values[..]].concat());
    fixture.until_led(&third).await;
    fixture.works("other-values").await;
    let log = cluster.kubectl(&["-n", OPERATOR_NAMESPACE, "logs", "deployment/winpool"]).unwrap();
    assert!(log.contains("\"winpool started\""), "{log}");
    let test = fixture.helm(&["test", "winpool", "--logs"]);
    assert!(test.contains("web"), "{test}");
    fixture.helm(&["uninstall", "winpool", "--wait"]);
    fixture.is_removed().await;

    drop(fixture);
    assert_eq!(LinuxNode::rest(&folder).unwrap(), [""; 0]);
}
