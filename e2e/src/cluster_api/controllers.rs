//! Cluster API's own controllers on a control plane: its core and the kubeadm bootstrap provider, with their webhooks, for a Cluster
//! whose control plane they do not manage.
//!
//! Machines are made by the [provider](super::provider) of the tests. The webhooks of the two programs listen on all addresses of this
//! machine, which no flag changes; the API server calls them on loopback.

use std::{fs, net::Ipv4Addr, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use winpool_facts::cluster_api::{CLUSTER_NAME, VERSION};

use super::{CLUSTER, Machines, NAMESPACE, Provider, Release, definition, only, provider, reference};
use crate::{
    assets,
    certificates::Authority,
    cluster::{Cluster, create, with_fields},
    control_plane::{ControlPlane, User},
    network::{free_port, http_get},
    process::Process,
    requests::Requests,
    wait::eventually,
};

const READY: Duration = Duration::from_secs(600);

/// A program of Cluster API.
#[derive(Clone, Copy, Debug)]
struct Controller {
    /// Its name in `e2e/program.sh`.
    program: &'static str,
    provider: Provider,
    arguments: &'static [&'static str],
}

const CONTROLLERS: [Controller; 2] = [
    Controller {
        program: "cluster-api",
        provider: Provider::Core,
        arguments: &["--feature-gates=ClusterTopology=true"],
    },
    Controller { program: "cluster-api-kubeadm", provider: Provider::Bootstrap, arguments: &[] },
];

/// The files of CustomResourceDefinitions that the controllers need, and the operator does not.
const FURTHER_DEFINITIONS: [&str; 8] = [
    "addons.cluster.x-k8s.io_clusterresourcesetbindings",
    "addons.cluster.x-k8s.io_clusterresourcesets",
    "cluster.x-k8s.io_clusterclasses",
    "cluster.x-k8s.io_machinedrainrules",
    "cluster.x-k8s.io_machinehealthchecks",
    "ipam.cluster.x-k8s.io_ipaddressclaims",
    "ipam.cluster.x-k8s.io_ipaddresses",
    "runtime.cluster.x-k8s.io_extensionconfigs",
];

/// The running controllers. They end when this is dropped.
#[derive(Debug)]
pub struct Controllers {
    _processes: Vec<Process>,
}

impl Controllers {
    pub async fn start(control_plane: &ControlPlane) -> Result<Self> {
        let requests = Requests::to(control_plane).await?;
        for name in FURTHER_DEFINITIONS {
            let definition = definition(Provider::Core, name)?;
            requests.install(&only(definition, VERSION)?).await?;
        }
        let folder = control_plane.directory().join("webhooks");
        fs::create_dir_all(&folder)?;
        let authority = Authority::new()?;
        authority.issue()?.write(&folder, "tls")?;
        let bundle = STANDARD.encode(fs::read(authority.file())?);
        let mut processes = Vec::new();
        for controller in CONTROLLERS {
            let port = free_port()?;
            processes.push(controller.start(control_plane, port).await?);
            for webhooks in controller.webhooks(port, &bundle)? {
                let kind = webhooks["kind"].as_str().unwrap_or_default().to_lowercase();
                let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
                let (status, body) = requests.create(&path, &webhooks).await?;
                ensure!(status == 201, "{path}: {body}");
            }
        }
        Ok(Self { _processes: processes })
    }
}

impl Controller {
    async fn start(self, control_plane: &ControlPlane, webhook_port: u16) -> Result<Process> {
        let (health, diagnostics) = (free_port()?, free_port()?);
        let mut command = Command::new(assets::program(&format!("{}{}", self.program, Release::under_test()?.suffix))?);
        command.env("KUBECONFIG", control_plane.kubeconfig(User::Admin)).args(self.arguments);
        command.args([
            format!("--health-addr=127.0.0.1:{health}"),
            format!("--diagnostics-address=127.0.0.1:{diagnostics}"),
            "--insecure-diagnostics".to_owned(),
            format!("--webhook-port={webhook_port}"),
            format!("--webhook-cert-dir={}", control_plane.directory().join("webhooks").display()),
            // Objects are few, and tests wait for each step.
            "--sync-period=10s".to_owned(),
        ]);
        let process = Process::spawn(self.program, command, &control_plane.log_of(self.program))?;
        let ready = || async {
            let (status, body) = http_get((Ipv4Addr::LOCALHOST, health).into(), "/readyz").await?;
            ensure!(status == 200, "{status}: {body}");
            Ok(())
        };
        process.ready(READY, ready).await?;
        Ok(process)
    }

    /// Its webhook configurations, with the address of a running program instead of a Service.
    fn webhooks(self, port: u16, bundle: &str) -> Result<Vec<Value>> {
        let mut all = Release::under_test()?.read(self.provider, "webhook/manifests.yaml")?;
        for configuration in &mut all {
            let name = &mut configuration["metadata"]["name"];
            *name = format!("{}-{}", self.program, name.as_str().context("a name")?).into();
            for webhook in configuration["webhooks"].as_array_mut().context("webhooks")? {
                let config = &mut webhook["clientConfig"];
                let path = config["service"]["path"].as_str().context("a path")?;
                *config = json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": bundle});
            }
        }
        Ok(all)
    }
}

/// Creates the Cluster [`CLUSTER`], which is the cluster itself, with a control plane of this version for Cluster API, and waits until
/// Cluster API is connected to it.
pub async fn create_cluster(cluster: &Cluster, version: &str) -> Result<()> {
    provider::create(&cluster.client, "TestControlPlane", CLUSTER, json!({"version": version})).await?;
    provider::create(&cluster.client, "TestCluster", CLUSTER, json!({})).await?;
    let fields = json!({
        "controlPlaneRef": reference(provider::CONTROL_PLANE_GROUP, "TestControlPlane", CLUSTER),
        "infrastructureRef": reference(provider::GROUP, "TestCluster", CLUSTER),
    });
    create_cluster_with(cluster, version, fields).await
}

/// Like [`create_cluster`], with other fields of its spec, such as a topology.
pub async fn create_cluster_with(cluster: &Cluster, version: &str, fields: Value) -> Result<()> {
    let control_plane = &cluster.control_plane;
    let kubeconfig = fs::read_to_string(control_plane.kubeconfig(User::Admin))?;
    // The provider wants a key too, and signs nothing with it for a worker.
    let key = Authority::new()?.own().key;
    let authority = json!({"tls.crt": fs::read_to_string(control_plane.directory().join("ca.crt"))?, "tls.key": key});
    for (name, data) in [("kubeconfig", json!({"value": kubeconfig})), ("ca", authority)] {
        let secret = json!({
            "metadata": {"name": format!("{CLUSTER}-{name}"), "labels": {CLUSTER_NAME: CLUSTER}},
            "type": "cluster.x-k8s.io/secret", "stringData": data,
        });
        create(&cluster.namespaced::<Secret>(NAMESPACE), secret).await?;
    }
    let port = control_plane.url().rsplit(':').next().context("a port")?.parse::<u16>()?;
    let spec = with_fields(json!({"controlPlaneEndpoint": {"host": "127.0.0.1", "port": port}}), fields);
    let machines = Machines::new(cluster.client.clone());
    machines.create("Cluster", CLUSTER, json!({}), spec).await?;
    let connected = || async {
        provider::report_clusters(&cluster.client, version).await?;
        let object = machines.api("Cluster").get(CLUSTER).await?;
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let probe = conditions.iter().find(|condition| condition["type"] == "RemoteConnectionProbe");
        ensure!(probe.is_some_and(|condition| condition["status"] == "True"), "{conditions:?}");
        Ok(())
    };
    eventually("Cluster API is connected to the cluster", READY, connected).await
}
