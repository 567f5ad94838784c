//! The operator as a process: the built `winpool` binary, run as the ServiceAccount of the shipped RBAC.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Output},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};

use crate::{
    control_plane::{ControlPlane, User},
    network::{free_port, http_get},
    process::Process,
    progress::say,
};

const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// The exit status of a replica that is no longer the leader.
pub const NOT_LEADER: i32 = 4;

/// A running operator. Dropping it ends it.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    admin: SocketAddr,
}

impl Operator {
    /// Starts `winpool run` with further `arguments` and environment variables, and waits until it is ready.
    pub async fn start(control_plane: &ControlPlane, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Self> {
        let operator = Self::spawn(control_plane, arguments, environment)?;
        operator.wait_ready(READY_TIMEOUT).await?;
        Ok(operator)
    }

    /// Starts `winpool run` without waiting for it.
    pub fn spawn(control_plane: &ControlPlane, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let admin = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let mut command = Command::new(binary()?);
        command
            .args(["run", "--admin-address", &admin.to_string()])
            .args(arguments)
            .env("KUBECONFIG", control_plane.kubeconfig(User::Operator))
            // A restarted operator would wait for the Lease of a killed one. Tests of the election set it.
            .env("WINPOOL_LEADER_ELECTION", "off")
            .envs(environment.iter().copied());
        let log = control_plane.log_of(&format!("operator-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        Ok(Self { process: Process::spawn("winpool", command, &log)?, admin })
    }

    /// Waits until `/readyz` returns 200.
    pub async fn wait_ready(&self, timeout: Duration) -> Result<()> {
        let ready = || async {
            let (status, body) = self.get("/readyz").await?;
            ensure!(status == 200, "/readyz answers {status}: {body}");
            Ok(())
        };
        self.process.ready(timeout, ready).await
    }

    /// Fetches a path of the admin address: the status code and the body.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        http_get(self.admin, path).await
    }

    pub async fn metrics(&self) -> Result<String> {
        let (status, text) = self.get("/metrics").await?;
        ensure!(status == 200, "/metrics answers {status}: {text}");
        Ok(text)
    }

    /// The sum of the metrics called `name` whose labels include `labels`; 0 if there is none.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        Ok(sum(&self.metrics().await?, name, labels))
    }

    /// The address of `/metrics`, `/livez` and `/readyz`.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.process.log())?)
    }

    /// Its resident memory in bytes (VmRSS).
    pub fn resident_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.pid());
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let kib =
            text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok());
        kib.map(|kib: u64| kib * 1024).ok_or_else(|| anyhow!("no VmRSS in {path}"))
    }

    /// Sends SIGTERM and waits until it has ended.
    pub async fn stop(&self) -> Result<ExitStatus> {
        self.process.stop(Duration::from_secs(30)).await
    }

    pub fn kill(&self) -> Result<ExitStatus> {
        self.process.kill()
    }

    /// Checks that it has ended because it is no longer the leader.
    pub fn check_lost_lease(&self) -> Result<()> {
        let status = self.process.exit_status();
        ensure!(status.and_then(|status| status.code()) == Some(NOT_LEADER), "exit status {status:?}");
        Ok(())
    }
}

/// Runs a `winpool` command such as `plan` or `cleanup` as `user`, whatever its exit status is.
pub fn winpool(control_plane: &ControlPlane, user: User, arguments: &[&str]) -> Result<Output> {
    Command::new(binary()?)
        .args(arguments)
        .env("KUBECONFIG", control_plane.kubeconfig(user))
        .output()
        .context("running winpool")
}

/// The `winpool` binary: `WINPOOL_BINARY` if set, else the one of the cargo profile of this program, which is built
/// first if necessary.
pub fn binary() -> Result<&'static Path> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BINARY.get_or_init(|| find_binary().map_err(|error| format!("{error:#}")));
    found.as_deref().map_err(|text| anyhow!("{text}"))
}

fn find_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("WINPOOL_BINARY").filter(|value| !value.is_empty()) {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "WINPOOL_BINARY={} is no file", path.display());
        return Ok(path);
    }
    let program = std::env::current_exe()?;
    // <target>/<profile>/deps/<test>, or <target>/<profile>/<program>.
    let folder = program.ancestors().skip(1).find(|folder| folder.file_name().is_none_or(|name| name != "deps"));
    let folder = folder.with_context(|| format!("{} lies in no folder", program.display()))?;
    let target = folder.parent().context("the target folder")?;
    let manifest = workspace().join("Cargo.toml");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--workspace", "--bin", "winpool", "--manifest-path"]).arg(manifest);
    build.arg("--target-dir").arg(target);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    say("building winpool, unless it is up to date (up to 2 minutes)…");
    ensure!(build.status().context("running cargo")?.success(), "winpool does not build");
    Ok(folder.join("winpool"))
}

/// The root of the repository.
pub fn workspace() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Sums samples of the text format; label values are compared with their escapes.
fn sum(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let (own, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.starts_with(' ').then_some(rest)?),
        };
        let has = |(key, value): &(&str, &str)| {
            let wanted = format!("{key}=\"{value}\"");
            own == wanted || own.starts_with(&format!("{wanted},")) || own.contains(&format!(",{wanted}"))
        };
        labels.iter().all(has).then(|| value.split_whitespace().next()?.parse::<f64>().ok()).flatten()
    };
    text.lines().filter_map(value).sum()
}
