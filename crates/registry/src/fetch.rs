//! The lookup of one image at one endpoint.

use http::StatusCode;
use oci_spec::image::Digest;
use reqwest::Url;
use winpool_core::image::{ImagePlatform, ImagePlatforms, Reference};

use super::{
    authentication::{Authentication, Scope},
    client::{Client, Get, Response},
    credentials::{Credentials, Login},
    endpoint::{Endpoint, is_valid},
    failure::Failure,
    manifest::{ACCEPT, Descriptor, Document, Entry, platform_of, verify},
};

/// The largest index or manifest, in bytes.
const LARGEST_MANIFEST: usize = 4 << 20;
/// The largest image configuration, in bytes.
const LARGEST_CONFIG: usize = 1 << 20;
/// The maximum depth of nested indexes.
const MAX_DEPTH: usize = 3;
/// The maximum number of documents that are read for one image.
const MAX_DOCUMENTS: usize = 24;
/// The maximum number of platforms of one image.
const MAX_PLATFORMS: usize = 256;

/// Fetches the documents of one image from one endpoint.
pub(super) struct ImageFetch<'a> {
    client: &'a Client,
    authentication: &'a Authentication,
    endpoint: &'a Endpoint,
    image: &'a Reference,
    login: Option<&'a Login>,
    documents: usize,
    platforms: Vec<ImagePlatform>,
}

impl<'a> ImageFetch<'a> {
    pub(super) fn new(
        client: &'a Client,
        authentication: &'a Authentication,
        endpoint: &'a Endpoint,
        image: &'a Reference,
        credentials: Option<&'a Credentials>,
    ) -> Self {
        let host = endpoint.credentials_host(image);
        let login = credentials.and_then(|credentials| credentials.login(&host, image.repository()));
        Self { client, authentication, endpoint, image, login, documents: 0, platforms: Vec::new() }
    }

    pub(super) async fn content(mut self) -> Result<ImagePlatforms, Failure> {
        let root = self.fetch_root().await?;
        let mut unread = match root {
            Document::Manifest(config) if !config.is_image_config() => {
                return Err(self.failure("not a container image"));
            }
            Document::Manifest(config) => {
                let platform = self.fetch_config(&config).await?;
                return Ok(ImagePlatforms { platforms: vec![platform] });
            }
            Document::Index(entries) => vec![(entries, 1)],
        };
        while let Some((entries, depth)) = unread.pop() {
            for entry in entries {
                match entry {
                    Entry::Image(platform) => self.add(platform)?,
                    Entry::Unread(descriptor) => match self.fetch_document(&descriptor).await? {
                        Document::Index(_) if depth == MAX_DEPTH => {
                            return Err(self.failure("indexes are nested too deeply"));
                        }
                        Document::Index(entries) => unread.push((entries, depth + 1)),
                        Document::Manifest(config) if config.is_image_config() => {
                            let platform = self.fetch_config(&config).await?;
                            self.add(platform)?;
                        }
                        // Not a container image, such as an attestation.
                        Document::Manifest(_) => {}
                    },
                }
            }
        }
        Ok(ImagePlatforms { platforms: self.platforms })
    }

    fn add(&mut self, platform: ImagePlatform) -> Result<(), Failure> {
        if !self.platforms.contains(&platform) {
            self.platforms.push(platform);
        }
        if self.platforms.len() > MAX_PLATFORMS { Err(self.failure("too many platforms")) } else { Ok(()) }
    }

    /// Fetches the document that the image reference names.
    async fn fetch_root(&mut self) -> Result<Document, Failure> {
        let digest = self.image.digest().map(str::parse::<Digest>);
        let digest = digest.transpose().map_err(|_| self.failure("the digest is invalid"))?;
        let name = self.image.digest().or(self.image.tag()).unwrap_or("latest");
        let body = self.fetch_manifest(self.endpoint.manifest(self.image, name)).await?;
        let verified = digest.map_or(Ok(()), |digest| verify(&digest, &body));
        verified.and_then(|()| Document::parse(&body)).map_err(|error| self.failure(&error))
    }

    /// Fetches the document of an index entry.
    async fn fetch_document(&mut self, descriptor: &Descriptor) -> Result<Document, Failure> {
        self.check_size(descriptor, LARGEST_MANIFEST)?;
        let body = self.fetch_manifest(self.endpoint.manifest(self.image, descriptor.digest.as_ref())).await?;
        descriptor.verify(&body).and_then(|()| Document::parse(&body)).map_err(|error| self.failure(&error))
    }

    async fn fetch_manifest(&mut self, url: Url) -> Result<Vec<u8>, Failure> {
        self.fetch(url, ACCEPT, LARGEST_MANIFEST).await
    }

    async fn fetch_config(&mut self, descriptor: &Descriptor) -> Result<ImagePlatform, Failure> {
        self.check_size(descriptor, LARGEST_CONFIG)?;
        let body =
            self.fetch(self.endpoint.blob(self.image, descriptor.digest.as_ref()), "*/*", LARGEST_CONFIG).await?;
        descriptor.verify(&body).and_then(|()| platform_of(&body)).map_err(|error| self.failure(&error))
    }

    fn check_size(&self, descriptor: &Descriptor, largest: usize) -> Result<(), Failure> {
        let fits = descriptor.size <= largest as u64;
        fits.then_some(()).ok_or_else(|| self.failure(&format!("{} is larger than {largest} bytes", descriptor.digest)))
    }

    /// Fetches one document, with authentication if the registry requires it.
    async fn fetch(&mut self, url: Url, accept: &'static str, largest: usize) -> Result<Vec<u8>, Failure> {
        self.documents += 1;
        if self.documents > MAX_DOCUMENTS {
            return Err(self.failure("too many documents"));
        }
        let Self { client, authentication, .. } = self;
        let scope = Scope {
            endpoint: self.endpoint.key(),
            repository: self.image.repository(),
            login: self.login.filter(|_| is_valid(&url) && client.is_safe(&url)),
        };
        let get = |authorization| client.get(Get { url: url.clone(), accept, authorization, largest });
        let initial = authentication.initial(client, &scope).await?;
        let mut response = get(initial.clone()).await?;
        if response.status == StatusCode::UNAUTHORIZED && !response.redirected {
            let other = authentication.after_challenge(client, &scope, &response.headers, initial.as_ref()).await?;
            if other.is_some() {
                response = get(other).await?;
            }
        }
        self.body(response)
    }

    fn body(&self, response: Response) -> Result<Vec<u8>, Failure> {
        let error = match response.status {
            StatusCode::OK => return Ok(response.body),
            StatusCode::NOT_FOUND => "has no such image".to_owned(),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.login.is_some() => {
                "denies access with these credentials".to_owned()
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "denies access without credentials".to_owned(),
            status => format!("answered {}", status.as_u16()),
        };
        Err(Failure::new(format!("{} {error}", response.host)))
    }

    fn failure(&self, message: &str) -> Failure {
        Failure::new(format!("{}: {message}", self.endpoint.host()))
    }
}
