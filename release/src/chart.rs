//! The Helm chart: the files that it has of `config` and `crds`, and its package.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::archive::{Entry, gzip, tar};

pub const CHART: &str = "charts/winpool";
/// The folder in the chart with copies of files of the repository, which `.Files` of a template can read.
pub const COPIES: &str = "files";

/// The files of the chart in the repository at `root` that follow from others, by their paths in the chart: the manifests of every
/// folder in `config` with a kustomization, the CRDs, `values.yaml`, with `repository` as the default of `image.repository`, and
/// `repository` with the suffix `-agent` as that of `agent.image.repository`, and `Chart.yaml`, which lists both images.
pub fn generated(root: &Path, repository: &str) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for folder in kustomizations(&root.join("config"))?.into_iter().chain([root.join("crds")]) {
        for file in entries(&folder)?.into_iter().filter(|path| path.is_file() && !path.ends_with("kustomization.yaml"))
        {
            files.insert(Path::new(COPIES).join(file.strip_prefix(root)?), read(&file)?);
        }
    }
    let values = read(&root.join(CHART).join("values.yaml"))?;
    files.insert("values.yaml".into(), with_repository(&values, repository)?);
    files.insert("Chart.yaml".into(), with_images(&read(&root.join(CHART).join("Chart.yaml"))?, repository));
    Ok(files)
}

/// The package of the chart, with the names of the images as in [`generated`], and the images of operator and agent by their digests: a
/// tag can be moved to another image.
pub fn package(root: &Path, repository: &str, [operator, agent]: [&str; 2], time: u64) -> Result<Vec<u8>> {
    let chart = root.join(CHART);
    let mut files = generated(root, repository)?;
    if let Some(values) = files.get_mut(Path::new("values.yaml")) {
        *values = replaced(values, &[("  digest: ", operator.to_owned()), ("    digest: ", agent.to_owned())])?;
    }
    for file in below(&chart)? {
        let path = file.strip_prefix(&chart)?;
        if !path.starts_with(COPIES) && !files.contains_key(path) {
            files.insert(path.to_owned(), read(&file)?);
        }
    }
    let entry = |(path, content): (PathBuf, String)| {
        let path = path.to_str().context("a path that is not UTF-8")?;
        Ok(Entry::file(format!("winpool/{path}"), 0o644, content))
    };
    let entries: Vec<_> = files.into_iter().map(entry).collect::<Result<_>>()?;
    gzip(&tar(&entries, time)?)
}

/// The folders below one, and itself, that have a kustomization.
fn kustomizations(folder: &Path) -> Result<Vec<PathBuf>> {
    let own = folder.join("kustomization.yaml").exists().then(|| folder.to_owned());
    let inner = entries(folder)?.into_iter().filter(|path| path.is_dir()).map(|path| kustomizations(&path));
    Ok(own.into_iter().chain(inner.collect::<Result<Vec<_>>>()?.concat()).collect())
}

/// The files below a folder, in order.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let inner = |path: PathBuf| if path.is_dir() { below(&path) } else { Ok(vec![path]) };
    Ok(entries(folder)?.into_iter().map(inner).collect::<Result<Vec<_>>>()?.concat())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<_> = found.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    Ok(paths)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn with_repository(values: &str, repository: &str) -> Result<String> {
    replaced(values, &[("  repository: ", repository.to_owned()), ("    repository: ", format!("{repository}-agent"))])
}

/// Replaces the names of the images in the annotations for Artifact Hub, and keeps their tags.
fn with_images(chart: &str, repository: &str) -> String {
    let line = |line: &str| match line.strip_prefix("      image: ").and_then(|image| image.rsplit_once(':')) {
        Some((name, tag)) => {
            let suffix = if name.ends_with("-agent") { "-agent" } else { "" };
            format!("      image: {repository}{suffix}:{tag}\n")
        }
        None => format!("{line}\n"),
    };
    chart.lines().map(line).collect()
}

/// Replaces values of the images. The indentation of their keys tells the operator's image from that of the agent.
pub(crate) fn replaced(values: &str, new: &[(&str, String)]) -> Result<String> {
    for (key, _) in new {
        let count = values.lines().filter(|line| line.starts_with(key)).count();
        ensure!(count == 1, "not one line `{key}`");
    }
    let line = |line: &str| match new.iter().find(|(key, _)| line.starts_with(key)) {
        Some((key, value)) => format!("{key}{value}\n"),
        None => format!("{line}\n"),
    };
    Ok(values.lines().map(line).collect())
}
