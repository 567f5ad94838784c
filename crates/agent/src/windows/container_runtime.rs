//! The container runtime at a named pipe.

use std::{io, time::Duration};

use tokio::{
    net::windows::named_pipe::{ClientOptions, NamedPipeClient},
    runtime::Builder,
    time::{sleep, timeout},
};

use crate::{host::RuntimeError, runtime::RuntimeClient};

/// How long connecting may take. containerd opens its pipe some seconds after its start.
const LIMIT: Duration = Duration::from_secs(10);
/// The interval between two attempts while all instances of the pipe are in use.
const PAUSE: Duration = Duration::from_millis(50);
/// `ERROR_PIPE_BUSY`.
const BUSY: i32 = 231;

/// Calls the runtime at a pipe.
pub(super) fn call(
    pipe: &str,
    request: impl AsyncFnOnce(&mut RuntimeClient) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    let unreachable = |error: io::Error| RuntimeError::Unreachable { address: pipe.to_owned(), why: error.to_string() };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(unreachable)?;
    runtime.block_on(async {
        let path = pipe.to_owned();
        let client = RuntimeClient::connect(move || open(path.clone()));
        let client = timeout(LIMIT, client).await.map_err(|error| unreachable(error.into()))?;
        request(&mut client.map_err(unreachable)?).await
    })
}

async fn open(pipe: String) -> io::Result<NamedPipeClient> {
    loop {
        match ClientOptions::new().open(&pipe) {
            Err(error) if error.raw_os_error() == Some(BUSY) => sleep(PAUSE).await,
            result => return result,
        }
    }
}
