//! Lines of requests that let other requests go first.
//!
//! Connections take turns on their worker's thread, so that many connections get many turns. Therefore requests of
//! strangers, and requests for public documents, wait in one line of the worker. In each round of the worker's tasks
//! one of them leaves the line. Other requests wait at most for that one, regardless of the line's length. A worker
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
    /// Waits for all earlier requests of the line, and then for one round of the worker's tasks.
    pub async fn turn(&self) {
        // The semaphore is never closed.
        let _first = self.0.acquire().await;
        tokio::task::yield_now().await;
    }
}
