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

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    address::ADDRESS,
    archive::{Entry, gzip, tar},
    checksums::sha256,
    hive,
};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

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
    /// The static programs for Linux, by their architecture.
    pub programs: &'a [(&'static str, &'a [u8])],
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
    pub bytes: Vec<u8>,
    /// The digest by which a registry has the image: `sha256:…`.
    pub digest: String,
}

impl Image<'_> {
    pub fn archive(&self) -> Result<Archive> {
        let mut blobs = Blobs::new(self.version, self.time);
        let mut images = Vec::new();
        for &(arch, program) in self.programs {
            let mut manifest = self.part(arch, program).write(&mut blobs)?;
            manifest["platform"] = json!({"architecture": arch, "os": "linux"});
            images.push(manifest);
        }
        let index = blobs.add(INDEX, index_of(&images).to_string().into_bytes());
        blobs.archive(index)
    }

    fn part(&self, arch: &'static str, program: &[u8]) -> Part {
        let directories = ["etc", "etc/ssl", "etc/ssl/certs"].map(Entry::directory);
        let files = [Entry::file(CERTIFICATES, 0o644, self.certificates), Entry::file("winpool", 0o755, program)];
        Part {
            title: "winpool",
            os: "linux",
            arch,
            user: Some(USER),
            entrypoint: "/winpool",
            entries: [&directories[..], &files[..]].concat(),
            compressed: true,
        }
    }
}

impl AgentImage<'_> {
    /// The name of the archive among the files of a release.
    pub fn file_name(&self) -> String {
        format!("winpool-agent-{}-image.tar", self.version)
    }

    pub fn archive(&self) -> Result<Archive> {
        let directories = ["Files", "Files/Windows", "Files/Windows/System32", HIVES_FOLDER].map(Entry::directory);
        let hive = hive::empty();
        let hives = HIVES.map(|name| Entry::file(format!("{HIVES_FOLDER}/{name}"), 0o644, hive.as_slice()));
        let program = Entry::file(format!("Files/{AGENT}"), 0o755, self.program);
        let part = Part {
            title: "winpool-agent",
            os: "windows",
            arch: "amd64",
            // The pod names it.
            user: None,
            entrypoint: AGENT,
            entries: [&directories[..], &hives[..], &[program]].concat(),
            compressed: true,
        };
        part.archive(self.version, self.time)
    }
}

/// An image for one platform.
#[derive(Clone, Debug)]
pub struct Part {
    pub title: &'static str,
    pub os: &'static str,
    pub arch: &'static str,
    pub user: Option<&'static str>,
    pub entrypoint: &'static str,
    /// The content of the layer.
    pub entries: Vec<Entry>,
    /// Whether the layer is compressed, which takes longer than all else.
    pub compressed: bool,
}

impl Part {
    /// The archive of a layout with this image alone, of a version and its time.
    pub fn archive(self, version: &str, time: u64) -> Result<Archive> {
        let mut blobs = Blobs::new(version, time);
        let manifest = self.write(&mut blobs)?;
        blobs.archive(manifest)
    }

    /// Adds layer, configuration and manifest, and describes the manifest.
    fn write(self, blobs: &mut Blobs<'_>) -> Result<Value> {
        let layer = tar(&self.entries, blobs.time)?;
        let mut configuration = json!({
            "created": Timestamp::from_second(i64::try_from(blobs.time)?)?,
            "architecture": self.arch,
            "os": self.os,
            "config": {"Entrypoint": [self.entrypoint], "Cmd": ["run"], "Labels": {
                "org.opencontainers.image.title": self.title,
                "org.opencontainers.image.version": blobs.version,
                "org.opencontainers.image.source": ADDRESS,
                "org.opencontainers.image.licenses": "Apache-2.0",
            }},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        if let Some(user) = self.user {
            configuration["config"]["User"] = json!(user);
        }
        let config = blobs.add(CONFIGURATION, configuration.to_string().into_bytes());
        let layer =
            if self.compressed { blobs.add(&format!("{LAYER}+gzip"), gzip(&layer)?) } else { blobs.add(LAYER, layer) };
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        Ok(blobs.add(MANIFEST, manifest.to_string().into_bytes()))
    }
}

/// The digest of a blob: `sha256:…`.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

fn index_of(manifests: &[Value]) -> Value {
    json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
}

/// The files in `blobs/sha256` of a version and its time.
struct Blobs<'a> {
    version: &'a str,
    time: u64,
    files: Vec<Entry>,
}

impl<'a> Blobs<'a> {
    fn new(version: &'a str, time: u64) -> Self {
        Self { version, time, files: Vec::new() }
    }

    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let (sum, size) = (sha256(&bytes), bytes.len());
        self.files.push(Entry::file(format!("blobs/sha256/{sum}"), 0o644, bytes));
        json!({"mediaType": media_type, "digest": format!("sha256:{sum}"), "size": size})
    }

    /// The archive of a layout with one image, or one index of images, under the name of the version.
    fn archive(self, mut image: Value) -> Result<Archive> {
        let digest = image["digest"].as_str().unwrap_or_default().to_owned();
        image["annotations"] = json!({"org.opencontainers.image.ref.name": self.version});
        let mut entries = vec![
            Entry::file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#),
            Entry::file("index.json", 0o644, index_of(&[image]).to_string()),
            Entry::directory("blobs"),
            Entry::directory("blobs/sha256"),
        ];
        entries.extend(self.files);
        Ok(Archive { bytes: tar(&entries, self.time)?, digest })
    }
}
