//! The time to look up the images of a large cluster in registries. It is printed, not compared, because it depends on
//! the load of the machine.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use e2e::{
    certificates::Authority,
    registry::{Access, Registry, fill},
};
use tokio::sync::mpsc::unbounded_channel;
use winpool::registry::{LookupCache, LookupRequest, Registry as Client, RegistrySettings};
use winpool_core::image::{Lookup, Reference};

const PODS: usize = 10_000;
const IMAGES: usize = 200;

#[tokio::main]
async fn main() -> Result<()> {
    let authority = Authority::new()?;
    let registry = Registry::start(&authority, &Access::Anonymous).await?;
    let images: Vec<Reference> =
        fill(&registry, IMAGES).await?.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let client = Client::new(RegistrySettings { certificates: Some(authority.file()), ..RegistrySettings::default() })?;
    let (sender, mut answered) = unbounded_channel();
    let lookups = LookupCache::new(Arc::new(client), PODS, move |_| {
        let _ = sender.send(());
    });

    let begin = Instant::now();
    lookups.request(images.iter().cycle().take(PODS).map(|image| LookupRequest::from(image.clone())));
    for _ in 0..IMAGES {
        answered.recv().await;
    }
    let took = begin.elapsed();
    for image in &images {
        match lookups.get(&LookupRequest::from(image.clone())).as_deref() {
            Some(Lookup::Found(_)) => {}
            other => bail!("{image}: {other:?}"),
        }
    }
    print_result("10,000 pods with 200 images against a registry", took);
    let requests = registry.requests_of("winpool/")?;
    let manifests = requests.iter().filter(|request| request.path.contains("/manifests/")).count();
    println!("{:<58} {manifests:>12}   (goal: {IMAGES})", "  manifest requests for that");
    Ok(())
}

fn print_result(what: &str, took: Duration) {
    println!("{what:<58} {:>9.1} ms   (goal: 10 s)", took.as_secs_f64() * 1000.0);
}
