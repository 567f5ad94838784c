//! Cluster API: its CustomResourceDefinitions in the version that a test serves, its own [controllers] with a [provider] of machines, and,
//! for tests that need states between, what its controllers would do with MachineDeployments: MachineSets for each template, and Machines
//! with their nodes.

pub mod controllers;
pub mod provider;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersion,
};
use serde_json::{Value, json};
use winpool_facts::cluster_api::{BOOTSTRAP_GROUP, CORE_GROUP, VERSION};

use crate::{
    cluster::{create, with_fields},
    control_plane::{ControlPlane, User},
    install::{apply, path, wait_until_allowed},
    kubectl::kubectl,
    modules::{CLUSTER_API, Module},
    requests::Requests,
    wait::{eventually, until},
};

pub const NAMESPACE: &str = "default";
pub const CLUSTER: &str = "prod";

const INSTALLED: Duration = Duration::from_secs(600);

/// A release of Cluster API.
#[derive(Clone, Copy, Debug)]
struct Release {
    minor: &'static str,
    module: Module,
    /// The folder of the module with the configuration of the core.
    core: &'static str,
    /// What the names of its programs in `e2e/program.sh` end with.
    suffix: &'static str,
}

/// The first is under test, or that in the environment variable `CLUSTER_API`.
const RELEASES: [Release; 2] = [
    Release { minor: "1.14", module: CLUSTER_API, core: "core/config", suffix: "" },
    Release {
        minor: "1.13",
        module: Module::new("cluster-api-1.13", "sigs.k8s.io/cluster-api"),
        core: "config",
        suffix: "-1.13",
    },
];

impl Release {
    fn under_test() -> Result<Self> {
        let wanted = std::env::var("CLUSTER_API").unwrap_or_else(|_| RELEASES[0].minor.to_owned());
        let found = RELEASES.into_iter().find(|release| release.minor == wanted);
        found.with_context(|| format!("CLUSTER_API={wanted}: {}", RELEASES.map(|release| release.minor).join(" or ")))
    }

    /// The documents of a YAML file in the configuration of the core or of the bootstrap provider.
    fn read(self, provider: Provider, file: &str) -> Result<Vec<Value>> {
        let folder = match provider {
            Provider::Core => self.core,
            Provider::Bootstrap => "bootstrap/kubeadm/config",
        };
        let file = self.module.download()?.dir.join(folder).join(file);
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Ok(serde_saphyr::from_multiple(&text)?)
    }
}

/// A part of Cluster API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    Core,
    Bootstrap,
}

/// The files with a CustomResourceDefinition of a kind that the operator knows.
const DEFINITIONS: [(Provider, &str); 7] = [
    (Provider::Core, "cluster.x-k8s.io_clusters"),
    (Provider::Core, "cluster.x-k8s.io_machinedeployments"),
    (Provider::Core, "cluster.x-k8s.io_machinepools"),
    (Provider::Core, "cluster.x-k8s.io_machines"),
    (Provider::Core, "cluster.x-k8s.io_machinesets"),
    (Provider::Bootstrap, "bootstrap.cluster.x-k8s.io_kubeadmconfigs"),
    (Provider::Bootstrap, "bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates"),
];

/// The CustomResourceDefinitions of the kinds that the operator knows, in all versions.
pub fn definitions() -> Result<Vec<Value>> {
    DEFINITIONS.into_iter().map(|(provider, name)| definition(provider, name)).collect()
}

/// A CustomResourceDefinition, in all versions.
fn definition(provider: Provider, name: &str) -> Result<Value> {
    let documents = Release::under_test()?.read(provider, &format!("crd/bases/{name}.yaml"))?;
    documents.into_iter().next().context("a document")
}

/// A CustomResourceDefinition with only this version, and with the label by which the controllers find the version of their contract.
fn only(mut definition: Value, version: &str) -> Result<Value> {
    let versions = definition["spec"]["versions"].as_array_mut().context("versions")?;
    versions.retain(|served| served["name"] == version);
    versions.iter_mut().for_each(|served| served["storage"] = json!(true));
    definition["metadata"]["labels"][format!("{CORE_GROUP}/{version}")] = json!(version);
    Ok(definition)
}

/// Installs the CustomResourceDefinitions with only this version, and waits until they are served.
pub async fn install_cluster_api(control_plane: &ControlPlane, version: &str) -> Result<()> {
    let requests = Requests::to(control_plane).await?;
    for definition in definitions()? {
        requests.install(&only(definition, version)?).await?;
    }
    for definition in provider::definitions() {
        requests.install(&definition).await?;
    }
    Ok(())
}

/// Deletes the CustomResourceDefinitions and all their objects.
pub fn uninstall_cluster_api(control_plane: &ControlPlane) -> Result<()> {
    let definitions = definitions()?.into_iter().chain(provider::definitions());
    let names: Vec<_> =
        definitions.filter_map(|definition| Some(definition["metadata"]["name"].as_str()?.to_owned())).collect();
    let arguments: Vec<_> =
        ["delete", "--wait=true", "crd"].into_iter().chain(names.iter().map(String::as_str)).collect();
    kubectl(control_plane, User::Admin, &arguments).map(drop)
}

/// Creates the template `windows` of the infrastructure provider, which reports a capacity.
pub async fn create_template(client: &Client, capacity: &Value) -> Result<()> {
    let spec = json!({"template": {"spec": {}}});
    provider::create(client, "TestMachineTemplate", "windows", spec).await?;
    provider::set_status(client, "TestMachineTemplate", "windows", &json!({"capacity": capacity})).await
}

/// Gives the operator the permissions of `config/cluster-api`.
pub fn install_cluster_api_permissions(control_plane: &ControlPlane) -> Result<()> {
    apply(control_plane, &["-k", &path("config/cluster-api")])?;
    wait_until_allowed(control_plane, User::Operator, &["create", "secrets", "-n", NAMESPACE])
}

/// The objects of Cluster API.
#[derive(Clone)]
pub struct Machines {
    client: Client,
}

impl Machines {
    /// `client` must have all permissions.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersion::gv(group_of(kind), VERSION).with_kind(kind));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    /// Creates an object with a spec and metadata. It fails if the server removes a field that the schema does not have.
    pub async fn create(&self, kind: &str, name: &str, metadata: Value, spec: Value) -> Result<DynamicObject> {
        let api = self.api(kind);
        let object = json!({
            "apiVersion": format!("{}/{VERSION}", group_of(kind)), "kind": kind,
            "metadata": with_fields(json!({"name": name}), metadata), "spec": spec,
        });
        // A resource is served a moment after its definition is established.
        let create = || create(&api, object.clone());
        let created = eventually(&format!("{kind} {name} is created"), INSTALLED, create).await?;
        let mut complete = created.data["spec"].clone();
        json_patch::merge(&mut complete, &spec);
        ensure!(created.data["spec"] == complete, "{kind} {name} was pruned: {}", created.data["spec"]);
        Ok(created)
    }

    pub async fn create_cluster(&self) -> Result<()> {
        let spec = json!({"controlPlaneEndpoint": {"host": "prod.example", "port": 6443}});
        self.create("Cluster", CLUSTER, json!({}), spec).await.map(drop)
    }

    /// Creates a MachineDeployment whose template is `bootstrap`.
    pub async fn create_deployment(&self, name: &str, labels: Value, kubernetes: &str, bootstrap: &str) -> Result<()> {
        let own = json!({"deployment": name});
        let spec = json!({
            "clusterName": CLUSTER,
            "replicas": 2,
            "selector": {"matchLabels": own},
            "template": {
                "metadata": {"labels": own},
                "spec": {
                    "clusterName": CLUSTER,
                    "version": kubernetes,
                    "bootstrap": {"configRef": reference(BOOTSTRAP_GROUP, "KubeadmConfigTemplate", bootstrap)},
                    "infrastructureRef": reference(provider::GROUP, "TestMachineTemplate", "windows"),
                },
            },
        });
        self.create("MachineDeployment", name, json!({"labels": labels}), spec).await.map(drop)
    }

    /// Changes an object by a merge patch of this field manager.
    pub async fn edit(&self, kind: &str, name: &str, manager: &str, patch: &Value) -> Result<()> {
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        self.api(kind).patch(name, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Changes the reference of a MachineDeployment, as a person does.
    pub async fn refer(&self, deployment: &str, template: &str) -> Result<()> {
        let patch = json!({"spec": {"template": {"spec": {"bootstrap": {"configRef": {"name": template}}}}}});
        self.edit("MachineDeployment", deployment, "gitops", &patch).await
    }

    /// The name of the template to which a MachineDeployment refers.
    pub async fn template_of(&self, deployment: &str) -> Result<String> {
        let object = self.api("MachineDeployment").get(deployment).await?;
        let name = object.data.pointer("/spec/template/spec/bootstrap/configRef/name").and_then(Value::as_str);
        name.map(str::to_owned).context("no reference")
    }

    /// Waits until a MachineDeployment refers to a template for which `holds` is true.
    pub async fn until_template(&self, deployment: &str, holds: impl Fn(&str) -> bool) -> Result<String> {
        let read = || self.template_of(deployment);
        until("the MachineDeployment refers to the template", INSTALLED, read, |name| holds(name)).await
    }

    pub async fn names(&self, kind: &str) -> Result<Vec<String>> {
        let list = self.api(kind).list_metadata(&ListParams::default()).await?;
        Ok(list.iter().map(ResourceExt::name_any).collect())
    }

    pub async fn annotations(&self, kind: &str, name: &str) -> Result<BTreeMap<String, String>> {
        Ok(self.api(kind).get_metadata(name).await?.annotations().clone())
    }

    /// Replaces the machines of a MachineDeployment as Cluster API does: a MachineSet with two Machines of the template to which
    /// it refers now, and no other. The nodes of the Machines have these names.
    pub async fn roll_out(&self, deployment: &str, nodes: [&str; 2], containerd: &str) -> Result<()> {
        let set = format!("{deployment}-{}", self.template_of(deployment).await?);
        let sets = self.api("MachineSet");
        for name in self.names("MachineSet").await? {
            let of_deployment =
                sets.get_metadata(&name).await?.labels()["cluster.x-k8s.io/deployment-name"] == deployment;
            if of_deployment && name != set {
                sets.delete(&name, &DeleteParams::default()).await?;
            }
        }
        if sets.get_metadata_opt(&set).await?.is_none() {
            self.create_set(&set, deployment).await?;
        }
        for (index, node) in nodes.into_iter().enumerate() {
            let name = format!("{set}-{index}");
            if self.api("Machine").get_metadata_opt(&name).await?.is_none() {
                let spec = json!({
                    "clusterName": CLUSTER,
                    "bootstrap": {"dataSecretName": "bootstrap"},
                    "infrastructureRef": reference(provider::GROUP, "TestMachine", &name),
                });
                self.create("Machine", &name, json!({"labels": labels_of(deployment)}), spec).await?;
            }
            self.set_status("Machine", &name, json!({"nodeRef": {"name": node}, "nodeInfo": node_info(containerd)}))
                .await?;
        }
        Ok(())
    }

    /// Moves the machines of a MachineDeployment to a MachineSet of the template to which it refers now, as Cluster API does when
    /// it updates them in place: the Machines stay, and the former MachineSets remain without a machine.
    pub async fn update_in_place(&self, deployment: &str) -> Result<()> {
        let former = self.names("MachineSet").await?;
        self.create_set(&format!("{deployment}-{}", self.template_of(deployment).await?), deployment).await?;
        for name in former {
            self.set_status("MachineSet", &name, json!({"replicas": 0})).await?;
        }
        Ok(())
    }

    /// Creates a MachineSet with two replicas of the present template of a MachineDeployment.
    async fn create_set(&self, name: &str, deployment: &str) -> Result<()> {
        let spec = json!({
            "clusterName": CLUSTER,
            "replicas": 2,
            "selector": {"matchLabels": {"deployment": deployment}},
            "template": self.api("MachineDeployment").get(deployment).await?.data["spec"]["template"],
        });
        self.create("MachineSet", name, json!({"labels": labels_of(deployment)}), spec).await?;
        self.set_status("MachineSet", name, json!({"replicas": 2})).await
    }

    async fn set_status(&self, kind: &str, name: &str, status: Value) -> Result<()> {
        let patch = json!({"status": status});
        self.api(kind).patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }
}

fn group_of(kind: &str) -> &'static str {
    if kind.starts_with("Kubeadm") { BOOTSTRAP_GROUP } else { CORE_GROUP }
}

/// The labels of MachineSets and Machines.
fn labels_of(deployment: &str) -> Value {
    json!({"cluster.x-k8s.io/deployment-name": deployment, "deployment": deployment})
}

pub fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": name})
}

/// The required fields of `nodeInfo`.
fn node_info(containerd: &str) -> Value {
    json!({
        "kernelVersion": "10.0.20348.1", "containerRuntimeVersion": format!("containerd://{containerd}"),
        "kubeletVersion": "v1.36.2", "operatingSystem": "windows", "architecture": "amd64",
        "machineID": "-", "systemUUID": "-", "bootID": "-", "osImage": "-", "kubeProxyVersion": "-",
    })
}
