//! The sources of other projects, as Go modules in the versions and with the checksums that the folders of `e2e/programs` pin.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::operator::workspace;

/// A Go module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// The folder of `e2e/programs` whose `go.mod` has its version.
    pub folder: &'static str,
    /// Its path, such as `k8s.io/api`.
    pub path: &'static str,
}

/// Where a module is on this machine.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Downloaded {
    /// The version, such as `v0.37.2`.
    pub version: String,
    /// The directory with its files.
    pub dir: PathBuf,
}

/// kubernetes-sigs/cluster-api, without its types.
pub const CLUSTER_API: Module = Module::new("cluster-api", "sigs.k8s.io/cluster-api");

impl Module {
    /// A module with a path, of a folder of `e2e/programs`.
    #[must_use]
    pub const fn new(folder: &'static str, path: &'static str) -> Self {
        Self { folder, path }
    }

    /// Downloads the module, unless this machine has it.
    ///
    /// # Errors
    /// When the folder does not pin the module, or Go cannot download it, or there is no Go (`e2e/go.sh`).
    pub fn download(self) -> Result<Downloaded> {
        let folder = workspace().join("e2e/programs").join(self.folder);
        let go = workspace().join("e2e/go.sh");
        let output = Command::new(&go).args(["mod", "download", "-json", self.path]).current_dir(&folder).output()?;
        if !output.status.success() {
            let text = [output.stdout, output.stderr].concat();
            bail!("{} in {}: {}", self.path, folder.display(), String::from_utf8_lossy(&text));
        }
        serde_json::from_slice(&output.stdout).with_context(|| format!("{} in {}", self.path, folder.display()))
    }
}
