//! The rows between the reading thread and the sender: grouped by list, and bounded.
//!
//! The reader adds rows. Groups that are full, and the largest ones once too many rows wait, become ready to send. Of a
//! pipe, groups also become ready after a while, so that rows do not wait for its end. Every row that was read is
//! in here until the sender takes it, so an interrupted import can still send all of them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::groups::{Group, Groups, RowOrigin};
use super::row::{RawRow, Row};

pub struct Buffer {
    state: Mutex<State>,
    /// Notified when the sender takes a group or ends.
    room: Condvar,
    /// Notified when a group is ready or the reader has ended.
    ready: Notify,
    /// Groups that may be ready before the reader waits.
    ready_max: usize,
}

#[derive(Default)]
struct State {
    waiting: Groups,
    ready: VecDeque<Group>,
    /// Whether no row follows.
    is_ended: bool,
    /// Whether rows are no longer sent.
    is_closed: bool,
}

/// Why a row is not in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum NotBuffered {
    Bad(String),
    /// The sender has ended.
    Closed,
}

impl Buffer {
    /// `is_by_age` if groups become ready by age.
    pub fn new(ready_max: usize, is_by_age: bool) -> Self {
        let waiting = if is_by_age { Groups::by_age() } else { Groups::default() };
        let state = Mutex::new(State { waiting, ..State::default() });
        Self { state, room: Condvar::new(), ready: Notify::new(), ready_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with it left a row out at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a row, and waits while too many groups are ready.
    pub fn push(&self, row: &Row, origin: RowOrigin, raw: Option<RawRow>) -> Result<(), NotBuffered> {
        let mut state = self.state();
        if state.is_closed {
            return Err(NotBuffered::Closed);
        }
        let full = state.waiting.push(row, origin, raw).map_err(NotBuffered::Bad)?;
        state.ready.extend(full);
        if state.waiting.is_full() {
            let largest = state.waiting.take_largest();
            state.ready.extend(largest);
        }
        if !state.ready.is_empty() {
            self.ready.notify_one();
        }
        let too_many = |state: &mut State| state.ready.len() > self.ready_max && !state.is_closed;
        drop(self.room.wait_while(state, too_many).unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Makes all groups ready whose first row was added before this moment.
    pub fn release_older(&self, than: Instant) {
        let mut state = self.state();
        let older = state.waiting.take_older(than);
        state.ready.extend(older);
        self.ready.notify_one();
    }

    /// Makes all groups ready: no row follows.
    pub fn end(&self) {
        let mut state = self.state();
        let rest: Vec<Group> = state.waiting.take_all().collect();
        state.ready.extend(rest);
        state.is_ended = true;
        self.ready.notify_one();
    }

    /// Refuses further rows.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.room.notify_all();
    }

    /// The next ready group; none if no row follows.
    pub async fn next(&self) -> Option<Group> {
        loop {
            {
                let mut state = self.state();
                if let Some(group) = state.ready.pop_front() {
                    self.room.notify_all();
                    return Some(group);
                }
                if state.is_ended {
                    return None;
                }
            }
            self.ready.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn push(buffer: &Buffer, entity_id: &str, line: u64) -> Result<(), NotBuffered> {
        let row = Row { entity_id: entity_id.into(), value: b"1".to_vec(), ..Row::default() };
        buffer.push(&row, RowOrigin { source: 0, line }, None)
    }

    /// Each ready group as its entity and its number of items.
    async fn rest(buffer: &Buffer) -> Vec<(String, usize)> {
        let mut groups = Vec::new();
        while let Some(group) = buffer.next().await {
            groups.push((group.entity_id.as_str().to_owned(), group.len()));
        }
        groups.sort();
        groups
    }

    #[tokio::test]
    async fn rows_of_a_pipe_are_ready_after_a_while() {
        let buffer = Buffer::new(8, true);
        let before = Instant::now();
        push(&buffer, "a", 1).unwrap();
        push(&buffer, "a", 2).unwrap();
        buffer.release_older(before);
        assert!(buffer.state().ready.is_empty());
        let later = Instant::now() + Duration::from_millis(1);
        buffer.release_older(later);
        assert_eq!(buffer.next().await.map(|group| group.len()), Some(2));
        push(&buffer, "a", 3).unwrap();
        push(&buffer, "b", 4).unwrap();
        buffer.release_older(Instant::now() + Duration::from_secs(1));
        assert_eq!(buffer.state().ready.len(), 2);
        buffer.end();
        assert_eq!(rest(&buffer).await, [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    }

    #[tokio::test]
    async fn all_rows_that_were_read_can_be_sent_after_it_is_closed() {
        let buffer = Buffer::new(8, true);
        push(&buffer, "a", 1).unwrap();
        push(&buffer, "b", 2).unwrap();
        buffer.close();
        assert_eq!(push(&buffer, "c", 3), Err(NotBuffered::Closed));
        buffer.end();
        assert_eq!(rest(&buffer).await, [("a".to_owned(), 1), ("b".to_owned(), 1)]);
        assert!(matches!(push(&Buffer::new(8, true), "", 1), Err(NotBuffered::Bad(_))));
    }

    #[tokio::test]
    async fn the_reader_waits_for_room_and_is_released_by_the_end() {
        let buffer = Arc::new(Buffer::new(0, false));
        let reader = {
            let buffer = Arc::clone(&buffer);
            std::thread::spawn(move || {
                let rows =
                    (0..3 * super::super::groups::GROUP_ITEMS_MAX as u64).try_for_each(|line| push(&buffer, "a", line));
                buffer.end();
                rows
            })
        };
        assert_eq!(buffer.next().await.map(|group| group.len()), Some(super::super::groups::GROUP_ITEMS_MAX));
        assert!(buffer.next().await.is_some());
        buffer.close();
        let _ = reader.join().unwrap();
    }
}
