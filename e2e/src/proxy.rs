//! A proxy between a client and the API server. It does to connections what networks, load balancers and servers in trouble
//! do.
//!
//! TLS ends here: clients connect by plain HTTP, so that the proxy can answer for the server.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use kube::client::ConfigExt as _;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink, split},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tokio_rustls::TlsConnector;

use crate::{
    control_plane::{ControlPlane, User},
    network,
};

/// What a proxy does to each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forwards it.
    Forward,
    /// Closes it.
    Refuse,
    /// Keeps it open, and forwards nothing.
    Silent,
    /// Forwards each part of the data after this time.
    Delay(Duration),
    /// Closes it after so many bytes of answers.
    Truncate(usize),
    /// Answers its first request with this status, and closes it.
    Answer(u16),
}

/// A proxy on loopback. Dropping it ends it.
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    server: JoinHandle<()>,
}

/// The mode of new connections. Each change ends the existing ones: they are closed, or stay open although nothing is forwarded.
#[derive(Clone, Copy)]
struct State {
    mode: Mode,
    loses: bool,
}

#[derive(Clone)]
struct Target {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Proxy {
    /// Starts a proxy before an API server, which forwards.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self> {
        let target = control_plane.url().strip_prefix("https://").context("an https URL")?.parse()?;
        let tls = control_plane.config(User::Admin).await?.rustls_client_config()?;
        let target = Target { address: target, tls: Arc::new(tls).into() };
        let listener = TcpListener::from_std(network::listener()?)?;
        let address = listener.local_addr()?;
        let state = watch::Sender::new(State { mode: Mode::Forward, loses: false });
        let server = tokio::spawn(serve(listener, target, state.clone()));
        Ok(Self { address, state, server })
    }

    /// A kubeconfig of the operator with the proxy's address.
    pub fn kubeconfig(&self, control_plane: &ControlPlane) -> Result<String> {
        let text = std::fs::read_to_string(control_plane.kubeconfig(User::Operator))?;
        let path = control_plane.directory().join(format!("proxied-{}.kubeconfig", self.address.port()));
        std::fs::write(&path, text.replace(&control_plane.url(), &format!("http://{}", self.address)))?;
        Ok(path.display().to_string())
    }

    /// Closes the existing connections, and treats new ones so.
    pub fn set(&self, mode: Mode) {
        self.state.send_replace(State { mode, loses: false });
    }

    /// Stops forwarding the existing connections without closing them. New ones work.
    pub fn lose_connections(&self) {
        self.state.send_replace(State { mode: Mode::Forward, loses: true });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, target: Target, state: watch::Sender<State>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (target, mut state) = (target.clone(), state.subscribe());
        connections.spawn(async move {
            let mode = state.borrow_and_update().mode;
            let mut work = pin!(connection(client, target, mode));
            let changed = tokio::select! {
                biased;
                changed = state.changed() => changed.is_ok(),
                _ = &mut work => false,
            };
            // The sockets stay open as long as the work is not dropped.
            if changed && state.borrow().loses {
                std::future::pending::<()>().await;
            }
        });
    }
}

/// Serves a connection until one side ends it.
async fn connection(client: TcpStream, target: Target, mode: Mode) -> Result<()> {
    let (delay, limit) = match mode {
        Mode::Refuse => return Ok(()),
        Mode::Silent => std::future::pending().await,
        Mode::Answer(code) => return answer(client, code).await,
        Mode::Forward => (Duration::ZERO, usize::MAX),
        Mode::Delay(delay) => (delay, usize::MAX),
        Mode::Truncate(bytes) => (Duration::ZERO, bytes),
    };
    let server = TcpStream::connect(target.address).await?;
    let server = target.tls.connect(ServerName::from(target.address.ip()), server).await?;
    let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
    tokio::select! {
        ended = forward(from_client, to_server, delay, usize::MAX) => ended,
        ended = forward(from_server, to_client, delay, limit) => ended,
    }
}

/// Forwards one direction until its end, or so many bytes.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
    limit: usize,
) -> Result<()> {
    let (mut buffer, mut left) = (vec![0; 64 * 1024], limit);
    while left > 0 {
        let read = from.read(&mut buffer).await?.min(left);
        if read == 0 {
            break;
        }
        left -= read;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        to.write_all(&buffer[..read]).await?;
        to.flush().await?;
    }
    Ok(())
}

/// Answers a request as an API server does.
async fn answer(mut client: TcpStream, code: u16) -> Result<()> {
    let reason = match code {
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "a test answers so",
    });
    let (body, head) = (body.to_string(), format!("HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\n"));
    let answer = format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await?;
    // What is not read would reset the connection, and the answer with it.
    copy(&mut client, &mut sink()).await?;
    Ok(())
}
