//! The definitions themselves.

use e2e::install::path;
use serde_json::{Value, json};

use super::{DEFINITIONS, Server, collection, definitions, object, pools_as, renamed, shared};

/// Why the server would not create the definition, with strict validation of its fields; empty if it would.
async fn refusal_of(server: &Server, definition: &Value) -> String {
    let path = format!("{DEFINITIONS}?dryRun=All&fieldValidation=Strict");
    let (status, body) = server.create(&path, definition).await.unwrap();
    if status == 201 { String::new() } else { format!("{status} {}", body["message"]) }
}

#[tokio::test]
async fn every_definition_is_created_with_strict_fields_and_served() {
    let server = shared().await;
    for definition in definitions(&path("crds")) {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let (status, list) = server.get(&collection(&object(&kind, "", "{}"))).await.unwrap();
        assert_eq!((status, &list["kind"]), (200, &json!(format!("{kind}List"))));
        assert_eq!(refusal_of(&server, &renamed(definition, "CreatedAgain")).await, "", "{kind}");
    }
}

/// The items of two lists have two types.
#[tokio::test]
async fn a_rule_that_compares_items_of_two_lists_is_refused() {
    let mut pools = pools_as("Comparing");
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations";
    let rules = pools.pointer_mut(spec).unwrap().as_array_mut().unwrap();
    rules.push(
        json!({"rule": "!has(self.replacesTaints) || self.replacesTaints.all(r, self.taints.exists(t, t == r))"}),
    );
    let refusal = refusal_of(&shared().await, &pools).await;
    assert!(refusal.contains("found no matching overload for '_==_'"), "{refusal}");
}
