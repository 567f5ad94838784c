//! The programs of others that tests start: `e2e/program.sh` fetches or builds one that is missing, and a test whose program cannot be
//! had fails.
//!
//! Those of a control plane are in `KUBEBUILDER_ASSETS`, if it is set.

use std::{
    collections::BTreeMap,
    env, fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, OnceLock},
};

use anyhow::{Context, Result, anyhow, ensure};

use crate::shared::lock;

/// The environment variable with the folder of a control plane's programs, which other tools use too.
const VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// The programs of a control plane.
#[derive(Clone, Debug)]
pub struct Assets {
    pub etcd: PathBuf,
    pub kube_apiserver: PathBuf,
    /// `kubectl` of the same version.
    pub kubectl: PathBuf,
    pub kube_scheduler: PathBuf,
    pub kube_controller_manager: PathBuf,
    /// The version of the API server.
    pub version: Version,
}

impl Assets {
    /// Finds them. The result is cached.
    pub fn locate() -> Result<&'static Self> {
        static ASSETS: OnceLock<Result<Assets, String>> = OnceLock::new();
        ASSETS
            .get_or_init(|| Self::find().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|text| anyhow!("{text}"))
    }

    fn find() -> Result<Self> {
        let kube_apiserver = of_control_plane("kube-apiserver")?;
        Ok(Self {
            etcd: of_control_plane("etcd")?,
            kubectl: of_control_plane("kubectl")?,
            kube_scheduler: of_control_plane("kube-scheduler")?,
            kube_controller_manager: of_control_plane("kube-controller-manager")?,
            version: Version::of(&kube_apiserver)?,
            kube_apiserver,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// As the program prints it: `v1.37.2`.
    pub text: String,
    /// The minor version: 37.
    pub minor: u32,
}

impl Version {
    fn of(program: &Path) -> Result<Self> {
        let output =
            Command::new(program).arg("--version").output().with_context(|| format!("{}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Self::parse(&text).ok_or_else(|| anyhow!("{} --version says {text:?}", program.display()))
    }

    /// Reads what `--version` prints: `Kubernetes v1.37.2`.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().strip_prefix("Kubernetes ")?;
        Some(Self { text: text.to_owned(), minor: Self::minor_of(text)? })
    }

    /// The minor of a version such as `v1.37.2`.
    pub(crate) fn minor_of(text: &str) -> Option<u32> {
        text.strip_prefix("v1.")?.split('.').next()?.parse().ok()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The path of a program, by one of the names of `e2e/program.sh`, which fetches or builds it if it is missing. The result is cached.
pub fn program(name: &str) -> Result<PathBuf> {
    printed("program.sh", &[name])
}

/// The directory of Wine.
pub fn wine() -> Result<PathBuf> {
    printed("wine.sh", &[])
}

/// The directory with a compiler and linker for Windows, whose names begin with `x86_64-w64-mingw32-`.
pub fn windows_compiler() -> Result<PathBuf> {
    printed("mingw.sh", &[])
}

/// The directory with `runc`, the plugins for networks of pods, and `busybox`.
pub fn runc() -> Result<PathBuf> {
    printed("runc.sh", &[])
}

/// `containerd` of every supported release line: 1.7, 2.3 (long-term support) and the newest.
pub fn containerds() -> Result<[PathBuf; 3]> {
    of_each_release("containerd", "")
}

/// `containerd.exe` of the same versions.
pub fn windows_containerds() -> Result<[PathBuf; 3]> {
    of_each_release("containerd", ".exe")
}

/// `ctr` of the same versions as [`containerds`].
pub fn ctrs() -> Result<[PathBuf; 3]> {
    of_each_release("ctr", "")
}

fn of_each_release(name: &str, suffix: &str) -> Result<[PathBuf; 3]> {
    let [oldest, stable, newest] = ["-1.7", "-2.3", ""].map(|release| program(&format!("{name}{release}{suffix}")));
    Ok([oldest?, stable?, newest?])
}

fn of_control_plane(name: &str) -> Result<PathBuf> {
    let Some(folder) = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from) else {
        return program(name);
    };
    let path = folder.join(name);
    ensure!(path.is_file(), "{name} is not in {} ({VARIABLE}): add that of the same version", folder.display());
    Ok(path)
}

/// The path that a script of this folder prints; its progress is on our standard error. The result is cached.
fn printed(script: &'static str, arguments: &[&str]) -> Result<PathBuf> {
    static PRINTED: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let command = [&[script], arguments].concat().join(" ");
    let mut printed = lock(&PRINTED);
    if let Some(path) = printed.get(&command) {
        return Ok(path.clone());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(folder.join(script)).args(arguments).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("running e2e/{command}"))?;
    ensure!(output.status.success(), "e2e/{command} failed ({}); its messages are above", output.status);
    let path = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    printed.insert(command, path.clone());
    Ok(path)
}
