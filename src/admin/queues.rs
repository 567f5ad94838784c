//! The depth of the queues, read at each scrape.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

type Depth = Box<dyn Fn() -> usize + Send + Sync>;

/// The queues by controller.
#[derive(Default)]
pub(super) struct Queues(Mutex<BTreeMap<&'static str, Depth>>);

impl Queues {
    pub(super) fn add(&self, controller: &'static str, depth: impl Fn() -> usize + Send + Sync + 'static) {
        self.lock().insert(controller, Box::new(depth));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Depth>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let help = "Objects that wait for a reconcile";
        let mut family = encoder.encode_descriptor("queue_depth", help, None, MetricType::Gauge)?;
        for (controller, depth) in self.lock().iter() {
            let depth = i64::try_from(depth()).unwrap_or(i64::MAX);
            family.encode_family(&[("controller", *controller)])?.encode_gauge(&depth)?;
        }
        Ok(())
    }
}
