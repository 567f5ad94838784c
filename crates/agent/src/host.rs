//! The machine that the agent configures, as a trait: the rules of the agent are tested against a simulated one.

use std::{collections::BTreeMap, io, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use winpool_api::ServiceStart;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    Stopped,
    /// It is starting or stopping.
    Pending,
    /// The service manager reports that it runs, which does not prove that it works.
    Running {
        /// The process of the service, which for nssm is nssm itself.
        pid: u32,
    },
}

/// The definition of a service in the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceDefinition {
    pub name: String,
    /// `ImagePath`: the command line, with `%VARIABLES%` expanded.
    pub command: String,
    /// `ImagePath` as it is stored, if it is of type `REG_EXPAND_SZ` and has variables. It is written instead of
    /// [`Self::command`] as long as it expands to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexpanded: Option<String>,
    /// `DependOnService`, without empty entries.
    pub depends_on: Vec<String>,
    /// `Environment`: variables as `NAME=value`.
    pub environment: Vec<String>,
}

/// How the service manager treats a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePolicy {
    pub start: ServiceStart,
    /// Whether it is started again when it fails; `None` if that cannot be read.
    pub restarts: Option<bool>,
}

/// A key of the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryKey {
    /// The texts, and the numbers as decimal text. The name of the default value is empty. Values of other types are left out.
    pub values: BTreeMap<String, String>,
    pub keys: Vec<String>,
}

/// What a program printed before it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// The exit code; `None` if it was killed after the time limit.
    pub code: Option<i32>,
    /// Standard output, at most 1 MiB.
    pub stdout: Vec<u8>,
    /// Standard error, at most 1 MiB.
    pub stderr: Vec<u8>,
}

/// Why the container runtime did not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    #[error("the container runtime does not answer at {address}: {why}")]
    Unreachable { address: String, why: String },
    #[error("{0}")]
    Failed(String),
}

/// A sandbox that a runtime can start without the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxKind {
    /// One with a network of its own. The plugins of some networks ask the API server for the pod, and fail without it.
    Network,
    /// That of a HostProcess pod, which has the network of the node.
    HostProcess,
}

impl SandboxKind {
    /// All kinds, the one that proves most first.
    pub const ALL: [Self; 2] = [Self::Network, Self::HostProcess];
}

/// Files, services, programs, loopback HTTP, the container runtime and the clock of a Windows node.
///
/// Paths are absolute paths of the host, such as `C:\k\config.yaml`, not of a container. All functions block.
pub trait Host {
    /// The content of a file; `None` if it does not exist.
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>>;

    /// The end of a file, of at most this many bytes; `None` if it does not exist.
    fn read_end(&self, path: &str, bytes: u64) -> io::Result<Option<Vec<u8>>> {
        let content = self.read(path)?;
        Ok(content.map(|content| {
            content[content.len().saturating_sub(usize::try_from(bytes).unwrap_or_default())..].to_vec()
        }))
    }

    /// Replaces or creates a file and its directories: after a crash at any time, the file has either the former or the new
    /// content.
    /// After an error the former content is unchanged.
    fn replace(&self, path: &str, content: &[u8]) -> io::Result<()>;

    /// Deletes a file. A file that does not exist is no error.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// The names of the files in a directory; empty if it does not exist.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// Whether a path is on a volume of this machine: neither its drive nor a link on the way leads to another one. Parts that do
    /// not exist are left out.
    /// A drive that does not exist is an error.
    fn is_local(&self, path: &str) -> io::Result<bool>;

    /// The definitions of all services.
    fn services(&self) -> io::Result<Vec<ServiceDefinition>>;

    /// How an existing service is started, and whether it is started again.
    fn policy(&self, service: &str) -> io::Result<ServicePolicy>;

    /// A key below `HKEY_LOCAL_MACHINE`, such as `SYSTEM\CurrentControlSet\Control`; `None` if it does not exist.
    fn registry(&self, key: &str) -> io::Result<Option<RegistryKey>>;

    /// Sets command line and environment of an existing service. They take effect at its next start.
    fn define(&self, definition: &ServiceDefinition) -> io::Result<()>;

    /// The state of a service; `None` if it does not exist.
    fn state(&self, service: &str) -> io::Result<Option<ServiceState>>;

    /// The process of a service, also while it starts or stops; `None` if there is none, or it is not known.
    fn process(&self, service: &str) -> io::Result<Option<u32>>;

    /// The processes of a program, by the name of its file, such as `kubelet.exe`.
    fn processes(&self, program: &str) -> io::Result<Vec<u32>>;

    /// Requests the start of a service. A running service is no error.
    /// A service that ends before it is running is an error.
    fn start(&self, service: &str) -> io::Result<()>;

    /// Requests the stop of a service. A stopped service is no error.
    fn stop(&self, service: &str) -> io::Result<()>;

    /// Ends a process and its child processes. A process that does not exist is no error.
    fn kill(&self, pid: u32) -> io::Result<()>;

    /// Runs a program, and kills it after the time limit.
    fn run(&self, program: &str, arguments: &[String], limit: Duration) -> io::Result<ProgramOutput>;

    /// The HTTP status of a `GET` on the loopback interface.
    /// No answer within one second is an error.
    fn http_status(&self, port: u16, path: &str) -> io::Result<u16>;

    /// Makes the container runtime at a named pipe pull an image, unless it has it.
    fn ensure_image(&self, pipe: &str, image: &str, limit: Duration) -> Result<(), RuntimeError>;

    /// Makes the container runtime at a named pipe start the sandbox of a pod, and removes it.
    fn try_sandbox(&self, pipe: &str, kind: SandboxKind, limit: Duration) -> Result<(), RuntimeError>;

    /// Installs or removes the service that restores the last good configuration when Windows starts.
    fn set_restore_service(&self, installed: bool) -> io::Result<()>;

    fn now(&self) -> Timestamp;

    fn sleep(&self, time: Duration);
}
