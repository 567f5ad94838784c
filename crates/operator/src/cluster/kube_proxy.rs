//! The configuration of kube-proxy in the pods of Windows nodes.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use winpool_render::kube_proxy::{CONFIG_MAP, CONFIG_MAP_ENTRY, CONFIG_MAP_NAMESPACE};

use super::limited;

/// How long the request may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The KubeProxyConfiguration in the ConfigMap of Windows nodes; `None` if there is none.
pub async fn read_kube_proxy(client: &Client) -> Result<Option<String>, String> {
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), CONFIG_MAP_NAMESPACE);
    let found = limited(LIMIT, config_maps.get_opt(CONFIG_MAP)).await?;
    Ok(found.and_then(|found| found.data?.remove(CONFIG_MAP_ENTRY)))
}
