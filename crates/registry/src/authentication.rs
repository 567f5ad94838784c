//! Authentication: anonymous tokens, tokens for a login, and Basic.
//!
//! Source: distribution/distribution, `docs/spec/auth/token.md`.
//!
//! A login is sent to its host, and, as the protocol specifies, to the token server that this host names over TLS: a
//! registry that is trusted with a password may delegate its verification. It is never sent to the target of a redirect,
//! nor over http to a host that is not listed in `plain_http`. The scope of a token is always to pull one repository,
//! regardless of the scope that the registry names.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use http_auth::parse_challenges;
use parking_lot::Mutex;
use reqwest::Url;
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    client::{Client, Get},
    credentials::{Login, sensitive},
    endpoint::{host, is_valid},
    failure::Failure,
    lru::LruMap,
};

/// The largest response of a token server, in bytes.
const LARGEST_RESPONSE: usize = 64 << 10;
const MAX_CHALLENGES: usize = 1024;
const MAX_TOKENS: usize = 4096;
/// The shortest lifetime of a token, and that of a token without one.
const MIN_LIFETIME: Duration = Duration::from_secs(60);
/// The longest time for which a token is used.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// How long before its expiry a token is no longer used, because clocks differ and requests take time.
const MARGIN: Duration = Duration::from_secs(15);

/// A cache of challenges and tokens.
#[derive(Debug)]
pub(super) struct Authentication {
    challenges: Mutex<LruMap<String, Challenge>>,
    tokens: Mutex<LruMap<TokenKey, Token>>,
}

#[derive(Clone, Debug)]
pub(super) struct Scope<'a> {
    pub(super) endpoint: &'a str,
    pub(super) repository: &'a str,
    pub(super) login: Option<&'a Login>,
}

/// How a registry authenticates clients.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer(TokenServer),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TokenServer {
    realm: Url,
    service: Option<String>,
    /// The name of the repository in the challenge, which may differ for a mirror.
    repository: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct TokenKey {
    endpoint: String,
    repository: String,
    login: Option<[u8; 32]>,
}

#[derive(Clone, Debug)]
struct Token {
    header: HeaderValue,
    expires: Instant,
}

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Authentication {
    pub(super) fn new() -> Self {
        Self { challenges: Mutex::new(LruMap::new(MAX_CHALLENGES)), tokens: Mutex::new(LruMap::new(MAX_TOKENS)) }
    }

    /// The authorization for a first request, according to the last challenge of the registry.
    pub(super) async fn initial(&self, client: &Client, scope: &Scope<'_>) -> Result<Option<HeaderValue>, Failure> {
        let challenge = self.challenges.lock().get(scope.endpoint).map(|challenge| challenge.clone());
        match challenge {
            None => Ok(None),
            Some(Challenge::Basic) => Ok(scope.login.and_then(Login::basic)),
            Some(Challenge::Bearer(server)) => match self.token(scope) {
                Some(token) => Ok(Some(token)),
                // The stored challenge may be for another repository.
                None => self.fetch(client, scope, &TokenServer { repository: None, ..server }).await.map(Some),
            },
        }
    }

    /// The authorization for a second request, after the registry rejected the `former` one with these headers. `None`
    /// if there is no other one.
    pub(super) async fn after_challenge(
        &self,
        client: &Client,
        scope: &Scope<'_>,
        headers: &HeaderMap,
        former: Option<&HeaderValue>,
    ) -> Result<Option<HeaderValue>, Failure> {
        let Some(challenge) = challenge(headers) else { return Ok(None) };
        let _ = self.challenges.lock().insert(scope.endpoint.to_owned(), challenge.clone(), |_| true);
        let header = match challenge {
            Challenge::Basic => scope.login.and_then(Login::basic),
            // Another lookup may have stored a new token in the meantime.
            Challenge::Bearer(server) => match self.token(scope).filter(|token| Some(token) != former) {
                Some(token) => Some(token),
                None => Some(self.fetch(client, scope, &server).await?),
            },
        };
        // The same authorization would only cause another failed login.
        Ok(header.filter(|header| Some(header) != former))
    }

    fn token(&self, scope: &Scope<'_>) -> Option<HeaderValue> {
        let mut tokens = self.tokens.lock();
        let token = tokens.get(&scope.token_key())?;
        (token.expires > Instant::now()).then(|| token.header.clone())
    }

    async fn fetch(&self, client: &Client, scope: &Scope<'_>, server: &TokenServer) -> Result<HeaderValue, Failure> {
        let token = fetch_token(client, server, scope).await?;
        let _ = self.tokens.lock().insert(scope.token_key(), token.clone(), |_| true);
        Ok(token.header)
    }
}

impl Scope<'_> {
    fn token_key(&self) -> TokenKey {
        TokenKey {
            endpoint: self.endpoint.to_owned(),
            repository: self.repository.to_owned(),
            login: self.login.map(Login::fingerprint),
        }
    }
}

async fn fetch_token(client: &Client, server: &TokenServer, scope: &Scope<'_>) -> Result<Token, Failure> {
    let mut url = server.realm.clone();
    let name = host(&url);
    if !is_valid(&url) || !client.is_safe(&url) {
        return Err(Failure::new(format!("the token server {name} of the registry does not use TLS")));
    }
    if let Some(service) = &server.service {
        url.query_pairs_mut().append_pair("service", service);
    }
    let repository = server.repository.as_deref().unwrap_or(scope.repository);
    url.query_pairs_mut().append_pair("scope", &format!("repository:{repository}:pull"));
    let authorization = scope.login.and_then(Login::basic);
    let get = Get { url, accept: "application/json", authorization, largest: LARGEST_RESPONSE };
    let sent = Instant::now();
    let response = client.get(get).await?;
    match response.status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if scope.login.is_some() => {
            return Err(Failure::new(format!("the token server {name} refuses the credentials")));
        }
        status => return Err(Failure::new(format!("the token server {name} answered {}", status.as_u16()))),
    }
    let body: Option<TokenResponse> = serde_json::from_slice(&response.body).ok();
    let lifetime = body.as_ref().and_then(|body| body.expires_in).map_or(MIN_LIFETIME, Duration::from_secs);
    let token = body.and_then(|body| body.token.or(body.access_token)).filter(|token| !token.is_empty());
    let header = token.and_then(|token| sensitive(&format!("Bearer {token}")));
    let header = header.ok_or_else(|| Failure::new(format!("the token server {name} sent no token")))?;
    Ok(Token { header, expires: sent + lifetime.clamp(MIN_LIFETIME, MAX_LIFETIME) - MARGIN })
}

/// The challenge to answer: Bearer if there is one, else Basic.
fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let challenges = values.flat_map(|value| parse_challenges(value).unwrap_or_default());
    let known = challenges.filter_map(|challenge| {
        let parameter = |name: &str| {
            let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        if challenge.scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        let realm = challenge.scheme.eq_ignore_ascii_case("bearer").then(|| parameter("realm"))??;
        let repository = parameter("scope").and_then(|scope| Some(repository_of(&scope)?.to_owned()));
        Some(Challenge::Bearer(TokenServer { realm: realm.parse().ok()?, service: parameter("service"), repository }))
    });
    known.max_by_key(|challenge| matches!(challenge, Challenge::Bearer(_)))
}

/// The repository of a scope such as `repository:library/nginx:pull`; `None` for other actions or several repositories.
fn repository_of(scope: &str) -> Option<&str> {
    let (repository, actions) = scope.strip_prefix("repository:")?.rsplit_once(':')?;
    let is_single = !repository.is_empty() && !scope.contains(' ');
    (is_single && actions.split(',').any(|action| action == "pull")).then_some(repository)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> String {
        let headers = values.iter().map(|value| (WWW_AUTHENTICATE, value.parse().unwrap())).collect();
        match challenge(&headers) {
            None => "none".to_owned(),
            Some(Challenge::Basic) => "basic".to_owned(),
            Some(Challenge::Bearer(TokenServer { realm, service, repository })) => {
                format!("{realm} {} {}", service.unwrap_or_default(), repository.unwrap_or_default())
            }
        }
    }

    #[test]
    fn a_challenge_names_the_token_server_and_the_repository() {
        const REALM: &str = r#"Bearer realm="https://auth.example/token""#;
        let with = |rest: &str| format!("{REALM},{rest}");
        let table = [
            (
                vec![with(r#"service="registry.example",scope="repository:team/app:pull""#)],
                "https://auth.example/token registry.example team/app",
            ),
            (vec![with(r#"scope="repository:team/app:pull,push""#)], "https://auth.example/token  team/app"),
            // Scopes other than to pull one repository are ignored.
            (vec![with(r#"scope="registry:catalog:*""#)], "https://auth.example/token  "),
            (vec![with(r#"scope="repository:a:pull repository:b:pull""#)], "https://auth.example/token  "),
            (vec![with(r#"scope="repository:a:push""#)], "https://auth.example/token  "),
            (vec![REALM.to_owned()], "https://auth.example/token  "),
            (vec![r#"Basic realm="r""#.to_owned(), REALM.to_owned()], "https://auth.example/token  "),
            (vec![format!(r#"Basic realm="r", {REALM}"#)], "https://auth.example/token  "),
            (vec![r#"BASIC realm="r""#.to_owned()], "basic"),
            (vec![r#"Bearer realm="not an address""#.to_owned()], "none"),
            (vec!["Bearer".to_owned()], "none"),
            (vec![r#"Negotiate abc=="#.to_owned()], "none"),
            (vec![r#"Bearer realm="https://a"#.to_owned()], "none"),
            (vec![], "none"),
        ];
        for (values, expected) in table {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            assert_eq!(read(&values), expected, "{values:?}");
        }
    }
}
