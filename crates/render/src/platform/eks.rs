//! A self-managed node group of EKS: a ClusterConfig of eksctl.

use serde_saphyr::{DoubleQuoted, LitString};
use winpool_facts::platforms::Setting;

use super::{
    super::yaml::{Document, Fields},
    LossReport, NodesToMake, flags, selection,
};
use crate::powershell;

/// The command of eksctl for a node group without `overrideBootstrapCommand`, with the variables that it sets before one.
const BOOTSTRAP: &str = "& $EKSBootstrapScriptFile -EKSClusterName $EKSClusterName -APIServerEndpoint $APIServerEndpoint \
                         -Base64ClusterCA $Base64ClusterCA -ServiceCIDR $ServiceCIDR -DNSClusterIP $DNSClusterIP";
/// The place of the script in an EKS image, as eksctl and Karpenter have it in their user data.
const SCRIPT: &str = r#"[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1""#;
/// The redirection with which the output of the script is in the log of the user data.
const TO_LOG: &str = "3>&1 4>&1 5>&1 6>&1";
const PLACEHOLDERS: &str = "# Replace CLUSTER and REGION, and add the size: eksctl create nodegroup -f FILE\n";

pub(super) fn cluster_config(nodes: &NodesToMake, report: &LossReport, image: &'static str, comment: &str) -> String {
    let group = Fields::default()
        .with("name", DoubleQuoted(nodes.pool.to_owned()))
        .with("amiFamily", image)
        .with_some("labels", selection::labels_map(report.platform, nodes))
        .with_some("taints", selection::taint_maps(report.platform, nodes))
        .with_some("maxPodsPerNode", report.max_pods(nodes))
        .with_some("clusterDNS", cluster_dns(nodes, report).map(|address| DoubleQuoted(address.to_owned())))
        .with_some("overrideBootstrapCommand", bootstrap(nodes, report).map(LitString));
    let mut file = Document::new("");
    file.set("apiVersion", "eksctl.io/v1alpha5");
    file.set("kind", "ClusterConfig");
    file.set("metadata", Fields::default().with("name", "CLUSTER").with("region", "REGION"));
    file.set("nodeGroups", [group]);
    format!("{comment}{PLACEHOLDERS}{}", file.finish())
}

/// The command that replaces that of eksctl, if there are flags to add to those in `$KubeletExtraArgs`.
fn bootstrap(nodes: &NodesToMake, report: &LossReport) -> Option<String> {
    let kubelet = flags::kubelet(nodes, report.platform, &report.taken);
    let kube_proxy = kube_proxy_arguments(nodes, report);
    if kubelet.is_empty() && kube_proxy.is_empty() {
        return None;
    }
    let added = powershell::quoted(&format!(" {}", flags::joined(&kubelet)));
    Some(format!("{BOOTSTRAP} -KubeletExtraArgs ($KubeletExtraArgs + {added}){kube_proxy} {TO_LOG}\n"))
}

/// The argument of the bootstrap script for kube-proxy, with a space before it; empty without flags.
fn kube_proxy_arguments(nodes: &NodesToMake, report: &LossReport) -> String {
    let flags = flags::kube_proxy(nodes, &report.taken);
    if flags.is_empty() {
        return String::new();
    }
    format!(" -KubeProxyExtraArgs {}", powershell::quoted(&flags::joined(&flags)))
}

/// User data that call the bootstrap script of an EKS image, with these flags of the kubelet before those of the profile. Words in
/// capitals are to be replaced.
pub(super) fn user_data(nodes: &NodesToMake, report: &LossReport, first: (&'static str, String)) -> String {
    let kubelet: Vec<_> = [first].into_iter().chain(flags::kubelet(nodes, report.platform, &report.taken)).collect();
    let dns = cluster_dns(nodes, report).unwrap_or("DNS_IP");
    let arguments = [
        ("EKSClusterName", "CLUSTER"),
        ("APIServerEndpoint", "ENDPOINT"),
        ("Base64ClusterCA", "CERTIFICATE_AUTHORITY"),
        ("ServiceCIDR", "SERVICE_CIDR"),
        ("DNSClusterIP", dns),
        ("KubeletExtraArgs", &flags::joined(&kubelet)),
    ];
    let arguments: String =
        arguments.iter().map(|(name, value)| format!(" -{name} {}", powershell::quoted(value))).collect();
    let kube_proxy = kube_proxy_arguments(nodes, report);
    format!("<powershell>\n{SCRIPT}\n& $EKSBootstrapScriptFile{arguments}{kube_proxy} {TO_LOG}\n</powershell>\n")
}

fn cluster_dns<'a>(nodes: &NodesToMake<'a>, report: &LossReport) -> Option<&'a str> {
    let name = "clusterDNS";
    let profile = nodes.profile.filter(|_| report.takes(Setting::Extra(name)))?;
    profile.kubelet.extra(name)?.get(0)?.as_str()
}
