//! The definitions themselves.

use e2e::{crd_server::CrdServer, install::path};
use serde_json::json;

use super::{POOL, collection, definitions, documents, object, shared};

/// [`shared`] fails if one is refused, has an unknown field or no structural schema.
#[tokio::test]
async fn every_definition_is_created_with_strict_fields_and_served() {
    let requests = shared().await;
    for definition in definitions(&path("crds")) {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let (status, list) = requests.get(&collection(&object(kind, "", "{}"))).await.unwrap();
        assert_eq!((status, &list["kind"]), (200, &json!(format!("{kind}List"))));
    }
}

#[tokio::test]
async fn the_definitions_of_install_yaml_are_created_with_strict_fields() {
    let server = CrdServer::start().await.unwrap();
    let requests = server.requests().await.unwrap();
    let text = std::fs::read_to_string(path("install.yaml")).unwrap();
    let mut installed = documents(&text);
    installed.retain(|object| object["kind"] == "CustomResourceDefinition");
    assert_eq!(installed.len(), 3);
    for definition in installed {
        requests.install(&definition).await.unwrap();
    }
}

/// The error that kept winpool from every server with CEL: the items of two lists have two types.
#[tokio::test]
async fn a_rule_that_compares_items_of_two_lists_is_refused() {
    let server = CrdServer::start().await.unwrap();
    let mut definitions = definitions(&path("crds"));
    let pools = definitions.iter_mut().find(|one| one["spec"]["names"]["kind"] == POOL).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations";
    let rules = pools.pointer_mut(spec).unwrap().as_array_mut().unwrap();
    rules.push(
        json!({"rule": "!has(self.replacesTaints) || self.replacesTaints.all(r, self.taints.exists(t, t == r))"}),
    );
    let error = server.requests().await.unwrap().install(pools).await.unwrap_err().to_string();
    assert!(error.contains("found no matching overload for '_==_'"), "{error}");
}
