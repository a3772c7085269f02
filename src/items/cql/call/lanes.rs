//! Several requests of one operation at once: as many as there are permits for, and within a bound.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;

use super::{Call, Subject};
use crate::items::StoreError;
use crate::items::cql::error::damaged_row;

impl<L: Subject> Call<L> {
    /// Carries pieces of work out, a few at a time, each lane with a separate call and permit. Returns the results, in
    /// no order. A failure ends its lane, and one of the errors is returned.
    pub async fn in_lanes<T, R, F>(
        &mut self,
        work: Vec<T>,
        lanes_max: usize,
        each: impl Fn(Self, T) -> F,
    ) -> Result<Vec<R>, StoreError>
    where
        F: Future<Output = Result<(R, Self), StoreError>>,
    {
        let more = work.len().saturating_sub(1).min(lanes_max - 1);
        let first = self.permit().await?;
        let permits = &self.core.permits;
        let permits = std::iter::once(first).chain(std::iter::from_fn(|| permits.try_take()).take(more));
        let calls: Vec<_> = permits.map(|permit| Self::with_permit(&self.core, &self.op, &self.list, permit)).collect();
        let left = Mutex::new(work.into_iter());
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let lane = |mut call: Self| {
            let (next, each) = (&next, &each);
            async move {
                let mut done = Vec::new();
                while let Some(piece) = next() {
                    let came;
                    (came, call) = each(call, piece).await?;
                    done.push(came);
                }
                Ok((done, call))
            }
        };
        let mut ended = join_all(calls.into_iter().map(lane)).await.into_iter();
        // There is at least the lane of the permit that was there.
        let (mut all, call) = ended.next().unwrap_or_else(|| Err(damaged_row()))?;
        for lane in ended {
            all.extend(lane?.0);
        }
        self.permit = call.permit;
        Ok(all)
    }
}
