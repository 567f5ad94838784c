//! Verdicts by what a registry says.

use e2e::{
    images::{linux, windows as for_windows},
    wait::until,
};
use serde_json::{Value, json};
use winpool::api::WorkloadCounts;

use crate::{
    PATIENCE,
    common::{Scene, spec, windows},
    house, manifests,
    objects::{IMAGE_2019, IMAGE_2022, change_image, create, maker, of_deployment, pod, push, push_index},
};

/// Waits until a pool counts so many pods, of which so many cannot run, and of so many nobody knows.
pub async fn until_counts(scene: &Scene, pool: &str, expected: (u32, u32, u32)) {
    let counts = || async {
        let WorkloadCounts { pods, cannot_run, unknown, .. } = scene.status(pool).await?.workloads.unwrap_or_default();
        Ok((pods, cannot_run, unknown))
    };
    until(&format!("pool {pool} counts {expected:?}"), PATIENCE, counts, |now| *now == expected).await.unwrap();
}

/// A pool whose RuntimeClass leads to its own nodes: other tests have pools of the same Windows.
pub fn own(scene: &str, more: Value) -> Value {
    let mut spec = spec(scene, more);
    spec["runtimeClasses"] = json!([{ "name": scene, "scope": "Pool" }]);
    spec
}

#[tokio::test]
async fn an_image_is_judged_by_its_registry_until_it_is_one_that_fits() {
    let Some(house) = house("an_image_is_judged_by_its_registry_until_it_is_one_that_fits").await else { return };
    let image = |tag: &str| format!("{}/judged/app:{tag}", house.registry.host());
    let repository = house.registry.repository("judged/app", None);
    push_index(&repository, "both", &[IMAGE_2019, IMAGE_2022]).await;
    push(&repository, "one", &for_windows(IMAGE_2019)).await;
    push(&repository, "other", &linux("amd64")).await;

    let nodes = vec![windows("judged", 1, "10.0.20348.2700"), windows("judged-2019", 1, "10.0.17763.5329")];
    let scene = Scene::open(&house.stage, "judged", nodes).await;
    scene.settled_pool("judged", own("judged", json!({}))).await;
    scene.settled_pool("judged-2019", own("judged-2019", json!({ "windowsVersion": "ltsc2019" }))).await;
    let web = pod("judged-web-5d8-x", "judged", &image("one"));
    let object = maker("Deployment", "judged-web", &web["spec"]).to_string();
    scene.stage.kubectl_with_input(&["create", "-f", "-"], &serde_json::from_str(&object).unwrap()).unwrap();
    create(&scene.client, of_deployment(web, "judged-web")).await;
    for number in 1..=5 {
        create(&scene.client, pod(&format!("judged-fits-{number}"), "judged", &image("both"))).await;
    }
    create(&scene.client, pod("judged-linux", "judged", &image("other"))).await;

    until_counts(&scene, "judged", (7, 2, 0)).await;
    let message = scene.until("judged", "OSMismatch", "True", "ImagesCannotRun").await;
    for words in [
        format!(
            "Deployment default/judged-web: {} does not run on 10.0.20348.2700: by its registry it is for {IMAGE_2019} (ltsc2019), \
             the host runs images of 10.0.20348 (ltsc2022) only: rebuild it on ltsc2022, or use pool judged-2019",
            image("one")
        ),
        format!(
            "Pod default/judged-linux: {} does not run on 10.0.20348.2700: by its registry it is for linux/amd64 only: \
             build it for ltsc2022, or select kubernetes.io/os=linux",
            image("other")
        ),
    ] {
        assert!(message.contains(&words), "{words}\nis not in\n{message}");
    }
    assert!(!message.contains("judged-fits"), "{message}");
    let told = scene.until_event("judged-web", "ImagesCannotRun").await;
    assert!(told.contains("by its registry"), "{told}");
    assert_eq!(manifests(&house.registry, "judged/app").iter().filter(|tag| *tag == "both").count(), 1);

    for pod in ["judged-web-5d8-x", "judged-linux"] {
        change_image(&scene.client, pod, &image("both")).await;
    }
    scene.until("judged", "OSMismatch", "False", "Matched").await;
    until_counts(&scene, "judged", (7, 0, 0)).await;
    assert_eq!(manifests(&house.registry, "judged/app").iter().filter(|tag| *tag == "both").count(), 1);
    scene.close().await;
}

#[tokio::test]
async fn an_image_that_its_registry_does_not_have_is_unknown_and_asked_for_again() {
    let name = "an_image_that_its_registry_does_not_have_is_unknown_and_asked_for_again";
    let Some(house) = house(name).await else { return };
    let repository = house.registry.repository("late/app", None);
    push(&repository, "other", &for_windows(IMAGE_2022)).await;
    let scene = Scene::with_a_node(&house.stage, "late").await;
    scene.settled_pool("late", own("late", json!({}))).await;
    create(&scene.client, pod("late", "late", &format!("{}/late/app:1", house.registry.host()))).await;
    until_counts(&scene, "late", (1, 0, 1)).await;
    let asked = || async { Ok(manifests(&house.registry, "late/app").len()) };
    until("the registry was asked", PATIENCE, asked, |count| *count > 0).await.unwrap();
    until_counts(&scene, "late", (1, 0, 1)).await;
    scene.until("late", "OSMismatch", "False", "Matched").await;

    // Nothing changes in the cluster.
    push(&repository, "1", &for_windows(IMAGE_2019)).await;
    until_counts(&scene, "late", (1, 1, 0)).await;
    let message = scene.until("late", "OSMismatch", "True", "ImagesCannotRun").await;
    assert!(message.contains("by its registry"), "{message}");
    scene.close().await;
}
