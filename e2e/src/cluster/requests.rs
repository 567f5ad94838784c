//! The requests of the operator, from the audit log.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};

use super::{Cluster, SOON};
use crate::{
    audit::Request,
    control_plane::User,
    wait::{eventually, stays},
};

/// How long the operator has to write nothing to count as idle.
const IDLE: Duration = Duration::from_secs(2);

impl Cluster {
    /// What the operator has asked for.
    pub fn requests(&self) -> Result<Vec<Request>> {
        self.control_plane.requests_of(User::Operator)
    }

    /// What the operator has written, refused requests too.
    pub fn writes(&self) -> Result<Vec<Request>> {
        Ok(self.requests()?.into_iter().filter(Request::is_write).collect())
    }

    /// How often the operator has changed each node.
    pub fn node_changes(&self) -> Result<BTreeMap<String, usize>> {
        let mut changes = BTreeMap::new();
        for write in self.writes()?.into_iter().filter(|write| write.resource == "nodes" && write.code < 300) {
            *changes.entry(write.name).or_default() += 1;
        }
        Ok(changes)
    }

    /// Waits until the operator writes nothing any more, and checks that it stays so.
    pub async fn until_idle(&self) -> Result<()> {
        self.until_idle_about(|_| true).await
    }

    /// [`Self::until_idle`], for the writes that `concerns` chooses.
    pub async fn until_idle_about(&self, concerns: impl Fn(&Request) -> bool) -> Result<()> {
        let before = self.settled_writes(IDLE, &concerns).await?;
        let fresh = || async { Ok(self.writes()?.into_iter().filter(&concerns).skip(before).collect::<Vec<_>>()) };
        stays("nothing that is unchanged is written again", IDLE, fresh, Vec::is_empty).await
    }

    /// The number of writes that `concerns` chooses, once it has not changed for `period`.
    pub(crate) async fn settled_writes(&self, period: Duration, concerns: impl Fn(&Request) -> bool) -> Result<usize> {
        let count = || async { Ok(self.writes()?.iter().filter(|write| concerns(write)).count()) };
        let settled = || async {
            let before = count().await?;
            stays("nothing is written", period, count, |now| *now == before).await?;
            Ok(before)
        };
        eventually("the operator has nothing left to write", SOON, settled).await
    }

    /// Checks that the shipped RBAC has allowed everything that the operator asked for.
    pub fn nothing_was_forbidden(&self) -> Result<()> {
        let forbidden: Vec<_> = self.requests()?.into_iter().filter(Request::is_forbidden).collect();
        ensure!(forbidden.is_empty(), "the shipped RBAC does not allow {forbidden:#?}");
        Ok(())
    }
}
