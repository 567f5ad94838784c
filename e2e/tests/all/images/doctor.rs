//! `winpool doctor --registry`.

use e2e::{control_plane::User, fixture::Fixture, images::windows, kubelet::Refusal, operator::winpool, wait::until};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{
    LOOKUP_TIMEOUT, manifests,
    objects::{IMAGE_2019, create, pods, push},
    registries, text,
};

#[tokio::test]
async fn doctor_finds_an_image_without_a_variant_for_the_node_only_with_the_registry() {
    let registries = registries().await;
    let image = format!("{}/diagnosed/app:one", registries.registry.host());
    push(&registries.registry.repository("diagnosed/app", None), "one", &windows(IMAGE_2019)).await;
    let fixture = Fixture::with_one_node(registries.shared.clone(), "diagnosed").await.unwrap();
    fixture.kubelets.refuse(&image, Refusal::Image("failed to pull image: not found".to_owned()));
    let spec = json!({ "nodeName": "diagnosed-1", "containers": [{ "name": "app", "image": image }] });
    create(
        &fixture.client,
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "diagnosed" }, "spec": spec }),
    )
    .await;
    let pod = || async { Ok(pods(&fixture.client).get("diagnosed").await?) };
    let is_refused = |pod: &Pod| json!(pod)["status"]["containerStatuses"][0].is_object();
    until("the image is refused", LOOKUP_TIMEOUT, pod, is_refused).await.unwrap();

    let ca = registries.authority.file();
    let verdict = |options: &[&str]| {
        let arguments = [&["doctor", "pod/diagnosed", "-o", "json"], options].concat();
        let output = winpool(&fixture.control_plane, User::OtherA, &arguments).unwrap();
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let of =
            |list: &str| printed[list].as_array().unwrap().iter().find(|one| one["id"] == "image-platform").cloned();
        (
            of("found").map(|found| found["evidence"].clone()),
            of("notDeterminable").map(|found| found["because"].clone()),
        )
    };
    assert_eq!(verdict(&[]), (None, Some(json!("platforms of images are not read: give --registry"))));
    assert_eq!(manifests(&registries.registry, "diagnosed/app"), Vec::<String>::new(), "no request without the option");
    let why =
        format!("{image} is for {IMAGE_2019} (ltsc2019), and the node runs only images for 10.0.20348 (ltsc2022)");
    let expected = json!([{ "object": "Pod default/diagnosed", "place": "container app", "text": why }]);
    assert_eq!(verdict(&["--registry", "--registry-ca", text(&ca)]), (Some(expected), None));
    let (found, because) = verdict(&["--registry"]);
    let because = because.unwrap().to_string();
    assert!(found.is_none() && because.contains(&format!("the platforms do not show it ({image}: ")), "{because}");
}
