//! Slow, unreachable and malicious servers: time and memory are bounded, and each failure has an error message.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use axum::body::Body;
use e2e::{
    certificates::Authority,
    images::{ManifestFormat, descriptor, windows},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use winpool_registry::{Registry as Client, RegistrySettings};

use super::{
    client, client_with_short_limits, error_of, image,
    server::{Server, answer, slow_body},
    trusting,
};

/// The error of a lookup at this server.
async fn lookup_error(client: &Client, host: &str) -> String {
    error_of(&client.lookup(&image(&format!("{host}/team/app:1")), &[], None).await).to_owned()
}

#[tokio::test]
async fn a_request_to_a_slow_server_times_out() -> Result<()> {
    let authority = Authority::new()?;
    let silent = axum::Router::new().fallback(|| async {
        tokio::time::sleep(Duration::from_secs(600)).await;
    });
    let silent = Server::start(Some(&authority), silent).await?;
    // Each byte is within the time limit, but not the whole response.
    let slow = Server::with_handler(&authority, |_| {
        answer(200, &[], slow_body(10_000, b" ", Duration::from_millis(50), Arc::default()))
    })
    .await?;
    for server in [&silent, &slow] {
        let client = client_with_short_limits(&authority)?;
        let error = lookup_error(&client, &server.host()).await;
        assert!(error.contains("did not answer within 0.5 s, no requests until 2"), "{error}");
        // The next lookup fails immediately.
        let before = server.seen().len();
        let error = lookup_error(&client, &server.host()).await;
        assert!(error.contains("failed before, no requests until 2"), "{error}");
        assert_eq!(server.seen().len(), before);
    }
    Ok(())
}

#[tokio::test]
async fn the_time_limit_of_a_lookup_covers_all_its_requests() -> Result<()> {
    let authority = Authority::new()?;
    let (top, parts) = index_of_indexes(20);
    let slow = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let body = body_of(&parts, request.uri().path()).unwrap_or(&top).clone();
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            body
        }
    });
    let server = Server::start(Some(&authority), slow).await?;
    let client = client_with_short_limits(&authority)?;
    let error = lookup_error(&client, &server.host()).await;
    assert!(error.ends_with("the lookup took longer than 1.5 s"), "{error}");
    assert!((2..8).contains(&server.seen().len()), "{}", server.seen().len());
    Ok(())
}

/// An index of `count` empty indexes, and these.
fn index_of_indexes(count: usize) -> (String, Vec<String>) {
    let parts: Vec<String> = (0..count).map(|number| format!(r#"{{"manifests": [], "number": {number}}}"#)).collect();
    let entries: Vec<Value> = parts.iter().map(|part| entry(part)).collect();
    (json!({ "schemaVersion": 2, "manifests": entries }).to_string(), parts)
}

fn entry(body: &str) -> Value {
    descriptor(ManifestFormat::Oci.media_types().index, body.as_bytes())
}

/// The body whose digest a path contains.
fn body_of<'a>(bodies: &'a [String], path: &str) -> Option<&'a String> {
    bodies.iter().find(|body| path.ends_with(&e2e::images::digest(body.as_bytes())))
}

#[tokio::test]
async fn a_response_that_is_too_large_is_not_read() -> Result<()> {
    const PIECE: &[u8] = &[b' '; 64 << 10];
    const PIECES: usize = 200 << 4;
    let authority = Authority::new()?;
    let client = client(&authority)?;
    for claims in [None, Some((PIECES * PIECE.len()).to_string())] {
        let taken = Arc::new(AtomicU64::new(0));
        let (count, claimed) = (Arc::clone(&taken), claims.clone());
        let server = Server::with_handler(&authority, move |_| {
            let body: Body = slow_body(PIECES, PIECE, Duration::ZERO, Arc::clone(&count));
            match &claimed {
                Some(length) => answer(200, &[("content-length", length)], body),
                None => answer(200, &[], body),
            }
        })
        .await?;
        let error = lookup_error(&client, &server.host()).await;
        assert!(error.contains("the response is larger than 4194304 bytes"), "{error}");
        // The bytes that were read or are buffered on both sides of the connection, which limits the memory.
        let taken = taken.load(Ordering::Relaxed) >> 20;
        assert!(taken < 24, "{taken} MiB were sent of 200");
    }
    Ok(())
}

#[tokio::test]
async fn a_response_that_is_not_http_or_ends_early_is_reported() -> Result<()> {
    let authority = Authority::new()?;
    let index = index_of_indexes(0).0;
    for (what, raw) in [
        ("shorter than it says", format!("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{index}")),
        ("not http", "SSH-2.0-OpenSSH_9.2\r\n".to_owned()),
        ("nothing", String::new()),
        ("headers without end", format!("HTTP/1.1 200 OK\r\n{}", "X-Long: yes\r\n".repeat(100_000))),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let host = listener.local_addr()?.to_string();
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(raw.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        let client = Client::new(RegistrySettings { plain_http: [host.clone()].into(), ..trusting(&authority) })?;
        let error = lookup_error(&client, &host).await;
        assert!(error.contains("sent no valid response") && error.contains(&host), "{what}: {error}");
        server.abort();
    }
    Ok(())
}

#[tokio::test]
async fn a_descriptor_with_a_wrong_size_is_reported() -> Result<()> {
    let authority = Authority::new()?;
    let config = windows("10.0.20348.1").to_string();
    let table = [
        (config.len() as u64 - 1, "67 bytes instead of 66", 2),
        (config.len() as u64 + 1, "67 bytes instead of 68", 2),
        // A blob whose descriptor states a size above the limit is not requested.
        (2 << 20, "is larger than 1048576 bytes", 1),
        (u64::MAX, "is larger than 1048576 bytes", 1),
    ];
    for (size, words, requests) in table {
        let mut claimed = descriptor(ManifestFormat::Oci.media_types().config, config.as_bytes());
        claimed["size"] = json!(size);
        let (manifest, config) = (json!({ "config": claimed, "layers": [] }).to_string(), config.clone());
        let server = Server::with_handler(&authority, move |path| {
            answer(200, &[], if path.contains("/blobs/") { config.clone() } else { manifest.clone() })
        })
        .await?;
        let error = lookup_error(&client(&authority)?, &server.host()).await;
        assert!(error.contains(words), "{size}: {error}");
        assert_eq!(server.seen().len(), requests, "{size}");
    }
    Ok(())
}

#[tokio::test]
async fn an_unreadable_response_is_reported_without_its_content() -> Result<()> {
    let authority = Authority::new()?;
    let page = Server::with_handler(&authority, move |_| answer(200, &[], "<html>SECRET</html>")).await?;
    let error = lookup_error(&client(&authority)?, &page.host()).await;
    assert!(error.contains("cannot be read") && !error.contains("SECRET"), "{error}");
    for status in [400, 410, 418, 500] {
        let server = Server::with_handler(&authority, move |_| answer(status, &[], "SECRET")).await?;
        assert_eq!(
            lookup_error(&client(&authority)?, &server.host()).await,
            format!("{} answered {status}", server.host())
        );
    }
    Ok(())
}

#[tokio::test]
async fn nested_and_very_long_indexes_are_rejected() -> Result<()> {
    let authority = Authority::new()?;
    // Nested indexes, each with the correct digest.
    let mut all = vec![index_of_indexes(0).0];
    for _ in 0..8 {
        let within = all.last().map(|body| entry(body));
        all.push(json!({ "schemaVersion": 2, "manifests": [within] }).to_string());
    }
    let top = all.last().cloned().unwrap_or_default();
    let deep =
        Server::with_handler(&authority, move |path| answer(200, &[], body_of(&all, path).unwrap_or(&top).clone()))
            .await?;
    let error = lookup_error(&client(&authority)?, &deep.host()).await;
    assert!(error.contains("indexes are nested too deeply"), "{error}");
    assert_eq!(deep.seen().len(), 4);

    // Very many entries without a platform.
    let (top, parts) = index_of_indexes(900);
    let wide =
        Server::with_handler(&authority, move |path| answer(200, &[], body_of(&parts, path).unwrap_or(&top).clone()))
            .await?;
    let error = lookup_error(&client(&authority)?, &wide.host()).await;
    assert!(error.contains("too many documents"), "{error}");
    assert_eq!(wide.seen().len(), 24);
    Ok(())
}

#[tokio::test]
async fn redirects_are_followed_up_to_a_limit_and_only_over_tls() -> Result<()> {
    let authority = Authority::new()?;
    let round = Server::with_handler(&authority, |path| answer(302, &[("location", &format!("{path}x"))], "")).await?;
    let error = lookup_error(&client(&authority)?, &round.host()).await;
    assert!(error.contains("redirects more than 5 times"), "{error}");
    assert_eq!(round.seen().len(), 6);

    let open = Server::start(None, axum::Router::new()).await?;
    let targets = [
        (open.url(), "without TLS"),
        ("file:///etc/passwd".to_owned(), "without TLS"),
        ("https://user:password@127.0.0.1:1/".to_owned(), "without TLS"),
        ("https://".to_owned(), "redirects without a valid location"),
    ];
    for (target, words) in targets {
        let location = target.clone();
        let server = Server::with_handler(&authority, move |_| answer(301, &[("location", &location)], "")).await?;
        let error = lookup_error(&client(&authority)?, &server.host()).await;
        assert!(error.contains(words) && !error.contains("password"), "{target}: {error}");
    }
    let nowhere = Server::with_handler(&authority, |_| answer(307, &[], "")).await?;
    let error = lookup_error(&client(&authority)?, &nowhere.host()).await;
    assert!(error.contains("redirects without a valid location"), "{error}");
    assert!(open.seen().is_empty());
    Ok(())
}

#[tokio::test]
async fn an_unreachable_or_untrusted_server_is_reported() -> Result<()> {
    let authority = Authority::new()?;
    let error = lookup_error(&client(&authority)?, "127.0.0.1:1").await;
    assert!(error.contains("127.0.0.1:1 cannot be reached (") && error.contains("refused"), "{error}");
    let error = lookup_error(&client(&authority)?, "registry.invalid").await;
    assert!(error.contains("registry.invalid cannot be reached ("), "{error}");
    let untrusted = Server::with_handler(&Authority::new()?, |_| answer(404, &[], "")).await?;
    let error = lookup_error(&client(&authority)?, &untrusted.host()).await;
    assert!(error.contains("cannot be reached (") && error.contains("certificate"), "{error}");
    assert!(untrusted.seen().is_empty());
    // There is no fallback to plain http.
    let open = Server::start(None, axum::Router::new()).await?;
    let error = lookup_error(&client(&authority)?, &open.host()).await;
    assert!(error.contains("cannot be reached ("), "{error}");
    assert!(open.seen().is_empty());
    Ok(())
}

#[test]
fn certificates_that_cannot_be_read_are_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, content) in [("none.pem", None), ("empty.pem", Some("")), ("text.pem", Some("not a certificate"))] {
        let path = folder.path().join(name);
        if let Some(content) = content {
            fs::write(&path, content)?;
        }
        let error =
            Client::new(RegistrySettings { certificates: Some(path), ..RegistrySettings::default() }).expect_err(name);
        assert!(error.to_string().contains(name), "{error}");
    }
    Ok(())
}
