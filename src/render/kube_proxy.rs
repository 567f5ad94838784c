//! The ConfigMap of kube-proxy in the pods of Windows nodes.

use std::collections::BTreeMap;

use serde_json::Value;
use winpool_core::text::some_of;
use winpool_render::{
    KUBE_PROXY_YAML,
    kube_proxy::{CONFIG_MAP, config_map},
};
use winpool_rules::pool::{
    Snapshot,
    configs::ExpectedNode,
    plan::{Phase, Planner},
};

use super::Documents;

/// The ConfigMap, made from the present one of Linux nodes. All Windows nodes have one.
///
/// # Errors
/// There is no present one, no profile has settings of kube-proxy, or profiles have different ones.
pub fn kube_proxy_objects(
    snapshot: &Snapshot,
    expected_nodes: &[ExpectedNode],
    present: Option<&Value>,
) -> Result<Documents, String> {
    let present = present.ok_or(
        "no ConfigMap with the entry config.conf is among the files: \
         kubectl -n kube-system get configmap kube-proxy -o yaml | winpool render -f PATH -f - --target kube-proxy",
    )?;
    let layers = layers(snapshot, expected_nodes);
    let (layer, _) = match layers.iter().collect::<Vec<_>>()[..] {
        [] => return Err("no profile of a pool has spec.kubeProxy".to_owned()),
        [one] => one,
        _ => {
            let configs = layers.into_values().flatten().collect::<Vec<_>>();
            return Err(format!(
                "the configurations {} have different settings of kube-proxy, and the pods have one ConfigMap: write the same \
                 spec.kubeProxy into the profiles, and render for one version with --kubernetes",
                some_of(&configs)
            ));
        }
    };
    let object = config_map(present, layer).map_err(|problem| format!("ConfigMap: {problem}"))?;
    let note = format!(
        "ConfigMap {CONFIG_MAP} is for the kube-proxy of Windows nodes alone, because kube-proxy on Linux does not start with mode: \
         kernelspace. Its pods have to mount it, and to start kube-proxy with --config: docs/delivery.md#kube-proxy"
    );
    let objects = vec![(format!("configmap-{CONFIG_MAP}"), object)];
    Ok(Documents { objects, notes: vec![note], ..Documents::default() })
}

/// The different settings of kube-proxy, with the configurations that have them.
fn layers(snapshot: &Snapshot, expected_nodes: &[ExpectedNode]) -> BTreeMap<String, Vec<String>> {
    let planner = Planner::new(snapshot).expecting(expected_nodes.to_vec());
    let mut layers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for plan in snapshot.pools.names().filter_map(|name| planner.plan(name)) {
        let Phase::Active(active) = &plan.phase else { continue };
        for (name, config) in &active.configs.configs {
            if let Some(layer) = config.configuration.files.get(KUBE_PROXY_YAML) {
                layers.entry(layer.clone()).or_default().push(name.clone());
            }
        }
    }
    layers
}
