//! Loopback: free ports, and HTTP requests for health checks.

use std::{
    net::{SocketAddr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result, anyhow, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A port on 127.0.0.1 that nothing listens on.
///
/// It is below the range of ports for outgoing connections: otherwise a client's connection could occupy the port of a
/// server that is being restarted.
///
/// # Errors
/// When no port is free.
pub fn free_port() -> Result<u16> {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 18_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + offset)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// Succeeds if a server accepts connections on 127.0.0.1:`port`.
///
/// # Errors
/// When no server does.
pub async fn accepts_connections(port: u16) -> Result<()> {
    TcpStream::connect(("127.0.0.1", port)).await.with_context(|| format!("connecting to port {port}"))?;
    Ok(())
}

/// Fetches `path` over HTTP from `address`: the status code and the body.
///
/// # Errors
/// When there is no connection or no HTTP answer.
pub async fn http_get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
    // HTTP/1.0: the body ends with the connection and is never chunked.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| anyhow!("not an HTTP answer: {answer:?}"))?;
    let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    Ok((status.ok_or_else(|| anyhow!("no status in {head:?}"))?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ() {
        let ports: std::collections::BTreeSet<u16> = (0..20).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 20);
    }
}
