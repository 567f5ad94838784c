//! Credentials for registries, from pull secrets.

use std::{collections::BTreeMap, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use winpool_core::image::Reference;
use winpool_facts::containerd::DOCKER_HUB;

use super::endpoint::Endpoint;

/// The names of Docker Hub, including those in the configuration of `docker login`.
const DOCKER_HUB_NAMES: [&str; 3] = [DOCKER_HUB.0, DOCKER_HUB.1, "index.docker.io"];

/// Logins for registries. `Debug` shows only the registries.
#[derive(Clone, Default)]
pub struct Credentials {
    logins: Vec<(RegistryPattern, Login)>,
}

/// Why a pull secret could not be read, without quoting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Docker configuration with credentials")]
pub struct PullSecretError;

/// The target of a login: a host, in which each `*` matches a part of one label, and a path below it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RegistryPattern {
    host: String,
    path: String,
}

#[derive(Clone)]
pub(super) struct Login {
    username: String,
    password: String,
}

#[derive(Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

impl Credentials {
    /// Reads `.dockerconfigjson` or the older `.dockercfg` of a Secret. Entries without a username and a password, such as
    /// those of a credential helper, are ignored.
    pub fn parse(file: &[u8]) -> Result<Self, PullSecretError> {
        // The errors of serde_json may quote the file.
        let mut file: Value = serde_json::from_slice(file).map_err(|_| PullSecretError)?;
        let entries = file.get_mut("auths").map(Value::take).unwrap_or(file);
        let entries: BTreeMap<String, Entry> = serde_json::from_value(entries).map_err(|_| PullSecretError)?;
        let logins =
            entries.into_iter().filter_map(|(name, entry)| Some((RegistryPattern::parse(&name), entry.login()?)));
        Ok(Self { logins: logins.collect() })
    }

    /// Adds the logins of another Secret. Of two logins with the same pattern, the first is used.
    pub fn extend(&mut self, other: Self) {
        self.logins.extend(other.logins);
    }

    /// The login for a repository at a host: the one with the longest path, and a full host before a pattern.
    pub(super) fn login(&self, host: &str, repository: &str) -> Option<&Login> {
        let host = canonical(host);
        let matching = self.logins.iter().rev().filter(|(pattern, _)| pattern.matches(&host, repository));
        matching.max_by_key(|(pattern, _)| (pattern.path.len(), !pattern.host.contains('*'))).map(|(_, login)| login)
    }

    /// Identifies the logins that a lookup of an image uses, without disclosing them.
    pub(super) fn fingerprints(&self, image: &Reference, mirrors: &[String]) -> Vec<[u8; 32]> {
        let mirrors = mirrors.iter().filter_map(|mirror| Some(Endpoint::mirror(mirror, image).ok()?.host()));
        let hosts = mirrors.chain([image.registry().to_owned()]);
        hosts.filter_map(|host| self.login(&host, image.repository()).map(Login::fingerprint)).collect()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns = self.logins.iter().map(|(pattern, _)| format!("{}{}", pattern.host, pattern.path));
        f.debug_set().entries(patterns).finish()
    }
}

impl RegistryPattern {
    /// Reads a key such as `registry.example:5000`, `registry.example/team` or `https://index.docker.io/v1/`.
    fn parse(text: &str) -> Self {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_matches('/');
        let path = ["v1", "v2"].into_iter().find_map(|version| path.strip_prefix(version)).map_or(path, |rest| {
            // `v1` is the version of an API, `v1tools` is a repository.
            if rest.is_empty() || rest.starts_with('/') { rest.trim_matches('/') } else { path }
        });
        Self { host: canonical(host), path: path.to_owned() }
    }

    fn matches(&self, host: &str, repository: &str) -> bool {
        let below = repository.strip_prefix(&self.path);
        let in_path = below.is_some_and(|rest| self.path.is_empty() || rest.is_empty() || rest.starts_with('/'));
        let (labels, patterns) = (host.split('.'), self.host.split('.'));
        in_path
            && labels.clone().count() == patterns.clone().count()
            && labels.zip(patterns).all(|(label, pattern)| label_matches(pattern, label))
    }
}

/// The canonical name of a host: in lower case, without the default port of https, and with one name for Docker Hub.
fn canonical(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix(":443").unwrap_or(&host);
    if DOCKER_HUB_NAMES.contains(&host) { DOCKER_HUB.0.to_owned() } else { host.to_owned() }
}

/// Whether a label matches a pattern, in which `*` matches any text.
fn label_matches(pattern: &str, label: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == label };
    let matches_at = |rest: &str, at| rest.get(at..).is_some_and(|rest| label_matches(after, rest));
    label.strip_prefix(before).is_some_and(|rest| (0..=rest.len()).any(|at| matches_at(rest, at)))
}

impl Entry {
    fn login(self) -> Option<Login> {
        let decoded = self.auth.and_then(|auth| String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok());
        let pair = decoded.as_deref().and_then(|decoded| decoded.split_once(':'));
        let (username, password) = match pair {
            // Some tools pad the text before encoding it.
            Some((username, password)) => (username.to_owned(), password.trim_matches('\0').to_owned()),
            None => (self.username?, self.password?),
        };
        (!username.is_empty() && !password.is_empty()).then_some(Login { username, password })
    }
}

impl Login {
    /// The value of `Authorization`.
    pub(super) fn basic(&self) -> Option<HeaderValue> {
        let pair = STANDARD.encode(format!("{}:{}", self.username, self.password));
        sensitive(&format!("Basic {pair}"))
    }

    /// Identifies the login without disclosing it.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        Sha256::new().chain_update(&self.username).chain_update([0]).chain_update(&self.password).finalize().into()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

/// A header whose value `Debug` hides.
pub(super) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(file: Value) -> Credentials {
        Credentials::parse(file.to_string().as_bytes()).unwrap()
    }

    fn user<'a>(credentials: &'a Credentials, image: &str) -> Option<&'a str> {
        let image: Reference = image.parse().unwrap();
        credentials.login(image.registry(), image.repository()).map(|login| login.username.as_str())
    }

    #[test]
    fn a_login_is_used_only_for_its_host_and_path() {
        let entry = |name: &str| json!({ "username": name, "password": "secret" });
        let credentials = parse(json!({ "auths": {
            "https://index.docker.io/v1/": entry("hub"),
            "registry.example": entry("host"),
            "registry.example/team": entry("team"),
            "https://registry.example/v2/team/deep/": entry("deep"),
            "registry.example:5000": entry("port"),
            "*.azurecr.io": entry("pattern"),
            "mine.azurecr.io": entry("mine"),
            "a*c.example": entry("part"),
            "secure.example:443": entry("https"),
        }}));
        let table = [
            ("nginx", Some("hub")),
            ("docker.io/library/nginx", Some("hub")),
            ("registry-1.docker.io/library/nginx", Some("hub")),
            ("registry.example/app", Some("host")),
            ("registry.example/team", Some("team")),
            ("registry.example/team/app", Some("team")),
            ("registry.example/teams/app", Some("host")),
            ("registry.example/team/deep/app", Some("deep")),
            ("registry.example:5000/app", Some("port")),
            ("registry.example:5001/app", None),
            ("sub.registry.example/app", None),
            ("registry.example.evil.test/app", None),
            ("other.azurecr.io/app", Some("pattern")),
            ("mine.azurecr.io/app", Some("mine")),
            ("a.b.azurecr.io/app", None),
            ("azurecr.io/app", None),
            ("abc.example/app", Some("part")),
            ("acb.example/app", None),
            ("secure.example/app", Some("https")),
        ];
        for (image, expected) in table {
            assert_eq!(user(&credentials, image), expected, "{image}");
        }
    }

    #[test]
    fn every_format_of_a_login_is_read() {
        let auth = STANDARD.encode("name:pass:word");
        let table = [
            (json!({ "auths": { "r.example": { "auth": auth } } }), Some(("name", "pass:word"))),
            (json!({ "r.example": { "auth": auth, "email": "a@b.example" } }), Some(("name", "pass:word"))),
            (json!({ "auths": { "r.example": { "username": "u", "password": "p", "auth": "" } } }), Some(("u", "p"))),
            (json!({ "auths": { "r.example": { "username": "u", "password": "p", "auth": "%" } } }), Some(("u", "p"))),
            (json!({ "auths": { "r.example": {} } }), None),
            (json!({ "auths": { "r.example": { "auth": STANDARD.encode("no colon") } } }), None),
            (json!({ "auths": {}, "credsStore": "desktop" }), None),
        ];
        for (file, expected) in table {
            let credentials = parse(file.clone());
            let login = credentials.login("r.example", "app");
            assert_eq!(login.map(|login| (login.username.as_str(), login.password.as_str())), expected, "{file}");
        }
    }

    #[test]
    fn the_error_for_an_invalid_file_does_not_quote_it() {
        for file in
            [r#"{"auths": {"r.example": {"auth": "hunter2"#, r#"{"auths": {"r.example": "hunter2"}}"#, "hunter2"]
        {
            let error = Credentials::parse(file.as_bytes()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let credentials = parse(json!({ "auths": { "r.example/team": { "auth": STANDARD.encode("name:hunter2") } } }));
        let login = credentials.login("r.example", "team/app").unwrap();
        let printed = format!("{credentials:?} {login:?} {:?}", login.basic().unwrap());
        assert!(printed.contains("r.example"), "{printed}");
        for secret in ["hunter2", "name", &STANDARD.encode("name:hunter2")] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }

    #[test]
    fn of_two_secrets_for_the_same_registry_the_first_is_used() {
        let mut credentials = parse(json!({ "r.example": { "username": "first", "password": "p" } }));
        credentials.extend(parse(json!({ "r.example": { "username": "second", "password": "p" } })));
        assert_eq!(user(&credentials, "r.example/app"), Some("first"));
    }
}
