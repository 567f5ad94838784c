//! How a registry learns who asks: anonymous tokens, tokens for a login, and Basic.
//!
//! Source: distribution/distribution, `docs/spec/auth/token.md`.
//!
//! Where a login goes: to the host that it is for, and to the token server that this host itself names in its answer
//! over TLS, as the protocol has it; a registry that one trusts with a password may say where it is checked. It never
//! goes to a host that was only redirected to, nor over plain http to one that is not listed for it. What is asked for
//! is to pull one repository, whatever the registry would have us ask for.

use std::{sync::Mutex, time::Duration};

use http::{HeaderMap, HeaderValue, StatusCode, header::WWW_AUTHENTICATE};
use http_auth::parse_challenges;
use reqwest::Url;
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    bounded::Bounded,
    client::{Client, Get},
    credentials::{Login, sensitive},
    endpoint::{host, is_plain},
    failure::Failure,
    host::lock,
};

const MOST_CHALLENGES: usize = 1024;
const MOST_TOKENS: usize = 4096;
/// How long a token is good for at least, and if it does not say.
const SHORTEST: Duration = Duration::from_secs(60);
/// How long it is used at most.
const LONGEST: Duration = Duration::from_secs(3600);
/// It is not used for so long before its end: clocks differ, and requests take time.
const MARGIN: Duration = Duration::from_secs(15);

/// What is remembered of challenges and tokens.
#[derive(Debug)]
pub(super) struct Authentication {
    challenges: Mutex<Bounded<String, Challenge>>,
    tokens: Mutex<Bounded<TokenKey, Token>>,
}

/// Who asks for which repository, and where.
#[derive(Clone, Debug)]
pub(super) struct Asker<'a> {
    /// The endpoint.
    pub(super) endpoint: &'a str,
    pub(super) repository: &'a str,
    pub(super) login: Option<&'a Login>,
}

/// What a registry wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer(TokenServer),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TokenServer {
    realm: Url,
    service: Option<String>,
    /// What the registry calls the repository, which for a mirror may be something else.
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
    until: Instant,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Authentication {
    pub(super) fn new() -> Self {
        Self { challenges: Mutex::new(Bounded::new(MOST_CHALLENGES)), tokens: Mutex::new(Bounded::new(MOST_TOKENS)) }
    }

    /// What to show without being asked, as the registry wanted it the last time.
    ///
    /// # Errors
    /// When the token server has no token.
    pub(super) async fn remembered(&self, client: &Client, asker: &Asker<'_>) -> Result<Option<HeaderValue>, Failure> {
        let challenge = lock(&self.challenges).get(asker.endpoint).map(|challenge| challenge.clone());
        match challenge {
            None => Ok(None),
            Some(Challenge::Basic) => Ok(asker.login.and_then(Login::basic)),
            Some(Challenge::Bearer(server)) => match self.token(asker) {
                Some(token) => Ok(Some(token)),
                // The repository that it named was the one of that time.
                None => self.fetched(client, asker, &TokenServer { repository: None, ..server }).await.map(Some),
            },
        }
    }

    /// What to show to a registry that refused what was `shown`, with these headers. `None` if there is nothing else.
    ///
    /// # Errors
    /// When the token server has no token.
    pub(super) async fn challenged(
        &self,
        client: &Client,
        asker: &Asker<'_>,
        headers: &HeaderMap,
        shown: Option<&HeaderValue>,
    ) -> Result<Option<HeaderValue>, Failure> {
        let Some(challenge) = challenge(headers) else { return Ok(None) };
        let _ = lock(&self.challenges).insert(asker.endpoint.to_owned(), challenge.clone(), |_| true);
        let header = match challenge {
            Challenge::Basic => asker.login.and_then(Login::basic),
            // Somebody else may have got one in the meantime.
            Challenge::Bearer(server) => match self.token(asker).filter(|token| Some(token) != shown) {
                Some(token) => Some(token),
                None => Some(self.fetched(client, asker, &server).await?),
            },
        };
        // The same once more would be one more failed login.
        Ok(header.filter(|header| Some(header) != shown))
    }

    fn token(&self, asker: &Asker<'_>) -> Option<HeaderValue> {
        let mut tokens = lock(&self.tokens);
        let token = tokens.get(&asker.token_key())?;
        (token.until > Instant::now()).then(|| token.header.clone())
    }

    async fn fetched(&self, client: &Client, asker: &Asker<'_>, server: &TokenServer) -> Result<HeaderValue, Failure> {
        let token = fetch(client, server, asker).await?;
        let _ = lock(&self.tokens).insert(asker.token_key(), token.clone(), |_| true);
        Ok(token.header)
    }
}

impl Asker<'_> {
    fn token_key(&self) -> TokenKey {
        TokenKey {
            endpoint: self.endpoint.to_owned(),
            repository: self.repository.to_owned(),
            login: self.login.map(Login::fingerprint),
        }
    }
}

async fn fetch(client: &Client, named: &TokenServer, asker: &Asker<'_>) -> Result<Token, Failure> {
    let mut url = named.realm.clone();
    let server = host(&url);
    if !is_plain(&url) || !client.is_safe(&url) {
        return Err(Failure::new(format!("the registry names the token server {server}, which is not behind TLS")));
    }
    if let Some(service) = &named.service {
        url.query_pairs_mut().append_pair("service", service);
    }
    let repository = named.repository.as_deref().unwrap_or(asker.repository);
    url.query_pairs_mut().append_pair("scope", &format!("repository:{repository}:pull"));
    let authorization = asker.login.and_then(Login::basic);
    let get = Get { url, accept: "application/json", authorization, largest: client.settings.largest_token };
    let asked = Instant::now();
    let answer = client.get(get).await?;
    match answer.status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if asker.login.is_some() => {
            return Err(Failure::new(format!("the token server {server} refuses the credentials")));
        }
        status => return Err(Failure::new(format!("the token server {server} answers {}", status.as_u16()))),
    }
    let told: Option<TokenAnswer> = serde_json::from_slice(&answer.body).ok();
    let life = told.as_ref().and_then(|told| told.expires_in).map_or(SHORTEST, Duration::from_secs);
    let text = told.and_then(|told| told.token.or(told.access_token)).filter(|token| !token.is_empty());
    let header = text.and_then(|token| sensitive(&format!("Bearer {token}")));
    let header = header.ok_or_else(|| Failure::new(format!("the token server {server} sends no token")))?;
    Ok(Token { header, until: asked + life.clamp(SHORTEST, LONGEST) - MARGIN })
}

/// The challenge to meet: for a token if there is one, else Basic.
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
        let repository = parameter("scope").and_then(|scope| Some(pulled(&scope)?.to_owned()));
        Some(Challenge::Bearer(TokenServer { realm: realm.parse().ok()?, service: parameter("service"), repository }))
    });
    known.max_by_key(|challenge| matches!(challenge, Challenge::Bearer(_)))
}

/// The repository of a scope such as `repository:library/nginx:pull`, if it is for one.
fn pulled(scope: &str) -> Option<&str> {
    let (repository, actions) = scope.strip_prefix("repository:")?.rsplit_once(':')?;
    let one = !repository.is_empty() && !scope.contains(' ');
    (one && actions.split(',').any(|action| action == "pull")).then_some(repository)
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
    fn a_challenge_says_where_a_token_is_and_for_which_repository() {
        const REALM: &str = r#"Bearer realm="https://auth.example/token""#;
        let with = |rest: &str| format!("{REALM},{rest}");
        let table = [
            (
                vec![with(r#"service="registry.example",scope="repository:team/app:pull""#)],
                "https://auth.example/token registry.example team/app",
            ),
            (vec![with(r#"scope="repository:team/app:pull,push""#)], "https://auth.example/token  team/app"),
            // What is not to pull one repository is not asked for.
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
