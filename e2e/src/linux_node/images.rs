//! The images of a Linux node, as archives of an OCI image layout.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use release::manifest::OperatorImage;
use serde_json::{Value, json};

use crate::{
    images::digest,
    operator::{binary, workspace},
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
        let root = folder.join("winpool");
        fs::create_dir_all(&root)?;
        output(Command::new("strip").arg(binary()?).arg("-o").arg(root.join("winpool")))?;
        let libraries = output(Command::new("ldd").arg(binary()?))?;
        let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        for file in libraries.chain(["/etc/ssl/certs/ca-certificates.crt"]) {
            let copy = root.join(file.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().context("a folder")?)?;
            fs::copy(file, copy).with_context(|| file.to_owned())?;
        }
        write(&root, "/winpool", (&repository, &tag))
    }

    /// What keeps the namespaces of a pod.
    pub(super) fn of_pause(folder: &Path) -> Result<Self> {
        let root = folder.join("pause");
        fs::create_dir_all(&root)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/linux_node/pause.c");
        output(Command::new("cc").args(["-static", "-O", "-o"]).arg(root.join("pause")).arg(source))?;
        write(&root, "/pause", PAUSE)
    }
}

/// Writes the archive of an image whose one layer is not compressed, which would take longer than the rest.
fn write(root: &Path, entrypoint: &str, (repository, tag): (&str, &str)) -> Result<Archive> {
    let layout = root.with_extension("layout");
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let add = |kind: &str, content: &Value| -> Result<Value> {
        let (text, media_type) = (content.to_string(), format!("application/vnd.oci.image.{kind}.v1+json"));
        let digest = digest(text.as_bytes());
        fs::write(blobs.join(digest.trim_start_matches("sha256:")), &text)?;
        Ok(json!({"mediaType": media_type, "digest": digest, "size": text.len()}))
    };
    let layer = layout.join("layer");
    output(Command::new("tar").args(["--owner=0", "--group=0", "-cf"]).arg(&layer).arg("-C").arg(root).arg("."))?;
    let sum = output(Command::new("sha256sum").arg(&layer))?;
    let sum = sum.split_whitespace().next().context("a digest")?;
    let (digest, size) = (format!("sha256:{sum}"), fs::metadata(&layer)?.len());
    fs::rename(layer, blobs.join(sum))?;
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let configuration = json!({
        "os": "linux", "architecture": architecture, "config": {"Entrypoint": [entrypoint]},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    });
    let manifest = json!({
        "schemaVersion": 2, "config": add("config", &configuration)?,
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size}],
    });
    let mut image = add("manifest", &manifest)?;
    image["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
    fs::write(layout.join("index.json"), json!({"schemaVersion": 2, "manifests": [image]}).to_string())?;
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let path = root.with_extension("tar");
    output(Command::new("tar").arg("-cf").arg(&path).arg("-C").arg(&layout).args([
        "oci-layout",
        "index.json",
        "blobs",
    ]))?;
    for folder in [root, &layout] {
        fs::remove_dir_all(folder)?;
    }
    Ok(Archive { repository: repository.to_owned(), path })
}

/// What a program prints.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {}", command.get_program().display()))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
