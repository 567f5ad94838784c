//! What goes wrong.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::{lab::Lab, random::Random};
use crate::{cluster::SOON, install::install_crds, proxy::Mode, wait::eventually};

/// The number of faults.
pub(super) const COUNT: u64 = 18;

/// A fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The proxies of all replicas do this.
    Connections(Mode),
    /// All connections of the replicas are half-open.
    HalfOpen,
    /// The API server is killed, and started again.
    ApiServer,
    /// etcd is killed, and started again.
    Etcd,
    /// etcd has no space: it accepts no writes.
    NoSpace,
    /// The replicas lose the API server, and the versions that they know are compacted before they are back.
    Expired,
    /// The CustomResourceDefinitions are deleted with all pools, and installed again.
    Definitions,
    /// Nodes are deleted, and created again under the same names.
    Nodes,
    /// The leader is killed, and started again.
    Leader,
    /// All replicas are killed, and started again.
    Replicas,
    /// The leader is frozen until another replica has taken over.
    Frozen,
    /// The leader loses the API server until another replica has taken over.
    Isolated,
}

impl Fault {
    /// The fault of a seed.
    pub(super) fn of(seed: u64, random: &mut Random) -> Self {
        let mut between = |least: usize, most: usize| least + random.below(most - least);
        let all: [Self; COUNT as usize] = [
            Self::Connections(Mode::Refuse),
            Self::Connections(Mode::Truncate(between(1, 20_000))),
            Self::Connections(Mode::Answer(503)),
            Self::Nodes,
            Self::Etcd,
            Self::ApiServer,
            Self::Expired,
            Self::Connections(Mode::Answer(429)),
            Self::Connections(Mode::Answer(500)),
            Self::Connections(Mode::Answer(410)),
            Self::Connections(Mode::Delay(Duration::from_millis(between(10, 200) as u64))),
            Self::NoSpace,
            Self::Definitions,
            Self::HalfOpen,
            Self::Leader,
            Self::Replicas,
            Self::Frozen,
            Self::Isolated,
        ];
        all[usize::try_from(seed % COUNT).unwrap_or(0)]
    }

    /// Whether no replica can be expected to work while it lasts.
    pub(super) fn keeps_operator_away(self) -> bool {
        !matches!(self, Self::Nodes)
    }

    /// Lets it happen. Other clients write meanwhile, if they can.
    pub(super) async fn strike(self, lab: &mut Lab, random: &mut Random) -> Result<()> {
        let control_plane = lab.cluster.control_plane.clone();
        let longest = usize::try_from(lab.size.longest.as_millis())?;
        let lasts = Duration::from_millis(500 + random.below(longest) as u64);
        match self {
            Self::Connections(mode) => {
                lab.each_proxy(|proxy| proxy.set(mode));
                lab.disturb(random).await?;
                sleep(lasts).await;
                lab.each_proxy(|proxy| proxy.set(Mode::Forward));
            }
            Self::HalfOpen => {
                lab.each_proxy(|proxy| proxy.lose_connections());
                lab.disturb(random).await?;
            }
            Self::ApiServer => {
                control_plane.stop_api_server().await?;
                sleep(lasts).await;
                control_plane.start_api_server().await?;
            }
            Self::Etcd => {
                control_plane.stop_etcd().await?;
                sleep(lasts).await;
                control_plane.start_etcd().await?;
            }
            Self::NoSpace => {
                lab.alarm("ACTIVATE").await?;
                sleep(lasts).await;
                lab.alarm("DEACTIVATE").await?;
            }
            Self::Expired => {
                lab.each_proxy(|proxy| proxy.set(Mode::Refuse));
                lab.disturb(random).await?;
                lab.compact().await?;
                control_plane.restart_api_server().await?;
                lab.each_proxy(|proxy| proxy.set(Mode::Forward));
            }
            Self::Definitions => {
                lab.cluster.delete_crds()?;
                sleep(lasts).await;
                install_crds(&control_plane)?;
                eventually("the pools are applied again", SOON, || lab.apply()).await?;
            }
            Self::Nodes => lab.recreate(lab.size.nodes / 4, random).await?,
            Self::Leader => {
                let leader = lab.leader().await?;
                lab.replicas()[leader].operator.kill()?;
                lab.disturb(random).await?;
            }
            Self::Replicas => {
                lab.replicas().iter().try_for_each(|replica| replica.operator.kill().map(drop))?;
                lab.disturb(random).await?;
            }
            Self::Frozen => {
                let leader = lab.leader().await?;
                lab.replicas()[leader].operator.process().freeze();
                lab.disturb(random).await?;
                lab.until_other_leader(leader).await?;
                lab.until_converged().await?;
                lab.replicas()[leader].operator.process().thaw();
                let ended = async || lab.replicas()[leader].operator.check_lost_lease();
                eventually("the frozen replica ends", SOON, ended).await?;
            }
            Self::Isolated => {
                let leader = lab.leader().await?;
                lab.replicas()[leader].proxy.set(Mode::Silent);
                lab.disturb(random).await?;
                lab.until_other_leader(leader).await?;
                lab.replicas()[leader].proxy.set(Mode::Forward);
            }
        }
        Ok(())
    }
}
