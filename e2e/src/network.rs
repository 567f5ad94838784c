//! Loopback: free ports, and HTTP requests for health checks.

use std::{
    hash::{BuildHasher, RandomState},
    net::{SocketAddr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::wait::eventually;

const LIMIT: Duration = Duration::from_secs(60);

/// A listener on a free port of 127.0.0.1, for a server in this process: nothing else can take the port before it.
///
/// The port is below the range of ports for outgoing connections: otherwise a client's connection could occupy the port
/// of a server that is being restarted. The first one is random, so that processes that start at the same time rarely
/// try the same ports.
pub fn listener() -> Result<TcpListener> {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 18_000;
    static START: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..COUNT {
        let offset = START.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % u64::from(COUNT);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", FIRST + u16::try_from(offset)?)) {
            listener.set_nonblocking(true)?;
            return Ok(listener);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// A listener on this port of 127.0.0.1, as soon as nothing else listens there: a process that is being started has the
/// closed sockets of its parent for a moment.
pub async fn listener_on(port: u16) -> Result<TcpListener> {
    let bind = || async { Ok(TcpListener::bind(("127.0.0.1", port))?) };
    let listener = eventually("the port is free", LIMIT, bind).await?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A free port of 127.0.0.1, for a server in a process of its own; see [`listener`].
pub fn free_port() -> Result<u16> {
    Ok(listener()?.local_addr()?.port())
}

/// Succeeds if a server accepts connections on 127.0.0.1:`port`.
pub async fn accepts_connections(port: u16) -> Result<()> {
    TcpStream::connect(("127.0.0.1", port)).await.with_context(|| format!("connecting to port {port}"))?;
    Ok(())
}

/// Fetches `path` over HTTP from `address`: the status code and the body.
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
