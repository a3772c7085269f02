//! Looks at lists that were added to, one now and then: whether their partitions grow wide.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::domain::{ListKey, Ttl};
use crate::items::cql::call::Call;
use crate::items::cql::core::Core;
use crate::items::cql::layouts::layout::Layout;
use crate::items::cql::notes::wide::WIDE_ITEMS;
use crate::items::{Bounds, OpContext, StoreError};

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a look may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Looks at the lists of a session, one after the other, until it is dropped.
pub async fn check_wide_lists(core: Arc<Core>) {
    loop {
        sleep(INTERVAL).await;
        let Some((list, ttl)) = core.wide_sample.take() else { continue };
        if let Err(error) = check_list(&core, &list, ttl).await {
            tracing::debug!(%error, "cannot check the length of a list");
        }
    }
}

async fn check_list(core: &Arc<Core>, list: &ListKey, ttl: Ttl) -> Result<(), StoreError> {
    // Live load comes first.
    let Some(permit) = core.permits.try_take() else { return Ok(()) };
    let op = OpContext::new(core.write_clock.wall(), ttl, Instant::now() + TIMEOUT);
    let call = &mut Call::with_permit(core, &op, list, permit);
    let keys = Layout::Items.keys(call, &Bounds::ALL, None, (WIDE_ITEMS, 0)).await?;
    core.wide.note(list, keys.count);
    Ok(())
}
