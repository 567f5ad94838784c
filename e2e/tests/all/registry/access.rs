//! Access to images, and the servers that receive credentials.

use std::sync::Arc;

use anyhow::Result;
use e2e::{
    certificates::Authority,
    images::{ManifestFormat, windows},
    registry::{LOGIN, Registry, SERVICE},
};
use serde_json::json;
use winpool_registry::{Registry as Client, RegistrySettings};

use super::{
    basic, client, credentials, described, error_of, image,
    server::{Server, answer},
    tokens::{Signer, token_server},
    trusting,
};

const BUILD: &str = "10.0.20348.3207";
const FOUND: &str = "windows/amd64 10.0.20348.3207";
const WRONG: (&str, &str) = ("puller", "battery staple");

#[tokio::test]
async fn only_private_images_of_a_registry_with_tokens_need_credentials() -> Result<()> {
    let (authority, signer) = (Authority::new()?, Arc::new(Signer::new()?));
    let tokens = token_server(&authority, Arc::clone(&signer)).await?;
    let registry = Registry::start(&authority, &signer.access(&format!("{}/token", tokens.url()))).await?;
    for name in ["public/app", "private/app"] {
        let token = format!("Bearer {}", signer.token(name, &["pull", "push"])?);
        registry.repository(name, Some(&token)).image(Some("1"), ManifestFormat::Oci, &windows(BUILD)).await?;
    }
    let (client, host) = (client(&authority)?, registry.host());
    let public = image(&format!("{host}/public/app:1"));
    let private = image(&format!("{host}/private/app:1"));

    // One anonymous token is requested for a manifest and a configuration.
    assert_eq!(described(&client.lookup(&public, &[], None).await), [FOUND]);
    assert_eq!(described(&client.lookup(&public, &[], None).await), [FOUND]);
    let [request] = &tokens.seen()[..] else { panic!("{:?}", tokens.seen()) };
    let service = SERVICE.replace(' ', "+");
    assert_eq!(request.path, format!("/token?service={service}&scope=repository%3Apublic%2Fapp%3Apull"));
    assert_eq!(request.authorization(), None);
    // The registry sent one challenge.
    let refused = registry.requests_of("winpool/")?.iter().filter(|request| request.status == 401).count();
    assert_eq!(refused, 1);

    let hidden = client.lookup(&private, &[], None).await;
    assert!(error_of(&hidden).ends_with("denies access without credentials"), "{hidden:?}");
    let wrong = client.lookup(&private, &[], Some(&credentials(&host, WRONG))).await;
    assert!(error_of(&wrong).ends_with("refuses the credentials"), "{wrong:?}");
    let right = credentials(&host, LOGIN);
    assert_eq!(described(&client.lookup(&private, &[], Some(&right)).await), [FOUND]);
    // A lookup without credentials does not get the cached result of one with credentials.
    let hidden = client.lookup(&private, &[], None).await;
    assert!(error_of(&hidden).ends_with("denies access without credentials"), "{hidden:?}");
    assert!(tokens.seen().iter().all(|request| request.path.ends_with("%3Apull")), "{:?}", tokens.seen());
    assert_no_secret(&format!("{client:?} {right:?}"));
    Ok(())
}

/// A server that answers every request with this challenge.
async fn challenging(authority: &Authority, challenge: String) -> Result<Server> {
    Server::with_handler(authority, move |_| answer(401, &[("www-authenticate", &challenge)], "")).await
}

/// Checks that a text contains no password, no encoded password and no token, which begins with the encoded JSON `{"`.
fn assert_no_secret(text: &str) {
    for login in [LOGIN, WRONG] {
        for secret in [login.1.to_owned(), basic(login).replace("Basic ", "")] {
            assert!(!text.contains(&secret), "{secret} is in {text}");
        }
    }
    assert!(!text.contains("eyJ"), "a token is in {text}");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_followed_without_credentials() -> Result<()> {
    let authority = Authority::new()?;
    let config = windows(BUILD).to_string();
    let types = ManifestFormat::Oci.media_types();
    let manifest =
        json!({ "config": e2e::images::descriptor(types.config, config.as_bytes()), "layers": [] }).to_string();
    let store = Server::with_handler(&authority, move |_| answer(200, &[], config.clone())).await?;
    // The same address under another name is another host.
    let target = store.url().replace("127.0.0.1", "localhost");
    let registry = Server::with_handler(&authority, move |path| match path {
        path if path.contains("/blobs/") => answer(307, &[("location", &format!("{target}/signed?by=registry"))], ""),
        _ => answer(200, &[], manifest.clone()),
    })
    .await?;
    let challenging = server_with_challenge(&authority, &registry).await?;
    let lookup = client(&authority)?
        .lookup(&image(&format!("{}/app:1", challenging.host())), &[], Some(&credentials(&challenging.host(), LOGIN)))
        .await;
    assert_eq!(described(&lookup), [FOUND]);
    assert!(challenging.seen().iter().any(|seen| seen.authorization() == Some(&basic(LOGIN))));
    for server in [&registry, &store] {
        assert!(!server.seen().is_empty());
        assert!(server.seen().iter().all(|seen| seen.authorization().is_none()), "{:?}", server.seen());
    }
    Ok(())
}

/// A server that requires a login, and redirects requests with one to another server.
async fn server_with_challenge(authority: &Authority, elsewhere: &Server) -> Result<Server> {
    let elsewhere = elsewhere.url();
    let router = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let logged_in = request.headers().contains_key("authorization");
        let location = format!("{elsewhere}{}", request.uri().path());
        async move {
            if logged_in {
                answer(302, &[("location", &location)], "")
            } else {
                answer(401, &[("www-authenticate", "Basic realm=\"registry\"")], "")
            }
        }
    });
    Server::start(Some(authority), router).await
}

#[tokio::test]
async fn only_the_registry_itself_can_name_a_token_server_for_credentials() -> Result<()> {
    let authority = Authority::new()?;
    let token_server = Server::with_handler(&authority, |_| answer(200, &[], r#"{"token": "t"}"#)).await?;
    let challenge = format!("Bearer realm=\"{}/token\",service=\"s\"", token_server.url());
    let store = challenging(&authority, challenge).await?;
    let location = store.url();
    let registry = Server::with_handler(&authority, move |_| answer(302, &[("location", &location)], "")).await?;
    let login = credentials(&registry.host(), LOGIN);
    let lookup = client(&authority)?.lookup(&image(&format!("{}/app:1", registry.host())), &[], Some(&login)).await;
    assert!(error_of(&lookup).contains("denies access"), "{lookup:?}");
    assert!(token_server.seen().is_empty() && store.seen().iter().all(|seen| seen.authorization().is_none()));
    Ok(())
}

#[tokio::test]
async fn a_token_server_without_tls_is_not_contacted_unless_it_is_listed() -> Result<()> {
    let authority = Authority::new()?;
    let tokens =
        Server::start(None, axum::Router::new().fallback(|| async { answer(200, &[], r#"{"token": "t"}"#) })).await?;
    let challenge = format!("Bearer realm=\"{}/token\"", tokens.url());
    let registry = challenging(&authority, challenge).await?;
    let (image, login) = (image(&format!("{}/app:1", registry.host())), credentials(&registry.host(), LOGIN));

    let lookup = client(&authority)?.lookup(&image, &[], Some(&login)).await;
    assert!(error_of(&lookup).ends_with("does not use TLS"), "{lookup:?}");
    assert!(tokens.seen().is_empty());

    let settings = RegistrySettings { plain_http: [tokens.host()].into(), ..trusting(&authority) };
    Client::new(settings)?.lookup(&image, &[], Some(&login)).await;
    assert_eq!(tokens.seen()[0].authorization(), Some(basic(LOGIN).as_str()));
    Ok(())
}

#[tokio::test]
async fn credentials_that_are_rejected_are_sent_once() -> Result<()> {
    let authority = Authority::new()?;
    let tokens = Server::with_handler(&authority, |_| answer(200, &[], r#"{"access_token": "t"}"#)).await?;
    let challenges = ["Basic realm=\"r\"".to_owned(), format!("Bearer realm=\"{}/token\"", tokens.url())];
    for challenge in challenges {
        let registry = challenging(&authority, challenge).await?;
        let (client, login) = (client(&authority)?, credentials(&registry.host(), LOGIN));
        for lookups in 1..=2 {
            let lookup = client.lookup(&image(&format!("{}/app:1", registry.host())), &[], Some(&login)).await;
            assert!(error_of(&lookup).ends_with("denies access with these credentials"), "{lookup:?}");
            let shown = registry.seen().iter().filter(|seen| seen.authorization().is_some()).count();
            assert_eq!((shown, registry.seen().len()), (lookups, 1 + lookups));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_token_is_requested_for_the_scope_that_the_registry_names() -> Result<()> {
    let authority = Authority::new()?;
    let tokens = Server::with_handler(&authority, |_| answer(200, &[], r#"{"token": "t"}"#)).await?;
    let challenge = format!("Bearer realm=\"{}/token?a=b\",scope=\"repository:hub/app:pull,push\"", tokens.url());
    let registry = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let shown = request.headers().contains_key("authorization");
        let challenge = challenge.clone();
        async move { if shown { answer(404, &[], "") } else { answer(401, &[("www-authenticate", &challenge)], "") } }
    });
    let registry = Server::start(Some(&authority), registry).await?;
    let client = client(&authority)?;
    for _ in 0..2 {
        let lookup = client.lookup(&image(&format!("{}/app:1", registry.host())), &[], None).await;
        assert!(error_of(&lookup).ends_with("has no such image"), "{lookup:?}");
    }
    let requests: Vec<String> = tokens.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(requests, ["/token?a=b&scope=repository%3Ahub%2Fapp%3Apull"]);
    Ok(())
}

#[tokio::test]
async fn a_token_server_that_sends_no_token_is_reported() -> Result<()> {
    let authority = Authority::new()?;
    let table = [
        (200, "{}".to_owned(), "sent no token"),
        (200, r#"{"token": ""}"#.to_owned(), "sent no token"),
        (200, r#"{"token": "two\nlines"}"#.to_owned(), "sent no token"),
        (200, "<html>".to_owned(), "sent no token"),
        (200, format!(r#"{{"token": "{}"}}"#, "t".repeat(1 << 20)), "the response is larger than 65536 bytes"),
        (500, String::new(), "answered 500"),
        (403, String::new(), "answered 403"),
    ];
    for (status, body, words) in table {
        let tokens = Server::with_handler(&authority, move |_| answer(status, &[], body.clone())).await?;
        let challenge = format!("Bearer realm=\"{}/token\"", tokens.url());
        let registry = challenging(&authority, challenge).await?;
        let lookup = client(&authority)?.lookup(&image(&format!("{}/app:1", registry.host())), &[], None).await;
        assert!(error_of(&lookup).contains(words) && error_of(&lookup).contains(&tokens.host()), "{words}: {lookup:?}");
        assert!(!error_of(&lookup).contains("two"), "{lookup:?}");
    }
    Ok(())
}
