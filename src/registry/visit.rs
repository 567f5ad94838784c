//! One image at one endpoint.

use http::StatusCode;
use oci_spec::image::Digest;
use reqwest::Url;

use super::{
    Registry,
    authentication::Asker,
    client::{Answer, Get},
    credentials::{Credentials, Login},
    endpoint::{Endpoint, is_plain},
    failure::Failure,
    manifest::{self, ACCEPT, Document, Entry, Pointer, verify},
};
use crate::domain::image::{Content, Platform, Reference};

/// How many indexes lie within each other at most.
const DEEPEST: usize = 3;
/// The most documents that are read for one image.
const MOST_DOCUMENTS: usize = 24;
/// The most platforms that are kept of one image.
const MOST_PLATFORMS: usize = 256;

/// One image at one endpoint.
pub(super) struct Visit<'a> {
    registry: &'a Registry,
    endpoint: &'a Endpoint,
    image: &'a Reference,
    login: Option<&'a Login>,
    documents: usize,
    platforms: Vec<Platform>,
}

impl<'a> Visit<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        endpoint: &'a Endpoint,
        image: &'a Reference,
        credentials: Option<&'a Credentials>,
    ) -> Self {
        let host = endpoint.credentials_host(image);
        let login = credentials.and_then(|credentials| credentials.login(&host, image.repository()));
        Self { registry, endpoint, image, login, documents: 0, platforms: Vec::new() }
    }

    /// Reads the document that the image names, and those that it leads to.
    pub(super) async fn content(mut self) -> Result<Content, Failure> {
        let named = self.named().await?;
        let mut unread = match named {
            Document::Manifest(config) if !config.is_image_config() => {
                return Err(self.wrong("it is not the image of a container"));
            }
            Document::Manifest(config) => {
                let platform = self.configured(&config).await?;
                return Ok(Content { platforms: vec![platform] });
            }
            Document::Index(entries) => vec![(entries, 1)],
        };
        while let Some((entries, depth)) = unread.pop() {
            for entry in entries {
                match entry {
                    Entry::Image(platform) => self.add(platform)?,
                    Entry::Ask(pointer) => match self.pointed(&pointer).await? {
                        Document::Index(_) if depth == DEEPEST => {
                            return Err(self.wrong("there are too many indexes within each other"));
                        }
                        Document::Index(entries) => unread.push((entries, depth + 1)),
                        Document::Manifest(config) if config.is_image_config() => {
                            let platform = self.configured(&config).await?;
                            self.add(platform)?;
                        }
                        // Something that nobody runs.
                        Document::Manifest(_) => {}
                    },
                }
            }
        }
        Ok(Content { platforms: self.platforms })
    }

    fn add(&mut self, platform: Platform) -> Result<(), Failure> {
        if !self.platforms.contains(&platform) {
            self.platforms.push(platform);
        }
        if self.platforms.len() > MOST_PLATFORMS { Err(self.wrong("it is for too many platforms")) } else { Ok(()) }
    }

    /// What the image's own name leads to.
    async fn named(&mut self) -> Result<Document, Failure> {
        let digest = self.image.digest().map(str::parse::<Digest>);
        let digest = digest.transpose().map_err(|_| self.wrong("its digest is none"))?;
        let name = self.image.digest().or(self.image.tag()).unwrap_or("latest");
        let body = self.manifest(self.endpoint.manifest(self.image, name)).await?;
        let verified = digest.map_or(Ok(()), |digest| verify(&digest, &body));
        verified.and_then(|()| Document::parse(&body)).map_err(|wrong| self.wrong(&wrong))
    }

    /// What an entry of an index leads to.
    async fn pointed(&mut self, pointer: &Pointer) -> Result<Document, Failure> {
        let largest = self.registry.client.settings.largest_manifest;
        self.bounded(pointer, largest)?;
        let body = self.manifest(self.endpoint.manifest(self.image, pointer.digest.as_ref())).await?;
        pointer.verify(&body).and_then(|()| Document::parse(&body)).map_err(|wrong| self.wrong(&wrong))
    }

    async fn manifest(&mut self, url: Url) -> Result<Vec<u8>, Failure> {
        self.read(url, ACCEPT, self.registry.client.settings.largest_manifest).await
    }

    async fn configured(&mut self, pointer: &Pointer) -> Result<Platform, Failure> {
        let largest = self.registry.client.settings.largest_config;
        self.bounded(pointer, largest)?;
        let body = self.read(self.endpoint.blob(self.image, pointer.digest.as_ref()), "*/*", largest).await?;
        pointer.verify(&body).and_then(|()| manifest::configured(&body)).map_err(|wrong| self.wrong(&wrong))
    }

    /// What says itself that it is too large is not asked for.
    fn bounded(&self, pointer: &Pointer, largest: usize) -> Result<(), Failure> {
        let fits = pointer.size <= largest as u64;
        fits.then_some(()).ok_or_else(|| self.wrong(&format!("{} is larger than {largest} bytes", pointer.digest)))
    }

    /// Reads one document, and shows who asks if the registry wants to see it.
    async fn read(&mut self, url: Url, accept: &'static str, largest: usize) -> Result<Vec<u8>, Failure> {
        self.documents += 1;
        if self.documents > MOST_DOCUMENTS {
            return Err(self.wrong("it has too many parts"));
        }
        let Registry { client, authentication, .. } = self.registry;
        let asker = Asker {
            endpoint: self.endpoint.key(),
            repository: self.image.repository(),
            login: self.login.filter(|_| is_plain(&url) && client.is_safe(&url)),
        };
        let ask = |authorization| client.get(Get { url: url.clone(), accept, authorization, largest });
        let shown = authentication.remembered(client, &asker).await?;
        let mut answer = ask(shown.clone()).await?;
        if answer.status == StatusCode::UNAUTHORIZED && answer.first_hand {
            let other = authentication.challenged(client, &asker, &answer.headers, shown.as_ref()).await?;
            if other.is_some() {
                answer = ask(other).await?;
            }
        }
        self.accepted(answer)
    }

    fn accepted(&self, answer: Answer) -> Result<Vec<u8>, Failure> {
        let words = match answer.status {
            StatusCode::OK => return Ok(answer.body),
            StatusCode::NOT_FOUND => "has no such image".to_owned(),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.login.is_some() => {
                "does not show it with the credentials there are".to_owned()
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "does not show it without credentials".to_owned(),
            status => format!("answers {}", status.as_u16()),
        };
        Err(Failure::new(format!("{} {words}", answer.host)))
    }

    fn wrong(&self, words: &str) -> Failure {
        Failure::new(format!("{}: {words}", self.endpoint.host()))
    }
}
