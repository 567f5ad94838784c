//! Writes the files of a release.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Parser;
use oci_spec::image::Arch;
use release::{chart, checksums::sha256_sums, generated, image::Image, manifest::install_yaml};

/// Write install.yaml, the chart, and the files of a release
#[derive(Parser)]
enum Command {
    /// Write the files of the repository that follow from config/ and crds/
    Manifests,
    /// Write all files of a release
    All(All),
}

#[derive(clap::Args)]
struct All {
    /// The name of the image without a tag, such as registry.example/winpool
    #[arg(long)]
    repository: String,
    /// The time of the release, in seconds since 1970
    #[arg(long, env = "SOURCE_DATE_EPOCH")]
    time: u64,
    /// The program for Linux on amd64
    #[arg(long)]
    linux_amd64: PathBuf,
    /// The program for Linux on arm64
    #[arg(long)]
    linux_arm64: PathBuf,
    /// The program for Windows on amd64
    #[arg(long)]
    windows_amd64: PathBuf,
    /// The agent for Windows on amd64
    #[arg(long)]
    agent: PathBuf,
    /// The trusted certificates of the image, in the PEM format
    #[arg(long)]
    certificates: PathBuf,
    /// The software bill of materials
    #[arg(long)]
    sbom: PathBuf,
    /// The folder to write to
    #[arg(long)]
    out: PathBuf,
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match Command::parse() {
        Command::Manifests => generated::write(&root)?,
        Command::All(all) => write_all(&root, &all)?,
    }
    Ok(())
}

fn write_all(root: &Path, all: &All) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
    let (amd64, arm64) = (read(&all.linux_amd64)?, read(&all.linux_arm64)?);
    let image = Image {
        version,
        time: all.time,
        certificates: &read(&all.certificates)?,
        programs: &[(Arch::Amd64, &amd64), (Arch::ARM64, &arm64)],
    };
    let mut files = vec![
        ("install.yaml".to_owned(), install_yaml(root, Some(&all.repository))?.into_bytes()),
        (format!("winpool-{version}.tgz"), chart::package(root, &all.repository, all.time)?),
        (format!("winpool-{version}-image.tar"), image.archive()?),
        (format!("winpool-{version}.cdx.json"), read(&all.sbom)?),
        (format!("winpool-{version}-linux-amd64"), amd64),
        (format!("winpool-{version}-linux-arm64"), arm64),
        (format!("winpool-{version}-windows-amd64.exe"), read(&all.windows_amd64)?),
        (format!("winpool-agent-{version}-windows-amd64.exe"), read(&all.agent)?),
    ];
    files.push(("SHA256SUMS".to_owned(), sha256_sums(&files).into_bytes()));
    fs::create_dir_all(&all.out)?;
    for (name, content) in files {
        let path = all.out.join(name);
        fs::write(&path, content).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(())
}
