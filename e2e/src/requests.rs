//! Requests to a server as they are sent, without types of the objects: what it answers is the test.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Method, Request, request::Builder};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::{
    control_plane::{ControlPlane, User},
    wait::eventually,
};

const SERVED: Duration = Duration::from_secs(300);

/// The requests of a client to a server.
#[derive(Clone)]
pub struct Requests {
    client: Client,
}

/// The status code of an answer, and its body.
pub type Answer = (u16, Value);

impl Requests {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Requests of the administrator of a control plane.
    pub async fn to(control_plane: &ControlPlane) -> Result<Self> {
        Ok(Self::new(control_plane.client(User::Admin).await?))
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    /// `POST`.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Answer> {
        self.send(Method::POST, path, "application/json", object).await
    }

    /// `PUT`.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Answer> {
        self.send(Method::PUT, path, "application/json", object).await
    }

    /// `PATCH` with a merge patch.
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Answer> {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    /// `PATCH` by server-side apply; the path names the field manager.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<Answer> {
        self.send(Method::PATCH, path, "application/apply-patch+yaml", object).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, "application/json", &Value::Null).await
    }

    async fn send(&self, method: Method, path: &str, content: &str, body: &Value) -> Result<Answer> {
        let request = Request::builder().method(method).uri(path).header("Content-Type", content);
        self.exchange(request, body).await.with_context(|| path.to_owned())
    }

    /// Any other request.
    pub async fn exchange(&self, request: Builder, body: &Value) -> Result<Answer> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = self.client.send(request.body(Body::from(body))?).await?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect_bytes().await?;
        let text = String::from_utf8_lossy(&bytes);
        Ok((status, serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()))))
    }

    /// Whether a user has a permission, by the attributes of a request.
    pub async fn allows(&self, user: &str, attributes: &Value) -> Result<bool> {
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let (status, body) = self.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
        ensure!(status == 201, "{status}: {body}");
        Ok(body["status"]["allowed"] == true)
    }

    /// Creates a CustomResourceDefinition with strict validation of its fields, and waits until its objects are served.
    pub async fn install(&self, definition: &Value) -> Result<()> {
        const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let name = definition["metadata"]["name"].as_str().context("a name")?;
        let (status, body) = self.create(&format!("{PATH}?fieldValidation=Strict"), definition).await?;
        ensure!(status == 201, "{name}: {status}: {}", body["message"]);
        let established = || async {
            let (_, body) = self.get(&format!("{PATH}/{name}")).await?;
            let conditions = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let has = |kind: &str| conditions.iter().find(|one| one["type"] == kind).map(|one| one["status"] == "True");
            ensure!(has("Established") == Some(true), "{conditions:?}");
            ensure!(has("NonStructuralSchema") != Some(true), "{conditions:?}");
            // The handler of the objects starts a moment later.
            let spec = &body["spec"];
            for version in spec["versions"].as_array().context("versions")? {
                let (group, name) = (spec["group"].as_str().context("a group")?, version["name"].as_str());
                let plural = spec["names"]["plural"].as_str().context("a plural")?;
                let list = format!("/apis/{group}/{}/{plural}", name.context("a version")?);
                let (status, body) = self.get(&list).await?;
                ensure!(status == 200, "{list}: {status}: {body}");
            }
            Ok(())
        };
        eventually(&format!("{name} is served"), SERVED, established).await
    }

    /// Replaces an installed CustomResourceDefinition by another one.
    pub async fn upgrade(&self, definition: &Value) -> Result<()> {
        let name = definition["metadata"]["name"].as_str().context("a name")?;
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let replaced = || async {
            let mut definition = definition.clone();
            let (_, stored) = self.get(&path).await?;
            definition["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            let (status, body) = self.replace(&format!("{path}?fieldValidation=Strict"), &definition).await?;
            ensure!(status == 200, "{name}: {status}: {}", body["message"]);
            Ok(())
        };
        // A controller of the server writes the status of a definition meanwhile.
        eventually(&format!("{name} is replaced"), SERVED, replaced).await
    }
}
