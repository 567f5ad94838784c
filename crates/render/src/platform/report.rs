//! What a platform takes of a profile and a pool, and what happens to the rest.

use std::fmt;

use winpool_facts::platforms::{AKS_PODS, Platform, Retirement, Setting, Support};

use super::{
    super::kubelet::taint_flag,
    NodesToMake, flags,
    selection::{labels, set, taints},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossReport {
    pub platform: Platform,
    pub taken: Vec<Setting>,
    pub lost: Vec<Lost>,
    /// When it retires the build of the nodes.
    pub retirement: Option<&'static Retirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub setting: Setting,
    pub instead: String,
}

impl LossReport {
    pub fn takes(&self, setting: Setting) -> bool {
        self.taken.contains(&setting)
    }

    pub(super) fn max_pods(&self, nodes: &NodesToMake) -> Option<u32> {
        nodes.profile.filter(|_| self.takes(Setting::MaxPods)).map(|profile| profile.kubelet.max_pods)
    }

    /// The first line: `AKS takes 3 of 5 settings; not: kubeReserved, evictionHard`.
    pub fn summary(&self) -> String {
        let count = self.taken.len() + self.lost.len();
        let names: Vec<_> = self.lost.iter().map(|lost| lost.setting.name()).collect();
        let not = if names.is_empty() { String::new() } else { format!("; not: {}", names.join(", ")) };
        format!("{} takes {} of {count} settings{not}", self.platform.title(), self.taken.len())
    }
}

impl fmt::Display for LossReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        self.lost.iter().try_for_each(|Lost { setting, instead }| write!(f, "\n{}: {instead}", setting.name()))?;
        let Some(Retirement { build, last_minor, unsupported_from, no_images_from }) = self.retirement else {
            return Ok(());
        };
        write!(
            f,
            "\nWindows {build} is not supported from {unsupported_from} on, and has no images from {no_images_from} on"
        )?;
        last_minor.map_or(Ok(()), |last| write!(f, "; its last minor is {last}"))
    }
}

pub(super) fn report(platform: Platform, nodes: &NodesToMake) -> LossReport {
    let mut report =
        LossReport { platform, taken: Vec::new(), lost: Vec::new(), retirement: platform.retirement(nodes.build) };
    for setting in set(platform, nodes) {
        match instead(platform, setting, nodes) {
            None => report.taken.push(setting),
            Some(instead) => report.lost.push(Lost { setting, instead }),
        }
    }
    report
}

/// What happens instead, if a platform does not take a setting, or not this value of it.
fn instead(platform: Platform, setting: Setting, nodes: &NodesToMake) -> Option<String> {
    match platform.support(setting) {
        Support::Replaces(instead) | Support::NotTaken(instead) => Some(instead.to_owned()),
        Support::Always(value) => {
            let wanted = nodes.profile.map(|profile| format!("{:?}", profile.kubelet.priority_class))?;
            (wanted != value).then(|| format!("{} always uses {value}", platform.title()))
        }
        Support::Flag(_) => flags::problem(setting, nodes),
        Support::Native(_) | Support::File(_) => value_problem(platform, setting, nodes),
    }
}

/// Why a platform does not take a value, although it has a field for the setting.
fn value_problem(platform: Platform, setting: Setting, nodes: &NodesToMake) -> Option<String> {
    let kubelet = nodes.profile.map(|profile| &profile.kubelet);
    match (setting, platform) {
        (Setting::Taints, _) => {
            let (_, others) = taints(platform, nodes);
            let others: Vec<_> = others.into_iter().map(taint_flag).collect();
            let because = "each taint needs a value";
            (!others.is_empty()).then(|| format!("without {}, because {because}: {OPERATOR}", others.join(", ")))
        }
        (Setting::Labels, _) => {
            let (_, others) = labels(platform, nodes);
            let because = "the domain is reserved";
            (!others.is_empty()).then(|| format!("without {}, because {because}: {OPERATOR}", others.join(", ")))
        }
        (Setting::RegistryMirrors, _) => {
            let mirrors = &nodes.profile?.containerd.registry_mirrors;
            let endpoints = mirrors.iter().flat_map(|mirror| &mirror.endpoints);
            let other = endpoints.map(String::as_str).find(|endpoint| !is_plain(endpoint))?;
            Some(format!("RKE2 is known to accept only addresses without a path or with /v2, unlike {other}"))
        }
        (Setting::MaxPods, Platform::Aks) => {
            let (least, most) = AKS_PODS;
            let pods = kubelet?.max_pods;
            (!(least..=most).contains(&pods))
                .then(|| format!("AKS accepts {least} to {most} pods, and uses the default of its network plugin"))
        }
        (Setting::ContainerLogs, Platform::Aks) => {
            let bytes = kubelet?.log_max_size.bytes();
            (bytes % MEBIBYTE != 0).then(|| "AKS accepts sizes in whole Mi only, and uses 10Mi and 5 files".to_owned())
        }
        (Setting::Extra("clusterDNS"), Platform::Eks | Platform::Karpenter | Platform::KarpenterUserData) => {
            let addresses = kubelet?.extra("clusterDNS")?.as_array()?;
            (addresses.len() != 1).then(|| "it accepts one address only, and uses that of the cluster".to_owned())
        }
        (Setting::KubeProxy, _) => flags::problem(setting, nodes),
        _ => None,
    }
}

/// Whether an address has no path, or that of the API of registries.
fn is_plain(endpoint: &str) -> bool {
    let address = endpoint.split_once("://").map_or(endpoint, |(_, address)| address);
    matches!(address.split_once('/').map_or("", |(_, path)| path), "" | "v2" | "v2/")
}

const MEBIBYTE: i64 = 1 << 20;
const OPERATOR: &str = "the operator sets it after the node has joined";
