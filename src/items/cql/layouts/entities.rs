//! Which entities have lists of a feature version: a walk over the partitions of a table in the order of their tokens,
//! in bounded parts; for sets, of all tables, since no server may know whether a deleted feature was a set. A list in
//! buckets has one partition in the table of directories, and many in that of the items.
//!
//! What expired or was removed may still have a partition, and a shorter TTL hides items: so each list of the
//! feature version is asked whether anything of it can be seen.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use super::bags;
use super::layout::Layout;
use crate::domain::{EntityId, FeatureKey, ListKey, Token};
use crate::items::cql::call::{Call, Pages};
use crate::items::cql::core::Core;
use crate::items::cql::statements::bags::BagStatement;
use crate::items::cql::statements::buckets::BucketStatement;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::cql::statements::sets::SetStatement;
use crate::items::cql::statements::{Name, Query};
use crate::items::{Bounds, EntityPage, EntityPlace, OpContext, StoreError};

/// Partitions that one part reads, of all features.
const PARTITIONS_MIN: usize = 500;
const PARTITIONS_MAX: usize = 2_000;
/// Partitions of one request. There may be fewer, or none, though others follow.
const PAGE_PARTITIONS: usize = 1_000;
/// Lists that are asked at once whether they have items.
const LISTS_READ_AT_ONCE: usize = 8;
/// What cannot be read between two tokens is read of a part of them: of this many bits less.
const STEP_BITS: u32 = 4;
/// No attempt is repeated with less time than this.
const ATTEMPT_MIN: Duration = Duration::from_millis(100);

/// Which of the entities with a partition are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// Those with something to be seen, so that each is looked at.
    Visible,
    All,
}

/// One part of the walk.
pub async fn entities(
    core: &Arc<Core>,
    op: &OpContext,
    feature_key: &FeatureKey,
    from: Option<&EntityPlace>,
    limit: usize,
    reported: Reported,
) -> Result<EntityPage, StoreError> {
    // A part that cannot be looked at as a whole in time is a shorter one.
    let half_time = Instant::now() + op.deadline.saturating_duration_since(Instant::now()) / 2;
    let from = from.cloned().unwrap_or(EntityPlace { hash: 0, after: None });
    let rows_max = (2 * limit).clamp(PARTITIONS_MIN, PARTITIONS_MAX);
    let (of_lists, of_sets) = (Name::from(ListStatement::Entities), Name::from(SetStatement::Entities));
    let statements = match feature_key {
        key if key.holds_bags() => vec![BagStatement::Entities.into()],
        key if key.identity().is_set() && key.bucket().is_some() => {
            vec![of_sets, of_lists, BucketStatement::Entities.into()]
        }
        key if key.identity().is_set() => vec![of_sets, of_lists],
        key if key.bucket().is_some() => vec![BucketStatement::Entities.into()],
        _ => vec![of_lists],
    };
    let (mut partitions, mut cut): (Vec<Partition>, Option<i64>) = (Vec::new(), None);
    for statement in statements {
        // No further than the table before was read: the next part begins there.
        let tokens = (token_of(from.hash), cut.unwrap_or(i64::MAX));
        let (found, end) = partitions_between(core, op, statement, tokens, rows_max).await?;
        cut = [cut, end].into_iter().flatten().min();
        partitions.extend(found);
    }
    let first = partitions.iter().map(|partition| partition.0).min();
    // All lists of the token at which the next part begins may not be here: it meets them, unless none is before them.
    let is_whole = |token: i64| cut.is_none_or(|cut| token < cut || (token == cut && Some(token) == first));
    let mut lists: Vec<(u64, EntityId)> = Vec::new();
    for (token, key, entity) in &partitions {
        let is_ours = key == feature_key.as_str() && is_whole(*token);
        // A row of another program may have an invalid entity ID.
        if let Some(entity) = is_ours.then(|| EntityId::new(entity).ok()).flatten() {
            let list = (hash_of(*token), entity);
            if (list.0, Some(&list.1)) > (from.hash, from.after.as_ref()) {
                lists.push(list);
            }
        }
    }
    lists.sort_unstable();
    lists.dedup();
    let mut page = EntityPage::default();
    let mut checked = 0;
    if reported == Reported::All {
        checked = lists.len().min(limit);
        page.entities.extend(lists[..checked].iter().map(|(_, entity)| entity.clone()));
    }
    for some in lists[checked..].chunks(LISTS_READ_AT_ONCE) {
        if page.entities.len() >= limit || (checked > 0 && Instant::now() >= half_time) {
            break;
        }
        let some = &some[..some.len().min(limit - page.entities.len())];
        let visible = some.iter().map(|(_, entity)| has_items(core, op, feature_key, entity));
        let visible = try_join_all(visible).await?;
        page.entities.extend(some.iter().zip(visible).filter(|(_, visible)| *visible).map(|((_, id), _)| id.clone()));
        checked += some.len();
        if some.len() < LISTS_READ_AT_ONCE {
            break;
        }
    }
    page.next = match lists.get(..checked) {
        Some([.., (hash, entity)]) if checked < lists.len() => {
            Some(EntityPlace { hash: *hash, after: Some(entity.clone()) })
        }
        _ => cut.map(|cut| EntityPlace { hash: hash_of(cut), after: None }),
    };
    Ok(page)
}

/// The token, feature key and entity ID of a partition.
type Partition = (i64, String, String);

/// Partitions of a table between two tokens; of fewer tokens where there is too much to be passed over in the time that
/// there is, such as partitions that were deleted and are not compacted away yet. Returns where the next part begins if
/// this was not the end of the table: lists of that token may have been cut off in their middle.
async fn partitions_between(
    core: &Arc<Core>,
    op: &OpContext,
    statement: Name,
    (from, mut to): (i64, i64),
    rows_max: usize,
) -> Result<(Vec<Partition>, Option<i64>), StoreError> {
    // A range that was too wide recently most likely still is.
    let mut narrowed = core.walk_narrowed.load(Ordering::Relaxed);
    to = nearer(from, to, narrowed);
    loop {
        let left = op.deadline.saturating_duration_since(Instant::now());
        let attempt = OpContext { deadline: Instant::now() + left / 2, ..*op };
        let began = Instant::now();
        match partitions_of(core, &attempt, statement, (from, to), rows_max).await {
            Ok(found) => {
                let is_easy = began.elapsed() < left / 16;
                core.walk_narrowed.store(narrowed.saturating_sub(is_easy.into()), Ordering::Relaxed);
                let full = found.last().filter(|_| found.len() >= rows_max).map(|partition| partition.0);
                return Ok((found, full.or((to < i64::MAX).then_some(to))));
            }
            Err(error) if to.abs_diff(from) <= 1 || left < ATTEMPT_MIN => return Err(error),
            Err(error) => {
                tracing::debug!(%error, from, to, "narrowed a token range of a partition scan");
                while nearer(from, to, narrowed) == to {
                    narrowed += 1;
                }
                to = nearer(from, to, narrowed);
            }
        }
    }
}

/// The end of a part that begins at a token: of all that there are up to another one, or of fewer.
fn nearer(from: i64, to: i64, narrowed: u32) -> i64 {
    let width = u64::MAX.checked_shr(STEP_BITS * narrowed).unwrap_or(0);
    from.saturating_add_unsigned(width.max(1)).min(to)
}

/// Partitions of a table between two tokens, at most so many; fewer only if there are no more.
async fn partitions_of(
    core: &Arc<Core>,
    op: &OpContext,
    statement: Name,
    (from, to): (i64, i64),
    rows_max: usize,
) -> Result<Vec<Partition>, StoreError> {
    let limit = i32::try_from(rows_max).unwrap_or(i32::MAX);
    let query = Query::timed(statement, [from.into(), to.into(), limit.into()]);
    let (mut call, mut pages, mut found) = (Call::new(core, op, &()), Pages::new(), Vec::new());
    while found.len() < rows_max
        && let Some(page) = pages.next(&mut call, &query, PAGE_PARTITIONS).await?
    {
        for row in page.rows::<(&str, &str)>()? {
            let (key, entity) = row?;
            found.push((partition_token(key, entity), key.to_owned(), entity.to_owned()));
        }
    }
    Ok(found)
}

async fn has_items(
    core: &Arc<Core>,
    op: &OpContext,
    feature_key: &FeatureKey,
    entity: &EntityId,
) -> Result<bool, StoreError> {
    let call = &mut Call::new(core, op, &ListKey::new(feature_key.clone(), entity.clone()));
    if feature_key.holds_bags() {
        return Ok(bags::bag(call).await?.bag.is_some());
    }
    let (is_set, has_buckets) = (feature_key.identity().is_set(), feature_key.bucket().is_some());
    // Of a deleted set no server may know that it was one.
    let of_items = if has_buckets { Layout::Buckets } else { Layout::Items };
    let both = [Layout::Set, of_items, Layout::Items];
    let layouts = if is_set { &both[..if has_buckets { 3 } else { 2 }] } else { &both[1..2] };
    for layout in layouts {
        if layout.keys(call, &Bounds::ALL, None, (1, 0)).await?.count > 0 {
            return Ok(true);
        }
        call.release();
    }
    Ok(false)
}

/// The token of a partition key of two components: each with its length in front and a zero behind (Cassandra's
/// `CompositeType`).
fn partition_token(feature_key: &str, entity_id: &str) -> i64 {
    let mut bytes = Vec::with_capacity(feature_key.len() + entity_id.len() + 6);
    for part in [feature_key, entity_id] {
        bytes.extend_from_slice(&(part.len() as u16).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(0);
    }
    Token::of_bytes(&bytes).as_i64()
}

/// Tokens have a sign; places are in the order of their numbers.
const SIGN: u64 = 1 << 63;

fn hash_of(token: i64) -> u64 {
    token.cast_unsigned() ^ SIGN
}

fn token_of(hash: u64) -> i64 {
    (hash ^ SIGN).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_narrows_down_to_two_tokens() {
        assert_eq!(nearer(i64::MIN, i64::MAX, 0), i64::MAX);
        assert_eq!(nearer(i64::MIN, i64::MAX, 1), i64::MIN + (1 << 60) - 1);
        assert_eq!([nearer(0, 100, 14), nearer(0, 200, 14), nearer(0, 200, 15), nearer(0, 200, 99)], [100, 200, 15, 1]);
        assert_eq!([nearer(i64::MAX - 1, i64::MAX, 99), nearer(i64::MAX, i64::MAX, 0)], [i64::MAX; 2]);
    }

    #[test]
    fn positions_have_the_order_of_tokens() {
        let tokens = [i64::MIN, -2, -1, 0, 1, i64::MAX];
        assert!(tokens.map(hash_of).is_sorted());
        assert_eq!(tokens.map(|token| token_of(hash_of(token))), tokens);
        assert_eq!(token_of(0), i64::MIN, "where a walk begins");
    }
}
