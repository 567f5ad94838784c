//! The sources of other projects, as Go modules in the versions and with the checksums that the folders of `e2e/programs` pin.

use std::{collections::BTreeMap, path::PathBuf, process::Command, sync::Mutex};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{operator::workspace, shared::lock};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Module {
    /// The folder of `e2e/programs` whose `go.mod` has its version.
    pub folder: &'static str,
    /// Its path, such as `k8s.io/api`.
    pub path: &'static str,
}

/// Where a module is on this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Downloaded {
    /// The version, such as `v0.37.2`.
    pub version: String,
    pub dir: PathBuf,
}

/// kubernetes-sigs/cluster-api, without its types.
pub const CLUSTER_API: Module = Module::new("cluster-api", "sigs.k8s.io/cluster-api");

impl Module {
    pub const fn new(folder: &'static str, path: &'static str) -> Self {
        Self { folder, path }
    }

    /// Downloads the module, unless this machine has it. The result is cached.
    pub fn download(self) -> Result<Downloaded> {
        static DOWNLOADED: Mutex<BTreeMap<Module, Downloaded>> = Mutex::new(BTreeMap::new());
        let mut all = lock(&DOWNLOADED);
        if let Some(known) = all.get(&self) {
            return Ok(known.clone());
        }
        let folder = workspace().join("e2e/programs").join(self.folder);
        let go = workspace().join("e2e/go.sh");
        let output = Command::new(&go).args(["mod", "download", "-json", self.path]).current_dir(&folder).output()?;
        if !output.status.success() {
            let text = [output.stdout, output.stderr].concat();
            bail!("{} in {}: {}", self.path, folder.display(), String::from_utf8_lossy(&text));
        }
        let found: Downloaded = serde_json::from_slice(&output.stdout).with_context(|| self.path.to_owned())?;
        all.insert(self, found.clone());
        Ok(found)
    }
}
