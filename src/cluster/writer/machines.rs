//! Writes to objects of Cluster API, and to the Secrets of templates.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::Value;
use winpool_api::{
    facts::cluster_api::{BOOTSTRAP_GROUP, CORE_GROUP},
    names::manager,
};
use winpool_core::{
    operation::MachineObject,
    pool::machines::{KubeadmConfigView, MachineGroup, MachinePoolView, TemplateView},
    revert::Target,
};

use crate::cluster::{View, cluster_api_resource};

/// The kind of an object, as in views.
pub fn kind(object: &MachineObject) -> &'static str {
    match object.target {
        Target::KubeadmConfigTemplate => TemplateView::KIND,
        Target::KubeadmConfig => KubeadmConfigView::KIND,
        Target::MachinePool => MachinePoolView::KIND,
        Target::Secret => "Secret",
        _ => MachineGroup::KIND,
    }
}

/// The requests for objects of Cluster API of a kind.
pub fn api(client: &Client, object: &MachineObject) -> Api<DynamicObject> {
    let group = match object.target {
        Target::KubeadmConfigTemplate | Target::KubeadmConfig => BOOTSTRAP_GROUP,
        _ => CORE_GROUP,
    };
    let resource = cluster_api_resource(group, object.version, kind(object));
    Api::namespaced_with(client.clone(), &object.namespace, &resource)
}

/// Creates a template, or applies its Secret, which is not read. Returns the version of the object.
pub async fn create(client: &Client, object: &MachineObject, body: &Value) -> kube::Result<Option<String>> {
    if object.target == Target::Secret {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &object.namespace);
        let params = PatchParams::apply(manager::OBJECTS).force();
        secrets.patch_metadata(&object.name, &params, &Patch::Apply(body)).await?;
        return Ok(None);
    }
    let body: DynamicObject = serde_json::from_value(body.clone()).map_err(kube::Error::SerdeError)?;
    let params = PostParams { field_manager: Some(manager::OBJECTS.to_owned()), ..PostParams::default() };
    let created = api(client, object).create(&params, &body).await?;
    Ok(Some(created.metadata.resource_version.unwrap_or_default()))
}

/// Deletes a template, or its Secret.
pub async fn delete(client: &Client, object: &MachineObject, uid: Option<&str>) -> kube::Result<Option<String>> {
    let params = match uid {
        Some(uid) => {
            DeleteParams::default().preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None })
        }
        None => DeleteParams::default(),
    };
    match object.target {
        Target::Secret => {
            let secrets: Api<Secret> = Api::namespaced(client.clone(), &object.namespace);
            secrets.delete(&object.name, &params).await?;
        }
        _ => drop(api(client, object).delete(&object.name, &params).await?),
    }
    Ok(None)
}
