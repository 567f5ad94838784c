//! The objects that create pods, by kind.

use std::{marker::PhantomData, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::{CronJob, Job},
};
use winpool_core::{Named, Objects};

use super::{Controller, PodController, Shared};

/// An object of kind `T` that creates pods.
#[derive(Debug, PartialEq)]
pub struct ControllerView<T> {
    /// The fields that the rules read.
    pub controller: Arc<Controller>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Named for ControllerView<T> {
    fn name(&self) -> &str {
        &self.controller.key
    }
}

impl<T: PodController> ControllerView<T> {
    pub fn read(object: T, shared: &mut Shared) -> Self {
        Self { controller: Arc::new(Controller::read(object, shared)), kind: PhantomData }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Controllers {
    pub deployments: Objects<ControllerView<Deployment>>,
    pub stateful_sets: Objects<ControllerView<StatefulSet>>,
    pub daemon_sets: Objects<ControllerView<DaemonSet>>,
    pub jobs: Objects<ControllerView<Job>>,
    /// Only the command line reads them.
    pub cron_jobs: Objects<ControllerView<CronJob>>,
}

impl Controllers {
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Controller>> {
        fn of<T>(objects: &Objects<ControllerView<T>>) -> impl Iterator<Item = &Arc<Controller>> {
            objects.values().map(|view| &view.controller)
        }
        let long_running = of(&self.deployments).chain(of(&self.stateful_sets)).chain(of(&self.daemon_sets));
        long_running.chain(of(&self.jobs)).chain(of(&self.cron_jobs))
    }
}
