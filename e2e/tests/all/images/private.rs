//! Private repositories, and the pull secrets of pods.

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    audit::Request,
    certificates::Authority,
    cluster::Cluster,
    control_plane::{ControlPlane, User},
    images::windows,
    kubectl::kubectl_with_input,
    kubelet::SimulatedNode,
    operator::workspace,
    registry::{Access, LOGIN, Registry},
    wait::{eventually, until},
};
use serde_json::{Value, json};

use super::{
    LOOKUP_TIMEOUT, manifests,
    objects::{IMAGE_2019, create, pod, push},
    text,
};

fn auth() -> String {
    auth_with(LOGIN.1)
}

fn auth_with(password: &str) -> String {
    STANDARD.encode(format!("{}:{password}", LOGIN.0))
}

/// A pull secret for this registry.
fn secret(name: &str, host: &str, auth: &str) -> Value {
    let file = json!({ "auths": { host: { "auth": auth } } }).to_string();
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
        "type": "kubernetes.io/dockerconfigjson", "stringData": { ".dockerconfigjson": file },
    })
}

/// The operator's requests for Secrets, except its own.
fn of_secrets(control_plane: &ControlPlane) -> Vec<Request> {
    let requests = control_plane.requests_of(User::Operator).unwrap();
    // The operator's own Secret.
    let of_pods = |request: &Request| request.resource == "secrets" && request.name != "winpool-ownership";
    requests.into_iter().filter(of_pods).collect()
}

/// Waits until the pool has this number of unknown pods.
async fn until_unknown(cluster: &Cluster, expected: u32) {
    let unknown = || async { Ok(cluster.status("private").await?.workloads.map(|counts| counts.unknown)) };
    until(&format!("{expected} are unknown"), LOOKUP_TIMEOUT, unknown, |now| *now == Some(expected)).await.unwrap();
}

#[tokio::test]
async fn a_private_image_is_unknown_until_pull_secrets_are_enabled_and_allowed() {
    let authority = Authority::new().unwrap();
    let registry = Registry::start(&authority, &Access::Basic).await.unwrap();
    let repository = registry.repository("private/app", Some(&format!("Basic {}", auth())));
    push(&repository, "1", &windows(IMAGE_2019)).await;

    let cluster = Cluster::start().await.unwrap();
    let node = SimulatedNode::windows("private-1", "10.0.20348.2700").label("agentpool", "private");
    let _kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
    cluster.apply_tainting_pool("private", "ltsc2022", ("os", "windows")).await.unwrap();
    for (name, auth) in [("named", auth()), ("another", auth_with("of yesterday")), ("unnamed", auth())] {
        let secret = secret(name, &registry.host(), &auth).to_string();
        kubectl_with_input(&cluster.control_plane, User::Admin, &["create", "-f", "-"], &secret).unwrap();
    }
    let ca = authority.file();
    let start = async |more: &[&str]| {
        let arguments = [&["--log", "trace", "--registry-ca", text(&ca)][..], more].concat();
        cluster.start_operator(&arguments, &[]).await.unwrap()
    };

    let without = start(&[]).await;
    // The registry accepts the credentials of only one of the two pods.
    let secrets = [json!([{ "name": "another" }]), json!([{ "name": "named" }, { "name": "missing" }])];
    for (name, secrets) in ["private-1", "private-2"].into_iter().zip(secrets) {
        let mut pod = pod(name, "windows-ltsc2022", &format!("{}/private/app:1", registry.host()));
        pod["spec"]["imagePullSecrets"] = secrets;
        create(&cluster.client, pod).await;
    }
    until_unknown(&cluster, 2).await;
    let lookups = || async { Ok(manifests(&registry, "private/app").len()) };
    until("the registry received a request", LOOKUP_TIMEOUT, lookups, |count| *count > 0).await.unwrap();
    assert_eq!(of_secrets(&cluster.control_plane), [], "pull secrets are not enabled");
    without.stop().await.unwrap();

    let with = start(&["--pull-secrets"]).await;
    let refused = || async { Ok(of_secrets(&cluster.control_plane)) };
    let forbidden = |requests: &Vec<Request>| !requests.is_empty() && requests.iter().all(Request::is_forbidden);
    until("the shipped RBAC allows no Secret", LOOKUP_TIMEOUT, refused, forbidden).await.unwrap();
    until_unknown(&cluster, 2).await;

    let folder = workspace().join("config/pull-secrets");
    cluster.kubectl(&["apply", "-k", text(&folder)]).unwrap();
    let found = || async {
        let found = cluster.condition("private", "OSMismatch").await?;
        anyhow::ensure!(found.reason == "ImagesCannotRun", "{found:?}");
        Ok(found.message)
    };
    let message = eventually("the private image is checked", LOOKUP_TIMEOUT, found).await.unwrap();
    assert!(message.contains("according to its registry it is for 10.0.17763.6414 (ltsc2019)"), "{message}");
    until_unknown(&cluster, 0).await;

    let requests = of_secrets(&cluster.control_plane);
    for request in &requests {
        assert_eq!((request.verb.as_str(), request.namespace.as_str()), ("get", "default"), "{request:?}");
        assert!(["another", "named", "missing"].contains(&request.name.as_str()), "{request:?}");
    }
    assert!(requests.iter().any(|request| request.name == "named" && request.code == 200), "{requests:#?}");

    let events = cluster.kubectl(&["get", "events", "-A", "-o", "json"]).unwrap();
    let places = [
        ("the log", [without.log().unwrap(), with.log().unwrap()].concat()),
        ("the status", cluster.pool("private").await.unwrap().to_string()),
        ("an event", events),
        ("the metrics", with.metrics().await.unwrap()),
    ];
    assert!(places[0].1.contains("private/app"), "the log has the finest level");
    for (place, text) in places {
        for secret in [LOGIN.1, &auth()] {
            assert!(!text.contains(secret), "the password is in {place}");
        }
    }
}
