//! Get List Items of a list in buckets: one bucket after the other, and several at once where they have few items.

use super::directory::{Names, partition};
use super::pace::Pace;
use super::several::Slice;
use crate::domain::{ItemKey, Order};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::get::{Page, fill};
use crate::items::cql::layouts::keys::bounds;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::{Range, StoreError};

pub async fn get(call: &mut Call, range: &Range, last_shown: Option<ItemKey>) -> Result<FetchedPage, StoreError> {
    let mut page = Page::new(range);
    let after = range.after.map(|key| (key, range.order));
    let Some((lower, upper)) = bounds(&call.op, &range.bounds(), after, last_shown) else {
        return Ok(page.into_answer());
    };
    let (slice, list) = ((lower.as_str(), upper.as_str()), call.list.clone());
    let mut names = Names::between(&list, range.order, slice);
    let mut pace = Pace::default();
    while !page.is_full() {
        let before = page.items();
        // One more than asked for tells whether more follows.
        let missing = range.limit.saturating_add(1) - before;
        let some = names.take(call, pace.buckets(missing)).await?;
        let found = match &some[..] {
            [] => break,
            [_] => vec![None],
            _ => {
                let each = Pace::rows_of_each(missing, some.len());
                let several = Slice { list: &list, names: &some, lower: &lower, upper: &upper, with_values: true };
                several.rows(call, each).await?
            }
        };
        for (name, rows) in some.iter().zip(found) {
            match rows {
                Some(mut rows) => {
                    if range.order == Order::Oldest {
                        rows.reverse();
                    }
                    page.push_all(rows.into_iter().map(Ok))?;
                }
                None => {
                    call.turn_to(partition(&list, name));
                    fill(call, slice, &mut page).await?;
                    call.turn_to(list.clone());
                }
            }
            if page.is_full() {
                break;
            }
        }
        pace.met(some.len(), page.items() - before);
    }
    Ok(page.into_answer())
}
