//! Indexes, manifests and image configurations, in the formats of OCI and Docker.
//!
//! Source: opencontainers/image-spec, `image-index.md`, `manifest.md` and `config.md`; distribution/distribution,
//! `docs/spec/manifest-v2-2.md`. The kind of a document is determined by its fields, because its media type is in three
//! places that may differ. A document that is both an index and a manifest is rejected (CVE-2021-41190).

use std::fmt;

use oci_spec::image::{Digest, DigestAlgorithm, MediaType};
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Visitor},
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use winpool_api::hex;
use winpool_core::image::ImagePlatform;

/// The media types of indexes and manifests.
pub(super) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// Docker's media types of an index and an image configuration.
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// The maximum number of entries of an index, much more than any image has.
const MAX_ENTRIES: usize = 1000;
/// The longest name of an operating system or an architecture.
const MAX_NAME: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Document {
    Index(Vec<Entry>),
    Manifest(Descriptor),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Image(ImagePlatform),
    /// Another index, or an image without a platform in the index.
    Unread(Descriptor),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) media_type: MediaType,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    schema_version: Option<u32>,
    #[serde(default, deserialize_with = "bounded_entries")]
    manifests: Option<Vec<RawDescriptor>>,
    config: Option<RawDescriptor>,
    layers: Option<IgnoredAny>,
    fs_layers: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    media_type: Option<String>,
    digest: String,
    size: u64,
    platform: Option<RawPlatform>,
}

/// The fields of a platform, which an image configuration has too.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPlatform {
    os: String,
    architecture: String,
    #[serde(rename = "os.version")]
    os_version: Option<String>,
}

impl Document {
    /// Fails if the document is neither, or both.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let body: Body = serde_json::from_slice(body).map_err(|error| unreadable("index or manifest", &error))?;
        let is_manifest = body.config.is_some() || body.layers.is_some();
        match (body.manifests, body.config) {
            _ if body.schema_version == Some(1) || body.fs_layers.is_some() => {
                Err("a manifest of schema 1 has no platform: push the image again with a current tool".to_owned())
            }
            (Some(_), _) if is_manifest => Err("the document is both an index and a manifest".to_owned()),
            (Some(entries), _) => Ok(Self::Index(entries.into_iter().filter_map(RawDescriptor::entry).collect())),
            (None, Some(config)) => {
                let config = config.descriptor().ok_or("the image configuration has an invalid digest")?;
                Ok(Self::Manifest(config))
            }
            (None, None) => Err("the document is neither an index nor a manifest".to_owned()),
        }
    }
}

/// The platform in an image configuration.
pub(super) fn platform_of(body: &[u8]) -> Result<ImagePlatform, String> {
    let config: RawPlatform =
        serde_json::from_slice(body).map_err(|error| unreadable("image configuration", &error))?;
    config.platform().ok_or_else(|| "the image configuration has no platform".to_owned())
}

impl Descriptor {
    /// Whether the document is the configuration of an image, and not, for instance, of a chart or a signature.
    pub(super) fn is_image_config(&self) -> bool {
        self.media_type == MediaType::ImageConfig || self.media_type == MediaType::Other(DOCKER_CONFIG.to_owned())
    }

    /// Checks the size and the digest of a document.
    pub(super) fn verify(&self, body: &[u8]) -> Result<(), String> {
        if body.len() as u64 != self.size {
            return Err(format!("{} has {} bytes instead of {}", self.digest, body.len(), self.size));
        }
        verify(&self.digest, body)
    }
}

/// Checks the digest of a document.
pub(super) fn verify(digest: &Digest, body: &[u8]) -> Result<(), String> {
    let actual = match digest.algorithm() {
        DigestAlgorithm::Sha256 => hex(&Sha256::digest(body)),
        DigestAlgorithm::Sha384 => hex(&Sha384::digest(body)),
        DigestAlgorithm::Sha512 => hex(&Sha512::digest(body)),
        _ => return Err("the algorithm of the digest is not supported".to_owned()),
    };
    if actual == digest.digest() { Ok(()) } else { Err(format!("the content does not match {digest}")) }
}

/// The message of an error without its text, which may quote the document.
fn unreadable(what: &str, error: &serde_json::Error) -> String {
    format!("the {what} cannot be read (line {}, column {})", error.line(), error.column())
}

impl RawDescriptor {
    /// `None` for invalid entries, and for entries that are not images, such as attestations.
    fn entry(self) -> Option<Entry> {
        let media_type = self.media_type.as_deref();
        let is_index = media_type.is_some_and(|media_type| {
            media_type == DOCKER_INDEX || MediaType::from(media_type) == MediaType::ImageIndex
        });
        match self.platform {
            Some(platform) if !is_index => platform.platform().map(Entry::Image),
            _ => self.descriptor().map(Entry::Unread),
        }
    }

    fn descriptor(self) -> Option<Descriptor> {
        let media_type = MediaType::from(self.media_type.as_deref().unwrap_or_default());
        let digest: Digest = self.digest.parse().ok()?;
        // A document that cannot be verified is not fetched.
        digest.algorithm().digest_hexlen()?;
        Some(Descriptor { digest, size: self.size, media_type })
    }
}

impl RawPlatform {
    fn platform(self) -> Option<ImagePlatform> {
        let name = |name: &str| {
            let is_valid = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            (is_valid && (1..=MAX_NAME).contains(&name.len()) && name != "unknown").then(|| name.to_ascii_lowercase())
        };
        let os_version = self.os_version.and_then(|version| version.trim().parse().ok());
        Some(ImagePlatform { os: name(&self.os)?, architecture: name(&self.architecture)?, os_version })
    }
}

/// Reads at most [`MAX_ENTRIES`] entries.
fn bounded_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<RawDescriptor>>, D::Error> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Option<Vec<RawDescriptor>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_ENTRIES} entries")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = sequence.next_element()? {
                if entries.len() == MAX_ENTRIES {
                    return Err(A::Error::invalid_length(MAX_ENTRIES + 1, &self));
                }
                entries.push(entry);
            }
            Ok(Some(entries))
        }
    }
    deserializer.deserialize_any(Entries)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn entry(media_type: &str, platform: Value) -> Value {
        json!({ "mediaType": media_type, "digest": DIGEST, "size": 2, "platform": platform })
    }

    fn parse(body: &Value) -> Result<Document, String> {
        Document::parse(body.to_string().as_bytes())
    }

    /// The entries of an index, as text.
    fn entries(entries: &[Value]) -> Vec<String> {
        let Ok(Document::Index(entries)) = parse(&json!({ "schemaVersion": 2, "manifests": entries })) else {
            panic!("an index")
        };
        let text = |entry: &Entry| match entry {
            Entry::Image(platform) => platform.to_string(),
            Entry::Unread(_) => "unread".to_owned(),
        };
        entries.iter().map(text).collect()
    }

    #[test]
    fn an_index_has_the_platform_of_each_image() {
        let (oci, docker) =
            (MediaType::ImageManifest.to_string(), "application/vnd.docker.distribution.manifest.v2+json");
        let windows = |version: &str| json!({ "os": "windows", "architecture": "amd64", "os.version": version });
        let table = [
            (entry(&oci, windows("10.0.20348.2700")), vec!["windows/amd64 10.0.20348.2700"]),
            (entry(docker, windows("10.0.17763.6414")), vec!["windows/amd64 10.0.17763.6414"]),
            (entry(&oci, windows("10.0.20348")), vec!["windows/amd64 10.0.20348"]),
            (entry(&oci, windows("eleven")), vec!["windows/amd64"]),
            (entry(&oci, json!({ "os": "linux", "architecture": "arm64", "variant": "v8" })), vec!["linux/arm64"]),
            (entry(&oci, json!({ "os": "Windows", "architecture": "AMD64" })), vec!["windows/amd64"]),
            // An attestation, and other entries that are not images.
            (entry(&oci, json!({ "os": "unknown", "architecture": "unknown" })), vec![]),
            (entry(&oci, json!({ "os": "windows" })), vec![]),
            (entry(&oci, json!({})), vec![]),
            (entry(&oci, json!({ "os": "w".repeat(1 << 20), "architecture": "amd64" })), vec![]),
            (entry(&oci, json!({ "os": "win\ndows", "architecture": "amd64" })), vec![]),
            // Documents that have to be fetched.
            (entry(&oci, Value::Null), vec!["unread"]),
            (entry(MediaType::ImageIndex.as_ref(), Value::Null), vec!["unread"]),
            (entry(MediaType::ImageIndex.as_ref(), windows("10.0.20348.1")), vec!["unread"]),
            (entry(DOCKER_INDEX, Value::Null), vec!["unread"]),
            (json!({ "digest": "../../etc/passwd", "size": 2 }), vec![]),
        ];
        for (entry, expected) in table {
            assert_eq!(entries(std::slice::from_ref(&entry)), expected, "{entry}");
        }
    }

    #[test]
    fn an_invalid_document_is_refused() {
        let config = entry(DOCKER_CONFIG, Value::Null);
        let too_many = vec![entry("", Value::Null); MAX_ENTRIES + 1];
        let table = [
            (json!({ "schemaVersion": 1, "fsLayers": [], "name": "app" }), "a manifest of schema 1"),
            (json!({ "fsLayers": [] }), "a manifest of schema 1"),
            (json!({ "manifests": [], "config": config }), "the document is both an index and a manifest"),
            (json!({ "manifests": [], "layers": [] }), "the document is both an index and a manifest"),
            (json!({ "schemaVersion": 2, "layers": [] }), "the document is neither an index nor a manifest"),
            (json!({}), "the document is neither an index nor a manifest"),
            (json!({ "config": { "digest": "x:y", "size": 1 } }), "the image configuration has an invalid digest"),
            (json!({ "manifests": too_many }), "the index or manifest cannot be read (line 1, "),
            (json!({ "manifests": {} }), "the index or manifest cannot be read (line 1, "),
            (json!([]), "the index or manifest cannot be read (line 1, "),
            (json!("secret"), "the index or manifest cannot be read (line 1, "),
        ];
        for (body, expected) in table {
            let error = parse(&body).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("secret"), "{error}");
        }
        let deep = "[".repeat(1 << 20);
        assert!(Document::parse(deep.as_bytes()).is_err() && Document::parse(b"\xff\xfe").is_err());
    }

    #[test]
    fn the_media_type_identifies_image_configurations() {
        let image = [DOCKER_CONFIG, "application/vnd.oci.image.config.v1+json"];
        let other = ["application/vnd.cncf.helm.config.v1+json", "application/vnd.oci.empty.v1+json", ""];
        for (media_type, expected) in
            image.iter().map(|kind| (kind, true)).chain(other.iter().map(|kind| (kind, false)))
        {
            let manifest = json!({ "schemaVersion": 2, "config": entry(media_type, Value::Null), "layers": [] });
            let Document::Manifest(config) = parse(&manifest).unwrap() else { panic!("a manifest") };
            assert_eq!(config.is_image_config(), expected, "{media_type}");
        }
    }

    #[test]
    fn an_image_configuration_has_the_platform() {
        let config = json!({
            "architecture": "amd64", "os": "windows", "os.version": "10.0.20348.2700",
            "config": { "Cmd": ["cmd"] }, "rootfs": { "type": "layers", "diff_ids": [] },
        });
        assert_eq!(platform_of(config.to_string().as_bytes()).unwrap().to_string(), "windows/amd64 10.0.20348.2700");
        for body in ["{}", "[]", "null", r#"{"os": "windows"}"#, r#"{"os": 5}"#] {
            assert!(platform_of(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn a_document_must_match_size_and_digest() {
        let descriptor = |digest: &str, size| Descriptor {
            digest: digest.parse().unwrap(),
            size,
            media_type: MediaType::ImageConfig,
        };
        let sha512 = format!("sha512:{}", hex(&Sha512::digest(b"ab")));
        let sha256 = format!("sha256:{}", hex(&Sha256::digest(b"ab")));
        let table = [
            (descriptor(&sha256, 2), true),
            (descriptor(&sha512, 2), true),
            (descriptor(&sha256, 3), false),
            (descriptor(DIGEST, 2), false),
            (descriptor("multihash+base58:QmRZxt2b1FVZPNqd8hsiykDL3TdBDeTSPX9Kv46HmX4Gx8", 2), false),
        ];
        for (descriptor, expected) in table {
            assert_eq!(descriptor.verify(b"ab").is_ok(), expected, "{descriptor:?}");
        }
    }
}
