//! A token server: it signs tokens as specified in `docs/spec/auth/token.md` of distribution/distribution.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, anyhow};
use axum::{
    Router,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use e2e::{
    certificates::Authority,
    registry::{Access, LOGIN, SERVICE},
};
use rcgen::{CertificateParams, KeyPair};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::json;

use super::server::Server;

const ISSUER: &str = "token server on loopback";

/// Signs tokens.
pub struct Signer {
    key: KeyPair,
    certificate: rcgen::Certificate,
}

impl Signer {
    pub fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["tokens.example".to_owned()])?.self_signed(&key)?;
        Ok(Self { key, certificate })
    }

    /// The access settings of a registry that trusts it.
    pub fn access(&self, realm: &str) -> Access {
        Access::Token { realm: realm.to_owned(), issuer: ISSUER.to_owned(), certificate: self.certificate.pem() }
    }

    /// A token for one repository.
    pub fn token(&self, repository: &str, actions: &[&str]) -> Result<String> {
        let now = jiff::Timestamp::now().as_second();
        let header = json!({ "typ": "JWT", "alg": "ES256", "x5c": [STANDARD.encode(self.certificate.der())] });
        let claims = json!({
            "iss": ISSUER, "sub": "somebody", "aud": SERVICE, "jti": "1",
            "iat": now, "nbf": now - 60, "exp": now + 300,
            "access": [{ "type": "repository", "name": repository, "actions": actions }],
        });
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.key.serialize_der(), &random);
        let signature = pair
            .map_err(|error| anyhow!("{error}"))?
            .sign(&random, signed.as_bytes())
            .map_err(|error| anyhow!("{error}"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// A request to the token server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    pub scope: String,
    pub service: String,
    /// Name and password, separated by a colon.
    pub login: Option<String>,
}

/// A token server. Repositories under `private/` require a login.
pub struct TokenServer {
    pub server: Server,
    state: Arc<Tokens>,
}

struct Tokens {
    signer: Arc<Signer>,
    requests: Mutex<Vec<TokenRequest>>,
}

impl TokenServer {
    pub async fn start(authority: &Authority, signer: Arc<Signer>) -> Result<Self> {
        let state = Arc::new(Tokens { signer, requests: Mutex::default() });
        let router = Router::new().route("/token", get(answer)).with_state(Arc::clone(&state));
        Ok(Self { server: Server::start(Some(authority), router).await?, state })
    }

    pub fn realm(&self) -> String {
        format!("{}/token", self.server.url())
    }

    pub fn requests(&self) -> Vec<TokenRequest> {
        self.state.requests().clone()
    }
}

impl Tokens {
    fn requests(&self) -> MutexGuard<'_, Vec<TokenRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(State(state): State<Arc<Tokens>>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    let query = query.unwrap_or_default();
    let url = reqwest::Url::parse(&format!("https://token.example/?{query}")).expect("an address");
    let parameter = |name: &str| {
        url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let basic = |header: &str| String::from_utf8(STANDARD.decode(header.strip_prefix("Basic ")?).ok()?).ok();
    let login = headers.get(AUTHORIZATION).and_then(|header| basic(header.to_str().ok()?));
    let (scope, service) = (parameter("scope"), parameter("service"));
    state.requests().push(TokenRequest { scope: scope.clone(), service, login: login.clone() });
    let known = format!("{}:{}", LOGIN.0, LOGIN.1);
    if login.as_ref().is_some_and(|login| *login != known) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let repository = scope.split(':').nth(1).unwrap_or_default();
    let shown = login.is_some() || !repository.starts_with("private/");
    let token = state.signer.token(repository, if shown { &["pull"] } else { &[] });
    json!({ "token": token.expect("a token"), "expires_in": 300 }).to_string().into_response()
}
