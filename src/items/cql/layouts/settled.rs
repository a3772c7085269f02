//! By which write timestamp all writes are settled: each was acknowledged by now, or never will be.
//!
//! A deletion with a timestamp that lies ahead hides what others write. So two clocks are asked, this server's and that
//! of a node, and the one that is behind counts.

use std::time::Duration;

use crate::items::StoreError;
use crate::items::cql::call::Call;
use crate::items::cql::error::damaged_row;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::lists::ListStatement;

/// Tenths of the time after which writes are settled. So much older seem entries that are added without a swap: swaps
/// that began less than that ago outrank them. So do all writes of a server whose clock is further behind.
pub const SETTLED_TENTHS: u32 = 3;
const MICROS_PER_MILLI: i64 = 1_000;

/// The timestamp as of a moment during the call, where writes are settled after a time.
pub async fn settled(call: &mut Call, after: Duration) -> Result<i64, StoreError> {
    let own = call.core.write_clock.settled(after);
    let page = call.rows(&Query::plain(ListStatement::Now, []), 1).await?;
    let (node,) = page.first::<(i64,)>()?.ok_or_else(damaged_row)?;
    Ok(own.min(call.core.write_clock.settled_at(node.saturating_mul(MICROS_PER_MILLI), after)))
}
