//! Adds to one set that wait for one turn, so that a store can write them together.

use tokio::time::{Duration, Instant};

use crate::items::{SetAdd, StoreError};

/// The maximum of adds, items and bytes in one turn, which bounds the wait for the next one.
const ADDS_MAX: usize = 64;
const ITEMS_MAX: usize = 1_000;
const BYTES_MAX: usize = 256 << 10;
/// The maximum distance between the deadlines of adds that share a turn, because they succeed or fail together.
const APART_MAX: Duration = Duration::from_millis(100);

/// In the order of arrival.
pub(super) struct WaitingAdds {
    adds: Vec<SetAdd>,
    items: usize,
    bytes: usize,
}

impl WaitingAdds {
    pub fn of(first: SetAdd) -> Self {
        Self { items: first.items.len(), bytes: bytes_of(&first), adds: vec![first] }
    }

    /// Accepts one more add, unless it must wait behind these.
    pub fn join(&mut self, add: SetAdd) -> Result<(), SetAdd> {
        let (items, bytes) = (self.items + add.items.len(), self.bytes + bytes_of(&add));
        let is_full = self.adds.len() == ADDS_MAX || items > ITEMS_MAX || bytes > BYTES_MAX;
        let is_near = self.adds.iter().all(|other| apart(other.op.deadline, add.op.deadline) <= APART_MAX);
        if is_full || !is_near || self.adds.is_empty() {
            return Err(add);
        }
        (self.items, self.bytes) = (items, bytes);
        self.adds.push(add);
        Ok(())
    }

    /// The first deadline. `None` without adds.
    pub fn first_deadline(&self) -> Option<Instant> {
        self.adds.iter().map(|add| add.op.deadline).min()
    }

    /// Refuses the adds whose deadline has passed. None of them has begun.
    pub fn refuse_late(&mut self) {
        let now = Instant::now();
        for late in self.adds.extract_if(.., |add| add.op.deadline <= now) {
            (late.done)(Err(StoreError::Timeout { outcome_unknown: false }));
        }
    }

    /// Takes all adds. No other add can join.
    pub fn take(&mut self) -> Vec<SetAdd> {
        std::mem::take(&mut self.adds)
    }
}

fn bytes_of(add: &SetAdd) -> usize {
    add.items.iter().map(|item| item.value.len()).sum()
}

fn apart(one: Instant, other: Instant) -> Duration {
    one.max(other) - one.min(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{NewItem, Timestamp, Ttl};
    use crate::items::OpContext;

    fn add(items: usize, bytes: usize, deadline: Instant) -> SetAdd {
        let item = NewItem { timestamp: Timestamp::MIN, value: vec![0; bytes].into(), expires_at: u64::MAX };
        let op = OpContext::new(Timestamp::MIN, Ttl::MAX, deadline);
        SetAdd { op, items: vec![item; items], done: Box::new(|_| ()) }
    }

    /// How many of these adds wait together.
    fn together(adds: impl Iterator<Item = SetAdd>) -> usize {
        let mut adds = adds.fuse();
        let mut waiting = WaitingAdds::of(adds.next().unwrap());
        1 + adds.map_while(|add| waiting.join(add).ok()).count()
    }

    #[test]
    fn adds_that_wait_together_are_bounded_by_number_items_bytes_and_deadlines() {
        let later = Instant::now() + Duration::from_secs(60);
        let alike = |items, bytes| together((0..1_000).map(|_| add(items, bytes, later)));
        assert_eq!((alike(1, 1), alike(100, 1), alike(1, 100 << 10)), (ADDS_MAX, 10, 2));
        // Each deadline is 10 ms after the previous one.
        let spread = (0..50).map(|n| add(1, 1, later + Duration::from_millis(10) * n));
        assert_eq!(together(spread), 11);
    }

    #[test]
    fn no_add_joins_a_group_whose_turn_has_begun() {
        let later = Instant::now() + Duration::from_secs(60);
        let mut waiting = WaitingAdds::of(add(1, 1, later));
        assert_eq!(waiting.take().len(), 1);
        assert!(waiting.join(add(1, 1, later)).is_err() && waiting.first_deadline().is_none());
    }
}
