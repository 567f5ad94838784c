//! Pushes images with the structure of public images over HTTP. They cannot be run.

use anyhow::{Result, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
pub use release::image::digest;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

/// A few bytes compressed with `gzip`, used as a layer.
pub const GZIP: &[u8] =
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x49\xac\x4c\x2d\x02\x00\x1a\x21\xdb\xe4\x05\x00\x00\x00";
/// The same bytes compressed with `zstd`.
pub const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\x04\x58\x29\x00\x00\x6c\x61\x79\x65\x72\xb6\xf6\x42\x82";

/// The standard that defines the media types of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestFormat {
    /// Open Container Initiative.
    Oci,
    /// Docker, schema 2.
    Docker,
}

#[derive(Clone, Copy, Debug)]
pub struct MediaTypes {
    /// An index, which Docker calls a manifest list.
    pub index: &'static str,
    pub manifest: &'static str,
    pub config: &'static str,
    /// A layer compressed with gzip.
    pub gzip: &'static str,
}

impl ManifestFormat {
    pub fn media_types(self) -> MediaTypes {
        match self {
            Self::Oci => MediaTypes {
                index: "application/vnd.oci.image.index.v1+json",
                manifest: "application/vnd.oci.image.manifest.v1+json",
                config: "application/vnd.oci.image.config.v1+json",
                gzip: "application/vnd.oci.image.layer.v1.tar+gzip",
            },
            Self::Docker => MediaTypes {
                index: "application/vnd.docker.distribution.manifest.list.v2+json",
                manifest: "application/vnd.docker.distribution.manifest.v2+json",
                config: "application/vnd.docker.container.image.v1+json",
                gzip: "application/vnd.docker.image.rootfs.diff.tar.gzip",
            },
        }
    }
}

#[derive(Clone, Debug)]
pub struct Repository {
    pub(crate) client: Client,
    pub(crate) root: String,
    pub(crate) authorization: Option<String>,
}

/// The platform `windows/amd64` with this version.
pub fn windows(os_version: &str) -> Value {
    json!({ "os": "windows", "architecture": "amd64", "os.version": os_version })
}

/// The platform Linux with this architecture.
pub fn linux(architecture: &str) -> Value {
    json!({ "os": "linux", "architecture": architecture })
}

/// The descriptor of a blob or document in an index or manifest.
pub fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}

/// Adds the platform that an index states to a descriptor.
pub fn on(mut descriptor: Value, platform: &Value) -> Value {
    descriptor["platform"] = platform.clone();
    descriptor
}

impl Repository {
    /// Pushes a blob, and returns its descriptor.
    pub async fn blob(&self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let begun = self.send(self.client.post(format!("{}/blobs/uploads/", self.root))).await?;
        let location = begun.headers().get(LOCATION).map(|location| location.to_str()).transpose()?.unwrap_or_default();
        let mut url = begun.url().join(location)?;
        url.query_pairs_mut().append_pair("digest", &digest(bytes));
        let upload = self.client.put(url).header(CONTENT_TYPE, "application/octet-stream").body(bytes.to_vec());
        self.send(upload).await?;
        Ok(descriptor(media_type, bytes))
    }

    /// Pushes an index or a manifest, by this tag or by its digest, and returns its descriptor.
    pub async fn document(&self, tag: Option<&str>, media_type: &str, document: &Value) -> Result<Value> {
        let bytes = document.to_string().into_bytes();
        let descriptor = descriptor(media_type, &bytes);
        let name = tag.map_or_else(|| digest(&bytes), str::to_owned);
        let put = self.client.put(format!("{}/manifests/{name}", self.root)).header(CONTENT_TYPE, media_type);
        self.send(put.body(bytes)).await?;
        Ok(descriptor)
    }

    /// Pushes an image with one layer; only its configuration states the platform.
    pub async fn image(&self, tag: Option<&str>, format: ManifestFormat, platform: &Value) -> Result<Value> {
        let media_types = format.media_types();
        let mut layers = vec![self.blob(media_types.gzip, GZIP).await?];
        if format == ManifestFormat::Oci {
            layers.push(self.blob("application/vnd.oci.image.layer.v1.tar+zstd", ZSTD).await?);
        } else if platform["os"] == "windows" {
            let mut foreign =
                descriptor("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", b"base of Windows");
            foreign["urls"] = json!(["https://base.example/layer"]);
            layers.insert(0, foreign);
        }
        self.image_of(tag, format, platform, &layers).await
    }

    /// Pushes an image with these layers.
    pub async fn image_of(
        &self,
        tag: Option<&str>,
        format: ManifestFormat,
        platform: &Value,
        layers: &[Value],
    ) -> Result<Value> {
        let media_types = format.media_types();
        let mut config = platform.clone();
        config["created"] = json!("2025-03-01T12:00:00Z");
        config["config"] = json!({ "Cmd": ["cmd"] });
        config["rootfs"] =
            json!({ "type": "layers", "diff_ids": layers.iter().map(|layer| &layer["digest"]).collect::<Vec<_>>() });
        let config = self.blob(media_types.config, config.to_string().as_bytes()).await?;
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": media_types.manifest, "config": config, "layers": layers });
        self.document(tag, media_types.manifest, &manifest).await
    }

    /// Pushes an index of these entries.
    pub async fn index(&self, tag: Option<&str>, format: ManifestFormat, entries: &[Value]) -> Result<Value> {
        let media_type = format.media_types().index;
        let index = json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": entries });
        self.document(tag, media_type, &index).await
    }

    async fn send(&self, mut request: RequestBuilder) -> Result<Response> {
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = request.send().await?;
        let (status, url) = (response.status(), response.url().clone());
        if !status.is_success() {
            let text = response.text().await?;
            bail!("{url} answers {status}: {text}");
        }
        Ok(response)
    }
}
