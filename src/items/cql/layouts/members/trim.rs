//! Cutting a set that is longer than it shows.

use super::walk::{CurrentItem, SetWalk};
use super::write;
use crate::domain::{MaxItems, Order};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::keys::slice;
use crate::items::cql::layouts::walk::{Slice, What};
use crate::items::cql::notes::overlong::slack;
use crate::items::cql::statements::Statement;
use crate::items::{Bounds, StoreError};

/// Rows that are read at once, and items of one batch at most.
const STEP_ROWS: usize = 500;

/// Deletes the items that a set does not show, if they exceed the slack, and only while the bound is the one that it
/// was begun with. Each item is deleted with its own write timestamp, so that no concurrent add is hidden. Returns
/// whether something was deleted.
pub async fn trim(call: &mut Call, max_items: MaxItems, is_bound: impl Fn() -> bool) -> Result<bool, StoreError> {
    let (lower, upper) = slice(&Bounds::ALL);
    let mut walk = SetWalk::new(Slice { order: Order::Newest, lower, upper }, What::Keys, usize::MAX);
    let (mut passed, mut surplus, mut begun) = (0, Vec::new(), false);
    let most = max_items.get() + slack(max_items);
    while let Some(current) = walk.next_items(call, STEP_ROWS).await? {
        for current in current {
            passed += 1;
            if passed > max_items.get() {
                surplus.push(current);
            }
        }
        if passed > most {
            if !is_bound() {
                return Ok(begun);
            }
            let gone = std::mem::take(&mut surplus);
            write::write(call, Statement::Delete, gone.iter().flat_map(drop_all).collect()).await?;
            begun = true;
        }
    }
    Ok(begun)
}

/// With the current item goes all that its entry holds, so that none comes up behind it: it may be that very item,
/// which two have written, and has no row any more.
fn drop_all(CurrentItem { member, held, others }: &CurrentItem) -> Vec<write::MemberChange> {
    std::iter::once(held).chain(others).flat_map(|held| write::drop(member, held)).collect()
}
