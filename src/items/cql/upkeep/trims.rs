//! Gives back what lists do not show.
//!
//! No write reads its list. A read that finds more items than are shown, and some adds, have the list checked here, in
//! the background. If the surplus exceeds the slack, one range tombstone deletes it. Such a deletion must not hide
//! later adds of any server. So its write timestamp lies before the check by the time that clocks may differ.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::domain::ListKey;
use crate::items::cql::call::Call;
use crate::items::cql::core::Core;
use crate::items::cql::layouts::deletes::delete_slice;
use crate::items::cql::layouts::keys::slice;
use crate::items::cql::layouts::layout::Layout;
use crate::items::cql::layouts::walk::Keys;
use crate::items::cql::layouts::{buckets, members};
use crate::items::cql::notes::overlong::slack;
use crate::items::{Bounds, OpContext, StoreError};

/// How long a look and its deletion may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Cuts the lists of a session, one after the other, until it is dropped.
pub async fn cut(core: Arc<Core>) {
    loop {
        let due = core.overlong.next().await;
        // Otherwise recently added items would stay.
        sleep_until(due.at + core.write_clock.until_settled()).await;
        // The next operation that finds the list notes it again.
        if let Err(error) = trim_list(&core, &due.what).await {
            tracing::debug!(%error, "cannot trim a list beyond its max_items");
        }
    }
}

/// Deletes the items that a list does not show, if they exceed the slack, and if the same bound holds before and after
/// the end was found. Under a bound that was raised in between, newer items may have pushed out items that were never
/// hidden.
async fn trim_list(core: &Arc<Core>, list: &ListKey) -> Result<(), StoreError> {
    let Some(bound @ (ttl, max_items)) = core.bound_of(list) else { return Ok(()) };
    // Live load comes first.
    let Some(permit) = core.permits.try_take() else { return Ok(()) };
    let op = OpContext::new(core.write_clock.wall(), ttl, Instant::now() + TIMEOUT);
    let call = &mut Call::with_permit(core, &op, list, permit);
    if list.identity().is_set() || list.bucket().is_some() {
        let is_bound = || core.bound_of(list) == Some(bound);
        let is_cut = match list.bucket() {
            None => members::trim(call, max_items, is_bound).await?,
            Some(_) => buckets::trim(call, max_items, is_bound).await?,
        };
        if is_cut {
            core.trims.inc();
        }
        return Ok(());
    }
    let write_timestamp = core.write_clock.before_all_that_follows();
    let (shown, most) = (max_items.as_u64(), (max_items.get() + slack(max_items)) as u64);
    let keys = Layout::Items.keys(call, &Bounds::ALL, None, (most + 1, shown)).await?;
    let Keys { count, at: Some(last), .. } = keys else {
        return Ok(());
    };
    if count > most && core.bound_of(list) == Some(bound) {
        let (lower, _) = slice(&Bounds::ALL);
        delete_slice(call, (&lower, &last.to_string()), write_timestamp).await?;
        core.trims.inc();
    }
    Ok(())
}
