//! `winpool doctor` for pods with a gMSA: definition, permissions and reviews are those of a real API server.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::{certificates::Authority, cluster::with_fields, install};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{IMAGE, WorkloadFixture, by_class, doctor, pod, user};

const NAME: &str = "gmsa";

#[tokio::test]
async fn what_a_gmsa_lacks_is_found_by_those_who_may_read_it() {
    let fixture = WorkloadFixture::with_one_node(NAME).await;
    let bundle = STANDARD.encode(Authority::new().unwrap().issue_expired(NAME).unwrap().certificate);
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let objects = json!([
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
         "metadata": {"name": "gmsacredentialspecs.windows.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
         "spec": {"group": "windows.k8s.io", "scope": "Cluster", "names": {"kind": "GMSACredentialSpec", "plural": "gmsacredentialspecs"},
                  "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": NAME}, "webhooks": [{
            "name": "admission-webhook.windows-gmsa.sigs.k8s.io", "failurePolicy": "Ignore",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAME}},
            "clientConfig": {"service": {"namespace": NAME, "name": "webhook"}, "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["pods"]}],
            "admissionReviewVersions": ["v1"], "sideEffects": "None"}]},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web", "namespace": NAME}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": NAME, "namespace": NAME},
         "rules": [{"apiGroups": ["windows.k8s.io"], "resources": ["gmsacredentialspecs"], "verbs": ["use"], "resourceNames": ["web"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": NAME, "namespace": NAME},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
         "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": NAME}]},
    ]);
    for object in objects.as_array().unwrap() {
        fixture.kubectl_with_input(&["apply", "-f", "-"], object).unwrap();
    }
    fixture.kubectl(&["wait", "--for=condition=Established", "crd/gmsacredentialspecs.windows.k8s.io"]).unwrap();
    let spec = json!({"apiVersion": "windows.k8s.io/v1", "kind": "GMSACredentialSpec", "metadata": {"name": "web"}, "credspec": {}});
    fixture.kubectl_with_input(&["apply", "-f", "-"], &spec).unwrap();
    install::apply(&fixture.control_plane, &["-k", &install::path("config/doctor")]).unwrap();
    let on_call = user(&fixture, "identity", "winpool-doctor").await;
    for (account, expected) in [("web", None), ("default", Some("system:serviceaccount:gmsa:default may not use web"))]
    {
        let options = json!({"windowsOptions": {"gmsaCredentialSpecName": "web"}});
        let identity = json!({"serviceAccountName": account, "securityContext": options});
        fixture.create::<Pod>(account, pod(IMAGE, with_fields(by_class(NAME), identity))).await;
        let subject = format!("pod/{account}");
        let arguments = [subject.as_str(), "-n", NAME, "--kubeconfig", on_call.to_str().unwrap()];
        let (_, diagnosis) = doctor(&fixture.control_plane, &arguments);
        let texts = |id: &str| -> Vec<String> {
            let found = diagnosis["found"].as_array().unwrap().iter().filter(|found| found["id"] == id);
            let evidence = found.flat_map(|found| found["evidence"].as_array().unwrap());
            evidence.map(|one| one["text"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(texts("gmsa-not-allowed"), Vec::from_iter(expected), "{diagnosis:#}");
        assert_eq!(
            texts("gmsa-webhook"),
            [
                "failurePolicy is Ignore: without an answer, pods start without their gMSA",
                "no endpoint of Service gmsa/webhook is ready, and failurePolicy is Ignore",
                "the certificate in caBundle expired at 2020-01-01T00:00:00Z",
            ]
        );
        let specs = texts("gmsa-spec");
        assert!(specs[0].starts_with("credspec.DomainJoinConfig.DnsName: is missing"), "{specs:?}");
        assert_eq!(specs[1..], ["web, and no gmsaCredentialSpec beside it"]);
    }
}
