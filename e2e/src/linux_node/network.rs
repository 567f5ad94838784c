//! Connections into the network namespace of a process and out of it. A socket stays in the namespace in which it was opened.

use std::{
    fs::{File, read_link},
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::{
    io::copy_bidirectional,
    net,
    runtime::{Builder, Runtime},
};

/// Where sockets are opened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    /// In the namespace of this program.
    Own,
    /// In the namespace of a process, which must be another one.
    Of(u32),
}

impl Side {
    pub(super) fn listen(self, address: SocketAddr) -> Result<TcpListener> {
        self.open(move || TcpListener::bind(address)).with_context(|| format!("listening on {address}"))
    }

    fn connect(self, address: SocketAddr) -> Result<TcpStream> {
        self.open(move || TcpStream::connect(address)).with_context(|| format!("connecting to {address}"))
    }

    fn open<T: Send + 'static>(self, open: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
        let Self::Of(process) = self else { return Ok(open()?) };
        let namespace = format!("/proc/{process}/ns/net");
        ensure!(read_link(&namespace)? != read_link("/proc/self/ns/net")?, "{process} is not in a namespace yet");
        let namespace = File::open(namespace)?;
        let opened = thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            open()
        });
        Ok(opened.join().map_err(|_| anyhow!("the thread in the namespace has panicked"))??)
    }
}

/// Forwards connections, in threads of its own, until it is dropped.
#[derive(Debug)]
pub(super) struct Forwarding(Option<Runtime>);

impl Forwarding {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Some(Builder::new_multi_thread().worker_threads(1).enable_io().build()?)))
    }

    /// Forwards what connects to the listener.
    pub(super) fn add(&self, listener: TcpListener, side: Side, to: SocketAddr) -> Result<()> {
        let runtime = self.0.as_ref().context("a runtime")?;
        listener.set_nonblocking(true)?;
        let _entered = runtime.enter();
        let listener = net::TcpListener::from_std(listener)?;
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A failed connection is one that is closed at once.
                tokio::spawn(async move { forward(client, side, to).await.ok() });
            }
        });
        Ok(())
    }
}

async fn forward(mut client: net::TcpStream, side: Side, to: SocketAddr) -> Result<()> {
    let server = tokio::task::spawn_blocking(move || side.connect(to)).await??;
    server.set_nonblocking(true)?;
    copy_bidirectional(&mut client, &mut net::TcpStream::from_std(server)?).await?;
    Ok(())
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        // Not waiting, because it is dropped in another runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
