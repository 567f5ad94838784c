//! A node that `kubeadm.exe` joins to the cluster with the files of `winpool render`: it registers as its profile says.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    a_windows_node::{READY, amount, condition, until_node},
    agent_programs::stripped_programs,
};
use e2e::{
    cluster::{Cluster, pool_object, pool_spec, profile_object},
    control_plane::Options,
    history::History,
    operator,
    wait::until,
    windows_node::{Invitation, Setup, WindowsNode},
};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Node};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use winpool_api::{NodeConfigPhase, WindowsNodeConfig, WindowsNodeConfigStatus};
use winpool_core::kubernetes::quantity::Quantity;
use winpool_render::{CONTAINERD_TOML, KUBELET_ARGS};

const NODE: &str = "win-joined";
const POOL: &str = "joined";
/// The time limit for a change by the agent, on a busy machine.
const CHANGE: Duration = Duration::from_secs(600);

/// What `winpool render --target kubeadm` writes for the pool, in the only folder for nodes.
fn render(out: &Path, minor: u32, objects: &[Value]) -> PathBuf {
    let file = out.join("objects.yaml");
    fs::write(&file, objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")).unwrap();
    let rendered = out.join("rendered");
    let mut command = Command::new(operator::binary().unwrap());
    command.args(["render", "--target", "kubeadm", "--containerd", "2.4", "--kubernetes", &format!("1.{minor}"), "-f"]);
    let output = command.arg(&file).arg("--out").arg(&rendered).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let entries = fs::read_dir(rendered).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    folder.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeadm_joins_a_node_that_its_profile_describes() {
    let options = Options { scheduler: false, bootstrap: true, agents: true, ..Options::default() };
    let cluster = Cluster::start_with(options).await.unwrap();
    let profile = json!({"kubelet": {
        "systemReserved": {"cpu": "500m", "memory": "2Gi"},
        "kubeReserved": {"memory": "512Mi"},
        // No pressure, however full the disk of this machine is.
        "evictionHard": {"memory.available": "500Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "maxPods": 47,
    }});
    let pool = pool_spec(POOL, json!({"profileRef": {"name": "standard"}}));
    cluster.apply_profile("standard", profile.clone()).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_pool(POOL, pool.clone()).await.unwrap();

    let out = tempfile::tempdir().unwrap();
    let objects = [profile_object("standard", profile.clone()), pool_object(POOL, pool)];
    let files = render(out.path(), cluster.control_plane.version().minor, &objects);
    let read = |name: &str| fs::read_to_string(files.join(name)).unwrap();
    let mut setup = Setup::new(stripped_programs(), NODE, POOL);
    setup.kubelet_args = read(KUBELET_ARGS).lines().map(str::to_owned).collect();
    setup.containerd_toml = Some(read(CONTAINERD_TOML));
    // As for nodes with Linux: no kubelet with Windows starts with the first field.
    let of_cluster = json!({"systemCgroups": "/system", "maxPods": 250, "evictionHard": {"pid.available": "10%"}});
    let invitation = Invitation::new(&cluster.control_plane, &of_cluster).unwrap();
    let nodes = History::<Node>::start(cluster.nodes()).await.unwrap();
    let joined = WindowsNode::join(&cluster.control_plane, &setup, &invitation, &files.join("patches")).await;
    let (mut machine, printed) = joined.unwrap();
    assert!(printed.contains("This node has joined the cluster"), "{printed}");

    let node = until_node(&cluster, NODE, "it is ready", |node| condition(node, "Ready") == "True").await;
    let status = node.status.as_ref().unwrap();
    let (capacity, allocatable) = (status.capacity.as_ref(), status.allocatable.as_ref());
    let reserved = Quantity::of_bytes((2 << 30) + (512 << 20) + (500 << 20));
    let rest = amount(capacity, "memory").milli() - reserved.milli();
    assert_eq!(amount(allocatable, "memory").milli(), rest);
    assert_eq!(amount(allocatable, "cpu").milli(), amount(capacity, "cpu").milli() - 500);
    assert_eq!(amount(allocatable, "pods").milli(), 47_000);
    cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await.unwrap();
    let status = || async { Ok(cluster.pool(POOL).await?["status"]["columns"]["configured"].clone()) };
    until("the node counts as configured", READY, status, |configured| *configured == "1/1").await.unwrap();

    // The node is born with the taint and the label, before the operator sees it.
    let states = nodes.until_now().await.unwrap();
    let born = states.iter().find(|node| node.name_any() == NODE).unwrap();
    let taints = born.spec.as_ref().unwrap().taints.as_ref().unwrap();
    assert!(taints.iter().any(|taint| taint.key == "os" && taint.effect == "NoSchedule"), "{taints:?}");
    assert_eq!(born.labels()["agentpool"], POOL);
    assert!(!born.labels().contains_key("winpool.dev/pool"), "{:?}", born.labels());

    // The node got its certificate for a token, without a hand.
    let requests: Api<CertificateSigningRequest> = cluster.api();
    let issued = requests.list(&ListParams::default()).await.unwrap().items.into_iter().any(|request| {
        let status = request.status.unwrap_or_default();
        let approved = status.conditions.iter().flatten().any(|condition| condition.type_ == "Approved");
        let by_token = request.spec.username.is_some_and(|user| user.starts_with("system:bootstrap:"));
        by_token && approved && status.certificate.is_some()
    });
    assert!(issued);
    the_agent_reads_the_pods_with_a_certificate_that_was_replaced(&cluster, &mut machine, profile).await;
    operator.stop().await.unwrap();
}

/// The kubeconfig to which `kubeadm join` leads names the file of the certificate.
async fn the_agent_reads_the_pods_with_a_certificate_that_was_replaced(
    cluster: &Cluster,
    machine: &mut WindowsNode,
    mut profile: Value,
) {
    machine.start_agent(&[]).unwrap();
    machine.rotate_certificate(&cluster.control_plane).await.unwrap();
    profile["pauseImage"] = json!({"source": "Node"});
    profile["kubelet"]["maxPods"] = json!(48);
    cluster.apply_profile("standard", profile).await.unwrap();
    let delivery = json!({"method": "Agent", "rollout": {"timeout": "30m"}});
    cluster.edit_pool(POOL, json!({"spec": {"delivery": delivery}})).await.unwrap();
    let api = cluster.api::<WindowsNodeConfig>();
    let status = async || Ok(api.get(NODE).await?.status.unwrap_or_default());
    let is_applied = |status: &WindowsNodeConfigStatus| status.phase == NodeConfigPhase::Applied;
    let status = until("the change is applied", CHANGE, status, is_applied).await.unwrap();
    assert!(!status.message.contains("the pods of the node were not observed"), "{}", status.message);
    until_node(cluster, NODE, "it has the new number of pods", |node| {
        amount(node.status.as_ref().unwrap().capacity.as_ref(), "pods").milli() == 48_000
    })
    .await;
    cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await.unwrap();
}
