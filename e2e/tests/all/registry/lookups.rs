//! The cache of lookups, and the number of requests.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use e2e::{
    certificates::Authority,
    images::{ManifestFormat, descriptor, on, windows},
    registry::fill,
    wait::eventually,
};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use winpool_core::image::{Lookup, Reference};
use winpool_registry::{LookupCache, LookupRequest, Registry as Client, RegistrySettings};

use super::{
    anonymous, client, image,
    server::{Server, answer},
    trusting,
};

const SOON: Duration = Duration::from_secs(120);

/// A cache, and the images whose lookups are complete.
fn lookup_cache(client: Client, most: usize) -> (LookupCache, UnboundedReceiver<Reference>) {
    let (sender, receiver) = unbounded_channel();
    let lookups = LookupCache::new(Arc::new(client), most, move |image| drop(sender.send(image.clone())));
    (lookups, receiver)
}

fn index() -> String {
    let entry = on(descriptor(ManifestFormat::Oci.media_types().manifest, b"{}"), &windows("10.0.20348.1"));
    json!({ "schemaVersion": 2, "manifests": [entry] }).to_string()
}

#[tokio::test]
async fn ten_thousand_pods_with_two_hundred_images_take_one_manifest_request_for_each() -> Result<()> {
    let (authority, registry) = anonymous().await?;
    let images: Vec<Reference> = fill(&registry, 200).await?.iter().map(|text| image(text)).collect();
    let (lookups, mut answered) = lookup_cache(client(&authority)?, 1000);
    for pods in images.iter().cycle().take(10_000).collect::<Vec<_>>().chunks(100) {
        lookups.request(pods.iter().map(|image| LookupRequest::from((*image).clone())));
    }
    let mut reported = BTreeSet::new();
    while reported.len() < images.len() {
        reported.extend(tokio::time::timeout(SOON, answered.recv()).await?.map(|image| image.to_string()));
    }
    let mut found = BTreeSet::new();
    for image in &images {
        match lookups.get(&image.clone().into()).as_deref() {
            Some(Lookup::Found(content)) => found.extend(content.platforms.iter().map(ToString::to_string)),
            other => panic!("{image}: {other:?}"),
        }
    }
    assert_eq!(found.len(), 200, "each has another Windows version");
    // Further requests for the same images start no lookup.
    lookups.request(images.iter().cloned().map(LookupRequest::from));
    let requests = registry.requests_of("winpool/")?;
    let manifests: Vec<&str> =
        requests.iter().map(|request| request.path.as_str()).filter(|path| path.contains("/manifests/")).collect();
    assert_eq!(manifests.len(), 200);
    assert_eq!(manifests.iter().collect::<BTreeSet<_>>().len(), 200, "one for each");
    assert_eq!(requests.len(), 400, "and one for its configuration");
    assert!(answered.try_recv().is_err(), "each is reported once");
    Ok(())
}

#[tokio::test]
async fn lookups_run_concurrently_up_to_a_limit_per_host() -> Result<()> {
    let authority = Authority::new()?;
    let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&at_once), Arc::clone(&most));
    let slow = axum::Router::new().fallback(move || {
        let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(300)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            index()
        }
    });
    let slow = Server::start(Some(&authority), slow).await?;
    let quick = Server::with_handler(&authority, |_| answer(200, &[], index())).await?;
    let settings = RegistrySettings { concurrency: 4, concurrency_per_host: 2, ..trusting(&authority) };
    let (lookups, mut answered) = lookup_cache(Client::new(settings)?, 100);
    let at = |server: &Server, number| image(&format!("{}/team/app:{number}", server.host()));
    lookups.request((0..12).map(|number| at(&slow, number).into()));
    lookups.request([at(&quick, 1).into()]);
    // Each of the twelve takes longer than this one, which does not wait for them.
    let mut before = 0;
    while answered.recv().await.is_some_and(|image| image != at(&quick, 1)) {
        before += 1;
    }
    assert!(before < 8, "{before} of the slow ones came first");
    for _ in before..12 {
        answered.recv().await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
    Ok(())
}

#[tokio::test]
async fn lookups_end_with_their_owner() -> Result<()> {
    let authority = Authority::new()?;
    let silent = axum::Router::new().fallback(|| async {
        tokio::time::sleep(SOON).await;
    });
    let server = Server::start(Some(&authority), silent).await?;
    let (lookups, mut answered) = lookup_cache(client(&authority)?, 10);
    lookups.request([LookupRequest::from(image(&format!("{}/team/app:1", server.host())))]);
    eventually("the server has received the request", SOON, || async {
        ensure!(!server.seen().is_empty());
        Ok(())
    })
    .await?;
    drop(lookups);
    // The channel closes when the last task with a sender has ended.
    let closed = tokio::time::timeout(SOON, answered.recv()).await?;
    assert_eq!(closed, None);
    Ok(())
}
