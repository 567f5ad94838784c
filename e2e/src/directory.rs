//! The folder of a control plane, which is removed with it unless it is needed for diagnosis.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, Once},
};

use anyhow::{Context, Result};

use crate::{
    process::{Guard, touch},
    progress::say,
    shared::lock,
};

static IN_USE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A temporary folder. It is not removed if it contains the file `keep`, which is created at the first panic of the
/// program or because of `WINPOOL_KEEP`, also if the owner is a `static` that is never dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _guard: Guard,
}

impl Directory {
    pub(crate) fn new() -> Result<Self> {
        let path = tempfile::Builder::new().prefix("winpool-").tempdir().context("making a temporary folder")?.keep();
        let guard = Guard::over_directory(&path)?;
        lock(&IN_USE).push(path.clone());
        if std::env::var_os("WINPOOL_KEEP").is_some() {
            keep(&path);
        }
        keep_all_at_a_panic();
        Ok(Self { path, _guard: guard })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        lock(&IN_USE).retain(|path| *path != self.path);
        if !self.path.join("keep").exists() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn keep_all_at_a_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            usual(panic);
            lock(&IN_USE).iter().for_each(|path| keep(path));
        }));
    });
}

fn keep(path: &Path) {
    let mark = path.join("keep");
    if !mark.exists() && touch(&mark).is_ok() {
        say(format_args!("kept for a look: {} (logs in logs/, kubeconfigs beside it)", path.display()));
    }
}
