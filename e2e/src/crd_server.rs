//! Upstream's server of CustomResourceDefinitions of today: it compiles and type-checks the rules in CEL, limits their cost,
//! ratchets, and knows strict validation of fields. It serves custom resources only, so that built-in kinds are tested on the
//! whole control plane beside it, which also says who a token is and what it may do.
//!
//! Where it cannot be built, an API server of 1.30 or later in `KUBEBUILDER_ASSETS` takes its place.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use http::{Method, Request};
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

use crate::{
    assets,
    control_plane::{ControlPlane, Options, User},
    network::{accepts_connections, free_port},
    process::Process,
    wait::eventually,
};

const START_TIMEOUT: Duration = Duration::from_secs(240);
const SERVED: Duration = Duration::from_secs(120);

/// The server, and the control plane beside it. Dropping it ends both.
#[derive(Debug)]
pub struct CrdServer {
    /// The server, unless the API server of the control plane takes its place.
    process: Option<Process>,
    /// The control plane.
    pub control_plane: ControlPlane,
    port: u16,
}

/// The first minor whose API server checks what this server checks.
const FIRST_IN_ITS_PLACE: u32 = 30;

/// The requests of a user with all permissions to a server, without a schema of the objects: what it answers is the test.
#[derive(Clone)]
pub struct Requests {
    client: Client,
}

/// The status code of an answer, and its body.
pub type Answer = (u16, Value);

impl CrdServer {
    /// Starts both, and waits until they answer.
    ///
    /// # Errors
    /// When a program is missing or does not become ready; the message contains the end of its log.
    pub async fn start() -> Result<Self> {
        let control_plane = ControlPlane::start(Options::api_server_only()).await?;
        let program = match assets::crd_server() {
            Ok(program) => program,
            Err(_) if control_plane.version().minor >= FIRST_IN_ITS_PLACE => {
                return Ok(Self { process: None, control_plane, port: 0 });
            }
            Err(error) => return Err(error),
        };
        let port = free_port()?;
        let admin = control_plane.kubeconfig(User::Admin);
        let certificates = control_plane.directory().join("crd-server");
        let mut command = Command::new(program);
        command.current_dir(control_plane.directory());
        command.args([
            format!("--etcd-servers={}", control_plane.etcd_url()),
            "--etcd-prefix=/crd-server".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", certificates.display()),
            format!("--kubeconfig={}", admin.display()),
            format!("--authentication-kubeconfig={}", admin.display()),
            format!("--authorization-kubeconfig={}", admin.display()),
            // They would wait for kinds that an old control plane does not serve.
            "--disable-admission-plugins=MutatingAdmissionPolicy,ValidatingAdmissionPolicy".to_owned(),
        ]);
        let process = Process::spawn("crd-server", command, &control_plane.log_of("crd-server"))?;
        process.ready(START_TIMEOUT, || accepts_connections(port)).await?;
        let server = Self { process: Some(process), control_plane, port };
        server.write_kubeconfig(&certificates)?;
        let requests = server.requests().await?;
        let answers = || async {
            let (status, body) = requests.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await?;
            ensure!(status == 200, "{status}: {body}");
            Ok(())
        };
        eventually("it answers", START_TIMEOUT, answers).await?;
        Ok(server)
    }

    /// Requests to this server. They belong to the async runtime in which they are made.
    ///
    /// # Errors
    /// When no client can be built.
    pub async fn requests(&self) -> Result<Requests> {
        if self.process.is_none() {
            return Requests::to(&self.control_plane).await;
        }
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Requests { client: Client::try_from(config)? })
    }

    fn kubeconfig(&self) -> std::path::PathBuf {
        self.control_plane.directory().join("crd-server.kubeconfig")
    }

    fn write_kubeconfig(&self, certificates: &Path) -> Result<()> {
        let chain = fs::read_to_string(certificates.join("apiserver.crt"))?;
        let start = chain.rfind("-----BEGIN").context("no certificate")?;
        let authority = certificates.join("ca.crt");
        fs::write(&authority, &chain[start..])?;
        let url = format!("https://127.0.0.1:{}", self.port);
        Ok(fs::write(self.kubeconfig(), User::Admin.kubeconfig(&url, &authority))?)
    }
}

impl Requests {
    /// Requests of the administrator of a control plane.
    ///
    /// # Errors
    /// When no client can be built.
    pub async fn to(control_plane: &ControlPlane) -> Result<Self> {
        Ok(Self { client: control_plane.client(User::Admin).await? })
    }

    /// `GET`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    /// `POST`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Answer> {
        self.send(Method::POST, path, "application/json", object).await
    }

    /// `PUT`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Answer> {
        self.send(Method::PUT, path, "application/json", object).await
    }

    /// `PATCH` with a merge patch.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Answer> {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    /// `PATCH` by server-side apply; the path names the field manager.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<Answer> {
        self.send(Method::PATCH, path, "application/apply-patch+yaml", object).await
    }

    /// `DELETE`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, "application/json", &Value::Null).await
    }

    async fn send(&self, method: Method, path: &str, content: &str, body: &Value) -> Result<Answer> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("Content-Type", content);
        let answer = self.client.send(request.body(Body::from(body))?).await.with_context(|| path.to_owned())?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect_bytes().await?;
        let text = String::from_utf8_lossy(&bytes);
        Ok((status, serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()))))
    }

    /// Creates a CustomResourceDefinition with strict validation of its fields, and waits until its objects are served.
    ///
    /// # Errors
    /// When it is refused, or its schema is not one that the server can publish.
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
    ///
    /// # Errors
    /// When it is refused.
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
