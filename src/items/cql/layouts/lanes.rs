//! Several requests of one operation at once: as many as there are permits for, and within a bound.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;

use crate::items::StoreError;
use crate::items::cql::core::Core;
use crate::items::cql::error::damaged_row;
use crate::items::cql::pressure::permits::Permit;

/// Carries pieces of work out, a few at a time, each lane with a permit of its own. Returns what came of them, in
/// no order, and a permit. Once one has failed its lane ends, and the error of one is the answer.
pub async fn in_lanes<T, R, F>(
    core: &Core,
    permit: Permit,
    work: Vec<T>,
    lanes_max: usize,
    each: impl Fn(T, Permit) -> F,
) -> Result<(Vec<R>, Permit), StoreError>
where
    F: Future<Output = Result<(R, Permit), StoreError>>,
{
    let more = work.len().saturating_sub(1).min(lanes_max - 1);
    let permits = std::iter::once(permit).chain(std::iter::from_fn(|| core.permits.try_take()).take(more));
    let permits: Vec<_> = permits.collect();
    let left = Mutex::new(work.into_iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let lane = |mut permit: Permit| {
        let (next, each) = (&next, &each);
        async move {
            let mut done = Vec::new();
            while let Some(piece) = next() {
                let came;
                (came, permit) = each(piece, permit).await?;
                done.push(came);
            }
            Ok((done, permit))
        }
    };
    let mut ended = join_all(permits.into_iter().map(lane)).await.into_iter();
    // There is at least the lane of the permit that was given.
    let first = ended.next().unwrap_or_else(|| Err(damaged_row()));
    ended.try_fold(first?, |(mut all, permit), lane| {
        let (done, _) = lane?;
        all.extend(done);
        Ok((all, permit))
    })
}
