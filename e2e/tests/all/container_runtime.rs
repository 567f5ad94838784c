//! The agent's client of the container runtime, with containerd itself.

use std::{path::Path, time::Duration};

use anyhow::{Result, anyhow};
use e2e::{
    assets,
    certificates::Authority,
    containerd::Containerd,
    images::{ManifestFormat, linux},
    registry::{Access, Registry},
};
use tokio::net::UnixStream;
use winpool_agent::{
    host::{RuntimeError, SandboxKind},
    runtime::RuntimeClient,
};

const MINUTE: Duration = Duration::from_secs(60);

/// The settings with which containerd unpacks images without help of the kernel.
fn settings(hosts: &Path) -> String {
    format!(
        "[plugins.'io.containerd.grpc.v1.cri'.containerd]\nsnapshotter = 'native'\n\
         [plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = {hosts:?}"
    )
}

fn failure(result: Result<(), RuntimeError>) -> Result<String> {
    match result {
        Err(RuntimeError::Failed(why)) => Ok(why),
        other => Err(anyhow!("not a failure that containerd reports: {other:?}")),
    }
}

#[tokio::test]
async fn every_containerd_pulls_an_image_and_says_why_it_cannot_start_a_sandbox() {
    let authority = Authority::new().unwrap();
    let registry = Registry::start(&authority, &Access::Anonymous).await.unwrap();
    let host = registry.host();
    let repository = registry.repository("kubernetes/pause", None);
    let empty_tar = repository.blob("application/vnd.oci.image.layer.v1.tar", &[0; 1024]).await.unwrap();
    let format = ManifestFormat::Oci;
    repository.image_of(Some("3.10"), format, &linux("amd64"), &[empty_tar]).await.unwrap();
    for program in assets::containerds().unwrap() {
        let containerd = Containerd::start(&program, &host, settings).await.unwrap();
        let socket = containerd.socket();
        let mut client = RuntimeClient::connect(move || UnixStream::connect(socket.clone())).await.unwrap();
        let (image, absent) = (format!("{host}/kubernetes/pause:3.10"), format!("{host}/kubernetes/pause:9.9"));
        for _ in 0..2 {
            client
                .ensure_image(&image, MINUTE)
                .await
                .unwrap_or_else(|error| panic!("{error}: {}", containerd.log_tail()));
        }
        let why = failure(client.ensure_image(&absent, MINUTE).await).unwrap();
        assert!(why.contains("failed to resolve") && why.contains(&absent), "{why}");
        // It has no plugin for a network.
        for kind in SandboxKind::ALL {
            let why = failure(client.try_sandbox(kind, MINUTE).await).unwrap();
            assert!(why.contains("sandbox"), "{why}");
        }
    }
    let pulls = registry.requests_of("containerd/").unwrap();
    assert!(pulls.iter().any(|pull| pull.path.contains("/manifests/3.10")), "{pulls:?}");
}
