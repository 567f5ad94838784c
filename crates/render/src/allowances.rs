//! What only the configuration of the operator, and that of the agents, can allow. Whoever writes pools and profiles sets everything
//! else.

use std::{net::IpAddr, str::FromStr};

use derive_more::Display;
use winpool_core::{
    Problem,
    kubernetes::syntax::{is_host, is_port, is_qualified_name},
};
use winpool_facts::node_restriction::is_within;

/// What a configuration allows. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    /// The hosts to which a profile may send traffic of nodes.
    pub hosts: Vec<AllowedHost>,
    /// The beginnings of [protected labels](is_protected_label) that a pool may set.
    pub label_prefixes: Vec<LabelPrefix>,
}

impl Allowances {
    /// The diversions that are not allowed, as problems of a profile.
    pub fn problems(&self, diversions: Vec<Diversion>) -> Vec<Problem> {
        let refused = diversions.into_iter().filter(|diversion| !self.allow(&diversion.to));
        refused.map(Diversion::into_problem).collect()
    }

    pub fn allow(&self, destination: &Destination) -> bool {
        self.hosts.iter().any(|allowed| allowed.matches(destination))
    }

    pub fn problem_of_label(&self, key: &str) -> Option<Problem> {
        if !is_protected_label(key) || self.label_prefixes.iter().any(|LabelPrefix(prefix)| key.starts_with(prefix)) {
            return None;
        }
        let remedy = format!(
            "add {key} to WINPOOL_ALLOW_LABEL_PREFIXES (--allow-label-prefixes) of the operator, allow.labelPrefixes of the chart, or \
             remove it: this label is not written, all others are"
        );
        let wrong =
            format!("{key} is reserved for Kubernetes, whose components trust it, and must be allowed by the operator");
        Some(Problem::new(format!("spec.labels[{key}]"), wrong, remedy))
    }
}

/// Traffic that a setting of a profile sends to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diversion {
    pub path: String,
    pub traffic: Traffic,
    pub to: Destination,
}

impl Diversion {
    pub fn into_problem(self) -> Problem {
        let Self { path, traffic, to } = self;
        let remedy = format!(
            "add {to} to WINPOOL_ALLOW_HOSTS (--allow-hosts) of the operator and the agents, allow.hosts of the chart, or remove it"
        );
        Problem::new(path, format!("{traffic} {to}, which must be allowed by the operator"), remedy)
    }
}

/// What is sent, as the beginning of a sentence that ends with the host.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
pub enum Traffic {
    /// Whoever answers determines what containers run.
    #[display("images are pulled from")]
    Images,
    /// Whoever answers determines which program runs in the sandbox of every pod.
    #[display("the pause image is pulled from")]
    PauseImage,
    /// Whoever answers determines with whom pods talk.
    #[display("names of pods are resolved with")]
    Names,
    /// Whoever answers sees with whom kubelet and container runtime talk, and reads what is not encrypted.
    #[display("kubelet and container runtime connect through")]
    Connections,
    /// Whoever answers learns what the kubelet does.
    #[display("traces are sent to")]
    Traces,
}

/// A host, displayed as the entry of a list that allows it.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
#[display("{}{}", if *verified { "" } else { UNVERIFIED }, name)]
pub struct Destination {
    /// As it is written, with a port if it has one.
    name: String,
    /// As it is compared; `None` if the text is no host, which only `*` allows.
    host: Option<String>,
    /// `None` if the traffic has no port that a list could name.
    port: Option<u16>,
    /// Whether the host proves who it is. Otherwise everyone on the way can answer for it.
    verified: bool,
}

impl Destination {
    /// A host with an optional port.
    pub fn of_host(name: &str) -> Self {
        Self::new(name, None)
    }

    /// The host of an HTTP address, or of a host with a port.
    pub fn of_address(address: &str) -> Self {
        let (rest, default) = match (address.strip_prefix("https://"), address.strip_prefix(UNVERIFIED)) {
            (Some(rest), _) => (rest, 443),
            (None, Some(rest)) => (rest, 80),
            (None, None) => return Self::of_host(address),
        };
        Self { verified: default == 443, ..Self::new(rest.split('/').next().unwrap_or_default(), Some(default)) }
    }

    /// The registry of an image, as container runtimes read it: the first part of its name if that cannot be a part of a repository.
    ///
    /// Source: distribution/reference, `splitDockerDomain` in `normalize.go` (at 4ca14034).
    pub fn of_image(reference: &str) -> Self {
        let first = reference.split_once('/').map(|(first, _)| first);
        let is_registry = |name: &&str| {
            *name == "localhost" || name.contains(|one: char| one == '.' || one == ':' || one.is_ascii_uppercase())
        };
        Self::new(first.filter(is_registry).unwrap_or("docker.io"), Some(443))
    }

    /// The host without the proof of who it is.
    #[must_use]
    pub fn unverified(self) -> Self {
        Self { verified: false, ..self }
    }

    /// The host, whose proof does not matter: what is sent there proves its end itself, or never can.
    #[must_use]
    pub fn regardless_of_proof(self) -> Self {
        Self { verified: true, ..self }
    }

    fn new(name: &str, default: Option<u16>) -> Self {
        let (host, port) = host_and_port(name).map_or((None, None), |(host, port)| (Some(host), port));
        Self { name: name.to_owned(), host, port: port.or(default), verified: true }
    }
}

/// The prefix of an entry that allows connections to a host that does not prove who it is.
const UNVERIFIED: &str = "http://";

/// Hosts that a configuration allows: `mirror.example`, `*.corp.example` for every host below this domain, or `*`, with an optional port.
/// `http://` before it allows connections to them by http, and without the verification of their certificates, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    hosts: Hosts,
    port: Option<u16>,
    unverified: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    All,
    /// With the dot before the domain.
    Below(String),
    One(String),
}

impl AllowedHost {
    fn matches(&self, destination: &Destination) -> bool {
        let Destination { host, port, verified, .. } = destination;
        let is_host = match (&self.hosts, host) {
            (Hosts::All, _) => true,
            (Hosts::Below(domain), Some(host)) => host.ends_with(domain) && host.len() > domain.len(),
            (Hosts::One(name), Some(host)) => host == name,
            (Hosts::Below(_) | Hosts::One(_), None) => false,
        };
        is_host && (self.port.is_none() || self.port == *port) && (*verified || self.unverified)
    }
}

impl FromStr for AllowedHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "write HOST, HOST:PORT, *.DOMAIN or *, with http:// before it if certificates need not be verified";
        let (name, unverified) = text.strip_prefix(UNVERIFIED).map_or((text, false), |name| (name, true));
        let (pattern, below) = name.strip_prefix("*.").map_or((name, false), |domain| (domain, true));
        let (hosts, port) = match pattern {
            "*" if !below => (Hosts::All, None),
            _ => {
                let (host, port) = host_and_port(pattern).ok_or(EXPECTED)?;
                (if below { Hosts::Below(format!(".{host}")) } else { Hosts::One(host) }, port)
            }
        };
        Ok(Self { hosts, port, unverified })
    }
}

/// A host as it is compared, and its port. An address of IPv6 with a port is in brackets.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let as_address = |text: &str| text.parse::<IpAddr>().ok().map(|address| address.to_string());
    if let Some(address) = as_address(text) {
        return Some((address, None));
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            (as_address(address)?, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some(""))?)
        }
        None => text.split_once(':').map_or((text.to_owned(), ""), |(host, port)| (host.to_owned(), port)),
    };
    let is_name = host.contains(':') || is_host(&host);
    let has_port = !text.ends_with(':') && (port.is_empty() || is_port(port));
    (is_name && has_port).then(|| (as_address(&host).unwrap_or_else(|| host.to_ascii_lowercase()), port.parse().ok()))
}

/// The beginning of label keys, such as `node-role.kubernetes.io/windows` or `node-restriction.kubernetes.io/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelPrefix(String);

impl FromStr for LabelPrefix {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_domain = text.strip_suffix('/').is_some_and(|domain| is_qualified_name(&format!("{domain}/a")));
        let is_valid = is_domain || (text.contains('/') && is_qualified_name(text));
        let expected =
            "write the domain of labels with its slash, or a whole key, such as node-role.kubernetes.io/windows";
        is_valid.then(|| Self(text.to_owned())).ok_or(expected)
    }
}

/// Whether Kubernetes reserves a label: its domain is `kubernetes.io`, `k8s.io`, or below one of them. Its components trust such labels: by
/// `node-role.kubernetes.io/` workloads select the control plane, `node-restriction.kubernetes.io/` is what a kubelet cannot set, and
/// `node.kubernetes.io/exclude-from-external-load-balancers` takes a node out of load balancers.
///
/// Source: kubernetes/website, `docs/reference/labels-annotations-taints/_index.md` and
/// `docs/concepts/overview/working-with-objects/labels.md` (2024-08-31).
pub fn is_protected_label(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io"].iter().any(|reserved| is_within(domain, reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(entry: &str, destination: Destination) -> bool {
        Allowances { hosts: vec![entry.parse().unwrap()], ..Allowances::default() }.allow(&destination)
    }

    #[test]
    fn an_entry_allows_its_host_with_its_port_and_other_hosts_only_by_a_wildcard() {
        let table = [
            ("mirror.example", "https://mirror.example/v2/hub", true),
            ("Mirror.example", "https://mirror.EXAMPLE:5000", true),
            ("mirror.example", "https://mirror.example.org", false),
            ("mirror.example", "https://a.mirror.example", false),
            ("mirror.example:5000", "https://mirror.example:5000", true),
            ("mirror.example:5000", "https://mirror.example", false),
            ("mirror.example:443", "https://mirror.example", true),
            ("*.corp.example", "https://a.b.corp.example", true),
            ("*.corp.example", "https://corp.example", false),
            ("*.corp.example", "https://evilcorp.example", false),
            ("*.corp.example:5000", "https://a.corp.example:5000", true),
            ("*.corp.example:5000", "https://a.corp.example", false),
            ("*.corp.example", "https://evil.example#.corp.example", false),
            ("10.0.0.7", "https://10.0.0.7:5000", true),
            ("[fd00::1]:5000", "https://[fd00:0::1]:5000", true),
            ("fd00::1", "https://[fd00::1]", true),
            ("*", "https://any.example", true),
        ];
        for (entry, address, expected) in table {
            assert_eq!(allows(entry, Destination::of_address(address)), expected, "{entry} {address}");
        }
    }

    #[test]
    fn a_host_that_does_not_prove_who_it_is_needs_an_entry_with_http() {
        let https = || Destination::of_address("https://mirror.example");
        let http = || Destination::of_address("http://mirror.example:5000");
        for (entry, destination, expected) in [
            ("mirror.example", http(), false),
            ("*", http(), false),
            ("http://mirror.example", http(), true),
            ("http://mirror.example:5000", http(), true),
            ("http://*.example", http(), true),
            ("http://*", http(), true),
            ("http://mirror.example", https(), true),
            ("mirror.example", https().unverified(), false),
            ("http://mirror.example", https().unverified(), true),
            ("mirror.example", http().regardless_of_proof(), true),
        ] {
            assert_eq!(allows(entry, destination.clone()), expected, "{entry} {destination}");
        }
    }

    #[test]
    fn a_destination_is_displayed_as_the_entry_that_allows_it() {
        for (destination, entry) in [
            (Destination::of_address("https://mirror.example/v2/hub"), "mirror.example"),
            (Destination::of_address("https://mirror.example:5000"), "mirror.example:5000"),
            (Destination::of_address("http://[fd00::1]:5000/"), "http://[fd00::1]:5000"),
            (Destination::of_image("registry.example:5000/a/pause:3.10"), "registry.example:5000"),
            (Destination::of_image("library/pause"), "docker.io"),
            (Destination::of_image("Mirror/pause"), "Mirror"),
            (Destination::of_image("localhost/pause"), "localhost"),
            (Destination::of_image("pause@sha256:0"), "docker.io"),
            (Destination::of_host("10.96.0.10"), "10.96.0.10"),
            (Destination::of_host("fd00::a"), "fd00::a"),
            (Destination::of_host("cluster.local"), "cluster.local"),
        ] {
            assert_eq!(destination.to_string(), entry);
            assert!(allows(entry, destination), "{entry}");
        }
    }

    #[test]
    fn an_entry_that_is_no_host_is_refused() {
        for text in [
            "",
            "http://",
            "https://mirror.example",
            "mirror.example/",
            "mirror.example:",
            "mirror.example:0",
            "mirror.example:99999",
            "*mirror.example",
            "*.*",
            "a.*.example",
            "**",
            "*:5000:1",
            "[fd00::1",
            "[fd00::1]5000",
            "a b",
        ] {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
    }

    #[test]
    fn labels_that_kubernetes_reserves_must_be_allowed_by_their_beginning() {
        let allowed = Allowances {
            label_prefixes: ["node-role.kubernetes.io/windows", "node-restriction.kubernetes.io/"]
                .map(|prefix| prefix.parse().unwrap())
                .into(),
            ..Allowances::default()
        };
        for (key, is_protected, is_allowed) in [
            ("team", false, true),
            ("example.com/team", false, true),
            ("notkubernetes.io/team", false, true),
            ("node-role.kubernetes.io/control-plane", true, false),
            ("node-role.kubernetes.io/windows", true, true),
            ("node-restriction.kubernetes.io/tier", true, true),
            ("a.node-restriction.kubernetes.io/tier", true, false),
            ("node.kubernetes.io/exclude-from-external-load-balancers", true, false),
            ("kubernetes.io/team", true, false),
            ("app.k8s.io/team", true, false),
        ] {
            assert_eq!(Allowances::default().problem_of_label(key).is_some(), is_protected, "{key}");
            assert_eq!(allowed.problem_of_label(key).is_none(), is_allowed, "{key}");
        }
        for text in ["", "/", "node-role", "node-role.kubernetes.io", "a b/", "A.example/"] {
            assert!(text.parse::<LabelPrefix>().is_err(), "{text}");
        }
    }
}
