//! The container runtime of the node, by the interface that the kubelet uses: images, and the sandboxes of pods.
//!
//! Source of the messages: kubernetes/kubernetes 0268656a, `staging/src/k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`; those here
//! have only the fields that are set or read. The kubelet ends the sandboxes of pods that it does not know (`HandlePodCleanups`
//! in `pkg/kubelet/kubelet_pods.go`), so that none stays when the agent ends between start and removal.

#![allow(clippy::disallowed_methods)] // I/O, and time

use std::{fmt, io, time::Duration};

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tower::service_fn;
use winpool_api::names::DEFAULT_NAMESPACE;

use super::host::{RuntimeError, SandboxKind};

/// How long after its own limit a request is given up: the runtime reports what it was doing.
const GRACE: Duration = Duration::from_secs(5);
/// How long a request without work may take.
const SHORT: Duration = Duration::from_secs(30);
const POD: &str = "winpool-check";

/// A connection to the container runtime.
pub struct RuntimeClient(Grpc<Channel>);

impl RuntimeClient {
    /// Connects by a stream.
    pub async fn connect<S, F>(open: impl Fn() -> F + Clone + Send + Sync + 'static) -> io::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        // The authority is required, and not used.
        let endpoint = Endpoint::from_static("http://localhost");
        let connector = service_fn(move |_| {
            let stream = open();
            async move { stream.await.map(TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(connector).await.map_err(io::Error::other)?;
        Ok(Self(Grpc::new(channel)))
    }

    /// Pulls an image that the runtime does not have.
    pub async fn ensure_image(&mut self, image: &str, limit: Duration) -> Result<(), RuntimeError> {
        let image = || Some(ImageSpec { image: image.to_owned() });
        let path = "/runtime.v1.ImageService/ImageStatus";
        let found: ImageStatus = self.call(path, ImageRequest { image: image() }, SHORT).await?;
        if found.image.is_some() {
            return Ok(());
        }
        let _: Nothing =
            self.call("/runtime.v1.ImageService/PullImage", ImageRequest { image: image() }, limit).await?;
        Ok(())
    }

    /// Starts the sandbox of a pod without containers, and removes it.
    pub async fn try_sandbox(&mut self, kind: SandboxKind, limit: Duration) -> Result<(), RuntimeError> {
        let request = RunPodSandbox { config: Some(SandboxConfig::new(kind)) };
        let started: Sandbox = self.call("/runtime.v1.RuntimeService/RunPodSandbox", request, limit).await?;
        for path in ["/runtime.v1.RuntimeService/StopPodSandbox", "/runtime.v1.RuntimeService/RemovePodSandbox"] {
            // The kubelet may have removed it meanwhile, and removes it if this fails.
            if let Err(error) = self.call::<_, Nothing>(path, started.clone(), limit).await {
                tracing::warn!(%error, path, "the sandbox is left to the kubelet");
            }
        }
        Ok(())
    }

    async fn call<Q, A>(&mut self, path: &'static str, message: Q, limit: Duration) -> Result<A, RuntimeError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut request = Request::new(message);
        request.set_timeout(limit);
        let answer = async {
            self.0.ready().await.map_err(failed)?;
            let answer = self.0.unary(request, PathAndQuery::from_static(path), ProstCodec::default()).await;
            answer.map_err(|status| failed(status.message()))
        };
        match timeout(limit + GRACE, answer).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => Err(failed(format!("no answer within {} s", limit.as_secs()))),
        }
    }
}

fn failed(why: impl fmt::Display) -> RuntimeError {
    RuntimeError::Failed(why.to_string())
}

#[derive(Clone, PartialEq, Message)]
struct ImageSpec {
    #[prost(string, tag = "1")]
    image: String,
}

/// `ImageStatusRequest` and `PullImageRequest`.
#[derive(Clone, PartialEq, Message)]
struct ImageRequest {
    #[prost(message, optional, tag = "1")]
    image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct ImageStatus {
    #[prost(message, optional, tag = "1")]
    image: Option<Nothing>,
}

#[derive(Clone, PartialEq, Message)]
struct RunPodSandbox {
    #[prost(message, optional, tag = "1")]
    config: Option<SandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct SandboxConfig {
    #[prost(message, optional, tag = "1")]
    metadata: Option<SandboxMetadata>,
    #[prost(string, tag = "2")]
    hostname: String,
    #[prost(message, optional, tag = "9")]
    windows: Option<WindowsSandbox>,
}

impl SandboxConfig {
    /// A runtime has one sandbox of a uid and attempt, so that each gets another uid.
    fn new(kind: SandboxKind) -> Self {
        let uid = format!("{POD}-{}", Timestamp::now().as_nanosecond());
        let metadata = SandboxMetadata { name: POD.to_owned(), uid, namespace: DEFAULT_NAMESPACE.to_owned() };
        let security = SandboxSecurity { host_process: kind == SandboxKind::HostProcess };
        Self {
            metadata: Some(metadata),
            hostname: POD.to_owned(),
            windows: Some(WindowsSandbox { security_context: Some(security) }),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct SandboxMetadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

#[derive(Clone, PartialEq, Message)]
struct WindowsSandbox {
    #[prost(message, optional, tag = "1")]
    security_context: Option<SandboxSecurity>,
}

#[derive(Clone, PartialEq, Message)]
struct SandboxSecurity {
    #[prost(bool, tag = "3")]
    host_process: bool,
}

/// `RunPodSandboxResponse`, `StopPodSandboxRequest` and `RemovePodSandboxRequest`.
#[derive(Clone, PartialEq, Message)]
struct Sandbox {
    #[prost(string, tag = "1")]
    id: String,
}

/// A message of which no field is read.
#[derive(Clone, PartialEq, Message)]
struct Nothing {}
