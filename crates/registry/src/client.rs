//! Requests to untrusted servers: bounded in time, size and redirects, and without secrets for other hosts.

use std::{error::Error as _, fs, path::Path, time::Duration};

use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, AUTHORIZATION, LOCATION},
};
use jiff::Timestamp;
use reqwest::{Certificate, Url, redirect::Policy};

use super::{
    endpoint::{host, is_valid},
    failure::{Failure, RegistryError},
    host::{Hosts, retry_after},
    settings::RegistrySettings,
};

/// The most redirects that one request follows.
const MAX_REDIRECTS: usize = 5;

#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    pub(super) settings: RegistrySettings,
    pub(super) hosts: Hosts,
}

pub(super) struct Get {
    pub(super) url: Url,
    pub(super) accept: &'static str,
    /// Sent only to the host of the URL, not to the target of a redirect.
    pub(super) authorization: Option<HeaderValue>,
    /// The largest body, in bytes.
    pub(super) largest: usize,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Empty unless the status is 200.
    pub(super) body: Vec<u8>,
    /// Whether the response is from another host, after a redirect.
    pub(super) redirected: bool,
    pub(super) host: String,
}

impl Client {
    pub(super) fn new(settings: RegistrySettings) -> Result<Self, RegistryError> {
        // Fails if a provider is already installed, which is ring too.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates = settings.certificates.as_deref().map(certificates).transpose()?.unwrap_or_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("winpool/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_max_idle_per_host(settings.concurrency_per_host)
            .pool_idle_timeout(Duration::from_secs(30))
            .tls_certs_merge(certificates)
            .build()
            .map_err(|error| RegistryError::Client(cause(&error)))?;
        let hosts = Hosts::new(settings.concurrency_per_host);
        Ok(Self { http, settings, hosts })
    }

    /// Whether a secret may be sent to this URL.
    pub(super) fn is_safe(&self, url: &Url) -> bool {
        url.scheme() == "https" || self.settings.plain_http.contains(&host(url))
    }

    /// Sends a request, and follows redirects. Any status is a response, except those that start a back-off.
    pub(super) async fn get(&self, get: Get) -> Result<Response, Failure> {
        let Get { mut url, accept, mut authorization, largest } = get;
        let origin = url.origin();
        let mut redirected = false;
        for _ in 0..=MAX_REDIRECTS {
            if !is_valid(&url) || !(self.is_safe(&url) || url.origin() == origin) {
                return Err(Failure::new(format!("redirected to {} without TLS", host(&url))));
            }
            if url.origin() != origin {
                (authorization, redirected) = (None, true);
            }
            let (response, body) = self.send(&url, accept, authorization.as_ref(), largest).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            // The path of a redirect may contain a signature.
            let path = (!redirected).then(|| url.path());
            tracing::debug!(host = url.host_str(), path, status = status.as_u16(), "registry request");
            match redirect(&url, status, &headers)? {
                Some(next) => url = next,
                None => return Ok(Response { status, headers, body, redirected, host: host(&url) }),
            }
        }
        Err(Failure::new(format!("{} redirects more than {MAX_REDIRECTS} times", host(&url))))
    }

    /// Sends one request and reads its response, within the time limit.
    async fn send(
        &self,
        url: &Url,
        accept: &'static str,
        authorization: Option<&HeaderValue>,
        largest: usize,
    ) -> Result<(reqwest::Response, Vec<u8>), Failure> {
        let host = self.hosts.get(&host(url));
        host.check_back_off()?;
        let mut request = self.http.get(url.clone()).header(ACCEPT, accept);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let exchange = async {
            let mut response = request.send().await.map_err(|error| host.back_off(&cause(&error), None))?;
            let status = response.status();
            if is_unavailable(status) {
                let retry_after = retry_after(response.headers(), Timestamp::now());
                return Err(host.back_off(&format!("answered {}", status.as_u16()), retry_after));
            }
            let body = match status {
                StatusCode::OK => read_body(&mut response, largest).await,
                _ => Ok(Vec::new()),
            };
            let body = body.map_err(|error| Failure::new(format!("{}: {error}", host.name)))?;
            host.succeeded();
            Ok((response, body))
        };
        let limit = self.settings.request_limit;
        let timed_out = || host.back_off(&format!("did not answer within {} s", limit.as_secs_f32()), None);
        tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| Err(timed_out()))
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, RegistryError> {
    let wrong = |reason| RegistryError::Certificates { path: path.to_owned(), reason };
    let pem = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(cause(&error)))?;
    if certificates.is_empty() { Err(wrong("no certificate in this file".to_owned())) } else { Ok(certificates) }
}

/// Whether a host is overloaded or temporarily unavailable.
fn is_unavailable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// The target of a redirect; `None` for other responses.
fn redirect(url: &Url, status: StatusCode, headers: &HeaderMap) -> Result<Option<Url>, Failure> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let next = location.and_then(|location| url.join(location).ok());
    let mut next = next.ok_or_else(|| Failure::new(format!("{} redirects without a valid location", host(url))))?;
    // The fragment is only for browsers.
    next.set_fragment(None);
    Ok(Some(next))
}

/// Reads at most `largest` bytes of a body, whatever its `Content-Length`.
async fn read_body(response: &mut reqwest::Response, largest: usize) -> Result<Vec<u8>, String> {
    let too_large = || format!("the response is larger than {largest} bytes");
    if response.content_length().is_some_and(|length| length > largest as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| cause(&error))? {
        if body.len() + chunk.len() > largest {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The innermost cause of an error. The outer ones may contain a URL with a signature.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost = error.source();
    while let Some(source) = innermost.and_then(std::error::Error::source) {
        innermost = Some(source);
    }
    let what = if error.is_connect() { "cannot be reached" } else { "sent no valid response" };
    match innermost {
        Some(reason) => format!("{what} ({reason})"),
        None => what.to_owned(),
    }
}
