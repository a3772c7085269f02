//! Get List Items of a list in buckets: one bucket after the other, and several at once where they have few items.

use std::sync::Arc;

use super::directory::{Names, partition};
use super::pace::Pace;
use super::several::Slice;
use crate::domain::{ItemKey, ListKey, Order};
use crate::items::cql::core::Core;
use crate::items::cql::layouts::get::{Page, fill};
use crate::items::cql::layouts::keys::bounds;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::cql::pressure::permits::Permit;
use crate::items::{Operation, Range, StoreError};

pub async fn get(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    range: &Range,
    last_shown: Option<ItemKey>,
    mut permit: Permit,
) -> Result<FetchedPage, StoreError> {
    let mut page = Page::new(range);
    let after = range.after.map(|key| (key, range.order));
    let Some((lower, upper)) = bounds(op, &range.bounds(), after, last_shown) else {
        return Ok(page.into_answer());
    };
    let slice = (lower.as_str(), upper.as_str());
    let mut names = Names::between(core, op, list, range.order, slice);
    let mut pace = Pace::default();
    while !page.is_full() {
        let before = page.items();
        // One more than asked for tells whether more follows.
        let missing = range.limit.saturating_add(1) - before;
        let some;
        (some, permit) = names.take(pace.buckets(missing), permit).await?;
        match &some[..] {
            [] => break,
            [name] => permit = fill(core, op, &partition(list, name), slice, &mut page, permit).await?,
            _ => {
                let each = Pace::rows_of_each(missing, some.len());
                let several = Slice { list, names: &some, lower: &lower, upper: &upper, with_values: true };
                let found;
                (found, permit) = several.rows(core, op, each, permit).await?;
                for (name, rows) in some.iter().zip(found) {
                    let Some(mut rows) = rows else {
                        permit = fill(core, op, &partition(list, name), slice, &mut page, permit).await?;
                        if page.is_full() {
                            break;
                        }
                        continue;
                    };
                    if range.order == Order::Oldest {
                        rows.reverse();
                    }
                    if page.push_all(rows.into_iter().map(Ok::<_, StoreError>))? {
                        break;
                    }
                }
            }
        }
        pace.met(some.len(), page.items() - before);
    }
    Ok(page.into_answer())
}
