//! The times of a change, from a watch of WindowsNodeConfigs.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use futures::StreamExt;
use kube::{Api, Client};
use kube_runtime::{WatchStreamExt, watcher};
use tokio::task::JoinHandle;
use winpool_api::{NodeConfigPhase, WindowsNodeConfig};

/// The states of WindowsNodeConfigs, with the times at which they were observed.
pub(super) struct Observer {
    states: Arc<Mutex<Vec<(Instant, WindowsNodeConfig)>>>,
    task: JoinHandle<()>,
}

/// When a digest was assigned by the operator, reported as verified by the agent, and confirmed by the operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub assigned: Instant,
    pub reported: Instant,
    pub confirmed: Instant,
}

impl Observer {
    pub(super) fn start(client: Client) -> Self {
        let states: Arc<Mutex<Vec<_>>> = Arc::default();
        let observed = states.clone();
        let configs: Api<WindowsNodeConfig> = Api::all(client);
        let task = tokio::spawn(async move {
            let changes = watcher(configs, watcher::Config::default()).default_backoff().applied_objects();
            changes
                .for_each(|config| {
                    observed.lock().unwrap().extend(config.ok().map(|config| (Instant::now(), config)));
                    std::future::ready(())
                })
                .await;
        });
        Self { states, task }
    }

    /// The times of a digest; `None` before it is confirmed.
    pub(super) fn times(&self, digest: &str) -> Option<Times> {
        let states = self.states.lock().unwrap();
        let first = |holds: &dyn Fn(&WindowsNodeConfig) -> bool| {
            let of_digest = states.iter().filter(|(_, config)| config.spec.digest == digest);
            of_digest.clone().find(|(_, config)| holds(config)).map(|(at, _)| *at)
        };
        let is_verified = |config: &WindowsNodeConfig| {
            let status = config.status.as_ref().filter(|status| status.is_about(&config.spec));
            status.is_some_and(|status| status.phase == NodeConfigPhase::Verifying)
        };
        Some(Times {
            assigned: first(&|_| true)?,
            reported: first(&is_verified)?,
            confirmed: first(&|config| config.spec.is_confirmed())?,
        })
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
