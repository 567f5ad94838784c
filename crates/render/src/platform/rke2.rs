//! The files of an RKE2 agent on Windows.

use std::collections::BTreeMap;

use serde_saphyr::DoubleQuoted;
use winpool_facts::platforms::{Platform, Setting};

use super::{
    super::{
        kubelet::taint_flag,
        yaml::{Document, Field, Fields},
    },
    LossReport, NodesToMake, flags, selection,
};

const CONFIG: &str = "# Save it as C:\\etc\\rancher\\rke2\\config.yaml.d\\50-winpool.yaml, and restart the service rke2.\n\
                      # The keys end with + so that the values are added to those of config.yaml.\n";
const REGISTRIES: &str =
    "Save it as C:\\etc\\rancher\\rke2\\registries.yaml, and restart the service rke2. It replaces the file.";
const DROP_IN: &str = "# Save it as C:\\var\\lib\\rancher\\rke2\\agent\\etc\\kubelet.conf.d\\50-winpool.conf.\n";

/// The files, by their names below the directories of RKE2.
pub(super) fn files(
    platform: Platform,
    nodes: &NodesToMake,
    report: &LossReport,
    comment: &str,
) -> BTreeMap<String, String> {
    let config = format!("{comment}{CONFIG}{}", config(nodes, report));
    let mut files = BTreeMap::from([("config.yaml.d/50-winpool.yaml".to_owned(), config)]);
    if platform == Platform::Rke2 && nodes.profile.is_some() {
        let layer = format!("{DROP_IN}{}", nodes.kubelet_yaml);
        files.insert("kubelet.conf.d/50-winpool.conf".to_owned(), layer);
    }
    if report.takes(Setting::RegistryMirrors) {
        files.insert("registries.yaml".to_owned(), registries(nodes));
    }
    files
}

fn config(nodes: &NodesToMake, report: &LossReport) -> String {
    let mut file = Document::new("");
    let list = |file: &mut Document, name: &str, words: Vec<String>| {
        if !words.is_empty() {
            file.set(name, words.iter().map(DoubleQuoted).collect::<Vec<_>>());
        }
    };
    let words = |flags: Vec<(&str, String)>| flags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (taints, _) = selection::taints(report.platform, nodes);
    let (labels, _) = selection::labels(report.platform, nodes);
    list(&mut file, "node-taint+", taints.into_iter().map(taint_flag).collect());
    list(&mut file, "node-label+", labels.iter().map(|(key, value)| format!("{key}={value}")).collect());
    list(&mut file, "kubelet-arg+", words(flags::kubelet(nodes, report.platform, &report.taken)));
    list(&mut file, "kube-proxy-arg+", words(flags::kube_proxy(nodes, &report.taken)));
    if let Some(image) = nodes.pause_image.filter(|_| report.takes(Setting::PauseImage)) {
        file.set_string("pause-image", image);
    }
    file.finish()
}

/// The mirrors. The TLS settings of RKE2 belong to the host of an endpoint.
fn registries(nodes: &NodesToMake) -> String {
    let mut file = Document::new(REGISTRIES);
    let mirrors = nodes.profile.map(|profile| profile.containerd.registry_mirrors.as_slice()).unwrap_or_default();
    let quoted = |text: &String| Field::from(DoubleQuoted(text.clone()));
    let endpoints: BTreeMap<_, _> = mirrors
        .iter()
        .map(|mirror| {
            let endpoints: Vec<Field> = mirror.endpoints.iter().map(quoted).collect();
            (&mirror.registry, Fields::default().with("endpoint", endpoints))
        })
        .collect();
    file.set("mirrors", endpoints);
    let hosts = mirrors.iter().filter(|mirror| mirror.skip_verify || !mirror.ca_file.is_empty());
    let configs: BTreeMap<_, _> = hosts
        .flat_map(|mirror| {
            mirror.endpoints.iter().map(move |endpoint| {
                let tls = Fields::default()
                    .with_some("ca_file", Some(&mirror.ca_file).filter(|file| !file.is_empty()).map(quoted))
                    .with_some("insecure_skip_verify", mirror.skip_verify.then_some(true));
                (host(endpoint), Fields::default().with("tls", tls))
            })
        })
        .collect();
    if !configs.is_empty() {
        file.set("configs", configs);
    }
    file.finish()
}

fn host(endpoint: &str) -> &str {
    let address = endpoint.split_once("://").map_or(endpoint, |(_, address)| address);
    address.split_once('/').map_or(address, |(host, _)| host)
}
