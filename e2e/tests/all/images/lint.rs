//! `winpool lint --registry`.

use std::process::Command;

use e2e::{
    certificates::Authority,
    images::{linux, windows},
    operator::binary,
    registry::{Access, Registry},
};
use serde_json::{Value, json};

use super::{
    manifests,
    objects::{IMAGE_2019, IMAGE_2022, controller, push, push_index},
    text,
};

/// The exit status of lint, and the object and message of each finding about images in a registry.
fn lint(file: &str, options: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
    let output =
        Command::new(binary().unwrap()).args(["lint", "-o", "json", "-f", file]).args(options).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let findings = report["findings"].as_array().unwrap().iter();
    let of_registry = findings.filter(|finding| finding["code"] == "image-cannot-run");
    let found = of_registry.map(|finding| {
        let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        (part("object"), part("message"))
    });
    (output.status.code(), found.collect())
}

#[tokio::test]
async fn lint_contacts_a_registry_only_with_its_option() {
    let authority = Authority::new().unwrap();
    let registry = Registry::start(&authority, &Access::Anonymous).await.unwrap();
    let repository = registry.repository("linted/app", None);
    push_index(&repository, "both", &[IMAGE_2019, IMAGE_2022]).await;
    push(&repository, "one", &windows(IMAGE_2019)).await;
    push(&repository, "other", &linux("amd64")).await;

    let pool = json!({
        "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": { "name": "web" },
        "spec": { "windowsVersion": "ltsc2022", "nodeSelector": { "matchLabels": { "pool": "web" } } },
    });
    let workloads = ["both", "one", "other", "missing"].map(|tag| {
        let image = format!("{}/linted/app:{tag}", registry.host());
        let resources = json!({ "requests": { "memory": "1Gi" }, "limits": { "memory": "1Gi" } });
        let container = json!({ "name": "app", "image": image, "resources": resources });
        let mut object = controller(
            "Deployment",
            tag,
            &json!({ "runtimeClassName": "windows-ltsc2022", "containers": [container] }),
        );
        object["metadata"]["namespace"] = json!("shop");
        object
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.json");
    let items: Vec<Value> = workloads.into_iter().chain([pool]).collect();
    std::fs::write(&file, json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()).unwrap();

    let (_, found) = lint(text(&file), &[]);
    assert_eq!(found, []);
    assert_eq!(manifests(&registry, "linted/app"), Vec::<String>::new(), "no request without the option");

    let ca = authority.file();
    let (status, found) = lint(text(&file), &["--registry", "--registry-ca", text(&ca)]);
    assert_eq!(status, Some(1), "{found:?}");
    let expected = [
        (
            "Deployment shop/one",
            "is for 10.0.17763.6414 (ltsc2019), and the node runs only images for 10.0.20348 (ltsc2022)",
        ),
        ("Deployment shop/other", "is for linux/amd64 only"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((object, message), (name, words)) in found.iter().zip(expected) {
        assert!(object == name && message.contains(words), "{name} {words}: {found:#?}");
    }

    // Without its authority the registry is not trusted, and there are no findings about its images.
    assert_eq!(lint(text(&file), &["--registry"]).1, []);
    let output = Command::new(binary().unwrap())
        .args(["lint", "-f", text(&file), "--registry", "--registry-ca", "/does/not/exist"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
