//! Aggregates of a list of any layout: the aggregation collects over the walk of the layout. Values are read only if it
//! looks at them.

use std::sync::Arc;

use super::keys::bounds;
use super::layout::Layout;
use super::walk::{What, collect};
use crate::domain::{ItemKey, Order};
use crate::items::collect::{Collect, Next, Offered};
use crate::items::cql::call::Call;
use crate::items::{AggregateOutcome, Aggregation, Aggregator, StoreError};

/// Items of one walk over buckets, which reads several buckets at once for as many items as it wants. No get has more.
const BUCKETS_ITEMS: usize = 10_000;

pub async fn aggregate(call: &mut Call, aggregation: &Arc<Aggregation>) -> Result<AggregateOutcome, StoreError> {
    let aggregator = Aggregator::new(aggregation, &call.op, call.list.identity());
    let layout = Layout::of(&call.list);
    let what = if aggregator.needs_values() { What::Items } else { What::Keys };
    let (within, wanted) = (aggregator.bounds(), aggregator.items_wanted());
    let limit = if layout == Layout::Buckets { wanted.min(BUCKETS_ITEMS) } else { wanted };
    let mut part = Part { aggregator, left: limit, last: None };
    loop {
        call.op.begin()?;
        let Some(slice) = bounds(&call.op, &within, (Order::Newest, part.last.take()), None) else { break };
        part.left = limit;
        let walk = layout.walk(call, slice, what, limit);
        part = collect(call, walk, part).await?;
        if part.last.is_none() {
            break;
        }
        // Callers that wait for a permit get one between the walks.
        call.release();
    }
    Ok(part.aggregator.finish())
}

/// Aggregates the items of a walk, and finds the last one if the walk has as many as it may.
struct Part {
    aggregator: Aggregator,
    left: usize,
    last: Option<ItemKey>,
}

impl Collect for Part {
    type Found = ();

    fn offer(&mut self, item: &impl Offered) -> Next {
        let next = self.aggregator.offer(item);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && next == Next::Wanted {
            self.last = item.key();
        }
        next
    }

    fn finish(&mut self) {}
}
