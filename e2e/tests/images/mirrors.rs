//! Mirrors of the profile of a pool.

use e2e::images::windows as for_windows;
use serde_json::json;

use crate::{
    common::{Scene, windows},
    house, manifests,
    objects::{IMAGE_2019, IMAGE_2022, create, pod, push},
    verdicts::{own, until_counts},
};

#[tokio::test]
async fn a_mirror_of_the_profile_is_asked_before_the_registry() {
    let Some(house) = house("a_mirror_of_the_profile_is_asked_before_the_registry").await else { return };
    for (registry, version) in [(&house.registry, IMAGE_2019), (&house.mirror, IMAGE_2022)] {
        push(&registry.repository("mirrored/app", None), "1", &for_windows(version)).await;
    }
    let host = house.registry.host();
    push(&house.registry.repository("unmirrored/app", None), "1", &for_windows(IMAGE_2019)).await;
    let scene = Scene::open(&house.stage, "mirrored", vec![windows("mirrored", 1, "10.0.20348.1")]).await;
    let mirror = json!({ "registry": host, "endpoints": [format!("https://{}", house.mirror.host())] });
    scene.profile("mirrored", json!({ "containerd": { "registryMirrors": [mirror] } })).await;
    scene.settled_pool("mirrored", own("mirrored", json!({ "profileRef": { "name": "mirrored" } }))).await;
    create(&scene.client, pod("mirrored", "mirrored", &format!("{host}/mirrored/app:1"))).await;
    create(&scene.client, pod("unmirrored", "mirrored", &format!("{host}/unmirrored/app:1"))).await;

    until_counts(&scene, "mirrored", (2, 1, 0)).await;
    let message = scene.until("mirrored", "OSMismatch", "True", "ImagesCannotRun").await;
    assert!(message.contains("Pod default/unmirrored:"), "{message}");
    assert_eq!(manifests(&house.mirror, "mirrored/app").len(), 1);
    assert!(manifests(&house.registry, "mirrored/app").is_empty(), "the mirror has it");
    assert_eq!(manifests(&house.mirror, "unmirrored/app").len(), 1);
    assert_eq!(manifests(&house.registry, "unmirrored/app").len(), 1, "the mirror does not have it");
    scene.close().await;
}
