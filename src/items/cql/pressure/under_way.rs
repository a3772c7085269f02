//! The unfinished attempts of a request, and their end without a waiting caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use scylla::errors::ExecutionError;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use super::permits::Permit;
use super::route::AttemptRoute;

/// An attempt without a waiting caller is abandoned, with its permit, after this time: no node works on a request for
/// so long. Cassandra drops those older than `native_transport_timeout`, 12 s, or its request timeouts, at most 10 s
/// (`cassandra.yaml`); ScyllaDB gets a time limit (`USING TIMEOUT`). A connection whose node is silent breaks much
/// sooner.
const LEFT_MAX: Duration = Duration::from_secs(30);

/// An attempt in progress. It gives its permit back when it ends.
pub type Attempt<T> = Pin<Box<dyn Future<Output = (Result<T, ExecutionError>, Permit)> + Send>>;

/// The attempts of one request that have not ended. Attempts without a waiting caller, since another has answered or
/// the deadline has passed, continue in tasks, and hold their permits until they end: the nodes are still at work for
/// them.
pub struct UnderWay<T: Send + 'static> {
    /// Nearly all requests have one attempt, which needs only this field.
    pub first: Option<Attempt<T>>,
    pub more: FuturesUnordered<Attempt<T>>,
}

impl<T: Send + 'static> UnderWay<T> {
    /// Waits for the first attempt alone.
    pub async fn first(&mut self, until: Instant) -> Option<(Result<T, ExecutionError>, Permit)> {
        let ended = match &mut self.first {
            Some(first) => timeout_at(until, first).await.ok(),
            None => None,
        };
        match ended {
            Some(_) => self.first = None,
            None => self.more.extend(self.first.take()),
        }
        ended
    }
}

impl<T: Send + 'static> Drop for UnderWay<T> {
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.more);
        left.extend(self.first.take());
        // Without a runtime the session is gone, and its connections with it.
        if let (false, Ok(runtime)) = (left.is_empty(), Handle::try_current()) {
            runtime.spawn(timeout(LEFT_MAX, left.for_each(async |_| ())));
        }
    }
}

/// Follows an attempt on its way, however that ends.
pub struct Followed(pub Arc<AttemptRoute>);

impl Drop for Followed {
    fn drop(&mut self) {
        self.0.ended();
    }
}
