//! The ConfigMap of kube-proxy in the pods of Windows nodes.
//!
//! It is not the ConfigMap `kube-proxy` of kubeadm, which kube-proxy on Linux nodes reads too.
//!
//! Sources, read 2026-11: kubernetes/kubernetes, `cmd/kubeadm/app/phases/addons/proxy/manifests.go` (the ConfigMap and its keys),
//! `pkg/proxy/apis/config/validation/validation.go` (kube-proxy on Linux rejects the mode `kernelspace`), and
//! `cmd/kube-proxy/app/options.go` (`--config`, beside which `--proxy-mode` and `--feature-gates` are ignored);
//! kubernetes-sigs/sig-windows-tools, `hostprocess/calico/kube-proxy` at 401ee6f (the name of the DaemonSet).

use serde_json::{Map, Value, json};
use winpool_core::{Problem, kind::Kind};

/// Its namespace.
pub const CONFIG_MAP_NAMESPACE: &str = "kube-system";
/// Its name, which is that of the DaemonSet of sig-windows-tools.
pub const CONFIG_MAP: &str = "kube-proxy-windows";
pub const CONFIG_MAP_ENTRY: &str = "config.conf";

/// The ConfigMap for Windows nodes: the entries of the present one, with `kube-proxy.yaml` merged into its `config.conf`.
pub fn config_map(present: &Value, layer: &str) -> Result<Value, Problem> {
    let path = format!("data[{CONFIG_MAP_ENTRY}]");
    let problem =
        |wrong: String| Problem::new(&path, wrong, "use the ConfigMap kube-proxy of the namespace kube-system");
    let text = present["data"][CONFIG_MAP_ENTRY].as_str().ok_or_else(|| problem("is missing".to_owned()))?;
    let mut merged = Value::Object(mapping(text).map_err(problem)?);
    json_patch::merge(&mut merged, &Value::Object(mapping(layer).map_err(problem)?));
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(&merged, options).map_err(|error| problem(error.to_string()))?;
    let mut data = present["data"].clone();
    data[CONFIG_MAP_ENTRY] = json!(text);
    let labels = present["metadata"].get("labels").cloned().unwrap_or_else(|| json!({}));
    let metadata = json!({"name": CONFIG_MAP, "namespace": CONFIG_MAP_NAMESPACE, "labels": labels});
    let mut config_map = Kind::CONFIG_MAP.object(metadata);
    config_map["data"] = data;
    Ok(config_map)
}

/// The settings of `kube-proxy.yaml` that a `config.conf` does not have, as paths such as `winkernel.enableDSR`.
///
/// # Errors
/// One of both is no mapping.
pub fn differing(config: &str, layer: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    add_differing(&mapping(config)?, &mapping(layer)?, "", &mut fields);
    Ok(fields)
}

fn add_differing(config: &Map<String, Value>, layer: &Map<String, Value>, parent: &str, fields: &mut Vec<String>) {
    for (name, desired) in layer {
        let path = format!("{parent}{name}");
        match (desired, config.get(name)) {
            (Value::Object(desired), Some(Value::Object(present))) => {
                add_differing(present, desired, &format!("{path}."), fields);
            }
            (Value::Object(desired), _) => add_differing(&Map::new(), desired, &format!("{path}."), fields),
            (desired, present) if Some(desired) == present => {}
            _ => fields.push(path),
        }
    }
}

fn mapping(text: &str) -> Result<Map<String, Value>, String> {
    serde_saphyr::from_str(text).map_err(|error| format!("is not a mapping in YAML: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `kubectl -n kube-system get configmap kube-proxy -o json` prints it, shortened.
    fn present() -> Value {
        let config = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nbindAddress: 0.0.0.0\nclientConnection:\n  \
                      kubeconfig: /var/lib/kube-proxy/kubeconfig.conf\n  qps: 0\nclusterCIDR: 10.244.0.0/16\nconntrack:\n  \
                      maxPerCore: null\nkind: KubeProxyConfiguration\nmode: \"\"\nwinkernel:\n  enableDSR: false\n  \
                      networkName: \"\"\n  rootHnsEndpointName: cbr0\n";
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "annotations": {"kubeadm.kubernetes.io/component-config.hash": "sha256:1"}, "labels": {"app": "kube-proxy"},
                "name": "kube-proxy", "namespace": "kube-system", "resourceVersion": "249", "uid": "u",
            },
            "data": {"config.conf": config, "kubeconfig.conf": "apiVersion: v1\nkind: Config\n"},
        })
    }

    const LAYER: &str = "# Merge it.\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: kernelspace\n\
                         featureGates:\n  WinDSR: true\nwinkernel:\n  enableDSR: true\n";

    #[test]
    fn the_config_map_for_windows_has_the_settings_of_the_profile_and_everything_else_of_the_present_one() {
        let expected = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-proxy-windows", "namespace": "kube-system", "labels": {"app": "kube-proxy"}},
            "data": {"config.conf": "", "kubeconfig.conf": "apiVersion: v1\nkind: Config\n"},
        });
        let mut made = config_map(&present(), LAYER).unwrap();
        let config = made["data"]["config.conf"].take();
        made["data"]["config.conf"] = json!("");
        assert_eq!(made, expected);
        let config: Value = serde_saphyr::from_str(config.as_str().unwrap()).unwrap();
        let expected = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "bindAddress": "0.0.0.0",
            "clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf", "qps": 0},
            "clusterCIDR": "10.244.0.0/16",
            "conntrack": {"maxPerCore": null},
            "featureGates": {"WinDSR": true},
            "kind": "KubeProxyConfiguration",
            "mode": "kernelspace",
            "winkernel": {"enableDSR": true, "networkName": "", "rootHnsEndpointName": "cbr0"},
        });
        assert_eq!(config, expected);
    }

    #[test]
    fn a_config_map_without_a_configuration_is_a_problem() {
        let wrong = |config: Value| {
            let present = json!({"data": {"config.conf": config}});
            config_map(&present, LAYER).unwrap_err().wrong
        };
        assert_eq!(wrong(Value::Null), "is missing");
        assert!(wrong(json!("- a")).starts_with("is not a mapping in YAML: "));
    }

    #[test]
    fn the_fields_that_differ_are_named_by_their_paths() {
        let present = present();
        let present = present["data"]["config.conf"].as_str().unwrap();
        let made = config_map(&self::present(), LAYER).unwrap();
        let table: [(&str, &str, &[&str]); 4] = [
            (present, LAYER, &["featureGates.WinDSR", "mode", "winkernel.enableDSR"]),
            (made["data"]["config.conf"].as_str().unwrap(), LAYER, &[]),
            (present, "winkernel: {networkName: vxlan0, rootHnsEndpointName: cbr0}", &["winkernel.networkName"]),
            ("winkernel: null", "winkernel: {enableDSR: false}", &["winkernel.enableDSR"]),
        ];
        for (config, layer, expected) in table {
            assert_eq!(differing(config, layer).unwrap(), expected, "{layer} in {config}");
        }
    }
}
