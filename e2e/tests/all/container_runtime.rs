//! The agent's client of the container runtime, with containerd itself.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, anyhow};
use e2e::{
    assets,
    certificates::Authority,
    images::{ManifestFormat, linux},
    process::Process,
    registry::{Access, Registry},
};
use tempfile::TempDir;
use tokio::net::UnixStream;
use winpool_agent::{
    host::{RuntimeError, SandboxKind},
    runtime::RuntimeClient,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A containerd in a folder of its own, which trusts one registry.
struct Containerd {
    process: Process,
    folder: TempDir,
}

impl Containerd {
    async fn start(program: &Path, registry: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let hosts = folder.path().join("certs.d").join(registry);
        fs::create_dir_all(&hosts).unwrap();
        let url = format!("https://{registry}");
        fs::write(hosts.join("hosts.toml"), format!("server = {url:?}\n[host.{url:?}]\nskip_verify = true\n")).unwrap();
        let configuration = format!(
            "version = 2\nroot = {:?}\nstate = {:?}\n[grpc]\naddress = {:?}\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\n\
             snapshotter = 'native'\n[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = {:?}\n",
            path("root"),
            path("state"),
            path("socket"),
            path("certs.d"),
        );
        fs::write(path("config.toml"), configuration).unwrap();
        let mut command = Command::new(program);
        command.args(["--config", &path("config.toml")]);
        let process = Process::spawn("containerd", command, &folder.path().join("containerd.log")).unwrap();
        let started = Self { process, folder };
        let answers = || async { started.client().await.map(drop) };
        started.process.ready(2 * MINUTE, answers).await.unwrap();
        started
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    async fn client(&self) -> Result<RuntimeClient> {
        let socket = self.socket();
        Ok(RuntimeClient::connect(move || UnixStream::connect(socket.clone())).await?)
    }
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
        let containerd = Containerd::start(&program, &host).await;
        let mut client = containerd.client().await.unwrap();
        let (image, absent) = (format!("{host}/kubernetes/pause:3.10"), format!("{host}/kubernetes/pause:9.9"));
        for _ in 0..2 {
            client
                .ensure_image(&image, MINUTE)
                .await
                .unwrap_or_else(|error| panic!("{error}: {}", containerd.process.log_tail()));
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
