//! The container images of operator and agent, each as an archive of an OCI image layout. An image has one layer.
//!
//! For the operator, `index.json` refers to one image index with an image for each platform, as registries have it. The image
//! contains the program and the trusted certificates, as in `Containerfile`.
//!
//! For the agent, `index.json` refers to the image itself, without platform data, and the configuration has no `os.version`: the
//! image is for HostProcess containers, which run on every Windows, but containerd selects an entry of an image index for Windows
//! by its `os.version` (containerd/containerd issue 7431; from pull requests 8101 and 8106, of February 2023, on also one without
//! it). The layer is as that of microsoft/windows-host-process-containers-base-image (commit d7c1101d, 2025-12-10): `Files` is the
//! root of the volume, and has the five registry hives of a base layer, which Windows Server 2025 reads when it unpacks the image.
//! hcsshim (`internal/jobcontainers/jobcontainer.go`) adds the root of the volume to the `PATH`, so that the program needs no folder.

use std::collections::HashMap;

use anyhow::Result;
use jiff::Timestamp;
use oci_spec::image::{
    Arch, ConfigBuilder, Descriptor, DescriptorBuilder, ImageConfigurationBuilder, ImageIndex, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, Os, PlatformBuilder, RootFsBuilder, Sha256Digest,
};
use serde::Serialize;

use crate::{
    address::ADDRESS,
    archive::{Entry, gzip, tar},
    checksums::sha256,
    hive,
};

/// A user that is not root, as a number, so that Kubernetes can see it.
const USER: &str = "65532:65532";
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// The program of the agent, in the root of its image.
const AGENT: &str = "winpool-agent.exe";
/// The folder of the registry hives in a layer for Windows.
const HIVES_FOLDER: &str = "Files/Windows/System32/config";
/// The hives that Windows expects in a base layer.
const HIVES: [&str; 5] = ["DEFAULT", "SAM", "SECURITY", "SOFTWARE", "SYSTEM"];

/// What the image of the operator is made of.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The version, which becomes the name of the image in the layout.
    pub version: &'a str,
    /// The time of the release, in seconds since 1970.
    pub time: u64,
    /// The trusted certificates, in the PEM format.
    pub certificates: &'a [u8],
    /// The static programs for Linux.
    pub programs: &'a [(Arch, &'a [u8])],
}

/// What the image of the agent is made of.
#[derive(Clone, Copy, Debug)]
pub struct AgentImage<'a> {
    /// The version, which becomes the name of the image in the layout.
    pub version: &'a str,
    /// The time of the release, in seconds since 1970.
    pub time: u64,
    /// The program for Windows on amd64.
    pub program: &'a [u8],
}

/// An image in an archive, which `skopeo`, `podman` and `ctr` read.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The archive.
    pub bytes: Vec<u8>,
    /// The digest by which a registry has the image: `sha256:…`.
    pub digest: String,
}

impl Image<'_> {
    /// The archive.
    ///
    /// # Errors
    /// When a part exceeds the bounds of its format.
    pub fn archive(&self) -> Result<Archive> {
        let mut blobs = Blobs::default();
        let images = self
            .programs
            .iter()
            .map(|(arch, program)| {
                let mut manifest = self.part(arch.clone(), program).write(&mut blobs)?;
                manifest
                    .set_platform(Some(PlatformBuilder::default().architecture(arch.clone()).os(Os::Linux).build()?));
                Ok(manifest)
            })
            .collect::<Result<Vec<_>>>()?;
        let index = index_of(images)?;
        let index = blobs.add_json(MediaType::ImageIndex, &index)?;
        blobs.archive(index, self.version, self.time)
    }

    fn part(&self, arch: Arch, program: &[u8]) -> Part<'_> {
        let directories = ["etc", "etc/ssl", "etc/ssl/certs"].map(Entry::directory);
        let files = [Entry::file(CERTIFICATES, 0o644, self.certificates), Entry::file("winpool", 0o755, program)];
        Part {
            title: "winpool",
            version: self.version,
            time: self.time,
            os: Os::Linux,
            arch,
            user: Some(USER),
            entrypoint: "/winpool",
            entries: [&directories[..], &files[..]].concat(),
        }
    }
}

impl AgentImage<'_> {
    /// The name of the archive among the files of a release.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("winpool-agent-{}-image.tar", self.version)
    }

    /// The archive.
    ///
    /// # Errors
    /// When a part exceeds the bounds of its format.
    pub fn archive(&self) -> Result<Archive> {
        let mut blobs = Blobs::default();
        let directories = ["Files", "Files/Windows", "Files/Windows/System32", HIVES_FOLDER].map(Entry::directory);
        let hive = hive::empty();
        let hives = HIVES.map(|name| Entry::file(format!("{HIVES_FOLDER}/{name}"), 0o644, hive.as_slice()));
        let program = Entry::file(format!("Files/{AGENT}"), 0o755, self.program);
        let part = Part {
            title: "winpool-agent",
            version: self.version,
            time: self.time,
            os: Os::Windows,
            arch: Arch::Amd64,
            // The pod names it.
            user: None,
            entrypoint: AGENT,
            entries: [&directories[..], &hives[..], &[program]].concat(),
        };
        let manifest = part.write(&mut blobs)?;
        blobs.archive(manifest, self.version, self.time)
    }
}

/// An image for one platform.
struct Part<'a> {
    title: &'static str,
    version: &'a str,
    /// In seconds since 1970.
    time: u64,
    os: Os,
    arch: Arch,
    user: Option<&'static str>,
    entrypoint: &'static str,
    /// The content of the layer.
    entries: Vec<Entry>,
}

impl Part<'_> {
    /// Adds layer, configuration and manifest, and describes the manifest.
    fn write(self, blobs: &mut Blobs) -> Result<Descriptor> {
        let layer = tar(&self.entries, self.time)?;
        let labels =
            [("title", self.title), ("version", self.version), ("source", ADDRESS), ("licenses", "Apache-2.0")];
        let labels = labels.map(|(key, value)| (format!("org.opencontainers.image.{key}"), value.to_owned()));
        let mut config = ConfigBuilder::default()
            .entrypoint(vec![self.entrypoint.to_owned()])
            .cmd(vec!["run".to_owned()])
            .labels(HashMap::from(labels))
            .build()?;
        config.set_user(self.user.map(str::to_owned));
        let files =
            RootFsBuilder::default().typ("layers").diff_ids(vec![format!("sha256:{}", sha256(&layer))]).build()?;
        let configuration = ImageConfigurationBuilder::default()
            .created(Timestamp::from_second(i64::try_from(self.time)?)?.to_string())
            .architecture(self.arch)
            .os(self.os)
            .config(config)
            .rootfs(files)
            .build()?;
        let configuration = blobs.add_json(MediaType::ImageConfig, &configuration)?;
        let layer = blobs.add(MediaType::ImageLayerGzip, gzip(&layer)?)?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageManifest)
            .config(configuration)
            .layers(vec![layer])
            .build()?;
        blobs.add_json(MediaType::ImageManifest, &manifest)
    }
}

fn index_of(manifests: Vec<Descriptor>) -> Result<ImageIndex> {
    Ok(ImageIndexBuilder::default()
        .schema_version(2u32)
        .media_type(MediaType::ImageIndex)
        .manifests(manifests)
        .build()?)
}

/// The files in `blobs/sha256`.
#[derive(Default)]
struct Blobs(Vec<Entry>);

impl Blobs {
    fn add(&mut self, media_type: MediaType, bytes: Vec<u8>) -> Result<Descriptor> {
        let digest = sha256(&bytes);
        let descriptor = DescriptorBuilder::default()
            .media_type(media_type)
            .size(bytes.len() as u64)
            .digest(digest.parse::<Sha256Digest>()?)
            .build()?;
        self.0.push(Entry::file(format!("blobs/sha256/{digest}"), 0o644, bytes));
        Ok(descriptor)
    }

    /// The archive of a layout with one image, or one index of images, under this name.
    fn archive(self, mut image: Descriptor, name: &str, time: u64) -> Result<Archive> {
        let digest = image.digest().to_string();
        let name = ("org.opencontainers.image.ref.name".to_owned(), name.to_owned());
        image.set_annotations(Some(HashMap::from([name])));
        let mut entries = vec![
            Entry::file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#),
            Entry::file("index.json", 0o644, sorted_json(&index_of(vec![image])?)?),
            Entry::directory("blobs"),
            Entry::directory("blobs/sha256"),
        ];
        entries.extend(self.0);
        Ok(Archive { bytes: tar(&entries, time)?, digest })
    }

    fn add_json(&mut self, media_type: MediaType, value: &impl Serialize) -> Result<Descriptor> {
        self.add(media_type, sorted_json(value)?)
    }
}

/// JSON with sorted keys: maps of the types have no order.
fn sorted_json(value: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&serde_json::to_value(value)?)?)
}
