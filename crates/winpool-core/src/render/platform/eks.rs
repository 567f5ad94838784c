//! A self-managed node group of EKS: a ClusterConfig of eksctl.

use serde::Serialize;
use serde_saphyr::{DoubleQuoted, LitString};
use winpool_api::facts::platforms::Setting;

use super::{
    super::yaml::{Document, Strings},
    LossReport, NodesToMake, flags, selection,
};
use crate::render::powershell;

/// The command of eksctl for a node group without `overrideBootstrapCommand`, with the variables that it sets before one.
const BOOTSTRAP: &str = "& $EKSBootstrapScriptFile -EKSClusterName $EKSClusterName -APIServerEndpoint $APIServerEndpoint \
                         -Base64ClusterCA $Base64ClusterCA -ServiceCIDR $ServiceCIDR -DNSClusterIP $DNSClusterIP";
/// The redirection with which the output of the script is in the log of the user data.
const TO_LOG: &str = "3>&1 4>&1 5>&1 6>&1";
const PLACEHOLDERS: &str = "# Replace CLUSTER and REGION, and add the size: eksctl create nodegroup -f FILE\n";

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
    region: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SelfManaged<'a> {
    name: DoubleQuoted<&'a str>,
    ami_family: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Strings<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Strings<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_pods_per_node: Option<u32>,
    #[serde(rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    cluster_dns: Option<DoubleQuoted<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    override_bootstrap_command: Option<LitString>,
}

pub(super) fn cluster_config(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    let mut file = Document::new("");
    file.set("apiVersion", "eksctl.io/v1alpha5");
    file.set("kind", "ClusterConfig");
    file.set("metadata", Metadata { name: "CLUSTER", region: "REGION" });
    let kubelet = nodes.profile.map(|profile| &profile.kubelet);
    let dns = kubelet.filter(|_| report.takes(Setting::Extra("clusterDNS")));
    let dns = dns.and_then(|kubelet| kubelet.extra("clusterDNS")?.get(0)?.as_str());
    file.set(
        "nodeGroups",
        [SelfManaged {
            name: DoubleQuoted(nodes.pool),
            ami_family: image,
            labels: selection::labels_map(report.platform, nodes),
            taints: selection::taint_maps(report.platform, nodes),
            max_pods_per_node: kubelet.filter(|_| report.takes(Setting::MaxPods)).map(|kubelet| kubelet.max_pods),
            cluster_dns: dns.map(DoubleQuoted),
            override_bootstrap_command: bootstrap(nodes, report).map(LitString),
        }],
    );
    format!("{comment}{PLACEHOLDERS}{}", file.finish())
}

/// The command that replaces that of eksctl, if there are flags: `$KubeletExtraArgs` has the labels, the taints and the
/// maximum of pods.
fn bootstrap(nodes: &NodesToMake, report: &LossReport) -> Option<String> {
    let kubelet = flags::kubelet(nodes, report.platform, &report.taken);
    let kube_proxy = flags::kube_proxy(nodes, &report.taken);
    if kubelet.is_empty() && kube_proxy.is_empty() {
        return None;
    }
    let mut command = BOOTSTRAP.to_owned();
    let added = powershell::quoted(&format!(" {}", flags::joined(&kubelet)));
    command += &format!(" -KubeletExtraArgs ($KubeletExtraArgs + {added})");
    if !kube_proxy.is_empty() {
        command += &format!(" -KubeProxyExtraArgs {}", powershell::quoted(&flags::joined(&kube_proxy)));
    }
    Some(format!("{command} {TO_LOG}\n"))
}
