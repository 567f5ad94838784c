//! The requests of the operator, from the audit log.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{Cluster, SOON};
use crate::{
    audit::Request,
    control_plane::User,
    requests::Requests,
    wait::{eventually, stays, until},
};

/// The operator is idle if it wrote nothing for this time.
const IDLE: Duration = Duration::from_secs(4);

impl Cluster {
    pub fn requests(&self) -> Result<Vec<Request>> {
        self.control_plane.requests_of(User::Operator)
    }

    /// The writes of the operator, including rejected ones.
    pub fn writes(&self) -> Result<Vec<Request>> {
        Ok(self.requests()?.into_iter().filter(Request::is_write).collect())
    }

    /// The number of the operator's writes to each node.
    pub fn node_changes(&self) -> Result<BTreeMap<String, usize>> {
        let mut changes = BTreeMap::new();
        for write in self.writes()?.into_iter().filter(|write| write.resource == "nodes" && write.code < 300) {
            *changes.entry(write.name).or_default() += 1;
        }
        Ok(changes)
    }

    /// Waits until the operator is idle: it never is if it writes again what is unchanged.
    pub async fn until_idle(&self) -> Result<()> {
        self.until_idle_about(|_| true).await
    }

    /// Like [`Self::until_idle`], for the writes that `concerns` selects.
    pub async fn until_idle_about(&self, concerns: impl Fn(&Request) -> bool) -> Result<()> {
        self.writes_until_idle(IDLE, concerns).await.map(drop)
    }

    /// The number of writes that `concerns` selects, when it has not changed for `period`.
    pub(crate) async fn writes_until_idle(
        &self,
        period: Duration,
        concerns: impl Fn(&Request) -> bool,
    ) -> Result<usize> {
        let count = || async { Ok(self.writes()?.iter().filter(|write| concerns(write)).count()) };
        let unchanged = || async {
            let before = count().await?;
            stays("nothing is written", period, count, |now| *now == before).await?;
            Ok(before)
        };
        eventually("the operator has nothing left to write", SOON, unchanged).await
    }

    /// Waits until the operator has the permission for a request with these attributes, or has it no more.
    pub async fn until_operator_may(&self, attributes: Value, expected: bool) -> Result<()> {
        let (requests, user) = (Requests::new(self.client.clone()), User::Operator.name());
        let may = || requests.allows(&user, &attributes);
        let what = format!("it is {expected} that the operator may {attributes}");
        until(&what, SOON, may, |may| *may == expected).await.map(drop)
    }

    /// Checks that the shipped RBAC has allowed every request of the operator.
    pub fn nothing_was_forbidden(&self) -> Result<()> {
        let forbidden: Vec<_> = self.requests()?.into_iter().filter(Request::is_forbidden).collect();
        ensure!(forbidden.is_empty(), "the shipped RBAC does not allow {forbidden:#?}");
        Ok(())
    }
}
