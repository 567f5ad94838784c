//! `hosts.toml`: the mirrors of one registry, as containerd 1.5 and later read them from a directory per registry.
//!
//! Source: containerd/containerd, `docs/hosts.md`, `core/remotes/docker/config/hosts.go` and `config_windows.go`
//! (`remotes/docker/config` before 2.0) at v1.6.39, v1.7.34 and v2.3.4. A file that containerd cannot read is passed
//! over with one line in its log, so what it would not read is refused here.

use std::{collections::BTreeSet, net::Ipv4Addr};

use super::toml_text::{Document, Value};
use crate::{
    api::RegistryMirror,
    domain::Problem,
    facts::containerd::{BRACKETS_SINCE, CERTS_D, DOCKER_HUB, Generation},
};

/// What a mirror is trusted with: blobs and manifests, and turning a tag into a digest. Not pushing.
const CAPABILITIES: &[&str] = &["pull", "resolve"];

/// The longest key of a ConfigMap that Kubernetes takes, in bytes.
const LONGEST_KEY: usize = 253;

/// The `hosts.toml` of a registry: the key of the ConfigMap, and the text. Endpoints are asked in their order, then the
/// registry itself.
pub fn hosts(mirror: &RegistryMirror) -> (String, String) {
    let comment = format!(
        "containerd on Windows: {CERTS_D}\\{}\\hosts.toml\n\
         It is read at every pull: containerd need not be restarted.",
        directory(&mirror.registry)
    );
    let server = server(&mirror.registry);
    let mut document = Document::new(&comment);
    if let Some(server) = &server {
        document.set(&["server"], Value::Text(server));
    }
    // A table that is there twice makes the file unreadable.
    let mut seen = BTreeSet::new();
    for endpoint in mirror.endpoints.iter().filter(|endpoint| seen.insert(endpoint.as_str())) {
        document.set(&["host", endpoint, "capabilities"], Value::Texts(CAPABILITIES));
        if is_api_root(endpoint) {
            document.set(&["host", endpoint, "override_path"], Value::Flag(true));
        }
        if !mirror.ca_file.is_empty() {
            document.set(&["host", endpoint, "ca"], Value::Text(&mirror.ca_file));
        }
        if mirror.skip_verify {
            document.set(&["host", endpoint, "skip_verify"], Value::Flag(true));
        }
    }
    (config_map_key(&mirror.registry), document.render())
}

/// The directory of a registry under [`CERTS_D`]: its name, with `:5000` as `_5000_`, since Windows has no `:` in names.
/// Nothing but `[-._a-zA-Z0-9]` is left, which is also what a ConfigMap takes in a key.
pub fn directory(registry: &str) -> String {
    let named = match registry.rsplit_once(':') {
        Some((host, port)) => format!("{host}_{port}_"),
        None => registry.to_owned(),
    };
    named.replace(|c: char| !c.is_ascii_alphanumeric() && !"-._".contains(c), "_")
}

fn config_map_key(registry: &str) -> String {
    format!("hosts.{}.toml", directory(registry))
}

/// Whether an address goes on behind `/v2/`, as that of a project in a registry does: `https://harbor.example/v2/hub`.
/// containerd would put another `/v2` behind it; 1.5 does so whatever the file says.
fn is_api_root(endpoint: &str) -> bool {
    let behind_scheme = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let path = behind_scheme.split_once('/').map_or("", |(_, path)| path);
    path.strip_prefix("v2/").is_some_and(|rest| !rest.is_empty())
}

/// The address of the registry itself, asked when no mirror has an answer. `None` for a registry on the node, which
/// containerd also asks over http without TLS, but only if the file names no server.
fn server(registry: &str) -> Option<String> {
    let host = registry.split(':').next().unwrap_or(registry);
    let on_node = host == "localhost" || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    let (hub, hub_host) = DOCKER_HUB;
    (!on_node).then(|| format!("https://{}", if registry == hub { hub_host } else { registry }))
}

/// The first mirror of a list that a node could not be given, or would not read.
pub(super) fn unreadable(mirrors: &[RegistryMirror], generation: &Generation) -> Option<Problem> {
    // A line without this setting has its mirrors in the configuration itself, where none of this matters.
    generation.keys.registry_config_path?;
    let mut directories = BTreeSet::new();
    mirrors.iter().enumerate().find_map(|(index, RegistryMirror { registry, endpoints, .. })| {
        let path = format!("spec.containerd.registryMirrors[{index}]");
        if config_map_key(registry).len() > LONGEST_KEY {
            let wrong = format!("a ConfigMap has no key as long as hosts.{registry}.toml");
            return Some(Problem::new(path + ".registry", wrong, "give the registry a shorter name"));
        }
        if !directories.insert(directory(registry).to_ascii_lowercase()) {
            let wrong = format!("{registry} has its folder on Windows in common with an earlier registry");
            return Some(Problem::new(path + ".registry", wrong, "write one of the two spellings"));
        }
        let brackets = endpoints.iter().position(|endpoint| endpoint.contains(['[', ']']));
        let at = brackets.filter(|_| generation.first < BRACKETS_SINCE)?;
        let wrong = format!("containerd {}.x cannot read {} in hosts.toml", generation.first.major, endpoints[at]);
        Some(Problem::new(format!("{path}.endpoints[{at}]"), wrong, "write a host name in place of the address in [ ]"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::facts::containerd::generation;

    fn mirror(registry: &str, endpoints: &[&str]) -> RegistryMirror {
        RegistryMirror {
            registry: registry.to_owned(),
            endpoints: endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect(),
            ..RegistryMirror::default()
        }
    }

    #[test]
    fn a_registry_has_its_key_its_folder_and_its_own_address() {
        let table = [
            ("docker.io", "docker.io", Some("https://registry-1.docker.io")),
            ("quay.io", "quay.io", Some("https://quay.io")),
            ("registry.example:5000", "registry.example_5000_", Some("https://registry.example:5000")),
            ("registry:5000", "registry_5000_", Some("https://registry:5000")),
            ("10.0.0.7:5000", "10.0.0.7_5000_", Some("https://10.0.0.7:5000")),
            ("localhost:5000", "localhost_5000_", None),
            ("127.0.0.1", "127.0.0.1", None),
        ];
        for (registry, folder, server) in table {
            let (key, text) = hosts(&mirror(registry, &["https://mirror.example"]));
            assert_eq!(key, format!("hosts.{folder}.toml"));
            let file = text.parse::<toml::Table>().unwrap();
            assert_eq!(file.get("server").and_then(|server| server.as_str()), server, "{registry}");
            let place = format!(r"C:\Program Files\containerd\certs.d\{folder}\hosts.toml");
            assert!(text.lines().next().unwrap().ends_with(&place), "{text}");
        }
    }

    #[test]
    fn the_first_endpoint_is_asked_first_and_each_once() {
        let endpoints = ["https://z.example", "http://a.example:8080", "https://z.example"];
        let (_, text) = hosts(&mirror("docker.io", &endpoints));
        let expected = r#"
server = "https://registry-1.docker.io"

[host."https://z.example"]
capabilities = ["pull", "resolve"]

[host."http://a.example:8080"]
capabilities = ["pull", "resolve"]
"#;
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn an_address_behind_v2_is_taken_as_it_stands() {
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
    fn every_endpoint_has_the_mirrors_certificate_settings() {
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
    fn what_a_node_could_not_read_is_refused_by_name() {
        let long = format!("{}.example", "a".repeat(235));
        let table = [
            ("2.1.0", vec![mirror("docker.io", &["https://[fd00::1]:5000"])], None),
            ("1.4.13", vec![mirror("docker.io", &["https://[fd00::1]:5000"])], None),
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
            let problem = unreadable(&mirrors, generation(version.parse().unwrap()).unwrap());
            assert_eq!(problem.as_ref().map(|problem| problem.path.as_str()), path, "{version} {problem:?}");
        }
    }

    proptest! {
        #[test]
        fn any_mirror_that_the_api_allows_comes_back(
            registry in "[a-zA-Z0-9]([a-zA-Z0-9.-]{0,40}[a-zA-Z0-9])?(:[0-9]{1,5})?",
            endpoints in prop::collection::vec("https?://[^\\s\"']{1,64}", 1..8),
        ) {
            let mirror = RegistryMirror { registry, endpoints, ..RegistryMirror::default() };
            let (key, text) = hosts(&mirror);
            let file = text.parse::<toml::Table>().unwrap();
            let read = file["host"].as_table().unwrap();
            let asked = mirror.endpoints.iter().collect::<BTreeSet<_>>();
            prop_assert_eq!(read.keys().collect::<BTreeSet<_>>(), asked);
            for host in read.values() {
                prop_assert_eq!(host["capabilities"].as_array().unwrap().len(), 2);
            }
            prop_assert!(key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)), "{}", key);
        }

        #[test]
        fn no_text_breaks_out_of_the_comment(registry in any::<String>()) {
            let (_, text) = hosts(&RegistryMirror { registry, ..mirror("", &["https://a"]) });
            let file = text.parse::<toml::Table>().unwrap();
            prop_assert!(file.keys().all(|key| key == "server" || key == "host"), "{}", text);
        }
    }
}
