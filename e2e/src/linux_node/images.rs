//! The images of a Linux node, as archives of an OCI image layout.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use release::{archive::Entry, image::Part, manifest::OperatorImage};

use crate::{
    operator::{binary, workspace},
    process::output,
};

/// The repository and the tag of the image for sandboxes.
pub(super) const PAUSE: (&str, &str) = ("pause.example/pause", "1");

/// An image before it is imported.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The name without tag and digest.
    pub repository: String,
    /// The archive, in which the image has its tag as name.
    pub path: PathBuf,
}

impl Archive {
    /// The operator under the name that the manifests have. The program is the one that the other tests run, with its libraries: a static
    /// one, as in an image of a release, takes minutes to build.
    pub fn of_operator(folder: &Path) -> Result<Self> {
        let OperatorImage { repository, tag, .. } = OperatorImage::read(workspace())?;
        output(Command::new("strip").arg(binary()?).arg("-o").arg(folder.join("winpool")))?;
        let libraries = output(Command::new("ldd").arg(binary()?))?;
        let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        let others: Vec<_> = libraries.chain(["/etc/ssl/certs/ca-certificates.crt"]).collect();
        write(folder, "/winpool", &others, (&repository, &tag))
    }

    /// What keeps the namespaces of a pod.
    pub(super) fn of_pause(folder: &Path) -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/linux_node/pause.c");
        output(Command::new("cc").args(["-static", "-O", "-o"]).arg(folder.join("pause")).arg(source))?;
        write(folder, "/pause", &[], PAUSE)
    }
}

/// Writes the archive of an image with this program of the folder, and with other files, which it has at the same paths as this machine.
fn write(folder: &Path, program: &'static str, others: &[&str], (repository, tag): (&str, &str)) -> Result<Archive> {
    let in_folder = folder.join(&program[1..]);
    let files = others.iter().map(|file| (*file, Path::new(file))).chain([(program, in_folder.as_path())]);
    let entry = |(path, file): (&str, &Path)| {
        let content = fs::read(file).with_context(|| file.display().to_string())?;
        Ok(Entry::file(path.trim_start_matches('/'), 0o755, content))
    };
    let part = Part {
        title: "winpool",
        os: "linux",
        arch: if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        user: None,
        entrypoint: program,
        entries: files.map(entry).collect::<Result<_>>()?,
        compressed: false,
    };
    let path = in_folder.with_extension("tar");
    fs::write(&path, part.archive(tag, 0)?.bytes)?;
    Ok(Archive { repository: repository.to_owned(), path })
}
