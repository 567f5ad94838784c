//! The mirrors of a registry.

use anyhow::Result;
use e2e::{
    certificates::Authority,
    images::{ManifestFormat, windows},
    registry::LOGIN,
};
use serde_json::json;

use super::{
    client, credentials, described, error_of, image,
    server::{Server, answer},
};

const OF_MIRROR: &str = "windows/amd64 10.0.20348.1";
const OF_REGISTRY: &str = "windows/amd64 10.0.20348.2";

/// A server that returns an image of this version for every request.
async fn with_image(authority: &Authority, version: &str) -> Result<Server> {
    let types = ManifestFormat::Oci.media_types();
    let mut entry = e2e::images::descriptor(types.manifest, b"{}");
    entry["platform"] = windows(version);
    let index = json!({ "schemaVersion": 2, "manifests": [entry] }).to_string();
    Server::with_handler(authority, move |_| answer(200, &[], index.clone())).await
}

#[tokio::test]
async fn mirrors_are_contacted_before_the_registry() -> Result<()> {
    let authority = Authority::new()?;
    let registry = with_image(&authority, "10.0.20348.2").await?;
    let mirror = with_image(&authority, "10.0.20348.1").await?;
    let empty = Server::with_handler(&authority, |_| answer(404, &[], "")).await?;
    let broken = Server::with_handler(&authority, |_| answer(200, &[], "<html>")).await?;
    let untrusted = with_image(&Authority::new()?, "10.0.20348.3").await?;
    let host = registry.host();
    let image = image(&format!("{host}/team/app:1"));
    let nowhere = "https://127.0.0.1:1".to_owned();
    let table = [
        (vec![mirror.url()], OF_MIRROR),
        (vec![empty.url(), mirror.url()], OF_MIRROR),
        (vec![nowhere.clone(), mirror.url()], OF_MIRROR),
        (vec![empty.url()], OF_REGISTRY),
        (vec![broken.url()], OF_REGISTRY),
        (vec![untrusted.url()], OF_REGISTRY),
        (vec![nowhere], OF_REGISTRY),
        (vec!["not an address".to_owned()], OF_REGISTRY),
        (vec![], OF_REGISTRY),
    ];
    for (mirrors, expected) in table {
        let lookup = client(&authority)?.lookup(&image, &mirrors, None).await;
        assert_eq!(described(&lookup), [expected], "{mirrors:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_image_that_neither_mirror_nor_registry_has_is_reported_with_both_errors() -> Result<()> {
    let authority = Authority::new()?;
    let mirror = Server::with_handler(&authority, |_| answer(404, &[], "")).await?;
    let registry = Server::with_handler(&authority, |_| answer(403, &[], "")).await?;
    let image = image(&format!("{}/team/app:1", registry.host()));
    let lookup = client(&authority)?.lookup(&image, &[mirror.url()], None).await;
    let expected =
        format!("{} has no such image; {} denies access without credentials", mirror.host(), registry.host());
    assert_eq!(error_of(&lookup), expected);
    Ok(())
}

#[tokio::test]
async fn neither_a_mirror_nor_its_registry_gets_the_credentials_of_the_other() -> Result<()> {
    let authority = Authority::new()?;
    for of_mirror in [false, true] {
        let demand = |_: &str| answer(401, &[("www-authenticate", "Basic realm=\"r\"")], "");
        let (mirror, registry) =
            (Server::with_handler(&authority, demand).await?, Server::with_handler(&authority, demand).await?);
        let (owner, other) = if of_mirror { (&mirror, &registry) } else { (&registry, &mirror) };
        let image = image(&format!("{}/team/app:1", registry.host()));
        let login = credentials(&owner.host(), LOGIN);
        client(&authority)?.lookup(&image, &[mirror.url()], Some(&login)).await;
        let shown = |server: &Server| server.seen().iter().filter(|seen| seen.authorization().is_some()).count();
        // A rejected password is not sent again.
        assert_eq!((shown(owner), shown(other)), (1, 0));
        assert!(!other.seen().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn a_mirror_over_plain_http_receives_no_credentials() -> Result<()> {
    let authority = Authority::new()?;
    let challenge = || async { answer(401, &[("www-authenticate", "Basic realm=\"m\"")], "") };
    let mirror = Server::start(None, axum::Router::new().fallback(challenge)).await?;
    let registry = with_image(&authority, "10.0.20348.2").await?;
    let image = image(&format!("{}/team/app:1", registry.host()));
    let login = credentials(&mirror.host(), LOGIN);
    let lookup = client(&authority)?.lookup(&image, &[mirror.url()], Some(&login)).await;
    assert_eq!(described(&lookup), [OF_REGISTRY]);
    assert!(!mirror.seen().is_empty() && mirror.seen().iter().all(|seen| seen.authorization().is_none()));
    Ok(())
}
