//! Lines of requests that let others go before.
//!
//! Connections take turns on their worker's thread, so that many connections get many turns. Requests of strangers, and
//! requests for documents that anyone may read, therefore wait in one line of the worker. In each round of the worker's
//! tasks one of them leaves the line. Other requests wait for no more than that, however long the line is. A worker
//! without other work has short rounds, so the line moves fast.

use tokio::sync::Semaphore;

#[derive(Debug)]
pub(super) struct Line(Semaphore);

impl Default for Line {
    fn default() -> Self {
        Self(Semaphore::const_new(1))
    }
}

impl Line {
    /// Waits for all that stand before, and then for one round of the worker's tasks.
    pub async fn turn(&self) {
        // It is never closed.
        let _first = self.0.acquire().await;
        tokio::task::yield_now().await;
    }
}
