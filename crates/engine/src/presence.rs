//! Determines which of many lists the store holds. Memory and the filters of files answer for nearly all of them, so
//! only existing lists are read.

use std::sync::mpsc::{self, RecvTimeoutError};

use liststore_contract::domain::ListKey;
use liststore_storage::StoreError;
use tokio::time::Instant;

use super::engine::Engine;
use super::error::ReadError;
use super::list_id::ListId;
use super::row::reverse;
use super::row::seek::Start;

/// Lists that are checked between two checks of the deadline.
const LISTS_PER_CHECK: usize = 256;

/// Returns for each list whether the store holds anything of it; `None` if the log's thread does not run. Blocks on
/// that thread, and on the disk.
pub fn held(engine: &Engine, lists: &[ListKey], deadline: Instant) -> Result<Option<Vec<bool>>, StoreError> {
    // Earlier writes may still be queued.
    let (through, is_through) = mpsc::sync_channel(1);
    engine.queue.push_barrier(
        deadline,
        Box::new(move |result| {
            let _nobody_waits = through.send(result);
        }),
    );
    match is_through.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) if engine.queue.is_closed() => return Ok(None),
        Ok(Err(error)) => return Err(error.with_nothing_done()),
        // A sync or a flush may delay that thread longer.
        Err(_) => return Err(StoreError::Timeout { outcome_unknown: false }),
    }
    let mut found = Vec::with_capacity(lists.len());
    for part in lists.chunks(LISTS_PER_CHECK) {
        if Instant::now() >= deadline {
            return Err(StoreError::Timeout { outcome_unknown: false });
        }
        found.extend(part.iter().map(|list| holds(engine, list)));
    }
    Ok(Some(found))
}

/// Whether the store holds anything of a list, or of its reverse list. An unreadable list counts as held.
fn holds(engine: &Engine, list: &ListKey) -> bool {
    let hash = engine.options.list_hash;
    let id = ListId::of(list, hash);
    let reverse = list.identity().is_set().then(|| reverse::list_of(&id, hash));
    std::iter::once(id).chain(reverse).any(|id| has_rows(engine, &id).unwrap_or(true))
}

fn has_rows(engine: &Engine, list: &ListId) -> Result<bool, ReadError> {
    let (_, (view, in_memory)) = engine.heads.between_changes(list, || {
        let view = engine.tables.view();
        let in_memory = view.in_memory(list, u64::MAX);
        (view, in_memory)
    });
    if in_memory.has_rows() || in_memory.hides_files || !view.has_files_for(list) {
        return Ok(in_memory.has_rows());
    }
    // A filter is wrong about few missing lists.
    Ok(view.merge(list, &Start::NEWEST, &in_memory)?.current().is_some())
}
