//! By which write timestamp all writes are settled: each was acknowledged by now, or never will be.
//!
//! A deletion with a timestamp that lies ahead hides what others write. So two clocks are asked, this server's and that
//! of a node, and the one that is behind counts.

use std::sync::Arc;
use std::time::Duration;

use scylla::response::PagingState;

use super::keys::read;
use crate::items::cql::core::Core;
use crate::items::cql::error::damaged_row;
use crate::items::cql::pressure::permits::Permit;
use crate::items::cql::statements::lists::Statement;
use crate::items::{Operation, StoreError};

/// Tenths of the time after which writes are settled. So much older seem entries that are added without a swap: swaps
/// that began less than that ago outrank them. So do all writes of a server whose clock is further behind.
pub const SETTLED_TENTHS: u32 = 3;
const MICROS_PER_MILLI: i64 = 1_000;

/// The timestamp as of a moment during the call, where writes are settled after a time.
pub async fn settled(
    core: &Arc<Core>,
    op: &Operation,
    after: Duration,
    permit: Permit,
) -> Result<(i64, Permit), StoreError> {
    let own = core.write_clock.settled(after);
    let ((result, _), permit) = core
        .attempts
        .run(core.request(Statement::Keys, op), permit, |route| {
            let mut now = core.prepared.now.clone();
            now.set_load_balancing_policy(Some(route));
            read(Arc::clone(core), now.bind(&()), PagingState::start())
        })
        .await?;
    let result = result.into_rows_result().map_err(|_| damaged_row())?;
    let (node,) = result.first_row::<(i64,)>().map_err(|_| damaged_row())?;
    let of_node = core.write_clock.settled_at(node.saturating_mul(MICROS_PER_MILLI), after);
    Ok((own.min(of_node), permit))
}
