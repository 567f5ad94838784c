//! The command line of the program `release`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use jiff::{Timestamp, tz::TimeZone};
use winpool_core::tables;

use crate::{
    chart,
    checksums::sha256_sums,
    feed, generated,
    image::{AgentImage, Image},
    krew::Plugin,
    manifest::install_yaml,
};

/// Write install.yaml, the chart, and the files of a release
#[derive(Parser)]
pub enum ReleaseCommand {
    /// Write the files of the repository that follow from others
    Manifests,
    AgentImage(AgentImageArgs),
    All(AllArgs),
    Advisories(AdvisoriesArgs),
}

/// Print the advisories of feeds that the tables of facts say nothing about
#[derive(clap::Args)]
pub struct AdvisoriesArgs {
    /// The official CVE feed of Kubernetes, an OSV file, or the advisories of a repository at GitHub, as JSON
    #[arg(required = true)]
    feeds: Vec<PathBuf>,
}

/// Write the image of the agent, and print its digest
#[derive(clap::Args)]
pub struct AgentImageArgs {
    /// The agent for Windows on amd64
    #[arg(long)]
    agent: PathBuf,
    /// The time of the release, in seconds since 1970
    #[arg(long, env = "SOURCE_DATE_EPOCH")]
    time: u64,
    /// The folder to write to
    #[arg(long)]
    out: PathBuf,
}

/// Write all files of a release
#[derive(clap::Args)]
pub struct AllArgs {
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
    /// The software bill of materials of the operator
    #[arg(long)]
    sbom: PathBuf,
    /// The software bill of materials of the agent
    #[arg(long)]
    agent_sbom: PathBuf,
    /// The folder to write to
    #[arg(long)]
    out: PathBuf,
}

impl ReleaseCommand {
    /// Runs it for the repository at `root`.
    pub fn run(&self, root: &Path) -> Result<()> {
        match self {
            Self::Manifests => generated::write(root),
            Self::AgentImage(args) => write_agent_image(args),
            Self::All(all) => write_all(root, all),
            Self::Advisories(args) => print_advisories(&args.feeds),
        }
    }
}

fn print_advisories(feeds: &[PathBuf]) -> Result<()> {
    let mut count = 0;
    for path in feeds {
        let of_path = || path.display().to_string();
        let feed = serde_json::from_slice(&read(path)?).with_context(of_path)?;
        let lines = feed::not_judged(&feed).with_context(of_path)?;
        lines.iter().for_each(|line| println!("{line}"));
        count += lines.len();
    }
    ensure!(count == 0, "{count} advisories are in neither known_issues.rs nor advisories.rs of crates/facts/src");
    Ok(())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// Writes files to a folder, which is created, and prints their paths.
fn write_files(folder: &Path, files: Vec<(String, Vec<u8>)>) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(())
}

fn write_agent_image(args: &AgentImageArgs) -> Result<()> {
    let program = read(&args.agent)?;
    let image = AgentImage { version: VERSION, time: args.time, program: &program };
    let archive = image.archive()?;
    write_files(&args.out, vec![(image.file_name(), archive.bytes)])?;
    println!("{}", archive.digest);
    Ok(())
}

fn write_all(root: &Path, all: &AllArgs) -> Result<()> {
    let day = Timestamp::from_second(all.time.try_into()?)?.to_zoned(TimeZone::UTC).date();
    eprint!("{}", tables::known_good(day));
    let (amd64, arm64, agent) = (read(&all.linux_amd64)?, read(&all.linux_arm64)?, read(&all.agent)?);
    let windows = read(&all.windows_amd64)?;
    let plugin = Plugin {
        version: VERSION,
        time: all.time,
        license: &read(&root.join("LICENSE"))?,
        programs: &[("linux", "amd64", &amd64), ("linux", "arm64", &arm64), ("windows", "amd64", &windows)],
    };
    let image = Image {
        version: VERSION,
        time: all.time,
        certificates: &read(&all.certificates)?,
        programs: &[("amd64", &amd64), ("arm64", &arm64)],
    };
    let agent_image = AgentImage { version: VERSION, time: all.time, program: &agent };
    let (archive, agent_archive) = (image.archive()?, agent_image.archive()?);
    let reference = format!("{}:{VERSION}@{}", all.repository, archive.digest);
    let chart = chart::package(root, &all.repository, [&archive.digest, &agent_archive.digest], all.time)?;
    let mut files = vec![
        ("install.yaml".to_owned(), install_yaml(root, Some(reference))?.into_bytes()),
        (format!("winpool-{VERSION}.tgz"), chart),
        (format!("winpool-{VERSION}-image.tar"), archive.bytes),
        (agent_image.file_name(), agent_archive.bytes),
        (format!("winpool-{VERSION}.cdx.json"), read(&all.sbom)?),
        (format!("winpool-agent-{VERSION}.cdx.json"), read(&all.agent_sbom)?),
    ];
    files.extend(plugin.files()?);
    files.extend([
        (format!("winpool-{VERSION}-linux-amd64"), amd64),
        (format!("winpool-{VERSION}-linux-arm64"), arm64),
        (format!("winpool-{VERSION}-windows-amd64.exe"), windows),
        (format!("winpool-agent-{VERSION}-windows-amd64.exe"), agent),
    ]);
    files.push(("SHA256SUMS".to_owned(), sha256_sums(&files).into_bytes()));
    write_files(&all.out, files)
}
