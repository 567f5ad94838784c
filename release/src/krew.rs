//! What krew, the package manager of kubectl's plugins, installs: an archive for each platform, and the manifest that names them. Its rules:
//! kubernetes-sigs/krew, `site/content/docs/developer-guide/plugin-manifest.md`, `release/submitting-to-krew.md` and
//! `internal/index/validation/validate.go`, read 2026-11-29.

use std::fmt::Write as _;

use anyhow::Result;

use crate::{
    address::ADDRESS,
    archive::{Entry, gzip, tar},
    checksums::sha256,
};

/// The manifest, which must have the name of the plugin.
pub const MANIFEST: &str = "winpool.yaml";

/// The plugin `kubectl winpool`.
#[derive(Clone, Copy, Debug)]
pub struct Plugin<'a> {
    pub version: &'a str,
    /// The time of the release, in seconds since 1970.
    pub time: u64,
    /// Each archive must have it.
    pub license: &'a [u8],
    /// Operating system and architecture, as Go names them, and the program.
    pub programs: &'a [(&'a str, &'a str, &'a [u8])],
}

impl Plugin<'_> {
    /// The archives by name, and the manifest.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let Self { version, time, license, programs } = self;
        let mut manifest = format!(
            "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata:\n  name: winpool\nspec:\n  \
             version: v{version}\n  homepage: {ADDRESS}\n  shortDescription: Manage and diagnose Windows node pools\n  \
             description: |\n    Shows what is wrong with the Windows nodes of a cluster and why pods do not start on them, lints manifests\n    \
             for Windows, and plans changes of Windows node pools and upgrades. No operator is needed for most of it.\n  platforms:\n"
        );
        let mut files = Vec::new();
        for (os, arch, program) in *programs {
            let name = format!("kubectl-winpool-{version}-{os}-{arch}.tar.gz");
            let bin = if *os == "windows" { "kubectl-winpool.exe" } else { "kubectl-winpool" };
            let archive =
                gzip(&tar(&[Entry::file(bin, 0o755, *program), Entry::file("LICENSE", 0o644, *license)], *time)?)?;
            writeln!(
                manifest,
                "  - selector:\n      matchLabels:\n        os: {os}\n        arch: {arch}\n    uri: \
                 {ADDRESS}/releases/download/v{version}/{name}\n    sha256: {}\n    bin: {bin}",
                sha256(&archive)
            )?;
            files.push((name, archive));
        }
        files.push((MANIFEST.to_owned(), manifest.into_bytes()));
        Ok(files)
    }
}
