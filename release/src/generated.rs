//! The files of the repository that follow from others: from `config` and `crds` `install.yaml` and those of the chart, which are
//! in Git, so that both ways of installation need no program but kubectl or helm; those that show the address of the repository; and the
//! name of the agent's image.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    address, chart,
    manifest::{OperatorImage, install_yaml},
};

/// It names the image of the agent.
const AGENT: &str = "config/agent/kustomization.yaml";

/// The files by their paths in the repository at `root`.
pub fn files(root: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let repository = OperatorImage::read(root)?.repository;
    let in_chart = chart::generated(root, &repository)?.into_iter();
    let mut files: BTreeMap<_, _> =
        in_chart.map(|(path, content)| (Path::new(chart::CHART).join(path), content)).collect();
    files.insert("install.yaml".into(), install_yaml(root, None)?);
    let agent = fs::read_to_string(root.join(AGENT)).context(AGENT)?;
    files.insert(AGENT.into(), chart::replaced(&agent, &[("  newName: ", format!("{repository}-agent"))])?);
    for path in address::SHOWN_IN {
        let text = fs::read_to_string(root.join(path)).with_context(|| path.to_owned())?;
        files.insert(path.into(), text);
    }
    let owner = address::owner()?;
    Ok(files.into_iter().map(|(path, text)| (path, address::with_owner(&text, owner))).collect())
}

/// The files of the chart that would be there no more, by their paths in the repository.
pub fn obsolete(root: &Path, files: &BTreeMap<PathBuf, String>) -> Result<BTreeSet<PathBuf>> {
    let found = chart::below(&root.join(chart::CHART).join(chart::COPIES))?;
    let paths =
        found.into_iter().map(|file| Ok(file.strip_prefix(root)?.to_owned())).collect::<Result<BTreeSet<_>>>()?;
    Ok(paths.into_iter().filter(|path| !files.contains_key(path)).collect())
}

/// Writes the files, and removes those of the chart that are obsolete.
pub fn write(root: &Path) -> Result<()> {
    let files = files(root)?;
    for (path, content) in &files {
        let path = root.join(path);
        let folder = path.parent().context("a file in the repository")?;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        fs::write(&path, content).with_context(|| path.display().to_string())?;
    }
    for path in obsolete(root, &files)? {
        fs::remove_file(root.join(&path)).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
