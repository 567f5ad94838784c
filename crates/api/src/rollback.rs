//! Why the agent rolled a configuration back.

use serde::{Deserialize, Serialize};
use winpool_facts::named_enum;

named_enum! {
    /// The reason of a rollback, as in the status of a WindowsNodeConfig.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum RollbackReason {
        /// A file or service definition could not be written.
        WriteFailed,
        /// A service could not be stopped or started.
        RestartFailed,
        /// A service ended, or did not answer its health check in time.
        NotHealthy,
        /// The Lease of the node was not renewed after the restart.
        LeaseNotRenewed,
        /// Pods that ran before the change failed after it.
        PodsFailed,
        /// containerd could start a new pod before the change, and not after it.
        SandboxFailed,
        /// The kubelet runs with other values, for instance because a flag overrides them.
        ConfigNotUsed,
        /// The operator did not confirm the configuration in time.
        NotConfirmed,
        /// Windows was restarted before the configuration was confirmed.
        Rebooted,
        /// Somebody ran `winpool-agent restore` on the node.
        RestoredByHand,
        /// Another configuration was requested before this one was confirmed.
        Superseded,
    }
}

/// A reason that is none of the API.
const OTHER: &str = "Other";

impl RollbackReason {
    /// The name in the API if it is one, else `Other`: an agent can write any text.
    pub fn known_name(name: &str) -> &'static str {
        Self::ALL.into_iter().map(Self::name).find(|known| *known == name).unwrap_or(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_no_agent_has_is_called_other() {
        for (name, expected) in
            [("NotHealthy", "NotHealthy"), ("Superseded", "Superseded"), ("nothealthy", "Other"), ("", "Other")]
        {
            assert_eq!(RollbackReason::known_name(name), expected, "{name}");
        }
    }
}
