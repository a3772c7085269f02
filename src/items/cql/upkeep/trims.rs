//! Gives back what lists do not show.
//!
//! No write looks at what its list holds. A read that meets more than is shown, and now and then an add, has
//! the list looked at here, in the background; what lies beyond by more than a little is then deleted by one
//! range tombstone. Such a deletion must not hide what is added to the list later, whatever server's clock
//! that is written by: so its write timestamp lies before the moment at which the list was looked at, by as
//! much as clocks may be apart.

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
use crate::items::{Bounds, Operation, StoreError};

/// How long a look and its deletion may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Cuts the lists of a session, one after the other, until it is dropped.
pub async fn cut(core: Arc<Core>) {
    loop {
        let met = core.overlong.next().await;
        // Else what was added just before would be left.
        sleep_until(met.at + core.write_clock.until_settled()).await;
        // Whoever meets the list next has it looked at again.
        if let Err(error) = look(&core, &met.what).await {
            tracing::debug!(%error, "cannot trim a list beyond its max_items");
        }
    }
}

/// Deletes what a list does not show, if that is more than a little: by the bound that holds before and after its
/// end was found. A bound that was raised meanwhile may have let items in that push others out which were never
/// beyond what is shown.
async fn look(core: &Arc<Core>, list: &ListKey) -> Result<(), StoreError> {
    let Some(bound @ (ttl, max_items)) = core.bound_of(list) else { return Ok(()) };
    // Live load comes first.
    let Some(permit) = core.permits.try_take() else { return Ok(()) };
    let op = Operation::new(core.write_clock.wall(), ttl, Instant::now() + TIMEOUT);
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
