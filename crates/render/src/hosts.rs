//! `hosts.toml`: the mirrors of a registry, which containerd reads from a directory per registry.
//!
//! Source: containerd/containerd, `docs/hosts.md`, `core/remotes/docker/config/hosts.go` and `config_windows.go`
//! (`remotes/docker/config` before 2.0) at v1.7.34 and v2.3.4. containerd only logs an unreadable file and
//! ignores it, so such settings are rejected here.

use std::{collections::BTreeSet, net::Ipv4Addr};

use serde::{Serialize, Serializer};
use winpool_api::RegistryMirror;
use winpool_core::Problem;
use winpool_facts::containerd::{BRACKETS_SINCE, CERTS_D, DOCKER_HUB, ReleaseLine};

use super::comment_lines;

/// The capabilities of a mirror: to pull and to resolve tags, not to push.
const CAPABILITIES: &[&str] = &["pull", "resolve"];

/// The maximum length of a ConfigMap key, in bytes.
const MAX_KEY_LENGTH: usize = 253;

/// The `hosts.toml` of a registry: the key in the ConfigMap, and the content. containerd tries the endpoints in order,
/// then the registry itself.
pub fn hosts(mirror: &RegistryMirror) -> (String, String) {
    let comment = format!(
        "Mirrors of a registry for containerd on Windows: {CERTS_D}\\{}\\hosts.toml\n\
         containerd reads it at every pull. No restart is required.",
        directory(&mirror.registry)
    );
    // A duplicate table makes the file unreadable.
    let mut seen = BTreeSet::new();
    let endpoints = mirror.endpoints.iter().filter(|endpoint| seen.insert(endpoint.as_str()));
    let host = Hosts(endpoints.map(|endpoint| (endpoint.as_str(), Host::new(endpoint, mirror))).collect());
    // Tables of strings and booleans can always be serialized.
    let tables = toml::to_string(&File { server: server(&mirror.registry), host }).unwrap_or_default();
    (config_map_key(&mirror.registry), format!("{}\n{tables}", comment_lines(&comment)))
}

#[derive(Serialize)]
struct File<'a> {
    server: Option<String>,
    host: Hosts<'a>,
}

/// Endpoints with their settings, in order of preference.
struct Hosts<'a>(Vec<(&'a str, Host<'a>)>);

impl Serialize for Hosts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(endpoint, host)| (endpoint, host)))
    }
}

#[derive(Serialize)]
struct Host<'a> {
    capabilities: &'static [&'static str],
    override_path: Option<bool>,
    ca: Option<&'a str>,
    skip_verify: Option<bool>,
}

impl<'a> Host<'a> {
    fn new(endpoint: &str, mirror: &'a RegistryMirror) -> Self {
        Self {
            capabilities: CAPABILITIES,
            override_path: is_api_root(endpoint).then_some(true),
            ca: Some(&*mirror.ca_file).filter(|file| !file.is_empty()),
            skip_verify: mirror.skip_verify.then_some(true),
        }
    }
}

/// The directory of a registry in [`CERTS_D`]: its name, with `:5000` as `_5000_`, because file names on Windows cannot
/// contain `:`. The result contains only `[-._a-zA-Z0-9]`, as required for ConfigMap keys.
pub fn directory(registry: &str) -> String {
    let name = match registry.rsplit_once(':') {
        Some((host, port)) => format!("{host}_{port}_"),
        None => registry.to_owned(),
    };
    name.replace(|c: char| !c.is_ascii_alphanumeric() && !"-._".contains(c), "_")
}

fn config_map_key(registry: &str) -> String {
    format!("hosts.{}.toml", directory(registry))
}

/// The directory of the registry to which a key of a ConfigMap belongs; `None` for a key of another file.
pub fn directory_of_key(key: &str) -> Option<&str> {
    key.strip_prefix("hosts.")?.strip_suffix(".toml")
}

/// Whether an address continues after `/v2/`, as in `https://harbor.example/v2/hub`: else containerd appends `/v2`.
fn is_api_root(endpoint: &str) -> bool {
    let address = endpoint.split_once("://").map_or(endpoint, |(_, address)| address);
    let path = address.split_once('/').map_or("", |(_, path)| path);
    path.strip_prefix("v2/").is_some_and(|rest| !rest.is_empty())
}

/// The address of the registry itself, used if no mirror has the image. `None` for a registry on the node, because
/// containerd uses HTTP for it only if the file has no server.
fn server(registry: &str) -> Option<String> {
    let host = registry.split(':').next().unwrap_or(registry);
    let is_local = host == "localhost" || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    let (hub, hub_host) = DOCKER_HUB;
    (!is_local).then(|| format!("https://{}", if registry == hub { hub_host } else { registry }))
}

pub(super) fn problem(mirrors: &[RegistryMirror], line: &ReleaseLine) -> Option<Problem> {
    let mut directories = BTreeSet::new();
    mirrors.iter().enumerate().find_map(|(index, RegistryMirror { registry, endpoints, .. })| {
        let path = format!("spec.containerd.registryMirrors[{index}]");
        if config_map_key(registry).len() > MAX_KEY_LENGTH {
            let wrong = format!("the key hosts.{registry}.toml is too long for a ConfigMap");
            return Some(Problem::new(path + ".registry", wrong, "use a shorter registry name"));
        }
        if !directories.insert(directory(registry).to_ascii_lowercase()) {
            let wrong = format!("{registry} has the same directory on Windows as an earlier registry");
            return Some(Problem::new(path + ".registry", wrong, "use only one of the two"));
        }
        let brackets = endpoints.iter().position(|endpoint| endpoint.contains(['[', ']']));
        let at = brackets.filter(|_| line.first < BRACKETS_SINCE)?;
        let wrong = format!("containerd {}.x cannot read {} in hosts.toml", line.first.major, endpoints[at]);
        Some(Problem::new(format!("{path}.endpoints[{at}]"), wrong, "use a host name instead of the IPv6 address"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use winpool_facts::containerd::release_line;

    use super::*;

    fn mirror(registry: &str, endpoints: &[&str]) -> RegistryMirror {
        RegistryMirror {
            registry: registry.to_owned(),
            endpoints: endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect(),
            ..RegistryMirror::default()
        }
    }

    #[test]
    fn a_registry_has_its_key_its_directory_and_its_server() {
        let table = [
            ("docker.io", "docker.io", Some("https://registry-1.docker.io")),
            ("quay.io", "quay.io", Some("https://quay.io")),
            ("registry.example:5000", "registry.example_5000_", Some("https://registry.example:5000")),
            ("registry:5000", "registry_5000_", Some("https://registry:5000")),
            ("10.0.0.7:5000", "10.0.0.7_5000_", Some("https://10.0.0.7:5000")),
            ("localhost:5000", "localhost_5000_", None),
            ("127.0.0.1", "127.0.0.1", None),
        ];
        for (registry, directory, server) in table {
            let (key, text) = hosts(&mirror(registry, &["https://mirror.example"]));
            assert_eq!(key, format!("hosts.{directory}.toml"));
            let file = text.parse::<toml::Table>().unwrap();
            assert_eq!(file.get("server").and_then(|server| server.as_str()), server, "{registry}");
            let place = format!(r"C:\Program Files\containerd\certs.d\{directory}\hosts.toml");
            assert!(text.lines().next().unwrap().ends_with(&place), "{text}");
        }
    }

    #[test]
    fn an_address_that_continues_after_v2_overrides_the_path() {
        let table = [
            ("https://a", false),
            ("https://a/", false),
            ("https://a/v2", false),
            ("https://a/v2/", false),
            ("https://a/mirror", false),
            ("https://a/mirror/v2", false),
            ("https://v2/hub", false),
            ("https://a:5000/v2/hub", true),
            ("http://[fd00::1]/v2/hub/", true),
        ];
        for (endpoint, expected) in table {
            let file = hosts(&mirror("docker.io", &[endpoint])).1.parse::<toml::Table>().unwrap();
            let flag = file["host"][endpoint].get("override_path").and_then(toml::Value::as_bool);
            assert_eq!(flag, expected.then_some(true), "{endpoint}");
        }
    }

    #[test]
    fn each_endpoint_has_the_tls_settings_of_the_mirror() {
        let trusted =
            RegistryMirror { ca_file: r"C:\certs\m.pem".into(), ..mirror("docker.io", &["https://a", "https://b"]) };
        let unverified = RegistryMirror { skip_verify: true, ..mirror("docker.io", &["https://a", "https://b"]) };
        for endpoint in ["https://a", "https://b"] {
            let host = |mirror| hosts(mirror).1.parse::<toml::Table>().unwrap()["host"][endpoint].clone();
            let (trusted, unverified) = (host(&trusted), host(&unverified));
            assert_eq!((trusted["ca"].as_str(), trusted.get("skip_verify")), (Some(r"C:\certs\m.pem"), None));
            assert_eq!((unverified.get("ca"), unverified["skip_verify"].as_bool()), (None, Some(true)));
        }
    }

    #[test]
    fn settings_that_a_node_cannot_read_are_problems() {
        let long = format!("{}.example", "a".repeat(235));
        let table = [
            ("2.1.0", vec![mirror("docker.io", &["https://[fd00::1]:5000"])], None),
            (
                "1.7.27",
                vec![mirror("quay.io", &["https://a"]), mirror("docker.io", &["https://a", "https://[fd00::1]:5000"])],
                Some("spec.containerd.registryMirrors[1].endpoints[1]"),
            ),
            (
                "2.1.0",
                vec![mirror("quay.io", &["https://a"]), mirror("Quay.io", &["https://a"])],
                Some("spec.containerd.registryMirrors[1].registry"),
            ),
            ("2.1.0", vec![mirror(&long, &["https://a"])], Some("spec.containerd.registryMirrors[0].registry")),
            ("2.1.0", vec![mirror(&long[1..], &["https://a"])], None),
        ];
        for (version, mirrors, path) in table {
            let problem = problem(&mirrors, release_line(version.parse().unwrap()).unwrap());
            assert_eq!(problem.as_ref().map(|problem| problem.path.as_str()), path, "{version} {problem:?}");
        }
    }

    proptest! {
        #[test]
        fn any_valid_mirror_is_read_back(
            registry in "[a-zA-Z0-9]([a-zA-Z0-9.-]{0,40}[a-zA-Z0-9])?(:[0-9]{1,5})?",
            endpoints in prop::collection::vec("https?://[^\\s\"']{1,64}", 1..8),
        ) {
            let mirror = RegistryMirror { registry, endpoints, ..RegistryMirror::default() };
            let (key, text) = hosts(&mirror);
            let file = text.parse::<toml::Table>().unwrap();
            let read = file["host"].as_table().unwrap();
            let expected = mirror.endpoints.iter().collect::<BTreeSet<_>>();
            prop_assert_eq!(read.keys().collect::<BTreeSet<_>>(), expected);
            for host in read.values() {
                prop_assert_eq!(host["capabilities"].as_array().unwrap().len(), 2);
            }
            prop_assert!(key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)), "{}", key);
        }

        #[test]
        fn the_header_cannot_be_escaped(registry in any::<String>()) {
            let (_, text) = hosts(&RegistryMirror { registry, ..mirror("", &["https://a"]) });
            let file = text.parse::<toml::Table>().unwrap();
            prop_assert!(file.keys().all(|key| key == "server" || key == "host"), "{}", text);
        }
    }
}
