//! The package of the Helm chart.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::archive::{Entry, gzip, tar};

/// The package of `charts/winpool` in the repository at `root`, with `repository` as the default of `image.repository`. Links are
/// replaced by the files to which they lead.
///
/// # Errors
/// When a file cannot be read, or `values.yaml` has no `repository`.
pub fn package(root: &Path, repository: &str, time: u64) -> Result<Vec<u8>> {
    let chart = root.join("charts/winpool");
    let ignored = fs::read_to_string(chart.join(".helmignore"))?;
    let ignored: Vec<_> = ignored.lines().filter(|line| !line.starts_with('#')).collect();
    let mut files = Vec::new();
    collect(&chart, &ignored, &mut files)?;
    let entries: Vec<_> = files.iter().map(|file| entry(&chart, file, repository)).collect::<Result<_>>()?;
    gzip(&tar(&entries, time)?)
}

/// The files below a folder, in order.
fn collect(folder: &Path, ignored: &[&str], files: &mut Vec<PathBuf>) -> Result<()> {
    let mut paths: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.is_dir() {
            _ if ignored.contains(&name) => {}
            true => collect(&path, ignored, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn entry(chart: &Path, file: &Path, repository: &str) -> Result<Entry> {
    let relative = file.strip_prefix(chart)?.to_str().context("a path that is not UTF-8")?;
    let mut content = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    if relative == "values.yaml" {
        content = with_repository(&content, repository)?;
    }
    Ok(Entry::file(format!("winpool/{relative}"), 0o644, content))
}

fn with_repository(values: &str, repository: &str) -> Result<String> {
    let is_repository = |line: &&str| line.starts_with("  repository: ");
    ensure!(values.lines().filter(is_repository).count() == 1, "values.yaml has not one image.repository");
    let line = |line| if is_repository(&line) { format!("  repository: {repository}\n") } else { format!("{line}\n") };
    Ok(values.lines().map(line).collect())
}
