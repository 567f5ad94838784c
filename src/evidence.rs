//! Reads the parts of a diagnosis: in pages, at most a number of objects, reduced to what the rules need.

#![allow(clippy::disallowed_types)] // reviews of access are created

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, error::Elapsed, timeout_at};
use winpool_check::doctor::{EvidenceLayer, EvidencePart, reduced};
use winpool_core::kind::Kind;
use winpool_operator::cluster::{PAGE, explain, kinds, status_code};

/// The maximum number of objects of a part.
const MAX_OBJECTS: usize = 5_000;
/// The parts whose kinds a cluster need not have.
const OPTIONAL: [EvidencePart; 7] = [
    EvidencePart::Pools,
    EvidencePart::Machines,
    EvidencePart::MachineDeployments,
    EvidencePart::MachinePools,
    EvidencePart::MachineSets,
    EvidencePart::NodeConfigs,
    EvidencePart::CredentialSpecs,
];
/// The maximum number of reviews.
const MAX_REVIEWS: usize = 100;
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
            // Without the kind there are no objects.
            Ok(Err(error)) if status_code(&error) == Some(404) && OPTIONAL.contains(&part) => EvidenceLayer::default(),
            answer => layer(answer, "list", resource),
        }
    }

    /// The answers to SubjectAccessReviews, which the API server does not store.
    pub async fn answers(&self, mut reviews: Vec<Value>) -> EvidenceLayer<Value> {
        let omitted = reviews.len() > MAX_REVIEWS;
        reviews.truncate(MAX_REVIEWS);
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let (params, reviews) = (PostParams::default(), reviews.into_iter().flat_map(serde_json::from_value));
        let reviews: Vec<SubjectAccessReview> = reviews.collect();
        let answers = async {
            let answers = try_join_all(reviews.iter().map(|review| api.create(&params, review))).await?;
            Ok((answers.iter().map(|answer| json!(answer)).collect(), omitted))
        };
        layer(timeout_at(self.deadline, answers).await, "create", "subjectaccessreviews")
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

fn layer(
    answer: Result<kube::Result<(Vec<Value>, bool)>, Elapsed>,
    verb: &str,
    resource: &str,
) -> EvidenceLayer<Value> {
    EvidenceLayer::Unavailable(match answer {
        Ok(Ok((items, omitted))) => return EvidenceLayer::Read { items, omitted },
        Err(_) => format!("the request to {verb} {resource} took longer than the time limit"),
        Ok(Err(error)) if status_code(&error) == Some(403) => {
            format!(
                "the permission to {verb} {resource} is missing, which the role winpool-doctor in config/doctor has"
            )
        }
        Ok(Err(error)) => explain(&error),
    })
}
