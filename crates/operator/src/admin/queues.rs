//! The depth of the queues, read at each scrape.

use std::{collections::BTreeMap, fmt};

use parking_lot::Mutex;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

type Depth = Box<dyn Fn() -> usize + Send + Sync>;

#[derive(Default)]
pub(super) struct Queues(Mutex<BTreeMap<&'static str, Depth>>);

impl Queues {
    pub(super) fn add(&self, controller: &'static str, depth: impl Fn() -> usize + Send + Sync + 'static) {
        self.0.lock().insert(controller, Box::new(depth));
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let help = "Objects that wait for a reconcile";
        let mut family = encoder.encode_descriptor("queue_depth", help, None, MetricType::Gauge)?;
        for (controller, depth) in self.0.lock().iter() {
            let depth = i64::try_from(depth()).unwrap_or(i64::MAX);
            family.encode_family(&[("controller", *controller)])?.encode_gauge(&depth)?;
        }
        Ok(())
    }
}
