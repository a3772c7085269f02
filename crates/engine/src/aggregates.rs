//! Aggregates over windows of time, in one pass over the packed items of a list.

use std::sync::Arc;

use liststore_contract::domain::ListKey;
use liststore_storage::collect::{Collect, Next};
use liststore_storage::{AggregateOutcome, Aggregation, Aggregator, OpContext, StoreError};

use super::collect::page;
use super::collect::turn::Turn;
use super::list_id::BorrowedListId;
use super::read::Scan;
use super::row::seek::Start;
use super::row::{RowCursor, merge};
use super::session::{EmbeddedSession, ReadInput};

/// The longest list in memory that is aggregated on the arbiter itself, in bytes: each item takes work, and other
/// operations of the arbiter wait for it.
const INLINE_BYTES_MAX: usize = 128 << 10;
/// The same if each item is added to one aggregate. To more of them it takes more work.
const INLINE_ADDED_BYTES_MAX: usize = 512 << 10;

fn is_short(bytes: usize, aggregator: &Aggregator) -> bool {
    bytes <= INLINE_BYTES_MAX && bytes * aggregator.adds_per_item() <= INLINE_ADDED_BYTES_MAX
}

impl EmbeddedSession {
    pub(super) async fn aggregate_items(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError> {
        let engine = &self.engine;
        let mut aggregator = Aggregator::new(aggregation, op, list.identity());
        if let Some(row) = engine.heads.whole(BorrowedListId::of(list.borrowed(), engine.options.list_hash)) {
            let inline = is_short(row.len(), &aggregator);
            let mut cursor = RowCursor::new(row).map_err(|_| merge::broken())?;
            let turn = move || {
                let collected = page::collect_rest(&mut cursor, &mut aggregator, &mut Turn::new());
                collected.map(|next| (next == Next::Done).then(|| aggregator.finish())).transpose()
            };
            return self.read(op, inline, turn).await;
        }
        let start = Start { ceiling: aggregator.bounds().max_timestamp.as_nanos(), below: None };
        let list = self.list_id(list);
        let ReadInput { view, in_memory, inline, .. } = self.prepare_read(&list, start.ceiling);
        let inline = inline && is_short(in_memory.bytes, &aggregator);
        let mut scan = Scan::new(view, in_memory, list, start, aggregator);
        self.read(op, inline, move || scan.turn().transpose()).await
    }
}
