//! The compatibility of images by their platforms in a registry.

use e2e::{
    fixture::{Fixture, spec, windows},
    images::{linux, windows as for_windows},
    wait::until,
};
use serde_json::{Value, json};
use winpool_api::WorkloadCounts;

use super::{
    LOOKUP_TIMEOUT, manifests,
    objects::{IMAGE_2019, IMAGE_2022, change_image, controller, create, of_deployment, pod, push, push_index},
    registries,
};

/// Waits until a pool has these counts: all pods, those that cannot run, and the unknown ones.
pub async fn until_counts(fixture: &Fixture, pool: &str, expected: (u32, u32, u32)) {
    let counts = || async {
        let WorkloadCounts { pods, cannot_run, unknown, .. } =
            fixture.status(pool).await?.workloads.unwrap_or_default();
        Ok((pods, cannot_run, unknown))
    };
    until(&format!("pool {pool} counts {expected:?}"), LOOKUP_TIMEOUT, counts, |now| *now == expected).await.unwrap();
}

/// A pool whose RuntimeClass selects only its nodes, because other tests have pools for the same Windows version.
pub fn own(fixture: &str, more: Value) -> Value {
    let mut spec = spec(fixture, more);
    spec["runtimeClasses"] = json!([{ "name": fixture, "scope": "Pool" }]);
    spec
}

#[tokio::test]
async fn the_platforms_in_the_registry_decide_whether_an_image_runs() {
    let registries = registries().await;
    let image = |tag: &str| format!("{}/checked/app:{tag}", registries.registry.host());
    let repository = registries.registry.repository("checked/app", None);
    push_index(&repository, "both", &[IMAGE_2019, IMAGE_2022]).await;
    push(&repository, "one", &for_windows(IMAGE_2019)).await;
    push(&repository, "other", &linux("amd64")).await;

    let nodes = vec![windows("checked", 1, "10.0.20348.2700"), windows("checked-2019", 1, "10.0.17763.5329")];
    let fixture = Fixture::new(registries.shared.clone(), "checked", nodes).await.unwrap();
    fixture.apply_pool_and_wait("checked", own("checked", json!({}))).await.unwrap();
    fixture
        .apply_pool_and_wait("checked-2019", own("checked-2019", json!({ "windowsVersion": "ltsc2019" })))
        .await
        .unwrap();
    let web = pod("checked-web-5d8-x", "checked", &image("one"));
    let object = controller("Deployment", "checked-web", &web["spec"]).to_string();
    fixture.kubectl_with_input(&["create", "-f", "-"], &serde_json::from_str(&object).unwrap()).unwrap();
    create(&fixture.client, of_deployment(web, "checked-web")).await;
    for number in 1..=5 {
        create(&fixture.client, pod(&format!("checked-fits-{number}"), "checked", &image("both"))).await;
    }
    create(&fixture.client, pod("checked-linux", "checked", &image("other"))).await;

    until_counts(&fixture, "checked", (7, 2, 0)).await;
    let message = fixture.until_condition("checked", "OSMismatch", "True", "ImagesCannotRun").await.unwrap().message;
    for words in [
        format!(
            "Deployment default/checked-web: {} does not run on 10.0.20348.2700: according to its registry it is for {IMAGE_2019} \
             (ltsc2019), and the node runs only images for 10.0.20348 (ltsc2022). Rebuild it on ltsc2022, or use pool \
             checked-2019",
            image("one")
        ),
        format!(
            "Pod default/checked-linux: {} does not run on 10.0.20348.2700: according to its registry it is for linux/amd64 \
             only. Build it for ltsc2022, or select kubernetes.io/os=linux",
            image("other")
        ),
    ] {
        assert!(message.contains(&words), "{words}\nis not in\n{message}");
    }
    assert!(!message.contains("checked-fits"), "{message}");
    let message = fixture.until_event("checked-web", "ImagesCannotRun").await.unwrap();
    assert!(message.contains("according to its registry"), "{message}");
    assert_eq!(manifests(&registries.registry, "checked/app").iter().filter(|tag| *tag == "both").count(), 1);

    for pod in ["checked-web-5d8-x", "checked-linux"] {
        change_image(&fixture.client, pod, &image("both")).await;
    }
    fixture.until_absent("checked", "OSMismatch").await.unwrap();
    until_counts(&fixture, "checked", (7, 0, 0)).await;
    assert_eq!(manifests(&registries.registry, "checked/app").iter().filter(|tag| *tag == "both").count(), 1);
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn an_image_that_is_missing_in_its_registry_is_unknown_and_looked_up_again() {
    let registries = registries().await;
    let repository = registries.registry.repository("late/app", None);
    push(&repository, "other", &for_windows(IMAGE_2022)).await;
    let fixture = Fixture::with_one_node(registries.shared.clone(), "late").await.unwrap();
    fixture.apply_pool_and_wait("late", own("late", json!({}))).await.unwrap();
    create(&fixture.client, pod("late", "late", &format!("{}/late/app:1", registries.registry.host()))).await;
    until_counts(&fixture, "late", (1, 0, 1)).await;
    let requests = || async { Ok(manifests(&registries.registry, "late/app").len()) };
    until("the registry received a request", LOOKUP_TIMEOUT, requests, |count| *count > 0).await.unwrap();
    until_counts(&fixture, "late", (1, 0, 1)).await;
    fixture.until_absent("late", "OSMismatch").await.unwrap();

    // Nothing changes in the cluster.
    push(&repository, "1", &for_windows(IMAGE_2019)).await;
    until_counts(&fixture, "late", (1, 1, 0)).await;
    let message = fixture.until_condition("late", "OSMismatch", "True", "ImagesCannotRun").await.unwrap().message;
    assert!(message.contains("according to its registry"), "{message}");
    fixture.nothing_was_forbidden().unwrap();
}
