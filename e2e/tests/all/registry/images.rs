//! Lookups of images with the structure of those in public registries.

use anyhow::Result;
use e2e::images::{ManifestFormat, descriptor, linux, on, windows};
use serde_json::json;

use super::{
    anonymous, client, described, error_of, image,
    server::{Server, answer},
};

const BUILDS: [&str; 3] = ["10.0.17763.7009", "10.0.20348.3207", "10.0.26100.3194"];

#[tokio::test]
async fn the_platforms_of_each_kind_of_image_are_read_without_its_layers() -> Result<()> {
    let (authority, registry) = anonymous().await?;
    let all: Vec<String> = BUILDS.iter().map(|build| format!("windows/amd64 {build}")).collect();
    let everything = [vec!["linux/amd64".to_owned(), "linux/arm64".to_owned()], all.clone()].concat();
    for (name, format) in [("oci", ManifestFormat::Oci), ("docker", ManifestFormat::Docker)] {
        let repository = registry.repository(&format!("team/{name}"), None);
        let mut windows_entries = Vec::new();
        for build in BUILDS {
            let platform = windows(build);
            windows_entries.push(on(repository.image(None, format, &platform).await?, &platform));
        }
        let mut entries = windows_entries.clone();
        for architecture in ["amd64", "arm64"] {
            let platform = linux(architecture);
            entries.push(on(repository.image(None, format, &platform).await?, &platform));
        }
        // The provenance attestation that a build adds to an image.
        let attestation = repository.image(None, format, &linux("amd64")).await?;
        entries.push(on(attestation, &json!({ "os": "unknown", "architecture": "unknown" })));
        repository.index(Some("all"), format, &entries).await?;
        let of_windows = repository.index(None, format, &windows_entries).await?;
        let of_linux = repository.index(None, format, &entries[BUILDS.len()..]).await?;
        repository.index(Some("nested"), format, &[of_windows, of_linux]).await?;
        let single = repository.image(Some("single"), format, &windows(BUILDS[1])).await?;
        repository.image(Some("linux"), format, &linux("amd64")).await?;
        repository.image(Some("unversioned"), format, &json!({ "os": "windows", "architecture": "amd64" })).await?;
        // An index without platforms.
        repository.index(Some("silent"), format, std::slice::from_ref(&single)).await?;

        let client = client(&authority)?;
        let (one, digest) = (vec![all[1].clone()], single["digest"].as_str().unwrap_or_default());
        let table = [
            (":all".to_owned(), everything.clone()),
            (":nested".to_owned(), everything.clone()),
            (":single".to_owned(), one.clone()),
            (format!("@{digest}"), one.clone()),
            (format!(":gone@{digest}"), one.clone()),
            (":silent".to_owned(), one),
            (":linux".to_owned(), vec!["linux/amd64".to_owned()]),
            (":unversioned".to_owned(), vec!["windows/amd64".to_owned()]),
        ];
        for (suffix, expected) in table {
            let image = image(&format!("{}/team/{name}{suffix}", registry.host()));
            assert_eq!(described(&client.lookup(&image, &[], None).await), expected, "{image}");
        }
    }
    let requests = registry.requests_of("winpool/")?;
    let blobs: Vec<&str> =
        requests.iter().map(|request| request.path.as_str()).filter(|path| path.contains("/blobs/")).collect();
    let layers = [e2e::images::GZIP, e2e::images::ZSTD].map(e2e::images::digest);
    assert!(!blobs.is_empty(), "configurations are read");
    assert!(layers.iter().all(|layer| blobs.iter().all(|path| !path.ends_with(layer))), "{blobs:?}");
    // A single image takes requests for its manifest and configuration, an index one request.
    let all = requests.iter().filter(|request| request.path.ends_with("/manifests/all")).count();
    assert_eq!((all, requests.len()), (2, 2 * (1 + 3 + 2 + 2 + 2 + 3 + 2 + 2)));
    Ok(())
}

#[tokio::test]
async fn a_missing_image_and_another_artifact_are_reported() -> Result<()> {
    let (authority, registry) = anonymous().await?;
    let (repository, types) = (registry.repository("charts", None), ManifestFormat::Oci.media_types());
    let config = repository.blob("application/vnd.cncf.helm.config.v1+json", b"{}").await?;
    let chart = json!({ "schemaVersion": 2, "mediaType": types.manifest, "config": config, "layers": [] });
    repository.document(Some("chart"), types.manifest, &chart).await?;
    let empty = repository.blob(types.config, b"{}").await?;
    let silent = json!({ "schemaVersion": 2, "mediaType": types.manifest, "config": empty, "layers": [] });
    repository.document(Some("silent"), types.manifest, &silent).await?;

    let (client, host) = (client(&authority)?, registry.host());
    let table = [
        ("charts:chart", "not a container image"),
        ("charts:silent", "the image configuration has no platform"),
        ("charts:gone", "has no such image"),
        ("nobody/knows:1", "has no such image"),
    ];
    for (name, words) in table {
        let lookup = client.lookup(&image(&format!("{host}/{name}")), &[], None).await;
        assert!(error_of(&lookup).contains(words) && error_of(&lookup).contains(&host), "{name}: {lookup:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_content_of_a_digest_is_verified() -> Result<()> {
    let authority = e2e::certificates::Authority::new()?;
    let types = ManifestFormat::Oci.media_types();
    let config = windows(BUILDS[0]).to_string();
    // The server sends another configuration of the same size.
    let expected = windows(BUILDS[1]).to_string();
    let manifest = json!({ "schemaVersion": 2, "config": descriptor(types.config, expected.as_bytes()), "layers": [] });
    let manifest = manifest.to_string();
    let digest = e2e::images::digest(manifest.as_bytes());
    let body = manifest.clone();
    let server = Server::with_handler(&authority, move |path| {
        answer(200, &[], if path.contains("/blobs/") { config.clone() } else { body.clone() })
    })
    .await?;
    let client = client(&authority)?;
    let other = e2e::images::digest(b"something else");
    for (name, of) in
        [(format!("app@{other}"), other.as_str()), (format!("app@{digest}"), ""), ("app:1".to_owned(), "")]
    {
        let lookup = client.lookup(&image(&format!("{}/{name}", server.host())), &[], None).await;
        let of = if of.is_empty() { e2e::images::digest(expected.as_bytes()) } else { of.to_owned() };
        assert!(error_of(&lookup).contains(&format!("the content does not match {of}")), "{name}: {lookup:?}");
    }
    Ok(())
}
