//! The port for metrics: HTTPS, and only for users whom RBAC permits the request.

use std::{fs, path::Path, time::Duration};

use anyhow::{Result, ensure};
use e2e::{
    certificates::{Authority, Certificate, unverified_client},
    cluster::{Cluster, SOON, create},
    control_plane::OPERATOR_NAMESPACE,
    network::free_port,
    operator::Operator,
    prometheus::metrics_reader,
    wait::eventually,
};
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use reqwest::{Client, Method};
use serde_json::json;

/// An operator with a port for metrics, and the URL of that port.
async fn start(cluster: &Cluster, arguments: &[&str], environment: &[(&str, &str)]) -> (Operator, String) {
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let arguments = [&["--secure-address", &address], arguments].concat();
    let operator = cluster.start_operator(&arguments, environment).await.unwrap();
    (operator, format!("https://{address}"))
}

/// A cluster with two ServiceAccounts: `other`, and `debugger`, who may set the log filter.
async fn cluster_with_users() -> Cluster {
    let cluster = Cluster::start().await.unwrap();
    let accounts = cluster.namespaced::<ServiceAccount>(OPERATOR_NAMESPACE);
    for name in ["other", "debugger"] {
        create(&accounts, json!({ "metadata": { "name": name } })).await.unwrap();
    }
    let rules = json!([{ "nonResourceURLs": ["/log"], "verbs": ["put"] }]);
    create(&cluster.api::<ClusterRole>(), json!({ "metadata": { "name": "debugger" }, "rules": rules })).await.unwrap();
    let binding = json!({
        "metadata": { "name": "debugger" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "debugger" },
        "subjects": [{ "kind": "ServiceAccount", "name": "debugger", "namespace": OPERATOR_NAMESPACE }],
    });
    create(&cluster.api::<ClusterRoleBinding>(), binding).await.unwrap();
    cluster
}

async fn send(client: &Client, method: Method, url: &str, token: Option<&str>) -> Result<(u16, String)> {
    let mut request = client.request(method.clone(), url);
    if method == Method::PUT {
        request = request.body("info");
    }
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let response = request.send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

#[tokio::test]
async fn metrics_and_log_level_are_for_users_whom_rbac_permits_them_and_probes_for_all() {
    let cluster = cluster_with_users().await;
    // A replica that is not the leader reviews its clients too.
    let (_leader, _) = start(&cluster, &["--leader-election=on"], &[]).await;
    let (standby, url) = start(&cluster, &["--leader-election=on"], &[]).await;
    assert!(standby.metrics().await.unwrap().contains("winpool_leader 0"));
    let client = unverified_client().unwrap();
    let reader = metrics_reader(&cluster).await.unwrap();
    let [other, debugger] = ["other", "debugger"].map(|account| cluster.token(OPERATOR_NAMESPACE, account));
    let (other, debugger) = (other.await.unwrap(), debugger.await.unwrap());
    let [reader, other, debugger] = [&reader, &other, &debugger].map(|token| Some(token.as_str()));
    // A new binding takes effect after a moment.
    let effective = || async {
        let (status, text) = send(&client, Method::GET, &format!("{url}/metrics"), reader).await?;
        ensure!(status == 200, "{text}");
        let (status, text) = send(&client, Method::PUT, &format!("{url}/log"), debugger).await?;
        ensure!(status == 200, "{text}");
        Ok(())
    };
    eventually("the bindings are in effect", SOON, effective).await.unwrap();
    for (method, path, token, status, expected) in [
        (Method::GET, "/metrics", reader, 200, "winpool_cache_objects"),
        (Method::GET, "/metrics", None, 401, "bearer token of a user who may get /metrics"),
        (Method::GET, "/metrics", other, 403, "user system:serviceaccount:winpool-system:other may not get /metrics"),
        (Method::PUT, "/log", reader, 403, "may not put /log"),
        (Method::PUT, "/log", debugger, 200, "ok"),
        (Method::GET, "/livez", None, 200, "ok"),
        (Method::GET, "/readyz", None, 200, "ok"),
    ] {
        let (found, text) = send(&client, method.clone(), &format!("{url}{path}"), token).await.unwrap();
        assert!(found == status && text.contains(expected), "{method} {path} {token:?}: {found} {text}");
    }
    assert!(standby.log().unwrap().contains("log filter set"));
    let requests = cluster.requests().unwrap();
    let mut reviews = requests.iter().filter(|request| request.resource.ends_with("reviews"));
    assert!(reviews.all(|review| review.agent.starts_with("winpool/")), "a review names the replica");
    cluster.nothing_was_forbidden().unwrap();
}

fn write(certificate: &Certificate, folder: &Path) {
    fs::write(folder.join("tls.crt"), &certificate.certificate).unwrap();
    fs::write(folder.join("tls.key"), &certificate.key).unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_is_used_without_a_restart_and_an_invalid_one_is_reported() {
    let cluster = Cluster::start().await.unwrap();
    let (former, renewed) = (Authority::new().unwrap(), Authority::new().unwrap());
    let folder = tempfile::tempdir().unwrap();
    write(&former.issue().unwrap(), folder.path());
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name).display().to_string());
    let files = ["--tls-cert-file", &certificate, "--tls-private-key-file", &key];
    let (operator, url) = start(&cluster, &files, &[]).await;
    let livez = format!("{url}/livez");
    let [trusts_former, trusts_renewed] = [&former, &renewed].map(|authority| authority.client().unwrap());
    let is_trusted = async |client: &Client| send(client, Method::GET, &livez, None).await.is_ok();
    assert!(is_trusted(&trusts_former).await && !is_trusted(&trusts_renewed).await);

    fs::write(&certificate, "not a certificate").unwrap();
    let reported = || async {
        ensure!(operator.log()?.contains("the former one stays in use"));
        Ok(())
    };
    eventually("the invalid file is reported", SOON, reported).await.unwrap();
    assert!(operator.log().unwrap().contains("tls.crt: no PEM block with a certificate"));
    assert!(is_trusted(&trusts_former).await);

    write(&renewed.issue().unwrap(), folder.path());
    let trusted = || async {
        // A new connection, since an open one keeps its certificate.
        send(&renewed.client()?, Method::GET, &livez, None).await.map(drop)
    };
    eventually("the renewed certificate is used", SOON, trusted).await.unwrap();
    assert!(send(&former.client().unwrap(), Method::GET, &livez, None).await.is_err());
}

#[tokio::test]
async fn clients_that_do_not_finish_the_handshake_block_no_other() {
    let cluster = Cluster::start().await.unwrap();
    let (_operator, url) = start(&cluster, &[], &[]).await;
    let address = url.trim_start_matches("https://");
    let mut slow = Vec::new();
    for _ in 0..400 {
        slow.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let answer =
        unverified_client().unwrap().get(format!("{url}/livez")).timeout(Duration::from_secs(5)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}
