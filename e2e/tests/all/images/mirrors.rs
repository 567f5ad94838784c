//! Mirrors in the profile of a pool.

use e2e::{
    fixture::{Fixture, windows},
    images::windows as for_windows,
};
use serde_json::json;

use super::{
    compatibility::{own, until_counts},
    manifests,
    objects::{IMAGE_2019, IMAGE_2022, create, pod, push},
    registries,
};

#[tokio::test]
async fn a_mirror_of_the_profile_is_contacted_before_the_registry() {
    let registries = registries().await;
    for (registry, version) in [(&registries.registry, IMAGE_2019), (&registries.mirror, IMAGE_2022)] {
        push(&registry.repository("mirrored/app", None), "1", &for_windows(version)).await;
    }
    let host = registries.registry.host();
    push(&registries.registry.repository("unmirrored/app", None), "1", &for_windows(IMAGE_2019)).await;
    let fixture = Fixture::new(registries.shared.clone(), "mirrored", vec![windows("mirrored", 1, "10.0.20348.1")])
        .await
        .unwrap();
    let mirror = json!({ "registry": host, "endpoints": [format!("https://{}", registries.mirror.host())] });
    fixture.apply_profile("mirrored", json!({ "containerd": { "registryMirrors": [mirror] } })).await.unwrap();
    fixture
        .apply_pool_and_wait("mirrored", own("mirrored", json!({ "profileRef": { "name": "mirrored" } })))
        .await
        .unwrap();
    create(&fixture.client, pod("mirrored", "mirrored", &format!("{host}/mirrored/app:1"))).await;
    create(&fixture.client, pod("unmirrored", "mirrored", &format!("{host}/unmirrored/app:1"))).await;

    until_counts(&fixture, "mirrored", (2, 1, 0)).await;
    let message = fixture.until_condition("mirrored", "OSMismatch", "True", "ImagesCannotRun").await.unwrap().message;
    assert!(message.contains("Pod default/unmirrored:"), "{message}");
    assert_eq!(manifests(&registries.mirror, "mirrored/app").len(), 1);
    assert!(manifests(&registries.registry, "mirrored/app").is_empty(), "the mirror has it");
    assert_eq!(manifests(&registries.mirror, "unmirrored/app").len(), 1);
    assert_eq!(manifests(&registries.registry, "unmirrored/app").len(), 1, "the mirror does not have it");
    fixture.nothing_was_forbidden().unwrap();
}
