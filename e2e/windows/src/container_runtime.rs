//! The images and sandboxes of a containerd at its named pipe. It has no image, and pulls each.

use std::{convert::Infallible, io};

use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::{
    net::windows::named_pipe::{NamedPipeServer, ServerOptions},
    runtime::{Builder, Runtime},
};
use tonic::{Status, body::Body, server::Grpc};
use tonic_prost::ProstCodec;

use crate::behavior::{Behavior, Failure};

/// A request of which no field is read.
#[derive(Clone, PartialEq, Message)]
struct Ignored {}

/// `RunPodSandboxResponse`, or the response of another call, of which no field is read.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(string, tag = "1")]
    id: String,
}

/// Serves until the result is dropped.
pub fn serve(pipe: String, behavior: &Behavior) -> io::Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (no_pull, no_sandbox) = (behavior.is(Failure::NoPull), behavior.is(Failure::NoSandbox));
    let first = runtime.block_on(async { ServerOptions::new().first_pipe_instance(true).create(&pipe) })?;
    runtime.spawn(async move {
        let mut server = first;
        while server.connect().await.is_ok() {
            let Ok(next) = ServerOptions::new().create(&pipe) else { return };
            tokio::spawn(connection(std::mem::replace(&mut server, next), no_pull, no_sandbox));
        }
    });
    Ok(runtime)
}

async fn connection(pipe: NamedPipeServer, no_pull: bool, no_sandbox: bool) {
    let service = service_fn(move |request| answer(request, no_pull, no_sandbox));
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(pipe), service).await;
}

async fn answer(request: Request<Incoming>, no_pull: bool, no_sandbox: bool) -> Result<Response<Body>, Infallible> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default();
    let result = match method {
        "PullImage" if no_pull => Err("failed to pull and unpack image: 401 Unauthorized"),
        "RunPodSandbox" if no_sandbox => Err("failed to create containerd task: hcs::CreateComputeSystem"),
        "RunPodSandbox" => Ok("sandbox-1"),
        _ => Ok(""),
    };
    let result = result.map(|id| Answer { id: id.to_owned() }).map_err(Status::unknown);
    let service = tower::service_fn(move |_: tonic::Request<Ignored>| {
        std::future::ready(result.clone().map(tonic::Response::new))
    });
    Ok(Grpc::new(ProstCodec::default()).unary(service, request).await)
}
