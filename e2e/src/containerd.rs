//! containerd itself, in a folder of its own: it pulls from one registry, and starts nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Result;
use tempfile::TempDir;
use tokio::net::UnixStream;

use crate::process::Process;

const SOCKET: &str = "socket";
const HOSTS: &str = "certs.d";
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// A running containerd. Dropping it ends it and deletes its images.
pub struct Containerd {
    process: Process,
    folder: TempDir,
}

impl Containerd {
    /// Starts a program with these settings beside those of its folder, in TOML of version 2, and waits until it listens.
    /// `registry` is the host and port of a registry with a certificate of its own, for the directory [`Self::hosts`].
    pub async fn start(program: &Path, registry: &str, settings: impl FnOnce(&Path) -> String) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        // containerd and ctr would talk to a loopback address without TLS.
        let url = format!("https://{registry}");
        let hosts = path(HOSTS).join(registry);
        fs::create_dir_all(&hosts)?;
        fs::write(hosts.join("hosts.toml"), format!("server = {url:?}\n[host.{url:?}]\nskip_verify = true\n"))?;
        let configuration = format!(
            "version = 2\nroot = {:?}\nstate = {:?}\n{}\n[grpc]\naddress = {:?}\n",
            path("root"),
            path("state"),
            settings(&path(HOSTS)),
            path(SOCKET),
        );
        fs::write(path("config.toml"), configuration)?;
        let mut command = Command::new(program);
        command.arg("--config").arg(path("config.toml"));
        let process = Process::spawn("containerd", command, &path("containerd.log"))?;
        let started = Self { process, folder };
        let listens = || async {
            UnixStream::connect(started.socket()).await?;
            Ok(())
        };
        started.process.ready(START_TIMEOUT, listens).await?;
        Ok(started)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder().join(SOCKET)
    }

    /// The directory with the `hosts.toml` of the registry.
    pub fn hosts(&self) -> PathBuf {
        self.folder().join(HOSTS)
    }

    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}
