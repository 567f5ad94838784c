//! A token server: it signs tokens as specified in `docs/spec/auth/token.md` of distribution/distribution.

use std::sync::Arc;

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

use super::{basic, server::Server};

const ISSUER: &str = "token server on loopback";

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

/// A token server. Repositories under `private/` require a login.
pub async fn token_server(authority: &Authority, signer: Arc<Signer>) -> Result<Server> {
    Server::start(Some(authority), Router::new().route("/token", get(answer)).with_state(signer)).await
}

async fn answer(State(signer): State<Arc<Signer>>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    let query = query.unwrap_or_default();
    let url = reqwest::Url::parse(&format!("https://token.example/?{query}")).expect("an address");
    let scope = url.query_pairs().find(|(key, _)| key == "scope").map(|(_, scope)| scope.into_owned());
    let login = headers.get(AUTHORIZATION);
    if login.is_some_and(|login| *login != basic(LOGIN)) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let repository = scope.as_deref().and_then(|scope| scope.split(':').nth(1)).unwrap_or_default();
    let shown = login.is_some() || !repository.starts_with("private/");
    let token = signer.token(repository, if shown { &["pull"] } else { &[] });
    json!({ "token": token.expect("a token"), "expires_in": 300 }).to_string().into_response()
}
