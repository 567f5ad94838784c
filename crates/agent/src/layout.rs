//! How the kubelet, containerd and kube-proxy are installed on a node, detected from its services and files.
//!
//! - kubeadm with a service: flags in `ImagePath`, often behind `kube-log-runner.exe`. `kubeadm-flags.env` is not read.
//!   Source: kubernetes-sigs/image-builder ae63061, `images/capi/ansible/windows/roles/kubernetes/tasks/sc.yml` and
//!   `templates/RestartKubelet.ps1`.
//! - kubeadm with nssm: `C:\k\StartKubelet.ps1` reads `C:\var\lib\kubelet\kubeadm-flags.env`. Sources: the same,
//!   `tasks/nssm.yml` and `templates/StartKubelet.ps1`; kubernetes-sigs/sig-windows-tools 401ee6f,
//!   `hostprocess/PrepareNode.ps1`.
//! - RKE2: child processes of the service `rke2` (`layout::rke2`).
//! - EKS, self-managed or with a custom AMI: flags in `ImagePath` behind `EKS-WindowsServiceHost.exe`, and JSON in
//!   `C:\ProgramData\kubernetes\kubelet-config.json`. Source: `Start-EKSBootstrap.ps1` of the EKS Windows AMI, in
//!   bgsilvait/EKS, `Windows/Start-EKSBootstrap_117_DSR.ps1`.
//! - Another service: flags in `ImagePath`, with `--config`.
//!
//! Nodes that another system configures are refused (`layout::managed`).

pub mod command_line;
mod containerd;
pub mod managed;
mod rke2;

use std::time::Duration;

use winpool_facts::{ContainerdVersion, KubeletVersion, Minor, named_enum, support::OLDEST};

use self::command_line::{Argument, arguments, file_name, split};
use super::{
    change_plan::{Refusal, RefusalReason},
    host::{Host, ServiceDefinition},
    merge::flags,
    refuse::{read, refuse, unreadable},
};

named_enum! {
    /// The distribution that installed a node.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LayoutKind {
        /// kubeadm with a service of its own for the kubelet.
        KubeadmService = "kubeadm",
        /// kubeadm with nssm and a start script.
        KubeadmNssm = "kubeadm-nssm",
        Rke2 = "rke2",
        Eks = "eks",
        /// Nodes of a managed node group of EKS with an AMI of the user, whose user data EKS does not change.
        EksManaged = "eks-managed",
        /// Another service with the kubelet's flags in its command line.
        Plain = "service",
    }
}

/// The layout of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub kind: LayoutKind,
    pub kubelet: KubeletLayout,
    pub containerd: ContainerdLayout,
    /// kube-proxy, if it is a service. It can also run in a pod.
    pub kube_proxy: Option<KubeProxy>,
}

impl Layout {
    /// The names of the services of containerd, the kubelet and, if it has one, kube-proxy. Those of RKE2 are one.
    pub fn services(&self) -> impl Iterator<Item = &str> + Clone {
        let kube_proxy = self.kube_proxy.as_ref().map(|kube_proxy| &kube_proxy.service);
        [&self.containerd.service, &self.kubelet.service].into_iter().chain(kube_proxy).map(String::as_str)
    }
}

/// The kubelet of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletLayout {
    pub service: String,
    pub program: String,
    pub minor: Minor,
    /// The path of the flag `--config`. Only the kubelet of RKE2 has none.
    pub config: Option<String>,
    /// The directory of the flag `--config-dir`, if the kubelet has it.
    pub drop_ins: Option<String>,
    /// The path of the flag `--kubeconfig`, with which the kubelet reads its pods.
    pub kubeconfig: Option<String>,
    pub flags: FlagsPlace,
}

/// Where the kubelet's flags are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagsPlace {
    Service,
    /// `kubeadm-flags.env`, which a start script reads.
    EnvironmentFile {
        path: String,
        /// The path of the script, which is not changed.
        script: String,
    },
    /// A file with `kubelet-arg` in the directory of RKE2's configuration.
    Rke2 {
        path: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerdLayout {
    /// The service to restart; that of the kubelet for RKE2.
    pub service: String,
    pub program: String,
    pub version: ContainerdVersion,
    /// The path of `config.toml`, which need not exist.
    pub config: String,
    /// Whether `config.toml` can be changed. RKE2 generates it at every start.
    pub is_writable: bool,
}

/// kube-proxy as a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeProxy {
    pub service: String,
    /// The path of the program, if the command line has it.
    pub program: Option<String>,
    /// The path of the flag `--config`, if it has one.
    pub config: Option<String>,
    /// The port of its health endpoint according to its flags.
    pub health_port: Option<u16>,
}

const VERSION_LIMIT: Duration = Duration::from_secs(60);
const KUBEADM_CONFIG: &str = r"C:\var\lib\kubelet\config.yaml";
const KUBEADM_FLAGS: &str = r"C:\var\lib\kubelet\kubeadm-flags.env";
const START_SCRIPT: &str = r"C:\k\StartKubelet.ps1";
pub(super) const NSSM: &str = "nssm.exe";
const KUBELET: &str = "kubelet.exe";
const KUBE_PROXY: &str = "kube-proxy.exe";
const EKS_HOST: &str = "eks-windowsservicehost.exe";
const INSTALL: &str = "Install the kubelet with kubeadm, RKE2 or EKS, or as a service with --config, or set \
                       spec.delivery.method: None";

/// Detects the layout of a node. Only reads, and runs `kubelet --version` and `containerd --version`.
pub fn detect(host: &dyn Host) -> Result<Layout, Refusal> {
    let services = host.services().map_err(|error| unreadable("the services of the node", error))?;
    managed::refuse_managed(host, &services)?;
    if let Some(service) = rke2::service(&services) {
        return rke2::detect(host, service);
    }
    let Some(service) = find(&services, &["kubelet"]) else {
        return Err(unknown("the node has no service kubelet"));
    };
    let (kind, kubelet) = match program_name(service).as_str() {
        NSSM => nssm(host, service)?,
        _ => in_service(host, service)?,
    };
    let containerd = containerd::detect(host, &services)?;
    Ok(Layout { kind, kubelet, containerd, kube_proxy: kube_proxy(&services) })
}

/// A kubelet whose flags are in the command line of its service.
fn in_service(host: &dyn Host, service: &ServiceDefinition) -> Result<(LayoutKind, KubeletLayout), Refusal> {
    let Some((program, flags)) = program_and_flags(&service.command, KUBELET) else {
        return Err(unknown(format!("the service {} does not run kubelet.exe: {}", service.name, service.command)));
    };
    let path = |flag: &str| flags::value(&flags, flag).filter(|path| !path.is_empty()).map(|path| absolute(&path));
    let Some(config) = path("config") else {
        return Err(unknown(format!("the service {} has no flag --config: {}", service.name, service.command)));
    };
    let kind = match program_name(service).as_str() {
        EKS_HOST => LayoutKind::Eks,
        _ if config.eq_ignore_ascii_case(KUBEADM_CONFIG) => LayoutKind::KubeadmService,
        _ => LayoutKind::Plain,
    };
    let kubelet = KubeletLayout {
        service: service.name.clone(),
        minor: kubelet_version(host, &program)?,
        program,
        config: Some(config),
        drop_ins: path("config-dir"),
        kubeconfig: path("kubeconfig"),
        flags: FlagsPlace::Service,
    };
    Ok((kind, kubelet))
}

/// A kubelet that nssm runs with the start script of kubeadm's Windows tools. nssm has the script in its parameters.
fn nssm(host: &dyn Host, service: &ServiceDefinition) -> Result<(LayoutKind, KubeletLayout), Refusal> {
    let script = read(host, START_SCRIPT)?;
    let Some(script) = script.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) else {
        return Err(unknown(format!("nssm runs the kubelet, and {START_SCRIPT} does not exist")));
    };
    let Some(environment) = read(host, KUBEADM_FLAGS)? else {
        return Err(unknown(format!("{START_SCRIPT} exists, and {KUBEADM_FLAGS} does not")));
    };
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let in_environment =
        flags::environment_file(&environment).map_or_else(Vec::new, |range| arguments(&environment[range], 0));
    let path = |flag: &str| {
        let value = flags::value(&in_environment, flag).or_else(|| in_script(&script, flag));
        value.filter(|path| !path.is_empty()).map(|path| absolute(&path))
    };
    let Some(config) = path("config") else {
        return Err(unknown(format!("{START_SCRIPT} starts the kubelet without --config")));
    };
    let program = r"C:\k\kubelet.exe".to_owned();
    let kubelet = KubeletLayout {
        service: service.name.clone(),
        minor: kubelet_version(host, &program)?,
        program,
        config: Some(config),
        drop_ins: path("config-dir"),
        kubeconfig: path("kubeconfig"),
        flags: FlagsPlace::EnvironmentFile { path: KUBEADM_FLAGS.to_owned(), script: START_SCRIPT.to_owned() },
    };
    Ok((LayoutKind::KubeadmNssm, kubelet))
}

/// The value of a flag in a PowerShell script, with the drive of the system.
fn in_script(script: &str, name: &str) -> Option<String> {
    let flag = format!("--{name}=");
    let rest = &script[script.rfind(&flag)? + flag.len()..];
    let end = rest.find(|c: char| c.is_whitespace() || "\"'`,;".contains(c)).unwrap_or(rest.len());
    let value = &rest[..end];
    let variable = value.get(..DRIVE_VARIABLE.len()).is_some_and(|start| start.eq_ignore_ascii_case(DRIVE_VARIABLE));
    Some(if variable { format!("C:{}", &value[DRIVE_VARIABLE.len()..]) } else { value.to_owned() })
}

const DRIVE_VARIABLE: &str = "$env:SYSTEMDRIVE";

/// The value of a flag that a start script sets after the flags of `kubeadm-flags.env`, so that it has precedence. The
/// script of image-builder appends the flags of the file, that of sig-windows-tools puts them first.
pub(super) fn flag_in_script(script: &str, name: &str) -> Option<String> {
    let lower = script.to_ascii_lowercase();
    let from_file = ["kubeadmargs", "kubeletargs"].iter().filter_map(|variable| lower.rfind(variable)).max()?;
    in_script(&script[from_file..], name)
}

fn kube_proxy(services: &[ServiceDefinition]) -> Option<KubeProxy> {
    let service = find(services, &["kube-proxy", "kubeproxy"])?;
    let (program, flags) = program_and_flags(&service.command, KUBE_PROXY).unzip();
    let flags = flags.unwrap_or_default();
    let config = flags::value(&flags, "config").filter(|path| !path.is_empty()).map(|path| absolute(&path));
    let address = flags::value(&flags, "healthz-bind-address");
    let health_port = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
    Some(KubeProxy { service: service.name.clone(), program, config, health_port })
}

/// The program of this file name in a command line, which can be behind others, and its flags.
fn program_and_flags(command: &str, name: &str) -> Option<(String, Vec<Argument>)> {
    let all = split(command);
    let at = all.iter().position(|argument| file_name(&argument.value) == name)?;
    Some((absolute(&all[at].value), all[at + 1..].to_vec()))
}

/// The byte of a command line at which the kubelet's flags begin.
pub(super) fn flags_begin(command: &str) -> Option<usize> {
    split(command).into_iter().find(|argument| file_name(&argument.value) == KUBELET).map(|program| program.range.end)
}

/// The name of the executable of a service, in lower case.
fn program_name(service: &ServiceDefinition) -> String {
    split(&service.command).first().map(|program| file_name(&program.value)).unwrap_or_default()
}

fn find<'a>(services: &'a [ServiceDefinition], names: &[&str]) -> Option<&'a ServiceDefinition> {
    services.iter().find(|service| names.iter().any(|name| service.name.eq_ignore_ascii_case(name)))
}

/// A path with drive and backslashes. Services start on the system drive.
pub(super) fn absolute(path: &str) -> String {
    let path = path.replace('/', "\\");
    let rooted = path.starts_with('\\') && !path.starts_with(r"\\");
    if rooted { format!("C:{path}") } else { path }
}

pub(super) fn directory(path: &str) -> &str {
    path.rsplit_once('\\').map_or("", |(directory, _)| directory)
}

fn kubelet_version(host: &dyn Host, program: &str) -> Result<Minor, Refusal> {
    let text = version_text(host, program).map_err(unknown)?;
    match minor_in(&text) {
        Some(minor) if minor < OLDEST => {
            let wrong = format!("kubelet {minor} is older than {OLDEST}");
            Err(refuse(RefusalReason::UnsupportedKubelet, wrong, "Upgrade the kubelet"))
        }
        Some(minor) => Ok(minor),
        None => Err(unknown(format!("{program} --version printed `{}`", text.trim()))),
    }
}

/// The minor of a program of Kubernetes, if it says so.
pub(super) fn minor_of(host: &dyn Host, program: &str) -> Option<Minor> {
    minor_in(&version_text(host, program).ok()?)
}

/// The minor in `Kubernetes v1.36.2`.
fn minor_in(text: &str) -> Option<Minor> {
    text.split_whitespace().find_map(|part| part.parse::<KubeletVersion>().ok()).map(|version| version.minor)
}

/// What a program prints for `--version`, or why there is nothing.
fn version_text(host: &dyn Host, program: &str) -> Result<String, String> {
    let output =
        host.run(program, &["--version".to_owned()], VERSION_LIMIT).map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn unknown(wrong: impl std::fmt::Display) -> Refusal {
    refuse(RefusalReason::UnknownLayout, wrong, INSTALL)
}

#[cfg(test)]
mod tests;
