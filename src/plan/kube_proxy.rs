//! What agents do not apply of `spec.kubeProxy`, and whether kube-proxy in pods has it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use winpool_core::text::some_of;
use winpool_render::{
    KUBE_PROXY_YAML,
    kube_proxy::{CONFIG_MAP, CONFIG_MAP_NAMESPACE, differing},
};
use winpool_rules::pool::{
    Snapshot,
    delivery::{KubeProxyObstacle, without_kube_proxy},
    plan::Plan,
};

/// The configuration of kube-proxy in pods as read: `None` if its ConfigMap does not exist, or why it was not read.
pub type PresentKubeProxy = Result<Option<String>, String>;

/// What is not applied of `spec.kubeProxy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeProxyPreview {
    /// The nodes whose agents will not apply it, by the reason.
    pub not_applied: BTreeMap<KubeProxyObstacle, Vec<String>>,
    /// What the ConfigMap of kube-proxy in pods lacks; `None` if it lacks nothing, or no node of the pool needs it.
    pub pods: Option<PodsLack>,
}

/// What the ConfigMap of kube-proxy in pods lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodsLack {
    Everything,
    Fields(BTreeSet<String>),
    /// It is not known, for this reason.
    Unknown(String),
}

impl KubeProxyPreview {
    /// What is known before the configurations of a plan are applied.
    pub fn new(snapshot: &Snapshot, plan: &Plan, present: &PresentKubeProxy) -> Self {
        let not_applied = without_kube_proxy(snapshot, plan);
        let configs = plan.active().into_iter().flat_map(|active| active.configs.configs.values());
        let layers = configs.filter_map(|config| config.configuration.files.get(KUBE_PROXY_YAML));
        let in_pods = not_applied.contains_key(&KubeProxyObstacle::NoService);
        let is_rke2 = not_applied.contains_key(&KubeProxyObstacle::Rke2) && !in_pods;
        let pods = match present {
            _ if is_rke2 => None,
            // Who has made this ConfigMap uses it.
            Ok(Some(config)) => lacks(config, layers.map(String::as_str)),
            Ok(None) => in_pods.then_some(PodsLack::Everything),
            Err(reason) => in_pods.then(|| PodsLack::Unknown(reason.clone())),
        };
        Self { not_applied, pods }
    }

    pub fn rows(&self) -> Vec<(String, String)> {
        let because = |obstacle: &KubeProxyObstacle| match obstacle {
            KubeProxyObstacle::Rke2 => "RKE2 starts kube-proxy",
            KubeProxyObstacle::NoService => "kube-proxy is no service with --config there",
        };
        let not_applied = self.not_applied.iter().map(|(obstacle, nodes)| {
            (format!("not applied: {}", some_of(nodes)), format!("{KUBE_PROXY_YAML}, because {}", because(obstacle)))
        });
        let remedy = "if kube-proxy runs in pods there: winpool render --target kube-proxy";
        let pods = self.pods.as_ref().map(|lack| match lack {
            PodsLack::Everything => format!("does not exist: {remedy}"),
            PodsLack::Fields(fields) => {
                format!("does not have {} of the profile: winpool render --target kube-proxy", some_of(fields))
            }
            PodsLack::Unknown(reason) => format!("is not compared: {reason}. config/kube-proxy has a role for it"),
        });
        let place = format!("ConfigMap {CONFIG_MAP_NAMESPACE}/{CONFIG_MAP}");
        not_applied.chain(pods.map(|text| (place, text))).collect()
    }
}

/// The settings of the layers that a configuration does not have.
fn lacks<'l>(config: &str, layers: impl Iterator<Item = &'l str>) -> Option<PodsLack> {
    let fields = layers.map(|layer| differing(config, layer)).collect::<Result<Vec<_>, _>>();
    match fields {
        Err(reason) => Some(PodsLack::Unknown(reason)),
        Ok(fields) => {
            let fields: BTreeSet<_> = fields.into_iter().flatten().collect();
            (!fields.is_empty()).then_some(PodsLack::Fields(fields))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_lacks_the_fields_that_one_of_the_layers_has_otherwise() {
        let fields = |names: &[&str]| Some(PodsLack::Fields(names.iter().map(|name| (*name).to_owned()).collect()));
        let table: [(&str, &[&str], Option<PodsLack>); 4] = [
            ("mode: kernelspace", &["mode: kernelspace"], None),
            ("mode: kernelspace", &[], None),
            (
                "mode: \"\"",
                &["mode: kernelspace", "winkernel: {enableDSR: true}"],
                fields(&["mode", "winkernel.enableDSR"]),
            ),
            ("mode: kernelspace\nwinkernel: {enableDSR: true}", &["winkernel: {enableDSR: true}"], None),
        ];
        for (config, layers, expected) in table {
            assert_eq!(lacks(config, layers.iter().copied()), expected, "{layers:?} in {config}");
        }
        assert!(matches!(lacks("- a", ["mode: kernelspace"].into_iter()), Some(PodsLack::Unknown(_))));
    }

    #[test]
    fn the_plan_says_on_which_nodes_it_is_not_applied_and_what_the_pods_lack() {
        let nodes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let not_applied = BTreeMap::from([
            (KubeProxyObstacle::Rke2, nodes(&["win-3"])),
            (KubeProxyObstacle::NoService, nodes(&["win-1", "win-2"])),
        ]);
        let rows = |pods| {
            let preview = KubeProxyPreview { not_applied: not_applied.clone(), pods };
            preview.rows().into_iter().map(|(left, right)| format!("{left} | {right}")).collect::<Vec<_>>()
        };
        let not_applied = [
            "not applied: win-3 | kube-proxy.yaml, because RKE2 starts kube-proxy",
            "not applied: win-1, win-2 | kube-proxy.yaml, because kube-proxy is no service with --config there",
        ];
        assert_eq!(rows(None), not_applied);
        let fields = PodsLack::Fields(["mode".to_owned(), "winkernel.enableDSR".to_owned()].into());
        for (lack, expected) in [
            (
                PodsLack::Everything,
                "does not exist: if kube-proxy runs in pods there: winpool render --target kube-proxy",
            ),
            (fields, "does not have mode, winkernel.enableDSR of the profile: winpool render --target kube-proxy"),
            (PodsLack::Unknown("403".into()), "is not compared: 403. config/kube-proxy has a role for it"),
        ] {
            assert_eq!(rows(Some(lack))[2], format!("ConfigMap kube-system/kube-proxy-windows | {expected}"));
        }
    }
}
