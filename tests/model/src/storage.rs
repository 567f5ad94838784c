//! Volumes and the drivers of nodes, as JSON.

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::{CSINode, StorageClass},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use winpool_core::{Named, Objects};
use winpool_workload::Storage;

/// Claims in namespace `shop` with their specs, PersistentVolumes with theirs, StorageClasses, and the drivers of nodes with the most
/// volumes that each attaches: names and values.
pub fn storage(
    claims: &[(&str, Value)],
    volumes: &[(&str, Value)],
    classes: &[(&str, Value)],
    nodes: &[(&str, Value)],
) -> Storage {
    let limits = |limits: &Value| -> Vec<Value> {
        let drivers = limits.as_object().unwrap().iter();
        drivers.map(|(name, count)| json!({"name": name, "nodeID": "", "allocatable": {"count": count}})).collect()
    };
    Storage {
        claims: views::<PersistentVolumeClaim, _>(claims, |spec| json!({ "spec": spec })),
        volumes: views::<PersistentVolume, _>(volumes, |spec| json!({ "spec": spec })),
        classes: views::<StorageClass, _>(classes, Value::clone),
        nodes: views::<CSINode, _>(nodes, |of| json!({"spec": {"drivers": limits(of)}})),
    }
}

fn views<O: DeserializeOwned, V: From<O> + Named>(
    objects: &[(&str, Value)],
    fields: impl Fn(&Value) -> Value,
) -> Objects<V> {
    let object = |(name, value): &(&str, Value)| {
        let mut object = fields(value);
        object["metadata"] = json!({"name": name, "namespace": "shop"});
        V::from(serde_json::from_value::<O>(object).unwrap())
    };
    objects.iter().map(object).collect()
}
