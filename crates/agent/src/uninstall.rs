//! Restores a node as it was before its first configuration, and removes the files of the agent.

use std::{collections::BTreeMap, io, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    cycle::{Cluster, Cycle, Limits, NextStep, PodPhase, PodsError},
    host::Host,
    journal::{ConfigId, JOURNAL},
    plan::{self, RECORD},
};

/// Restores the node with a restart of the services that this concerns, and removes the journal and the record. If the services
/// do not work afterwards, the present configuration is restored.
pub fn uninstall(host: &dyn Host, limits: Limits) -> io::Result<()> {
    let mut cycle = Cycle::resume(host, limits)?;
    if cycle.journal().change.is_some() {
        return Err(io::Error::other("a change is not confirmed yet: run `winpool-agent.exe restore` first"));
    }
    let (_, plan) = plan::plan(host, &BTreeMap::new()).map_err(|refusal| io::Error::other(refusal.message))?;
    let original = ConfigId { config: String::new(), digest: String::new(), attempt: 0 };
    cycle.begin(&Offline, original.clone(), plan)?;
    loop {
        match cycle.advance(&Offline, Some(&original), Some(&original.digest))? {
            NextStep::Idle => break,
            NextStep::Continue => {}
            NextStep::Wait => host.sleep(Duration::from_secs(1)),
        }
    }
    if let Some(rejection) = cycle.journal().rejection(&original) {
        return Err(io::Error::other(format!("the services did not work: {}", rejection.failure.message)));
    }
    host.remove(RECORD)?;
    host.remove(JOURNAL)
}

/// The node is restored without the API server: healthy services are enough.
struct Offline;

impl Cluster for Offline {
    fn lease_renewed(&self) -> io::Result<Option<Timestamp>> {
        Ok(Some(Timestamp::MAX))
    }

    fn pods(&self, _: &[u8]) -> Result<BTreeMap<String, PodPhase>, PodsError> {
        Ok(BTreeMap::new())
    }

    fn kubelet_config(&self) -> Option<Value> {
        None
    }
}
