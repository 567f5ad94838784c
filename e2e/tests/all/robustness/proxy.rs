//! A TCP proxy before the API server that can stop forwarding connections without closing them.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use e2e::{
    control_plane::{ControlPlane, User},
    network,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// A proxy on loopback. Dropping it ends it.
pub struct Proxy {
    address: SocketAddr,
    /// The number of calls of `lose_connections`.
    lost: watch::Sender<u32>,
    server: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy before an API server.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self> {
        let url = control_plane.url();
        let target = url.strip_prefix("https://").context("an https URL")?.parse()?;
        let listener = TcpListener::from_std(network::listener()?)?;
        let address = listener.local_addr()?;
        let lost = watch::Sender::new(0);
        let server = tokio::spawn(serve(listener, target, lost.clone()));
        Ok(Self { address, lost, server })
    }

    /// A kubeconfig of the operator with the proxy's address.
    pub fn kubeconfig(&self, control_plane: &ControlPlane) -> Result<String> {
        let text = std::fs::read_to_string(control_plane.kubeconfig(User::Operator))?;
        let path = control_plane.directory().join("proxied.kubeconfig");
        std::fs::write(&path, text.replace(&control_plane.url(), &format!("https://{}", self.address)))?;
        Ok(path.display().to_string())
    }

    /// Stops forwarding the existing connections without closing them. New ones work.
    pub fn lose_connections(&self) {
        self.lost.send_modify(|times| *times += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, lost: watch::Sender<u32>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let lost = lost.subscribe();
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect(target).await else { return };
            let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
            tokio::join!(forward(from_client, to_server, lost.clone()), forward(from_server, to_client, lost));
        });
    }
}

/// Forwards one direction until its end, or until the connection is lost: then it remains open.
async fn forward(mut from: ReadHalf<TcpStream>, mut to: WriteHalf<TcpStream>, mut lost: watch::Receiver<u32>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            biased;
            _ = lost.changed() => std::future::pending().await,
            read = from.read(&mut buffer) => read,
        };
        let Ok(read @ 1..) = read else { break };
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
