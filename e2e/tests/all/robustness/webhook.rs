//! A validating admission webhook.

use std::fs;

use anyhow::{Context, Result, anyhow};
use axum::{Router, routing::post};
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    cluster::{Cluster, SOON},
    control_plane::User,
    network,
    wait::eventually,
};
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Node};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use crate::tls::{self, Tls};

/// The message of a denial by the webhook.
pub const REFUSAL: &str = "taints are set by the platform team alone";

/// A webhook that rejects the operator's writes after which a node has taints. Dropping it ends it.
pub struct Webhook {
    configurations: Api<ValidatingWebhookConfiguration>,
    server: JoinHandle<()>,
}

impl Webhook {
    /// Starts a webhook on loopback, configures it in the API server, and waits until it rejects writes to `node`.
    pub async fn start(cluster: &Cluster, node: &str) -> Result<Self> {
        let folder = cluster.control_plane.directory();
        // The certificate of the API server is for 127.0.0.1, so the webhook can use it too.
        let certificates = CertificateDer::pem_file_iter(folder.join("certificates/apiserver.crt"))?;
        let key = PrivateKeyDer::from_pem_file(folder.join("certificates/apiserver.key"))?;
        let acceptor = tls::acceptor(certificates.collect::<Result<_, _>>()?, key)?;
        let tcp = TcpListener::from_std(network::listener()?)?;
        let address = tcp.local_addr()?;
        let listener = Tls { tcp, acceptor };
        let server = tokio::spawn(async move {
            let review = post(|body: String| async move { review(&body) });
            let _ = axum::serve(listener, Router::new().route("/", review)).await;
        });
        let configurations = cluster.api();
        let configuration = json!({
            "metadata": { "name": "taints" },
            "webhooks": [{
                "name": "taints.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": { "url": format!("https://{address}/"), "caBundle": STANDARD.encode(fs::read(folder.join("ca.crt"))?) },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"], "operations": ["UPDATE"] }],
            }],
        });
        configurations.create(&PostParams::default(), &serde_json::from_value(configuration)?).await?;
        let webhook = Self { configurations, server };
        let operator: Api<Node> = Api::all(cluster.control_plane.client_as(&User::Operator.name(), &[]).await?);
        let refused = || async {
            let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
            let taints = json!([{ "key": "probe", "effect": "NoSchedule" }]);
            let taints = Patch::Merge(json!({ "spec": { "taints": taints } }));
            match operator.patch(node, &dry_run, &taints).await {
                Err(kube::Error::Api(status)) if status.message.contains(REFUSAL) => Ok(()),
                other => Err(anyhow!("{other:?}")),
            }
        };
        eventually("the API server calls the webhook", SOON, refused).await?;
        Ok(webhook)
    }

    /// Removes its configuration from the API server.
    pub async fn remove(self) -> Result<()> {
        self.configurations.delete("taints", &DeleteParams::default()).await?;
        Ok(())
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn review(body: &str) -> String {
    answer(body).unwrap_or_else(|error| json!({ "error": format!("{error:#}") })).to_string()
}

/// The answer to an AdmissionReview.
fn answer(body: &str) -> Result<Value> {
    let review: Value = serde_json::from_str(body).context("an AdmissionReview")?;
    let request = &review["request"];
    let tainted = request["object"]["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
    let refused = tainted && request["userInfo"]["username"] == json!(User::Operator.name());
    let mut response = json!({ "uid": request["uid"], "allowed": !refused });
    if refused {
        response["status"] = json!({ "message": REFUSAL });
    }
    Ok(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }))
}
