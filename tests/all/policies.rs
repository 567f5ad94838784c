//! The files of `config/policies`: `e2e/tests/all/policy_tables` sends requests to an API server that has them.

use std::{fs, path::Path};

use k8s_openapi::api::admissionregistration::{
    v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    v1alpha1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use winpool::{
    admission_policies::{FIRST_WITH_MUTATING, FIRST_WITH_MUTATING_BETA, MUTATING, Policy, VALIDATING},
    output::{self, OutputFormat},
};
use winpool_api::names::{DEFAULT_NAMESPACE, annotation, label};
use winpool_facts::node_restriction::KUBELET_LABELS;

/// Taints of new nodes.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The objects of policies.
fn objects(policies: &[Policy]) -> Vec<Value> {
    policies.iter().flat_map(|policy| parsed(&policy.yaml(DEFAULT_NAMESPACE, FIRST_WITH_MUTATING))).collect()
}

/// The policy and its binding.
fn parsed(text: &str) -> [Value; 2] {
    serde_saphyr::from_multiple(text).unwrap().try_into().unwrap()
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn the_files_in_config_policies_are_those_of_their_kustomization_and_print_as_they_are() {
    for (name, policies) in [("config/policies", VALIDATING), ("config/policies/mutating", MUTATING)] {
        for policy in policies {
            let found = fs::read_to_string(folder(name).join(policy.file)).unwrap_or_default();
            let text = policy.yaml(DEFAULT_NAMESPACE, FIRST_WITH_MUTATING);
            assert_eq!(found, text, "{name}/{}", policy.file);
            assert_eq!(
                output::text(&parsed(&text), OutputFormat::Yaml),
                text,
                "{name}/{} is not in order",
                policy.file
            );
        }
        let listed = fs::read_to_string(folder(name).join("kustomization.yaml")).unwrap();
        let listed: Value = serde_saphyr::from_str(&listed).unwrap();
        assert_eq!(listed["resources"], json!(policies.iter().map(|policy| policy.file).collect::<Vec<_>>()));
    }
}

#[test]
fn the_keys_in_expressions_are_those_of_the_operator() {
    let prefixes = ["winpool.dev/", label::RUNS];
    let known = [
        label::WINDOWS_BUILD,
        label::MANAGED_BY,
        label::POOL,
        label::DEFAULT_RUNTIME_CLASS,
        annotation::REGISTERED_WITH,
        annotation::ALLOW_DELETION,
        annotation::OWNED,
    ];
    for object in objects(VALIDATING).into_iter().chain(objects(MUTATING)) {
        let text = object["spec"].to_string();
        let literals = text.split('\'').skip(1).step_by(2);
        let keys = literals.filter(|text| text.contains('/') && !text.contains(':') && !text.starts_with('/'));
        for key in keys {
            let all = [&known[..], &KUBELET_LABELS, &TAINTS, &prefixes].concat();
            assert!(all.contains(&key), "{key} in {}", object["metadata"]["name"]);
        }
    }
}

#[test]
fn the_version_of_mutating_policies_is_that_of_the_api_server_and_their_fields_exist_in_it() {
    fn known<K: DeserializeOwned + Serialize>(object: &Value) {
        let typed = json!(serde_json::from_value::<K>(object.clone()).unwrap());
        assert_eq!(typed["spec"], object["spec"]);
    }
    for (minor, version) in [(FIRST_WITH_MUTATING_BETA, "v1beta1"), (FIRST_WITH_MUTATING, "v1")] {
        for policy in MUTATING {
            for mut object in parsed(&policy.yaml(DEFAULT_NAMESPACE, minor)) {
                assert_eq!(object["apiVersion"], format!("admissionregistration.k8s.io/{version}"));
                // The fields are those of v1alpha1.
                object["apiVersion"] = json!("admissionregistration.k8s.io/v1alpha1");
                match object["kind"].as_str().unwrap() {
                    "MutatingAdmissionPolicy" => known::<MutatingAdmissionPolicy>(&object),
                    _ => known::<MutatingAdmissionPolicyBinding>(&object),
                }
            }
        }
        for policy in VALIDATING {
            let [policy, binding] = parsed(&policy.yaml(DEFAULT_NAMESPACE, minor));
            assert_eq!(policy["apiVersion"], "admissionregistration.k8s.io/v1");
            known::<ValidatingAdmissionPolicy>(&policy);
            known::<ValidatingAdmissionPolicyBinding>(&binding);
        }
    }
}

#[test]
fn an_operator_in_another_namespace_is_the_operator_of_its_policies() {
    for policy in VALIDATING {
        let text = policy.yaml("windows", FIRST_WITH_MUTATING);
        let (ours, theirs) = (":winpool-system:winpool'", ":windows:winpool'");
        let named = policy.yaml(DEFAULT_NAMESPACE, FIRST_WITH_MUTATING).matches(ours).count();
        assert_eq!((text.matches(ours).count(), text.matches(theirs).count()), (0, named), "{}", policy.file);
    }
}

#[test]
fn an_error_in_an_expression_rejects_only_requests_of_the_operator_and_for_its_objects() {
    let fails: Vec<_> =
        objects(VALIDATING).into_iter().filter(|object| object["spec"]["failurePolicy"] == "Fail").collect();
    let names: Vec<_> = fails.iter().map(|policy| policy["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["winpool-operator", "winpool-pool-deletion"]);
    assert!(objects(MUTATING).iter().all(|object| object["spec"]["failurePolicy"] != "Fail"));
}

#[test]
fn every_message_says_what_to_do() {
    for object in objects(VALIDATING) {
        for validation in object["spec"]["validations"].as_array().into_iter().flatten() {
            let message = validation["message"].as_str().unwrap();
            assert!(message.contains(": ") && !message.ends_with('.'), "{message}");
        }
    }
}
