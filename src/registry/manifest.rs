//! What indexes, manifests and image configurations say, as OCI and as Docker write them.
//!
//! Source: opencontainers/image-spec, `image-index.md`, `manifest.md` and `config.md`; distribution/distribution,
//! `docs/spec/manifest-v2-2.md`. A document is told by what is in it: its media type is said in three places that need
//! not agree, and a document that is both an index and a manifest is refused (CVE-2021-41190).

use std::fmt;

use oci_spec::image::{Digest, DigestAlgorithm, MediaType};
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Visitor},
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use crate::domain::image::Platform;

/// What is asked for where an image is.
pub(super) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// The types that Docker has for what OCI calls an index and a configuration.
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// The most entries of an index: a hundred times what any image has.
const MOST_ENTRIES: usize = 1000;
/// The longest name of a system or an architecture.
const LONGEST_WORD: usize = 32;

/// An index or a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Document {
    /// Its entries.
    Index(Vec<Entry>),
    /// Its configuration.
    Manifest(Pointer),
}

/// An entry of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// An image for this platform.
    Image(Platform),
    /// Another index, or an image of which the index does not say what it is for.
    Ask(Pointer),
}

/// Where something is, and how it is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) media_type: MediaType,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    schema_version: Option<u32>,
    #[serde(default, deserialize_with = "few")]
    manifests: Option<Vec<RawPointer>>,
    config: Option<RawPointer>,
    layers: Option<IgnoredAny>,
    fs_layers: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPointer {
    media_type: Option<String>,
    digest: String,
    size: u64,
    platform: Option<RawPlatform>,
}

/// The part of a platform, and of an image configuration, that is of interest.
#[derive(Default, Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(rename = "os.version", default)]
    os_version: Option<String>,
}

impl Document {
    /// Reads one.
    ///
    /// # Errors
    /// In words, when it is neither, or both.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let body: Body = serde_json::from_slice(body).map_err(|error| unreadable("index or manifest", &error))?;
        let is_manifest = body.config.is_some() || body.layers.is_some();
        match (body.manifests, body.config) {
            _ if body.schema_version == Some(1) || body.fs_layers.is_some() => {
                Err("it is a manifest of schema 1, which does not say what it is for: push it again".to_owned())
            }
            (Some(_), _) if is_manifest => Err("it is an index and a manifest at once".to_owned()),
            (Some(entries), _) => Ok(Self::Index(entries.into_iter().filter_map(RawPointer::entry).collect())),
            (None, Some(config)) => {
                let config = config.pointer().ok_or("its configuration has a digest that is none")?;
                Ok(Self::Manifest(config))
            }
            (None, None) => Err("it is neither an index nor a manifest".to_owned()),
        }
    }
}

/// What a configuration says that its image is for.
///
/// # Errors
/// In words, when it does not say.
pub(super) fn configured(body: &[u8]) -> Result<Platform, String> {
    let config: RawPlatform =
        serde_json::from_slice(body).map_err(|error| unreadable("image configuration", &error))?;
    config.platform().ok_or_else(|| "its configuration does not say what it is for".to_owned())
}

impl Pointer {
    /// Whether it leads to the configuration of an image, and not to that of a chart, a signature or anything else.
    pub(super) fn is_image_config(&self) -> bool {
        self.media_type == MediaType::ImageConfig || self.media_type == MediaType::Other(DOCKER_CONFIG.to_owned())
    }

    /// Checks what it led to.
    ///
    /// # Errors
    /// In words, when that is something else.
    pub(super) fn verify(&self, body: &[u8]) -> Result<(), String> {
        if body.len() as u64 != self.size {
            return Err(format!("{} is said to have {} bytes and has {}", self.digest, self.size, body.len()));
        }
        verify(&self.digest, body)
    }
}

/// Checks a body against its digest.
///
/// # Errors
/// In words, when it has another, or one that cannot be computed.
pub(super) fn verify(digest: &Digest, body: &[u8]) -> Result<(), String> {
    let actual = match digest.algorithm() {
        DigestAlgorithm::Sha256 => hex(&Sha256::digest(body)),
        DigestAlgorithm::Sha384 => hex(&Sha384::digest(body)),
        DigestAlgorithm::Sha512 => hex(&Sha512::digest(body)),
        _ => return Err("its digest is of an unknown kind".to_owned()),
    };
    if actual == digest.digest() { Ok(()) } else { Err(format!("what was sent is not {digest}")) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text of the error may quote what was read.
fn unreadable(what: &str, error: &serde_json::Error) -> String {
    format!("the {what} cannot be read (line {}, column {})", error.line(), error.column())
}

impl RawPointer {
    /// `None` for what nobody runs, such as an attestation, and for what cannot be told.
    fn entry(self) -> Option<Entry> {
        let is_index = matches!(self.media_type.as_deref(), Some(DOCKER_INDEX))
            || self
                .media_type
                .as_deref()
                .is_some_and(|media_type| MediaType::from(media_type) == MediaType::ImageIndex);
        match self.platform {
            Some(platform) if !is_index => platform.platform().map(Entry::Image),
            _ => self.pointer().map(Entry::Ask),
        }
    }

    fn pointer(self) -> Option<Pointer> {
        let media_type = MediaType::from(self.media_type.as_deref().unwrap_or_default());
        let digest: Digest = self.digest.parse().ok()?;
        // What cannot be verified is not asked for.
        digest.algorithm().digest_hexlen()?;
        Some(Pointer { digest, size: self.size, media_type })
    }
}

impl RawPlatform {
    fn platform(self) -> Option<Platform> {
        let word = |word: &str| {
            let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            (plain && (1..=LONGEST_WORD).contains(&word.len()) && word != "unknown").then(|| word.to_ascii_lowercase())
        };
        let os_version = self.os_version.and_then(|version| version.trim().parse().ok());
        Some(Platform { os: word(&self.os)?, architecture: word(&self.architecture)?, os_version })
    }
}

/// A list of entries that is not longer than any has reason to be.
fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<RawPointer>>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Option<Vec<RawPointer>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MOST_ENTRIES} entries")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut few = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if few.len() == MOST_ENTRIES {
                    return Err(A::Error::invalid_length(MOST_ENTRIES + 1, &self));
                }
                few.push(entry);
            }
            Ok(Some(few))
        }
    }
    deserializer.deserialize_any(Few)
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

    /// The entries of an index in words.
    fn told(entries: &[Value]) -> Vec<String> {
        let Ok(Document::Index(entries)) = parse(&json!({ "schemaVersion": 2, "manifests": entries })) else {
            panic!("an index")
        };
        let words = |entry: &Entry| match entry {
            Entry::Image(platform) => platform.to_string(),
            Entry::Ask(_) => "ask".to_owned(),
        };
        entries.iter().map(words).collect()
    }

    #[test]
    fn an_index_says_what_each_entry_is_for() {
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
            // An attestation, and others that nobody runs.
            (entry(&oci, json!({ "os": "unknown", "architecture": "unknown" })), vec![]),
            (entry(&oci, json!({ "os": "windows" })), vec![]),
            (entry(&oci, json!({})), vec![]),
            (entry(&oci, json!({ "os": "w".repeat(1 << 20), "architecture": "amd64" })), vec![]),
            (entry(&oci, json!({ "os": "win\ndows", "architecture": "amd64" })), vec![]),
            // What has to be asked for.
            (entry(&oci, Value::Null), vec!["ask"]),
            (entry(MediaType::ImageIndex.as_ref(), Value::Null), vec!["ask"]),
            (entry(MediaType::ImageIndex.as_ref(), windows("10.0.20348.1")), vec!["ask"]),
            (entry(DOCKER_INDEX, Value::Null), vec!["ask"]),
            (json!({ "digest": "../../etc/passwd", "size": 2 }), vec![]),
        ];
        for (entry, expected) in table {
            assert_eq!(told(std::slice::from_ref(&entry)), expected, "{entry}");
        }
    }

    #[test]
    fn what_is_no_document_is_refused_in_words() {
        let config = entry(DOCKER_CONFIG, Value::Null);
        let crowd = vec![entry("", Value::Null); MOST_ENTRIES + 1];
        let table = [
            (json!({ "schemaVersion": 1, "fsLayers": [], "name": "app" }), "it is a manifest of schema 1"),
            (json!({ "fsLayers": [] }), "it is a manifest of schema 1"),
            (json!({ "manifests": [], "config": config }), "it is an index and a manifest at once"),
            (json!({ "manifests": [], "layers": [] }), "it is an index and a manifest at once"),
            (json!({ "schemaVersion": 2, "layers": [] }), "it is neither an index nor a manifest"),
            (json!({}), "it is neither an index nor a manifest"),
            (json!({ "config": { "digest": "x:y", "size": 1 } }), "its configuration has a digest that is none"),
            (json!({ "manifests": crowd }), "the index or manifest cannot be read (line 1, "),
            (json!({ "manifests": {} }), "the index or manifest cannot be read (line 1, "),
            (json!([]), "the index or manifest cannot be read (line 1, "),
            (json!("secret"), "the index or manifest cannot be read (line 1, "),
        ];
        for (body, words) in table {
            let error = parse(&body).unwrap_err();
            assert!(error.starts_with(words) && !error.contains("secret"), "{error}");
        }
        let deep = "[".repeat(1 << 20);
        assert!(Document::parse(deep.as_bytes()).is_err() && Document::parse(b"\xff\xfe").is_err());
    }

    #[test]
    fn only_the_configuration_of_an_image_says_what_it_is_for() {
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
    fn a_configuration_says_what_its_image_is_for() {
        let config = json!({
            "architecture": "amd64", "os": "windows", "os.version": "10.0.20348.2700",
            "config": { "Cmd": ["cmd"] }, "rootfs": { "type": "layers", "diff_ids": [] },
        });
        assert_eq!(configured(config.to_string().as_bytes()).unwrap().to_string(), "windows/amd64 10.0.20348.2700");
        for body in ["{}", "[]", "null", r#"{"os": "windows"}"#, r#"{"os": 5}"#] {
            assert!(configured(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn what_was_sent_has_the_digest_and_the_size_that_were_asked_for() {
        let pointer =
            |digest: &str, size| Pointer { digest: digest.parse().unwrap(), size, media_type: MediaType::ImageConfig };
        let sha512 = format!("sha512:{}", hex(&Sha512::digest(b"ab")));
        let sha256 = format!("sha256:{}", hex(&Sha256::digest(b"ab")));
        let table = [
            (pointer(&sha256, 2), true),
            (pointer(&sha512, 2), true),
            (pointer(&sha256, 3), false),
            (pointer(DIGEST, 2), false),
            (pointer("multihash+base58:QmRZxt2b1FVZPNqd8hsiykDL3TdBDeTSPX9Kv46HmX4Gx8", 2), false),
        ];
        for (pointer, expected) in table {
            assert_eq!(pointer.verify(b"ab").is_ok(), expected, "{pointer:?}");
        }
    }
}
