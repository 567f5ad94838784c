//! The container image, as an archive of an OCI image layout.
//!
//! `index.json` refers to one image index with an image for each platform, as registries have it. An image has one layer:
//! the program and the trusted certificates, as in `Containerfile`.

use std::collections::HashMap;

use anyhow::Result;
use jiff::Timestamp;
use oci_spec::image::{
    Arch, ConfigBuilder, Descriptor, DescriptorBuilder, ImageConfigurationBuilder, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, Os, PlatformBuilder, RootFsBuilder, Sha256Digest,
};
use serde::Serialize;

use crate::{
    archive::{Entry, gzip, tar},
    checksums::sha256,
};

/// A user that is not root, as a number, so that Kubernetes can see it.
const USER: &str = "65532:65532";
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// What an image is made of.
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

impl Image<'_> {
    /// The archive: `skopeo`, `podman` and `ctr` read it.
    ///
    /// # Errors
    /// When a part exceeds the bounds of its format.
    pub fn archive(&self) -> Result<Vec<u8>> {
        let mut blobs = Blobs::default();
        let images = self
            .programs
            .iter()
            .map(|(arch, program)| self.image(&mut blobs, arch.clone(), program))
            .collect::<Result<Vec<_>>>()?;
        let index = ImageIndexBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageIndex)
            .manifests(images)
            .build()?;
        let mut index = blobs.add_json(MediaType::ImageIndex, &index)?;
        let name = ("org.opencontainers.image.ref.name".to_owned(), self.version.to_owned());
        index.set_annotations(Some(HashMap::from([name])));
        let layout = ImageIndexBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageIndex)
            .manifests(vec![index])
            .build()?;
        let mut entries = vec![
            Entry::file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#),
            Entry::file("index.json", 0o644, sorted_json(&layout)?),
            Entry::directory("blobs"),
            Entry::directory("blobs/sha256"),
        ];
        entries.extend(blobs.0);
        tar(&entries, self.time)
    }

    fn image(&self, blobs: &mut Blobs, arch: Arch, program: &[u8]) -> Result<Descriptor> {
        let directories = ["etc", "etc/ssl", "etc/ssl/certs"].map(Entry::directory);
        let files = [Entry::file(CERTIFICATES, 0o644, self.certificates), Entry::file("winpool", 0o755, program)];
        let layer = tar(&[&directories[..], &files[..]].concat(), self.time)?;
        let config = ConfigBuilder::default()
            .user(USER)
            .entrypoint(vec!["/winpool".to_owned()])
            .cmd(vec!["run".to_owned()])
            .labels(self.labels())
            .build()?;
        let files =
            RootFsBuilder::default().typ("layers").diff_ids(vec![format!("sha256:{}", sha256(&layer))]).build()?;
        let configuration = ImageConfigurationBuilder::default()
            .created(Timestamp::from_second(i64::try_from(self.time)?)?.to_string())
            .architecture(arch.clone())
            .os(Os::Linux)
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
        let mut manifest = blobs.add_json(MediaType::ImageManifest, &manifest)?;
        manifest.set_platform(Some(PlatformBuilder::default().architecture(arch).os(Os::Linux).build()?));
        Ok(manifest)
    }

    fn labels(&self) -> HashMap<String, String> {
        let labels = [("title", "winpool"), ("version", self.version), ("licenses", "Apache-2.0")];
        labels.map(|(key, value)| (format!("org.opencontainers.image.{key}"), value.to_owned())).into()
    }
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

    fn add_json(&mut self, media_type: MediaType, value: &impl Serialize) -> Result<Descriptor> {
        self.add(media_type, sorted_json(value)?)
    }
}

/// JSON with sorted keys: maps of the types have no order.
fn sorted_json(value: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&serde_json::to_value(value)?)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use flate2::read::GzDecoder;
    use oci_spec::image::{ImageConfiguration, ImageIndex, ImageManifest};

    use super::*;

    const PROGRAMS: [(Arch, &[u8]); 2] = [(Arch::Amd64, b"program for amd64"), (Arch::ARM64, b"program for arm64")];

    fn archive() -> Vec<u8> {
        Image { version: "1.2.3", time: 1_700_000_000, certificates: b"certificates", programs: &PROGRAMS }
            .archive()
            .unwrap()
    }

    /// The files of a tar archive.
    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let read = |entry: std::io::Result<tar::Entry<&[u8]>>| {
            let mut entry = entry.unwrap();
            assert_eq!((entry.header().uid().unwrap(), entry.header().mtime().unwrap()), (0, 1_700_000_000));
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        };
        archive.entries().unwrap().map(read).collect()
    }

    /// The blob that a descriptor refers to.
    fn blob<'f>(files: &'f BTreeMap<String, Vec<u8>>, descriptor: &Descriptor) -> &'f [u8] {
        let bytes = &files[&format!("blobs/sha256/{}", descriptor.digest().digest())];
        assert_eq!(sha256(bytes), descriptor.digest().digest());
        assert_eq!(bytes.len() as u64, descriptor.size());
        bytes
    }

    #[test]
    fn the_layout_has_an_image_for_each_platform_that_runs_the_program_without_root() {
        let files = files(&archive());
        let layout: ImageIndex = serde_json::from_slice(&files["index.json"]).unwrap();
        let [index] = &layout.manifests()[..] else { panic!("one index") };
        assert_eq!(index.annotations().as_ref().unwrap()["org.opencontainers.image.ref.name"], "1.2.3");
        let index: ImageIndex = serde_json::from_slice(blob(&files, index)).unwrap();
        assert_eq!(index.manifests().len(), 2);
        for (manifest, (arch, program)) in index.manifests().iter().zip(PROGRAMS) {
            assert_eq!(manifest.platform().as_ref().unwrap().architecture(), &arch);
            let manifest: ImageManifest = serde_json::from_slice(blob(&files, manifest)).unwrap();
            let configuration: ImageConfiguration = serde_json::from_slice(blob(&files, manifest.config())).unwrap();
            assert_eq!(configuration.architecture(), &arch);
            let config = configuration.config().as_ref().unwrap();
            assert_eq!(config.user().as_deref(), Some("65532:65532"));
            assert_eq!(config.entrypoint().as_deref(), Some(&["/winpool".to_owned()][..]));
            let mut layer = Vec::new();
            GzDecoder::new(blob(&files, &manifest.layers()[0])).read_to_end(&mut layer).unwrap();
            assert_eq!(configuration.rootfs().diff_ids(), &[format!("sha256:{}", sha256(&layer))]);
            let contents = super::tests::files(&layer);
            assert_eq!(
                (contents["winpool"].as_slice(), contents[CERTIFICATES].as_slice()),
                (program, &b"certificates"[..])
            );
        }
    }

    #[test]
    fn the_same_programs_give_the_same_bytes() {
        assert_eq!(sha256(&archive()), sha256(&archive()));
    }
}
