//! The folder of a control plane, which is removed with it unless it is needed for diagnosis.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context, Result};

use crate::{process::Guard, progress::say};

/// A temporary folder. It stays if the test that owns it fails, and with `WINPOOL_KEEP`; else it is removed, also if its owner is a
/// `static` that is never dropped, or if the program is killed.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Removes it at the end of the program; `None` if it stays.
    guard: Option<Guard>,
}

impl Directory {
    pub(crate) fn new() -> Result<Self> {
        let path = tempfile::Builder::new().prefix("winpool-").tempdir().context("making a temporary folder")?.keep();
        let guard = match std::env::var_os("WINPOOL_KEEP") {
            None => Some(Guard::over_directory(&path)?),
            Some(_) => {
                say_kept(&path);
                None
            }
        };
        Ok(Self { path, guard })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        match self.guard {
            None => {}
            Some(_) if thread::panicking() => say_kept(&self.path),
            Some(_) => drop(fs::remove_dir_all(&self.path)),
        }
    }
}

fn say_kept(path: &Path) {
    say(format_args!("kept for a look: {} (logs in logs/, kubeconfigs beside it)", path.display()));
}
