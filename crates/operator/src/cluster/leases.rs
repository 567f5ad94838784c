//! When the Leases of nodes were renewed. They are not watched, because every node renews its Lease every ten seconds.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::time::timeout;
use tracing::debug;
use winpool_api::names::NODE_LEASES;

use super::explain;

/// How long all requests may take together.
const LIMIT: Duration = Duration::from_secs(5);
/// How many requests run at once.
const CONCURRENCY: usize = 8;

/// Reads the Leases of nodes.
#[derive(Clone)]
pub struct Leases(Client);

impl Leases {
    /// Reads with this client.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// When the Leases of these nodes were renewed, by the clocks of the nodes. A Lease that cannot be read is missing.
    pub async fn renewals(&self, nodes: Vec<String>) -> BTreeMap<String, Timestamp> {
        let api: Api<Lease> = Api::namespaced(self.0.clone(), NODE_LEASES);
        let mut renewals = BTreeMap::new();
        let requests = stream::iter(nodes).map(|node| renewal(api.clone(), node)).buffer_unordered(CONCURRENCY);
        let read = requests.for_each(|renewal| {
            renewals.extend(renewal);
            std::future::ready(())
        });
        if timeout(LIMIT, read).await.is_err() {
            debug!("not all Leases were read within {LIMIT:?}");
        }
        renewals
    }
}

async fn renewal(api: Api<Lease>, node: String) -> Option<(String, Timestamp)> {
    match api.get(&node).await {
        Ok(lease) => Some((node, lease.spec?.renew_time?.0)),
        Err(error) => {
            debug!(node, error = explain(&error), "Lease not read, using the heartbeat of the node");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn leases_that_can_be_read_have_a_renewal() {
        let server = tower::service_fn(|request: http::Request<Body>| async move {
            let path = request.uri().path().to_owned();
            let (code, answer) = match path.as_str() {
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/win-1" => (
                    200,
                    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "win-1"},
                           "spec": {"renewTime": "2026-06-01T12:00:00.500000Z"}}),
                ),
                _ => (403, json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403})),
            };
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        });
        let leases = Leases::new(Client::new(server, "elsewhere"));
        let renewals = leases.renewals(vec!["win-1".into(), "win-2".into()]).await;
        assert_eq!(renewals, BTreeMap::from([("win-1".into(), "2026-06-01T12:00:00.5Z".parse().unwrap())]));
    }
}
