//! The signals that end the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM (which Kubernetes sends) and SIGINT (Ctrl-C). No signal is lost after construction. The first process of a
/// container receives only signals that it handles.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
