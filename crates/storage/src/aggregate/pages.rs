//! Aggregates for a session that has its items in pages.

use std::sync::Arc;

use liststore_contract::domain::{ListKey, Order};

use super::super::{Bounds, ItemSession, OpContext, Range, StoreError};
use super::{AggregateOutcome, Aggregation, Aggregator};
use crate::collect::{Collect, Next};

/// Items of a page, and bytes of their values.
const PAGE_ITEMS: usize = 1_000;
const PAGE_BYTES: usize = 1 << 20;

/// [`ItemSession::aggregate`] for a session that reads pages.
pub async fn aggregate_pages(
    session: &dyn ItemSession,
    op: &OpContext,
    list: &ListKey,
    aggregation: &Arc<Aggregation>,
) -> Result<AggregateOutcome, StoreError> {
    let mut aggregator = Aggregator::new(aggregation, op, list.identity());
    let Bounds { min_timestamp, max_timestamp } = aggregator.bounds();
    let mut range = Range {
        min_timestamp,
        max_timestamp,
        after: None,
        limit: PAGE_ITEMS,
        value_bytes_max: PAGE_BYTES,
        order: Order::Newest,
    };
    loop {
        op.begin()?;
        let page = session.get(op, list, &range).await?;
        for item in &page.items {
            if aggregator.visit(item.timestamp.as_nanos(), &item.value) == Next::Done {
                return Ok(aggregator.finish());
            }
        }
        let Some(last) = page.items.last().filter(|_| page.more) else { return Ok(aggregator.finish()) };
        range.after = Some(last.key());
    }
}
