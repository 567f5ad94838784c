//! The hosts to which a configuration sends traffic of the node. The configuration of the agent itself allows them: whoever writes the
//! ConfigMap cannot.

use toml::Table;
use winpool_facts::{containerd::DOCKER_HUB, containerd_settings::SETTINGS};
use winpool_render::{
    allowances::{Allowances, Destination, Diversion, Traffic},
    hosts,
    profile::{destinations, kubelet_diversions},
};

use super::{allowed::AllowedConfiguration, environment};
use crate::{
    change_plan::{Refusal, RefusalReason},
    refuse::refuse,
};

/// Refuses a configuration that sends traffic to a host that is not allowed.
pub fn check(configuration: &AllowedConfiguration, allowances: &Allowances) -> Result<(), Refusal> {
    let refused = diversions(configuration).into_iter().find(|diversion| !allowances.allow(&diversion.to));
    refused.map_or(Ok(()), |Diversion { path, traffic, to }| {
        let wrong = format!("{path}: {traffic} {to}, which the agent must allow");
        let remedy = format!(
            "Add {to} to WINPOOL_ALLOW_HOSTS (--allow-hosts) of the DaemonSet winpool-agent, allow.hosts of the chart, or remove it from \
             the profile"
        );
        Err(refuse(RefusalReason::NotAllowed, wrong, remedy))
    })
}

fn diversions(configuration: &AllowedConfiguration) -> Vec<Diversion> {
    let AllowedConfiguration { kubelet, containerd, hosts, environment, .. } = configuration;
    let fields = kubelet.iter().flat_map(|layer| &layer.settings);
    let of_kubelet = fields.flat_map(|(name, value)| kubelet_diversions(name, value));
    let of_containerd = containerd.iter().flat_map(|(_, file)| destinations(file, SETTINGS));
    let of_hosts = hosts.iter().flat_map(|(directory, (_, file))| of_registry(directory, file));
    let pulls = of_containerd.chain(of_hosts).map(|(path, to)| Diversion { path, traffic: Traffic::Images, to });
    let of_environment = environment.iter().filter_map(|variable| proxy(variable));
    of_kubelet.chain(pulls).chain(of_environment).collect()
}

/// The hosts of `hosts.toml`: the mirrors, and another server than the registry that the directory is for.
fn of_registry(directory: &str, file: &Table) -> Vec<(String, Destination)> {
    let path = |key: &str| format!("hosts.{directory}.toml: {key}");
    let is_unverified = |table: &toml::Value| table.get("skip_verify").and_then(toml::Value::as_bool) == Some(true);
    let mirrors = file.get("host").and_then(toml::Value::as_table).into_iter().flatten().map(|(address, table)| {
        let to = Destination::of_address(address);
        (path(address), if is_unverified(table) { to.unverified() } else { to })
    });
    let is_own = |server: &&str| {
        let host = server.strip_prefix("https://").unwrap_or_default();
        let (hub, hub_host) = DOCKER_HUB;
        hosts::directory(if host == hub_host { hub } else { host }) == directory
    };
    let server = file.get("server").and_then(toml::Value::as_str).filter(|server| !is_own(server));
    mirrors.chain(server.map(|server| (path("server"), Destination::of_address(server)))).collect()
}

fn proxy(variable: &str) -> Option<Diversion> {
    let (name, value) = environment::pair(variable);
    let address = value.filter(|value| !value.is_empty() && name != "NO_PROXY")?;
    let to = Destination::of_address(&address).regardless_of_proof();
    Some(Diversion { path: name, traffic: Traffic::Connections, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{merge::allowed, tests::fake::data};

    fn refused(key: &str, text: &str, entries: &[&str]) -> Option<String> {
        let hosts = entries.iter().map(|entry| entry.parse().unwrap()).collect();
        let allowances = Allowances { hosts, ..Allowances::default() };
        check(&allowed::check(&data(&[(key, text)])).unwrap(), &allowances).err().map(|refusal| refusal.message)
    }

    #[test]
    fn a_file_that_sends_traffic_to_another_host_is_refused_unless_the_agent_allows_it() {
        let mirror = "[host.'https://a.example/v2/hub']\nskip_verify = ";
        let pinned = "[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = ";
        let table: [(&str, String, &str, &str); 10] = [
            (
                "kubelet.yaml",
                "clusterDNS: [10.0.0.10]".into(),
                "10.0.0.10",
                "clusterDNS: names of pods are resolved with",
            ),
            ("kubelet.yaml", "clusterDomain: a.example".into(), "a.example", "clusterDomain: names of pods"),
            ("containerd.toml", format!("{pinned}'a.example/pause:1'"), "a.example", "plugins."),
            (
                "hosts.mcr.microsoft.com.toml",
                format!("{mirror}false"),
                "a.example",
                "hosts.mcr.microsoft.com.toml: https://a.example/v2/hub: images are pulled from a.example",
            ),
            (
                "hosts.mcr.microsoft.com.toml",
                format!("{mirror}true"),
                "http://a.example",
                "hosts.mcr.microsoft.com.toml: ",
            ),
            ("hosts.a.toml", "[host.'http://a.example']".into(), "http://a.example", "hosts.a.toml: http://a.example"),
            ("hosts.a.toml", "[host.'https://a.example']".into(), "a.example", "hosts.a.toml: https://a.example"),
            (
                "hosts.mcr.microsoft.com.toml",
                "server = 'https://a.example'".into(),
                "a.example",
                "hosts.mcr.microsoft.com.toml: server",
            ),
            ("environment", "HTTPS_PROXY=http://a.example:3128".into(), "a.example:3128", "HTTPS_PROXY: kubelet and"),
            ("environment", "HTTP_PROXY=a.example:3128".into(), "a.example:3128", "HTTP_PROXY: kubelet and"),
        ];
        for (key, text, entry, message) in table {
            let found =
                refused(key, &text, &["other.example"]).unwrap_or_else(|| panic!("{key}: {text} is not refused"));
            assert!(found.starts_with(message), "{found}");
            assert!(found.contains(&format!("Add {entry} to WINPOOL_ALLOW_HOSTS")), "{found}");
            assert_eq!(refused(key, &text, &[entry]), None, "{key}: {text}");
        }
    }

    #[test]
    fn what_stays_with_the_node_its_registries_and_the_publishers_of_the_pause_image_needs_no_entry() {
        for (key, text) in [
            ("kubelet.yaml", "maxPods: 60"),
            (
                "containerd.toml",
                "[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'mcr.microsoft.com/oss/kubernetes/pause:3.9'",
            ),
            ("hosts.docker.io.toml", "server = 'https://registry-1.docker.io'"),
            ("hosts.registry.example_5000_.toml", "server = 'https://registry.example:5000'"),
            ("environment", "NO_PROXY=10.0.0.0/8"),
        ] {
            assert_eq!(refused(key, text, &[]), None, "{key}: {text}");
        }
    }
}
