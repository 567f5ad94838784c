//! The configurations that kubelets use, from their endpoint `/configz`, to which the API server forwards requests.

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Client;
use serde_json::Value;
use winpool_check::adopt::KubeletConfiguration;
use winpool_operator::cluster::limited;

/// How long one request may take. The API server waits longer for a node that does not answer.
const LIMIT: Duration = Duration::from_secs(10);
/// How many requests run at once.
const CONCURRENCY: usize = 16;

/// The configuration of one kubelet, or why it could not be read.
pub type ReadConfiguration = Result<KubeletConfiguration, String>;

/// The configurations of the kubelets of nodes, sorted as the names are. Requires the permission to get `nodes/proxy`.
pub async fn kubelet_configurations(client: &Client, nodes: Vec<String>) -> Vec<(String, ReadConfiguration)> {
    let read = |node: String| async move {
        let result = configuration(client, &node).await;
        (node, result)
    };
    stream::iter(nodes).map(read).buffered(CONCURRENCY).collect().await
}

async fn configuration(client: &Client, node: &str) -> ReadConfiguration {
    let request = http::Request::get(format!("/api/v1/nodes/{node}/proxy/configz")).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let mut shown: Value = limited(LIMIT, client.request(request)).await?;
    match shown.get_mut("kubeletconfig").map(Value::take) {
        Some(Value::Object(configuration)) => Ok(configuration),
        _ => Err("the answer has no kubeletconfig".to_owned()),
    }
}
