//! Reads the parts of a diagnosis: in pages, at most a number of objects, reduced to what the rules need.

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use winpool_check::doctor::{EvidenceLayer, EvidencePart, reduced};
use winpool_core::kind::Kind;
use winpool_operator::cluster::{PAGE, explain, kinds, status_code};

/// The maximum number of objects of a part.
const MAX_OBJECTS: usize = 5_000;
/// The parts whose kinds a cluster need not have.
const OPTIONAL: [EvidencePart; 6] = [
    EvidencePart::Pools,
    EvidencePart::Machines,
    EvidencePart::MachineDeployments,
    EvidencePart::MachinePools,
    EvidencePart::MachineSets,
    EvidencePart::NodeConfigs,
];
/// The maximum number of pages of a list, of which only some objects may be kept.
const MAX_PAGES: usize = 400;

/// Reads evidence until a deadline.
pub struct EvidenceReader {
    client: Client,
    deadline: Instant,
}

impl EvidenceReader {
    /// Reads with this client.
    pub fn new(client: Client, deadline: Instant) -> Self {
        Self { client, deadline }
    }

    /// The objects of a part that the parameters select, in a namespace or in all, and that are kept, reduced.
    pub async fn part(
        &self,
        part: EvidencePart,
        namespace: Option<&str>,
        params: &ListParams,
        keep: impl Fn(&Value) -> bool,
    ) -> EvidenceLayer<Value> {
        let resource = part.resource();
        let objects = self.objects(part, namespace, params, |object| keep(&object).then(|| reduced(part, object)));
        match timeout_at(self.deadline, objects).await {
            Err(_) => EvidenceLayer::Unavailable(format!("listing {resource} took longer than the time limit")),
            Ok(Err(error)) => match status_code(&error) {
                // Without the kind there are no objects.
                Some(404) if OPTIONAL.contains(&part) => EvidenceLayer::default(),
                Some(403) => EvidenceLayer::Unavailable(format!(
                    "the permission to list {resource} is missing, which the role winpool-doctor in config/doctor has"
                )),
                _ => EvidenceLayer::Unavailable(explain(&error)),
            },
            Ok(Ok((items, omitted))) => EvidenceLayer::Read { items, omitted },
        }
    }

    async fn objects(
        &self,
        part: EvidencePart,
        namespace: Option<&str>,
        params: &ListParams,
        keep: impl Fn(Value) -> Option<Value>,
    ) -> kube::Result<(Vec<Value>, bool)> {
        let mut kinds = part.kinds().iter().peekable();
        loop {
            let Some(kind) = kinds.next() else { return Ok((Vec::new(), false)) };
            match self.list(*kind, namespace, params, &keep).await {
                Err(error) if status_code(&error) == Some(404) && kinds.peek().is_some() => {}
                answer => return answer,
            }
        }
    }

    async fn list(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: &ListParams,
        keep: impl Fn(Value) -> Option<Value>,
    ) -> kube::Result<(Vec<Value>, bool)> {
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => kinds::namespaced(self.client.clone(), kind, namespace),
            None => Api::all_with(self.client.clone(), &kinds::resource(kind)),
        };
        let (mut params, mut kept) = (params.clone().limit(PAGE), Vec::new());
        for _ in 0..MAX_PAGES {
            let page = api.list(&params).await?;
            let objects = page.items.into_iter().filter_map(|object| serde_json::to_value(object).ok());
            kept.extend(objects.filter_map(&keep));
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            if kept.len() > MAX_OBJECTS {
                kept.truncate(MAX_OBJECTS);
                return Ok((kept, true));
            }
            match next {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((kept, false)),
            }
        }
        Ok((kept, true))
    }
}
