//! The types in the expressions of validating policies, as the checker of kube-controller-manager finds them.

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, SOON},
    control_plane::Options,
    requests::Requests,
    wait::eventually,
};
use serde_json::Value;
use winpool::admission_policies::VALIDATING;

use super::{agents, objects};

const PATH: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// The warnings about each policy: its name, the field and the warning.
async fn warnings(requests: &Requests, policies: &[Value]) -> Vec<String> {
    for policy in policies {
        let (status, body) = requests.create(PATH, policy).await.unwrap();
        assert_eq!(status, 201, "{body}");
    }
    let checked = || async {
        let mut all = Vec::new();
        for policy in policies {
            let name = policy["metadata"]["name"].as_str().unwrap();
            let (_, stored) = requests.get(&format!("{PATH}/{name}")).await?;
            let status = &stored["status"];
            ensure!(status["observedGeneration"] == stored["metadata"]["generation"], "{name}: {status}");
            let warnings = status["typeChecking"]["expressionWarnings"].as_array().into_iter().flatten();
            all.extend(warnings.map(|warning| format!("{name}: {warning}")));
        }
        Ok(all)
    };
    eventually("the policies are checked", SOON, checked).await.unwrap()
}

#[tokio::test]
async fn the_expressions_of_every_policy_have_the_types_of_its_objects() {
    let options = Options { controller_manager: true, ..Options::api_server_only() };
    let cluster = Cluster::start_with(options).await.unwrap();
    let requests = Requests::to(&cluster.control_plane).await.unwrap();
    let mut policies = [objects(VALIDATING), agents::policies()].concat();
    policies.retain(|object| object["kind"] == "ValidatingAdmissionPolicy");
    assert_eq!(warnings(&requests, &policies).await, [""; 0]);
}
