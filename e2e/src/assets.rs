//! Finds or builds the programs that tests start.
//!
//! Those of a control plane are in `KUBEBUILDER_ASSETS` if it is set, else in the folder that `e2e/control-plane.sh` fills.
//! All others are where the scripts of this folder leave them, whatever the variable says. A program that is missing is
//! fetched or built; a test whose program cannot be had fails.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, bail};

use crate::progress::say;

/// The environment variable with the folder of a control plane's programs, which other tools use too.
pub const VARIABLE: &str = "KUBEBUILDER_ASSETS";
const VERSION_THAT_IS_BUILT: &str = "v1.20.2";
const WINE_VERSION: &str = "10.0";

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
    /// Finds them, or builds them and prints the build's progress to standard error. The result is cached.
    ///
    /// # Errors
    /// When `KUBEBUILDER_ASSETS` names a folder without one of them, or the build fails.
    pub fn locate() -> Result<&'static Self> {
        static ASSETS: OnceLock<Result<Assets, String>> = OnceLock::new();
        ASSETS
            .get_or_init(|| Self::find().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|text| anyhow!("{text}"))
    }

    fn find() -> Result<Self> {
        let folder = match given_folder() {
            Some(folder) => folder,
            None => built_folder()?,
        };
        let required = |name: &str| {
            program(&folder, name).ok_or_else(|| {
                anyhow!("{name} is not in {} ({VARIABLE}): add that of the same version", folder.display())
            })
        };
        let kube_apiserver = required("kube-apiserver")?;
        Ok(Self {
            etcd: required("etcd")?,
            kubectl: required("kubectl")?,
            kube_scheduler: required("kube-scheduler")?,
            kube_controller_manager: required("kube-controller-manager")?,
            version: Version::of(&kube_apiserver)?,
            kube_apiserver,
        })
    }
}

/// A Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// As the program prints it: `v1.20.2`.
    pub text: String,
    /// The minor version: 20.
    pub minor: u32,
}

impl Version {
    fn of(program: &Path) -> Result<Self> {
        let output =
            Command::new(program).arg("--version").output().with_context(|| format!("{}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Self::parse(&text).ok_or_else(|| anyhow!("{} --version says {text:?}", program.display()))
    }

    /// Reads what `--version` prints: `Kubernetes v1.20.2`.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().strip_prefix("Kubernetes ")?;
        Some(Self { text: text.to_owned(), minor: Self::minor_of(text)? })
    }

    /// The minor of a version such as `v1.20.2`.
    pub(crate) fn minor_of(text: &str) -> Option<u32> {
        text.strip_prefix("v1.")?.split('.').next()?.parse().ok()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `kubelet.exe` of Kubernetes 1.20.2.
///
/// # Errors
/// When building it fails.
pub fn windows_kubelet() -> Result<PathBuf> {
    filled_by("control-plane.sh", &["--no-servers", "--windows-kubelet"], &cache_folder()?, "kubelet.exe")
}

/// The directory of Wine.
///
/// # Errors
/// When the installation fails.
pub fn wine() -> Result<PathBuf> {
    let folder = cache()?.join("wine").join(WINE_VERSION);
    filled_by("wine.sh", &[], &folder, "bin/wine64").map(|_| folder)
}

/// Several versions of `containerd`: 1.6, 1.7, and 2.1 or later.
///
/// # Errors
/// When fetching one fails.
pub fn containerds() -> Result<[PathBuf; 3]> {
    of_each_release("containerd")
}

/// `ctr` of the same versions as [`containerds`].
///
/// # Errors
/// When fetching one fails.
pub fn ctrs() -> Result<[PathBuf; 3]> {
    of_each_release("ctr")
}

fn of_each_release(program: &str) -> Result<[PathBuf; 3]> {
    let [bookworm, trixie, forky] =
        ["bookworm", "trixie", "forky"].map(|release| program_of_debian(&format!("{program}-{release}")));
    Ok([bookworm?, trixie?, forky?])
}

/// A program that `e2e/programs.sh` fetches from Debian: `docker-registry`, `prometheus`, `promtool` or `kubectl-sid`, the kubectl of
/// today.
///
/// # Errors
/// When fetching it fails.
pub fn program_of_debian(name: &str) -> Result<PathBuf> {
    filled_by("programs.sh", &[], &cache()?.join("programs"), name)
}

/// `helm`: the one on the PATH, or else `e2e/helm.sh`, which installs one when it runs for the first time.
#[must_use]
pub fn helm() -> PathBuf {
    on_path("helm").unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("helm.sh"))
}

/// A program in a folder that a script fills: it runs if the program is missing.
fn filled_by(script: &str, options: &[&str], folder: &Path, name: &str) -> Result<PathBuf> {
    if let Some(path) = program(folder, name) {
        return Ok(path);
    }
    run_script(script, options)?;
    program(folder, name).ok_or_else(|| anyhow!("{script} left no {name} in {}", folder.display()))
}

fn given_folder() -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn cache() -> Result<PathBuf> {
    let cache = match env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(cache.join("winpool"))
}

fn cache_folder() -> Result<PathBuf> {
    Ok(cache()?.join("control-plane").join(VERSION_THAT_IS_BUILT))
}

fn built_folder() -> Result<PathBuf> {
    let folder = cache_folder()?;
    let all = ["etcd", "kube-apiserver", "kubectl", "kube-scheduler", "kube-controller-manager"];
    if all.iter().all(|name| program(&folder, name).is_some()) {
        Ok(folder)
    } else {
        run_script("control-plane.sh", &[])
    }
}

/// Runs a script with its progress on our standard error; it prints the folder that it filled.
fn run_script(name: &str, options: &[&str]) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    say(format_args!("running {} {}", script.display(), options.join(" ")));
    let output = Command::new(&script)
        .args(options)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed ({}); its messages are above", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn program(folder: &Path, name: &str) -> Option<PathBuf> {
    Some(folder.join(name)).filter(|path| path.is_file())
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find_map(|folder| program(&folder, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_the_programs_print_them() {
        for (text, minor) in [
            ("Kubernetes v1.20.2\n", Some(20)),
            ("Kubernetes v1.36.0", Some(36)),
            ("Kubernetes v1.37.0-beta.1", Some(37)),
            ("etcd Version: 3.4", None),
        ] {
            assert_eq!(Version::parse(text).map(|version| version.minor), minor, "{text}");
        }
    }
}
