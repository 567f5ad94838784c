//! The connections of an API server to kubelets on loopback, by a proxy: it refuses nodes with a loopback address
//! (CVE-2022-3294).

use std::fs;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional},
    net::{TcpStream, UnixListener, UnixStream},
    task::{JoinHandle, JoinSet},
};

/// The address of every node in the network. It is one of those for documentation (RFC 5737): without the proxy, nothing has it.
pub const NODE_ADDRESS: &str = "192.0.2.1";

/// A network in which each port of a node is that of loopback. Dropping it ends it.
#[derive(Debug)]
pub struct NodeNetwork {
    folder: TempDir,
    proxy: JoinHandle<()>,
}

impl NodeNetwork {
    pub fn start() -> Result<Self> {
        let folder = TempDir::new()?;
        let socket = folder.path().join("proxy");
        let listener = UnixListener::bind(&socket).context("the socket of the proxy")?;
        let configuration = serde_json::json!({
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{
                "name": "cluster",
                "connection": { "proxyProtocol": "HTTPConnect", "transport": { "uds": { "udsName": socket } } },
            }],
        });
        fs::write(folder.path().join("configuration.yaml"), configuration.to_string())?;
        Ok(Self { folder, proxy: tokio::spawn(serve(listener)) })
    }

    /// The argument with which an API server uses it.
    pub fn api_server_argument(&self) -> String {
        format!("--egress-selector-config-file={}", self.folder.path().join("configuration.yaml").display())
    }
}

impl Drop for NodeNetwork {
    fn drop(&mut self) {
        self.proxy.abort();
    }
}

async fn serve(listener: UnixListener) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(forward(client));
    }
}

/// Answers a request `CONNECT <address>:<port>`, and forwards the connection to this port of loopback.
async fn forward(client: UnixStream) -> Result<()> {
    let mut client = BufReader::new(client);
    let mut request = String::new();
    while client.read_line(&mut request).await? > "\r\n".len() {}
    let target = request.split_whitespace().nth(1).context("a request without a target")?;
    let port: u16 = target.rsplit(':').next().unwrap_or_default().parse()?;
    match TcpStream::connect(("127.0.0.1", port)).await {
        Ok(mut kubelet) => {
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            copy_bidirectional(&mut client, &mut kubelet).await?;
        }
        Err(_) => client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await?,
    }
    Ok(())
}
