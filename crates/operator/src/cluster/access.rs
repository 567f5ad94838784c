//! Reviews of clients of the admin server: TokenReview and SubjectAccessReview. The API server stores neither.

#![allow(clippy::disallowed_types)] // writes

use futures::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, Config, api::PostParams};

use super::{client::direct_client, explain};
use crate::admin::{Metrics, Review, Verdict};

/// Asks the API server. Also a process that is not the leader does.
pub struct Reviewer(Client);

impl Reviewer {
    /// A reviewer with its own connections.
    pub fn new(config: Config, metrics: &Metrics) -> kube::Result<Self> {
        Ok(Self(direct_client(config, metrics)?))
    }

    async fn verdict(&self, token: &str, verb: &str, path: &str) -> kube::Result<Verdict> {
        let Some(user) = self.user(token).await? else { return Ok(Verdict::NotAuthenticated) };
        let name = user.username.clone().unwrap_or_default();
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = Api::<SubjectAccessReview>::all(self.0.clone()).create(&PostParams::default(), &review).await?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if is_allowed { Verdict::Allowed } else { Verdict::NotAuthorized { user: name } })
    }

    /// The user of a token; `None` if it is of no user.
    async fn user(&self, token: &str) -> kube::Result<Option<UserInfo>> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::<TokenReview>::all(self.0.clone()).create(&PostParams::default(), &review).await?;
        let status = answer.status.filter(|status| status.authenticated == Some(true));
        Ok(status.and_then(|status| status.user))
    }
}

impl Review for Reviewer {
    fn review<'r>(&'r self, token: &'r str, verb: &'r str, path: &'r str) -> BoxFuture<'r, Result<Verdict, String>> {
        Box::pin(async move { self.verdict(token, verb, path).await.map_err(|error| explain(&error)) })
    }
}
