//! Finds or builds the programs of a control plane.
//!
//! They are in `KUBEBUILDER_ASSETS` if it is set, else in the folder that `e2e/control-plane.sh` fills if necessary.

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

/// An optional program of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// `kube-scheduler`: without it no Pod is scheduled.
    Scheduler,
    /// `kube-controller-manager`: without it no Pods are created for Deployments and nothing is garbage-collected.
    ControllerManager,
}

impl Component {
    /// Every optional program.
    pub const ALL: [Self; 2] = [Self::Scheduler, Self::ControllerManager];
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduler => "kube-scheduler",
            Self::ControllerManager => "kube-controller-manager",
        })
    }
}

/// The programs of a control plane.
#[derive(Clone, Debug)]
pub struct Assets {
    /// `etcd`.
    pub etcd: PathBuf,
    /// `kube-apiserver`.
    pub kube_apiserver: PathBuf,
    /// `kubectl` of the same version.
    pub kubectl: PathBuf,
    /// `kube-scheduler`, if present.
    pub kube_scheduler: Option<PathBuf>,
    /// `kube-controller-manager`, if present.
    pub kube_controller_manager: Option<PathBuf>,
    /// The version of the API server.
    pub version: Version,
}

impl Assets {
    /// Finds them, or builds them and prints the build's progress to standard error. The result is cached.
    ///
    /// # Errors
    /// When `KUBEBUILDER_ASSETS` names a folder without etcd, kube-apiserver or kubectl, or the build fails.
    pub fn locate() -> Result<&'static Self> {
        static ASSETS: OnceLock<Result<Assets, String>> = OnceLock::new();
        ASSETS
            .get_or_init(|| Self::find().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|text| anyhow!("{text}"))
    }

    /// The optional programs that are missing.
    #[must_use]
    pub fn missing(&self) -> Vec<Component> {
        Component::ALL.into_iter().filter(|component| self.path_of(*component).is_none()).collect()
    }

    /// The path of `component`.
    #[must_use]
    pub fn path_of(&self, component: Component) -> Option<&Path> {
        match component {
            Component::Scheduler => self.kube_scheduler.as_deref(),
            Component::ControllerManager => self.kube_controller_manager.as_deref(),
        }
    }

    fn find() -> Result<Self> {
        let folder = match given_folder() {
            Some(folder) => folder,
            None => built_folder()?,
        };
        let required = |name: &str| {
            program(&folder, name).ok_or_else(|| anyhow!("{name} is not in {} ({VARIABLE})", folder.display()))
        };
        let kube_apiserver = required("kube-apiserver")?;
        let assets = Self {
            etcd: required("etcd")?,
            kubectl: required("kubectl")?,
            kube_scheduler: program(&folder, "kube-scheduler"),
            kube_controller_manager: program(&folder, "kube-controller-manager"),
            version: Version::of(&kube_apiserver)?,
            kube_apiserver,
        };
        for component in assets.missing() {
            say(format_args!("{component} is not in {VARIABLE}: what needs it is skipped by name"));
        }
        Ok(assets)
    }
}

/// True, with a line on standard error, if a component that `test` needs is missing.
///
/// # Errors
/// As [`Assets::locate`].
pub fn skipped(test: &str, needs: &[Component]) -> Result<bool> {
    let missing = Assets::locate()?.missing().into_iter().find(|component| needs.contains(component));
    if let Some(component) = missing {
        print_skipped(test, &component);
    }
    Ok(missing.is_some())
}

/// Prints that `test` did not run because `program` is missing.
pub fn print_skipped(test: &str, program: &impl fmt::Display) {
    say(format_args!("skipped: {test}: {program} is not in {VARIABLE}"));
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

/// Finds `kubelet.exe` of Kubernetes 1.20.2, or builds it.
///
/// `None` when `KUBEBUILDER_ASSETS` is set and it is neither there nor built before.
///
/// # Errors
/// When the build fails.
pub fn windows_kubelet() -> Result<Option<PathBuf>> {
    extra("kubelet.exe", "--windows-kubelet")
}

/// Finds the directory of Wine that `e2e/wine.sh` has installed, or installs it.
///
/// `None` when `KUBEBUILDER_ASSETS` is set and it was not installed before.
///
/// # Errors
/// When the installation fails.
pub fn wine() -> Result<Option<PathBuf>> {
    let folder = cache()?.join("wine").join(WINE_VERSION);
    match program(&folder, "bin/wine64") {
        Some(_) => Ok(Some(folder)),
        None if given_folder().is_some() => Ok(None),
        None => run_script("wine.sh", &[]).map(Some),
    }
}

/// Finds `containerd` (for `containerd config dump`; no daemon is started), or downloads Debian's.
///
/// `None` if `KUBEBUILDER_ASSETS` is set and it is neither there, nor downloaded before, nor on the PATH.
///
/// # Errors
/// When fetching fails.
pub fn containerd() -> Result<Option<PathBuf>> {
    match on_path("containerd") {
        Some(path) => Ok(Some(path)),
        None => extra("containerd", "--containerd"),
    }
}

/// The programs of later releases of Debian, which are downloaded together with [`containerd`].
const CONTAINERDS_OF_LATER_RELEASES: [&str; 2] = ["containerd-trixie", "containerd-forky"];

/// Finds several versions of containerd, or downloads Debian's: that of [`containerd`], a 1.7, and a 2.1 or later.
/// Returns the name of each, and its path if it was found.
///
/// # Errors
/// When fetching fails.
pub fn containerds() -> Result<Vec<(&'static str, Option<PathBuf>)>> {
    let later = CONTAINERDS_OF_LATER_RELEASES.map(|name| Ok((name, extra(name, "--containerd")?)));
    [containerd().map(|path| ("containerd", path))].into_iter().chain(later).collect()
}

/// Finds `docker-registry`, or downloads Debian's.
///
/// `None` if `KUBEBUILDER_ASSETS` is set and it is neither there, nor downloaded before, nor on the PATH.
///
/// # Errors
/// When fetching fails.
pub fn docker_registry() -> Result<Option<PathBuf>> {
    match on_path("docker-registry") {
        Some(path) => Ok(Some(path)),
        None => extra("docker-registry", "--registry"),
    }
}

/// `helm`: the one on the PATH, or else `e2e/helm.sh`, which installs one when it runs for the first time.
#[must_use]
pub fn helm() -> PathBuf {
    on_path("helm").unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("helm.sh"))
}

/// Finds `prometheus` or `promtool`, or downloads Debian's.
///
/// `None` if `KUBEBUILDER_ASSETS` is set and it is neither there, nor downloaded before, nor on the PATH.
///
/// # Errors
/// When fetching fails.
pub fn prometheus(program: &str) -> Result<Option<PathBuf>> {
    match on_path(program) {
        Some(path) => Ok(Some(path)),
        None => extra(program, "--prometheus"),
    }
}

fn extra(name: &str, option: &str) -> Result<Option<PathBuf>> {
    let folders = given_folder().into_iter().chain([cache_folder()?]);
    let found = folders.into_iter().find_map(|folder| program(&folder, name));
    if found.is_some() || given_folder().is_some() {
        return Ok(found);
    }
    let folder = build(&[option])?;
    program(&folder, name).map(Some).ok_or_else(|| anyhow!("control-plane.sh {option} left no {name}"))
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
    if all.iter().all(|name| program(&folder, name).is_some()) { Ok(folder) } else { build(&[]) }
}

fn build(options: &[&str]) -> Result<PathBuf> {
    run_script("control-plane.sh", options)
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
