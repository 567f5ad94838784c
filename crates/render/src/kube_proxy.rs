//! `kube-proxy.yaml`: the settings of kube-proxy on Windows.
//!
//! Sources: kubernetes/kube-proxy, `config/v1alpha1/types.go` (1.14 to v0.37.0-beta.0); kubernetes/kubernetes,
//! `pkg/proxy/winkernel/proxier.go`: kube-proxy exits if `enableDSR` is set without the gate WinDSR.

mod config_map;

use std::collections::BTreeMap;

use serde_json::json;
use winpool_api::{KubeProxyMode, KubeProxySettings};
use winpool_facts::{Minor, feature_gates::feature_gate};

use super::yaml::{Document, Quoted};

pub use config_map::{CONFIG_MAP, CONFIG_MAP_ENTRY, CONFIG_MAP_NAMESPACE, config_map, differing};

const DSR_GATE: &str = "WinDSR";
const LAYER: &str = "Partial KubeProxyConfiguration for Windows. Other settings of the node are unchanged.\n\
                     Merge it into the file of the kube-proxy flag --config: merge maps, replace lists and other values.\n\
                     Restart kube-proxy to apply it.";
const WHOLE: &str = "KubeProxyConfiguration for Windows (kube-proxy --config). Restart kube-proxy to apply it.";

/// The KubeProxyConfiguration for a minor: a layer, or the complete file with a kubeconfig.
pub fn yaml(settings: &KubeProxySettings, minor: Minor, kubeconfig: Option<&str>) -> String {
    let KubeProxySettings { mode, win_dsr, network_name, source_vip, .. } = settings;
    let mut file = Document::new(if kubeconfig.is_some() { WHOLE } else { LAYER });
    file.set("apiVersion", "kubeproxy.config.k8s.io/v1alpha1");
    file.set("kind", "KubeProxyConfiguration");
    if let Some(kubeconfig) = kubeconfig {
        file.set("clientConnection", Quoted(&json!({"kubeconfig": kubeconfig})));
    }
    let KubeProxyMode::Kernelspace = mode;
    file.set_string("mode", "kernelspace");
    let gates = gates(settings, minor);
    if !gates.is_empty() {
        file.set("featureGates", gates);
    }
    let mut winkernel = serde_json::Map::new();
    if let Some(dsr) = win_dsr {
        winkernel.insert("enableDSR".to_owned(), json!(dsr));
    }
    for (name, text) in [("networkName", network_name), ("sourceVip", source_vip)] {
        if !text.is_empty() {
            winkernel.insert(name.to_owned(), json!(text));
        }
    }
    if !winkernel.is_empty() {
        file.set("winkernel", Quoted(&winkernel.into()));
    }
    file.finish()
}

/// The gates of the profile, and the gate for Direct Server Return if it is required and disabled by default.
pub(super) fn gates(settings: &KubeProxySettings, minor: Minor) -> BTreeMap<&str, bool> {
    let mut gates: BTreeMap<&str, bool> =
        settings.feature_gates.iter().map(|(name, on)| (name.as_str(), *on)).collect();
    let off_by_default = feature_gate(DSR_GATE).is_some_and(|gate| gate.known_in(minor) && !gate.default_in(minor));
    if settings.win_dsr == Some(true) && off_by_default {
        gates.entry(DSR_GATE).or_insert(true);
    }
    gates
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn settings(value: Value) -> KubeProxySettings {
        serde_json::from_value(value).unwrap()
    }

    fn fields(value: Value, minor: u32) -> Value {
        let mut read: Value = serde_saphyr::from_str(&yaml(&settings(value), Minor(minor), None)).unwrap();
        let read = read.as_object_mut().unwrap();
        assert_eq!(read.remove("apiVersion"), Some(json!("kubeproxy.config.k8s.io/v1alpha1")));
        assert_eq!(read.remove("kind"), Some(json!("KubeProxyConfiguration")));
        Value::Object(read.clone())
    }

    #[test]
    fn only_settings_of_the_profile_and_a_required_gate_are_rendered() {
        let full =
            json!({"winDSR": true, "networkName": "vxlan0", "sourceVIP": "10.244.1.2", "featureGates": {"A": true}});
        let winkernel = json!({"enableDSR": true, "networkName": "vxlan0", "sourceVip": "10.244.1.2"});
        let table = [
            (json!({}), 36, json!({"mode": "kernelspace"})),
            (json!({"winDSR": false}), 30, json!({"mode": "kernelspace", "winkernel": {"enableDSR": false}})),
            (
                full.clone(),
                32,
                json!({"mode": "kernelspace", "winkernel": winkernel, "featureGates": {"A": true, "WinDSR": true}}),
            ),
            (full, 33, json!({"mode": "kernelspace", "winkernel": winkernel, "featureGates": {"A": true}})),
        ];
        for (settings, minor, expected) in table {
            assert_eq!(fields(settings.clone(), minor), expected, "{settings} for {minor}");
        }
    }
}
