//! Requests to servers that nobody vouches for: bounded in time, size and redirects, and careful with secrets.

use std::{
    error::Error as _,
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, AUTHORIZATION, LOCATION},
};
use jiff::Timestamp;
use reqwest::{Certificate, Response, Url, redirect::Policy};

use super::{
    RegistryError,
    endpoint::{host, is_plain},
    failure::Failure,
    host::{Hosts, retry_after},
    settings::Settings,
};

/// A client for http.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    pub(super) settings: Settings,
    pub(super) hosts: Hosts,
    pub(super) requests: AtomicU64,
}

/// What to ask for.
pub(super) struct Get {
    pub(super) url: Url,
    pub(super) accept: &'static str,
    /// Goes to the host of the address alone, not to one that it redirects to.
    pub(super) authorization: Option<HeaderValue>,
    /// The most bytes that are read of the body.
    pub(super) largest: usize,
}

/// What a server said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Empty unless the status is 200.
    pub(super) body: Vec<u8>,
    /// It is from the host that was asked, and not from one that it redirected to.
    pub(super) first_hand: bool,
    /// The host that said it.
    pub(super) host: String,
}

impl Client {
    pub(super) fn new(settings: Settings) -> Result<Self, RegistryError> {
        // The first to install one decides for the process; each that this program has is ring.
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
        let hosts = Hosts::new(settings.concurrency_per_host, settings.longest_back_off);
        Ok(Self { http, settings, hosts, requests: AtomicU64::new(0) })
    }

    /// Whether a secret may be sent to this address.
    pub(super) fn is_safe(&self, url: &Url) -> bool {
        url.scheme() == "https" || self.settings.plain_http.contains(&host(url))
    }

    /// Asks, and follows redirects.
    ///
    /// # Errors
    /// When there is no answer within the bounds, or the host asks to be left alone. Any other status is an answer.
    pub(super) async fn get(&self, get: Get) -> Result<Answer, Failure> {
        let Get { mut url, accept, mut authorization, largest } = get;
        let first = url.origin();
        let mut first_hand = true;
        for _ in 0..=self.settings.redirects {
            if !is_plain(&url) || !(self.is_safe(&url) || url.origin() == first) {
                return Err(Failure::new(format!("redirected to {} without TLS", host(&url))));
            }
            if url.origin() != first {
                (authorization, first_hand) = (None, false);
            }
            let (response, body) = self.within_limit(&url, accept, authorization.as_ref(), largest).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            // The path that a registry redirects to may be signed.
            let path = first_hand.then(|| url.path());
            tracing::debug!(host = url.host_str(), path, status = status.as_u16(), "asked a registry");
            match target(&url, status, &headers)? {
                Some(next) => url = next,
                None => return Ok(Answer { status, headers, body, first_hand, host: host(&url) }),
            }
        }
        Err(Failure::new(format!("{} redirects more than {} times", host(&url), self.settings.redirects)))
    }

    /// One request and its answer, within the time for one.
    async fn within_limit(
        &self,
        url: &Url,
        accept: &'static str,
        authorization: Option<&HeaderValue>,
        largest: usize,
    ) -> Result<(Response, Vec<u8>), Failure> {
        let host = self.hosts.named(&host(url));
        host.check()?;
        let mut request = self.http.get(url.clone()).header(ACCEPT, accept);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let exchange = async {
            let mut response = request.send().await.map_err(|error| host.in_trouble(&cause(&error), None))?;
            let status = response.status();
            if is_trouble(status) {
                let asked = retry_after(response.headers(), Timestamp::now());
                return Err(host.in_trouble(&format!("answers {}", status.as_u16()), asked));
            }
            let body = if status == StatusCode::OK {
                read(&mut response, largest).await.map_err(|wrong| Failure::new(format!("{}: {wrong}", host.name)))?
            } else {
                Vec::new()
            };
            host.well();
            Ok((response, body))
        };
        let limit = self.settings.request_limit;
        let in_time = tokio::time::timeout(limit, exchange).await;
        in_time.unwrap_or_else(|_| Err(host.in_trouble(&format!("took longer than {} s", limit.as_secs_f32()), None)))
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, RegistryError> {
    let wrong = |reason| RegistryError::Certificates { path: path.to_owned(), reason };
    let pem = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(cause(&error)))?;
    if certificates.is_empty() { Err(wrong("it has no certificate in it".to_owned())) } else { Ok(certificates) }
}

/// What a host with trouble answers: it is asked too much, or is not there for now.
fn is_trouble(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::BAD_GATEWAY
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Where an answer redirects to, if it does.
fn target(url: &Url, status: StatusCode, headers: &HeaderMap) -> Result<Option<Url>, Failure> {
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    if !redirects {
        return Ok(None);
    }
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let next = location.and_then(|location| url.join(location).ok());
    // What stands behind `#` is for browsers.
    let next = next.map(|mut next| {
        next.set_fragment(None);
        next
    });
    next.map(Some).ok_or_else(|| Failure::new(format!("{} redirects to nowhere", host(url))))
}

/// Reads a body, and no more of it than `largest` whatever its length is said to be.
async fn read(response: &mut Response, largest: usize) -> Result<Vec<u8>, String> {
    let too_large = || format!("the answer is larger than {largest} bytes");
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

/// The innermost cause of an error, which is where the reason is. The outer ones may have an address with a signature
/// in it.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost = error.source();
    while let Some(source) = innermost.and_then(std::error::Error::source) {
        innermost = Some(source);
    }
    let what = if error.is_connect() { "cannot be reached" } else { "broke off" };
    match innermost {
        Some(reason) => format!("{what} ({reason})"),
        None => what.to_owned(),
    }
}
