//! The signals that stop the operator.

use super::CommandError;

fn cannot_listen(error: std::io::Error) -> CommandError {
    CommandError::Usage(format!("cannot handle signals: {error}"))
}

#[cfg(unix)]
mod platform {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use super::{CommandError, cannot_listen};

    /// The signals that stop the operator.
    pub(crate) struct Signals {
        terminate: Signal,
        interrupt: Signal,
    }

    impl Signals {
        pub(crate) fn listen() -> Result<Self, CommandError> {
            let listen = |kind| signal(kind).map_err(cannot_listen);
            Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
        }

        /// The name of the next signal.
        pub(crate) async fn next(&mut self) -> &'static str {
            tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
            }
        }
    }
}

#[cfg(windows)]
mod platform {
    use tokio::signal::windows::{CtrlC, CtrlShutdown, ctrl_c, ctrl_shutdown};

    use super::{CommandError, cannot_listen};

    /// The signals that stop the operator. The end of a container is `CTRL_SHUTDOWN_EVENT`.
    pub(crate) struct Signals {
        shutdown: CtrlShutdown,
        interrupt: CtrlC,
    }

    impl Signals {
        pub(crate) fn listen() -> Result<Self, CommandError> {
            let shutdown = ctrl_shutdown().map_err(cannot_listen)?;
            Ok(Self { shutdown, interrupt: ctrl_c().map_err(cannot_listen)? })
        }

        /// The name of the next signal.
        pub(crate) async fn next(&mut self) -> &'static str {
            tokio::select! {
                _ = self.shutdown.recv() => "CTRL_SHUTDOWN_EVENT",
                _ = self.interrupt.recv() => "CTRL_C_EVENT",
            }
        }
    }
}

pub(super) use platform::Signals;
