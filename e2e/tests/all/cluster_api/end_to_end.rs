//! Cluster API's own controllers: from a profile to nodes, with nothing between that a test writes.

use std::{fs, process::Command, sync::Arc};

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, SOON, create, pool_object, profile_object, with_fields},
    cluster_api::{
        Machines, NAMESPACE,
        controllers::{Controllers, create_cluster, create_cluster_with},
        create_template,
        provider::{self, SimulatedMachines, simulated_node},
        reference,
    },
    control_plane::{Options, User},
    history::History,
    kubelet::{Kubelets, SimulatedNode},
    objects::taints_of,
    operator::{binary, winpool},
    wait::{eventually, until},
};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{
    ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::{BASE, DEPLOYMENT, Fixture, POOL, base, pool, references::allow};

/// A [`Fixture`] for the controllers of Cluster API. Every machine becomes a simulated node.
struct Controlled {
    fixture: Fixture,
    kubelets: Arc<Kubelets>,
    _machines: SimulatedMachines,
    _controllers: Controllers,
}

/// What user data does not decide.
fn machine() -> SimulatedNode {
    SimulatedNode::windows("", "10.0.20348.4405").runtime("containerd://2.3.7")
}

/// The controllers and the operator, without a Cluster and a template.
pub async fn start_controllers(options: Options) -> (Fixture, Controllers) {
    let options = Options { scheduler: false, cluster_api: true, ..options };
    let cluster = Cluster::start_with(options).await.unwrap();
    let controllers = Controllers::start(&cluster.control_plane).await.unwrap();
    let machines = Machines::new(cluster.client.clone());
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    create_template(&cluster.client, &json!({})).await.unwrap();
    (Fixture { cluster, machines, operator }, controllers)
}

impl Controlled {
    async fn start() -> Self {
        let (fixture, controllers) = start_controllers(Options::default()).await;
        let kubelets = Arc::new(fixture.cluster.start_kubelets(Vec::new()).await.unwrap());
        let simulated = SimulatedMachines::start(fixture.cluster.client.clone(), kubelets.clone(), machine());
        fixture.apply_profile(47).await;
        fixture.machines.create("KubeadmConfigTemplate", BASE, json!({}), base()).await.unwrap();
        Self { fixture, kubelets, _machines: simulated, _controllers: controllers }
    }

    fn cluster(&self) -> &Cluster {
        &self.fixture.cluster
    }

    /// The version of the server, which the machines have.
    fn version(&self) -> &str {
        &self.cluster().control_plane.version().text
    }

    /// Creates the Secret to which a file of the base template refers.
    async fn create_secret_of_base(&self) {
        let secret = json!({"metadata": {"name": "azure-json"}, "stringData": {"worker-node-azure.json": "{}"}});
        create(&self.cluster().namespaced::<Secret>(NAMESPACE), secret).await.unwrap();
    }

    /// Creates a Cluster with a MachineDeployment, whose reference the pool may switch.
    async fn create_deployment(&self) {
        create_cluster(self.cluster(), self.version()).await.unwrap();
        let labels = json!({"winpool": POOL});
        self.fixture.machines.create_deployment(DEPLOYMENT, labels, self.version(), BASE).await.unwrap();
        allow(&self.fixture).await;
        self.apply_pool(json!({"rotation": "Automatic"})).await;
    }

    async fn apply_pool(&self, fields: Value) {
        let mut fields = fields;
        fields["containerdVersion"] = json!("2.3");
        self.fixture.apply_pool(fields).await;
    }

    /// Waits until both nodes of the pool have a configuration with this `maxPods`, and no other machine is left.
    async fn until_configured(&self, max_pods: u32) {
        let read = || async {
            let pods = self.nodes().await?.iter().map(allocatable_pods).collect::<Vec<_>>();
            Ok((self.fixture.configured().await?, pods))
        };
        let expected = (("2/2".to_owned(), Some((2, 2))), vec![max_pods.to_string(); 2]);
        until("both nodes are configured", SOON, read, |found| *found == expected).await.unwrap();
    }

    async fn nodes(&self) -> anyhow::Result<Vec<Node>> {
        Ok(self.cluster().nodes().list(&ListParams::default()).await?.items)
    }

    /// The names of the Machines; no two have ever the same.
    async fn machines(&self) -> Vec<String> {
        self.fixture.machines.names("Machine").await.unwrap()
    }

    /// Waits until `winpool status` prints all of these.
    async fn until_status_prints(&self, expected: &[&str]) {
        self.until_prints(User::OtherA, &["status", POOL], expected).await;
    }

    /// Waits until the command prints all of these.
    async fn until_prints(&self, user: User, command: &[&str], expected: &[&str]) {
        let printed = || async {
            let text = String::from_utf8(winpool(&self.cluster().control_plane, user, command)?.stdout)?;
            for part in expected {
                ensure!(text.contains(part), "no {part:?} in:\n{text}");
            }
            Ok(())
        };
        eventually("the cause is printed", SOON, printed).await.unwrap();
    }

    async fn stop(self) {
        self.fixture.operator.stop().await.unwrap();
    }
}

fn allocatable_pods(node: &Node) -> String {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    allocatable.and_then(|resources| resources.get("pods")).map(|pods| pods.0.clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_reaches_nodes_and_only_its_changes_replace_machines_within_their_budget() {
    let all = Controlled::start().await;
    all.create_secret_of_base().await;
    all.create_deployment().await;
    all.until_configured(47).await;
    for node in all.nodes().await.unwrap() {
        assert_eq!(taints_of(&node), ["os=windows:NoSchedule"]);
        assert_eq!(node.labels()["agentpool"], POOL);
    }

    // Nothing that matters: another operator, a field with its default, what the webhooks of Cluster API add.
    let (before, Fixture { cluster, machines, operator }) = (all.machines().await, &all.fixture);
    operator.kill().unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    let same = json!({"kubelet": {"maxPods": 47}, "containerd": {}});
    cluster.apply_profile("standard", same).await.unwrap();
    all.fixture.until("True", "UpToDate").await;
    cluster.until_idle().await.unwrap();
    assert_eq!(all.machines().await, before);

    let deployments = History::<DynamicObject>::start(machines.api("MachineDeployment")).await.unwrap();
    all.fixture.apply_profile(50).await;
    all.until_configured(50).await;
    let states = deployments.until_now().await.unwrap();
    let counts =
        |field: &str| states.iter().filter_map(|state| state.data["status"][field].as_i64()).collect::<Vec<_>>();
    // The default of Cluster API: one machine more, and none less.
    assert!(counts("availableReplicas").iter().min() >= Some(&2), "{:?}", counts("availableReplicas"));
    assert!(counts("replicas").iter().max() <= Some(&3), "{:?}", counts("replicas"));
    let after = all.machines().await;
    assert!(after.iter().all(|name| !before.contains(name)), "{after:?}");

    // A node that is not ready is replaced by one of the same template.
    let spec = json!({
        "clusterName": "prod", "selector": {"matchLabels": {"deployment": DEPLOYMENT}},
        "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 0}]},
    });
    machines.create("MachineHealthCheck", "windows", json!({}), spec).await.unwrap();
    all.kubelets.set_ready(&after[0], false).await.unwrap();
    until("the machine is replaced", SOON, || machines.names("Machine"), |names| !names.contains(&after[0]))
        .await
        .unwrap();
    all.until_configured(50).await;
    operator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn status_names_what_holds_machines_back() {
    let all = Controlled::start().await;
    all.create_deployment().await;
    let machines = &all.fixture.machines;
    all.until_status_prints(&[
        "MachinesReady/NotReady of MachineDeployment default/web-md",
        "DataSecretAvailable: Failed to ",
    ])
    .await;
    all.create_secret_of_base().await;
    all.until_configured(47).await;

    let patch = json!({"spec": {"template": {"spec": {"version": "v1.29.1"}}}});
    machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &patch).await.unwrap();
    all.until_status_prints(&["(\"KubeadmVersionSkew\" preflight check failed)"]).await;

    machines.edit("Cluster", "prod", "gitops", &json!({"spec": {"paused": true}})).await.unwrap();
    all.until_status_prints(&[
        "Paused/Paused of MachineDeployment default/web-md\n    Cluster spec.paused is set to true",
    ])
    .await;
    let paused = "MachineDeployment default/web-md, condition Paused (Paused): Cluster spec.paused is set to true";
    all.until_prints(User::Admin, &["doctor", "pool/web"], &["machines-held: ", paused]).await;
    all.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_pool_gets_the_user_data_of_its_profile() {
    let all = Controlled::start().await;
    all.create_secret_of_base().await;
    create_cluster(all.cluster(), all.version()).await.unwrap();
    let (client, machines) = (&all.cluster().client, &all.fixture.machines);
    provider::create(client, "TestMachinePool", "windows", json!({})).await.unwrap();
    let spec = json!({
        "clusterName": "prod", "replicas": 1,
        "template": {"spec": {
            "clusterName": "prod", "version": all.version(),
            "bootstrap": {"configRef": reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "former")},
            "infrastructureRef": reference("infrastructure.cluster.x-k8s.io", "TestMachinePool", "windows"),
        }},
    });
    let metadata = json!({"labels": {"winpool": POOL}, "annotations": {"winpool.dev/manage-bootstrap": "true"}});
    machines.create("MachinePool", "web-mp", metadata, spec).await.unwrap();
    let selector = json!({"matchLabels": {"winpool": POOL}});
    all.apply_pool(json!({"machineDeployments": null, "machinePools": selector, "rotation": "Automatic"})).await;
    let secret = async || {
        let pool = machines.api("MachinePool").get("web-mp").await?;
        Ok(pool.data.pointer("/spec/template/spec/bootstrap/dataSecretName").and_then(Value::as_str).map(str::to_owned))
    };
    let name = until("the user data exists", SOON, secret, Option::is_some).await.unwrap().unwrap();
    let secret = all.cluster().namespaced::<Secret>(NAMESPACE).get(&name).await.unwrap();
    let user_data = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
    let (node, configuration) = simulated_node(&user_data, machine()).unwrap();
    assert_eq!(configuration.max_pods, Some(47));
    let name = "web-mp-1".to_owned();
    all.kubelets.add_with(SimulatedNode { name: name.clone(), ..node }, configuration).await.unwrap();
    provider::report_pool_running(client, "windows", &[&name]).await.unwrap();
    let expected = ("1/1".to_owned(), Some((1, 1)));
    until("the node is configured", SOON, || all.fixture.configured(), |found| *found == expected).await.unwrap();
    all.stop().await;
}

/// The variables and patches that `winpool render` prints for a ClusterClass.
fn rendered_patches(version: &str, max_pods: u32, pool: Value) -> Value {
    let template = json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate",
        "metadata": {"name": BASE, "namespace": NAMESPACE}, "spec": base(),
    });
    let profile = profile_object("standard", json!({"kubelet": {"maxPods": max_pods}}));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    let objects = [template, profile, pool_object(POOL, pool)].map(|object| object.to_string());
    fs::write(&file, objects.join("\n---\n")).unwrap();
    let mut command = Command::new(binary().unwrap());
    command.args(["render", "--target", "clusterclass-patch", "--machine-deployment-class", "windows-worker"]);
    let output = command.args(["--kubernetes", version, "-f"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_str(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topology_rolls_out_the_rendered_patches_and_the_operator_does_not_change_its_objects() {
    let all = Controlled::start().await;
    all.create_secret_of_base().await;
    let (client, machines) = (&all.cluster().client, &all.fixture.machines);
    for kind in ["TestClusterTemplate", "TestControlPlaneTemplate"] {
        provider::create(client, kind, "prod", json!({"template": {"spec": {}}})).await.unwrap();
    }
    all.apply_pool(json!({"rotation": "Automatic"})).await;
    let patches =
        |max_pods| rendered_patches(all.version(), max_pods, pool(json!({"containerdVersion": "2.3"})))["spec"].take();
    let template = |kind: &str, group: &str, name: &str| json!({"templateRef": {"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": name}});
    let class = json!({
        "infrastructure": template("TestClusterTemplate", "infrastructure", "prod"),
        "controlPlane": template("TestControlPlaneTemplate", "controlplane", "prod"),
        "workers": {"machineDeployments": [{
            "class": "windows-worker",
            "bootstrap": template("KubeadmConfigTemplate", "bootstrap", BASE),
            "infrastructure": template("TestMachineTemplate", "infrastructure", "windows"),
        }]},
    });
    let class = with_fields(class, patches(47));
    machines.create("ClusterClass", "mixed", json!({}), class).await.unwrap();
    let variables = json!({"overrides": [{"name": "winpoolWeb", "value": true}]});
    let topology = json!({
        "classRef": {"name": "mixed"}, "version": all.version(),
        "workers": {"machineDeployments": [{
            "class": "windows-worker", "name": "web", "replicas": 2,
            "metadata": {"labels": {"winpool": POOL}, "annotations": {"winpool.dev/manage-bootstrap": "true"}},
            "variables": variables,
        }]},
    });
    create_cluster_with(all.cluster(), all.version(), json!({"topology": topology})).await.unwrap();
    all.until_configured(47).await;
    let before = all.machines().await;

    // The patches are those of another profile: the operator says so, and changes nothing.
    all.fixture.apply_profile(50).await;
    let message = all.fixture.until("False", "TopologyManaged").await;
    assert!(message.contains("winpool render --target clusterclass-patch"), "{message}");
    all.cluster().until_idle().await.unwrap();
    assert_eq!(all.machines().await, before);
    machines.edit("ClusterClass", "mixed", "gitops", &json!({"spec": patches(50)})).await.unwrap();
    all.until_configured(50).await;
    all.fixture.until("True", "UpToDate").await;
    all.stop().await;
}
