//! Reads the keys of live rows of a partition, and deletes the gaps between them.

use std::sync::Arc;
use std::time::Duration;

use scylla::statement::Consistency;
use scylla::statement::batch::BatchType;
use tokio::time::{Instant, sleep};

use crate::domain::{ListKey, Order, Timestamp};
use crate::items::cql::call::{Call, Pages, Subject};
use crate::items::cql::core::Core;
use crate::items::cql::layouts::keys::slice;
use crate::items::cql::layouts::settled::settled;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::cql::statements::sets::SetStatement;
use crate::items::cql::statements::{Name, Query, Statement, Writes};
use crate::items::{Bounds, OpContext, StoreError};

/// How long a sweep waits until it looks for a free permit again.
const PERMIT_PAUSE: Duration = Duration::from_millis(50);
/// How long a request may take: longer than a node works on it.
const STEP_TIMEOUT: Duration = Duration::from_secs(15);
/// Live rows of one step, and so the ranges of one batch.
const STEP_ROWS: usize = 100;
/// Steps of one sweep.
const STEPS_MAX: usize = 1_000;
/// How far a step goes after one was refused for its tombstones: a second. A refusal costs much, and makes steps
/// shorter until they have passed the refused place. Then each success makes them longer.
const SPAN_FIRST: u128 = 1_000_000_000 << DIGEST_BITS;
const SHORTER_BY: u128 = 16;
const LONGER_BY: u128 = 4;
/// The characters of a digest, which is Base64, in the order of the database.
const DIGEST_CHARS: &[u8; 64] = b"+/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// So many characters of a digest count where a key lies, since very many keys may have one timestamp.
const DIGEST_PREFIX: usize = 4;
const DIGEST_BITS: usize = 6 * DIGEST_PREFIX;

/// A sweep of a partition.
pub struct Gaps<'a> {
    core: &'a Arc<Core>,
    op: &'a OpContext,
    list: &'a ListKey,
    consistency: Consistency,
    /// The write timestamp of the ranges, from before anything is read.
    written: i64,
    /// All keys lie between these.
    lowest: String,
    highest: String,
}

impl<'a> Gaps<'a> {
    pub async fn begin(
        core: &'a Arc<Core>,
        op: &'a OpContext,
        list: &'a ListKey,
        after: Duration,
    ) -> Result<Self, StoreError> {
        let (lowest, highest) = slice(&Bounds::ALL);
        let is_entries = list.feature_key.is_of_bags();
        let consistency = core.consistency_of_sweeps(is_entries);
        let written = settled(&mut step(core, op, list).await?, after).await?;
        Ok(Self { core, op, list, consistency, written, lowest, highest })
    }

    /// The key of the `rows`-th live row that is newer than a key; none if there are fewer. Where too many tombstones
    /// lie before it, it is a bound just above the key.
    pub async fn newer_than(&mut self, key: &str, rows: usize) -> Result<Option<String>, StoreError> {
        let above = key.to_owned() + "$";
        match self.live(&mut self.step().await?, (&above, &self.highest), Order::Oldest, rows).await {
            Ok((keys, _)) if keys.len() == rows => Ok(keys.last().cloned()),
            Ok(_) => Ok(None),
            Err(error) if self.is_too_much(&error) => Ok(Some(above)),
            Err(error) => Err(error),
        }
    }

    /// Deletes the gaps from a key on, until so many live rows were met.
    pub async fn sweep(&mut self, from: &str, order: Order, rows_max: usize) -> Result<(), StoreError> {
        let (mut from, mut rows_left) = (from.to_owned(), rows_max);
        // How far a step goes, and where the last one was to end that was refused.
        let (mut span, mut refused): (Option<u128>, Option<String>) = (None, None);
        // Few items of lists lie in the future, but all entries of ordered indexes seem to.
        let mut skips = order == Order::Newest;
        let now = slice(&Bounds { min_timestamp: self.op.now, ..Bounds::ALL }).0;
        for _ in 0..STEPS_MAX {
            let skips_now = skips && span.is_some() && from > now;
            let end = if skips_now { now.clone() } else { self.end(&from, order, span) };
            let (lower, upper) = match order {
                Order::Newest => (&end, &from),
                Order::Oldest => (&from, &end),
            };
            let call = &mut self.step().await?;
            let (keys, is_whole) = match self.live(call, (lower, upper), order, STEP_ROWS.min(rows_left)).await {
                Ok(read) => read,
                Err(error) if self.is_too_much(&error) => {
                    if skips_now {
                        skips = false;
                        continue;
                    }
                    let shorter = span.map_or(SPAN_FIRST, |span| span / SHORTER_BY);
                    if shorter == 0 || self.op.begin().is_err() {
                        return Err(error);
                    }
                    refused = span.map(|_| end);
                    span = Some(shorter);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let last = keys.last().filter(|_| !is_whole).cloned();
            rows_left = rows_left.saturating_sub(keys.len());
            let reached = last.as_ref().unwrap_or(&end);
            self.delete(call, gaps(&from, keys, reached)).await?;
            if rows_left == 0 || *reached == self.lowest || *reached == self.highest {
                return Ok(());
            }
            from = match (last, order) {
                // The lower bound of a slice is part of it.
                (Some(last), Order::Oldest) => last + "$",
                (Some(last), Order::Newest) => last,
                (None, _) => end,
            };
            refused = refused.filter(|refused| match order {
                Order::Newest => from > *refused,
                Order::Oldest => from < *refused,
            });
            if refused.is_none() {
                span = span.map(|span| span.saturating_mul(LONGER_BY));
            }
        }
        Ok(())
    }

    /// Where a step ends that begins at a key and goes so far, or to the end of the partition.
    fn end(&self, from: &str, order: Order, span: Option<u128>) -> String {
        let end = position(from).zip(span).and_then(|(at, span)| match order {
            Order::Newest => at.checked_sub(span),
            Order::Oldest => at.checked_add(span),
        });
        match (end.and_then(at_position), order) {
            (Some(end), _) => end,
            (None, Order::Newest) => self.lowest.clone(),
            (None, Order::Oldest) => self.highest.clone(),
        }
    }

    async fn step(&self) -> Result<Call, StoreError> {
        step(self.core, self.op, self.list).await
    }

    /// Whether a read had too many tombstones to pass. A node may also give up for want of time, but where all replicas
    /// are asked it is likelier that one of them is down.
    fn is_too_much(&self, error: &StoreError) -> bool {
        match error {
            StoreError::TooManyTombstones { .. } => true,
            StoreError::Timeout { .. } => self.consistency != Consistency::All,
            _ => false,
        }
    }

    /// Keys of live rows in the order, `rows_max` at most, and whether the slice has no more.
    async fn live(
        &self,
        call: &mut Call,
        (lower, upper): (&str, &str),
        order: Order,
        rows_max: usize,
    ) -> Result<(Vec<String>, bool), StoreError> {
        let statement: Name = match (self.list.identity().is_set(), order) {
            (true, Order::Newest) => SetStatement::RowKeys.into(),
            (true, Order::Oldest) => SetStatement::RowKeysOldest.into(),
            (false, Order::Newest) => ListStatement::Keys.into(),
            (false, Order::Oldest) => ListStatement::KeysOldest.into(),
        };
        let limit = i32::try_from(rows_max).unwrap_or(i32::MAX);
        let query = Query::of_partition(statement, [lower.into(), upper.into(), limit.into()]);
        let (query, mut keys, mut pages) = (query.of_sweep(self.consistency), Vec::new(), Pages::new());
        while keys.len() < rows_max
            && let Some(page) = pages.next(call, &query, rows_max.saturating_add(1)).await?
        {
            for row in page.rows::<(&str,)>()? {
                let (key,) = row?;
                keys.push(key.to_owned());
            }
        }
        let is_whole = keys.len() < rows_max;
        Ok((keys, is_whole))
    }

    /// Deletes what lies between each of these two keys, by a tombstone each.
    async fn delete(&self, call: &mut Call, gaps: Vec<(String, String)>) -> Result<(), StoreError> {
        if gaps.is_empty() {
            return Ok(());
        }
        let gaps = GapsOfList { list: self.list.clone(), gaps, written: self.written };
        call.batch(Statement::Sweep, BatchType::Unlogged, Arc::new(gaps)).await
    }
}

/// The call of one step, with a permit that live load has left over.
async fn step(core: &Arc<Core>, op: &OpContext, list: &ListKey) -> Result<Call, StoreError> {
    loop {
        if let Some(permit) = core.permits.try_take() {
            let op = OpContext { deadline: op.deadline.min(Instant::now() + STEP_TIMEOUT), ..*op };
            return Ok(Call::with_permit(core, &op, list, permit));
        }
        op.begin()?;
        sleep(PERMIT_PAUSE).await;
    }
}

/// Where a key or bound lies: by its timestamp, and by the first characters of its digest.
fn position(key: &str) -> Option<u128> {
    let (digits, rest) = key.split_at_checked(Timestamp::DIGITS)?;
    let nanos = u128::from(Timestamp::parse(digits).ok()?.as_nanos()) << DIGEST_BITS;
    let Some(digest) = rest.strip_prefix('#') else {
        // Below or above all keys of the timestamp.
        return Some(if rest.is_empty() { nanos } else { nanos | ((1 << DIGEST_BITS) - 1) });
    };
    let rank = |byte| DIGEST_CHARS.iter().position(|char| *char == byte).unwrap_or_default() as u128;
    let digest = digest.bytes().take(DIGEST_PREFIX).fold(0, |all, byte| (all << 6) | rank(byte));
    Some(nanos | digest)
}

/// The bound at a position, if timestamps reach so far.
fn at_position(position: u128) -> Option<String> {
    let nanos = u64::try_from(position >> DIGEST_BITS).ok()?;
    let moment = Timestamp::from_nanos(nanos).ok()?;
    let mut bound = slice(&Bounds { min_timestamp: moment, ..Bounds::ALL }).0;
    if position & ((1 << DIGEST_BITS) - 1) > 0 {
        bound.push('#');
        for n in (0..DIGEST_PREFIX).rev() {
            let rank = usize::try_from((position >> (6 * n)) & 63).unwrap_or_default();
            bound.extend(DIGEST_CHARS.get(rank).map(|byte| char::from(*byte)));
        }
    }
    Some(bound)
}

/// The gaps between neighbours, each with the lower key first.
fn gaps(from: &str, keys: Vec<String>, reached: &str) -> Vec<(String, String)> {
    let mut ends: Vec<_> = std::iter::once(from.to_owned()).chain(keys).chain([reached.to_owned()]).collect();
    ends.dedup();
    ends.windows(2)
        .map(|pair| {
            let (one, other) = (pair[0].clone(), pair[1].clone());
            if one < other { (one, other) } else { (other, one) }
        })
        .collect()
}

/// Gaps between the keys of a list, to delete with one write timestamp.
struct GapsOfList {
    list: ListKey,
    gaps: Vec<(String, String)>,
    written: i64,
}

impl Writes for GapsOfList {
    fn queries(&self) -> Vec<Query<'_>> {
        let is_set = self.list.identity().is_set();
        let statement: Name = if is_set { SetStatement::DeleteGap.into() } else { ListStatement::DeleteGap.into() };
        let gaps = self.gaps.iter().map(|(lower, upper)| {
            let values = [lower.as_str().into(), upper.as_str().into()];
            Query::deletion(statement, self.written, values).with_partition(self.list.partition())
        });
        gaps.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ItemKey, ValueDigest};

    #[test]
    fn positions_are_in_the_order_of_keys() {
        let nanos = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let mut keys = Vec::new();
        for at in [0, 7, 8, 6_000_000_000_000_000_000, Timestamp::MAX.as_nanos()] {
            let (lower, upper) = slice(&Bounds { min_timestamp: nanos(at), max_timestamp: nanos(at) });
            keys.extend([lower, upper]);
            keys.extend((0..100_u32).map(|n| ItemKey::new(nanos(at), ValueDigest::of(&n.to_be_bytes())).to_string()));
        }
        keys.sort();
        let positions: Vec<_> = keys.iter().map(|key| position(key).unwrap()).collect();
        assert!(positions.is_sorted());
        for (key, at) in keys.iter().zip(positions) {
            assert_eq!(position(&at_position(at).unwrap()), Some(at), "{key}");
            // A step ends behind where it began, for any span and order.
            assert!(at_position(at + 1).is_none_or(|end| end > *key), "{key}");
            assert!(at.checked_sub(1).is_none_or(|at| at_position(at).unwrap() < *key), "{key}");
        }
        assert!(DIGEST_CHARS.is_sorted());
    }

    #[test]
    fn gaps_lie_between_neighbours_in_any_order() {
        let reported = |from: &str, keys: &[&str], reached: &str| {
            gaps(from, keys.iter().map(ToString::to_string).collect(), reached)
                .into_iter()
                .map(|(lower, upper)| format!("{lower}-{upper}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(reported("9", &["7", "3"], "0"), ["7-9", "3-7", "0-3"]);
        assert_eq!(reported("9", &["7", "3"], "3"), ["7-9", "3-7"], "the last row is where the next step begins");
        assert_eq!(reported("3", &["5"], "9"), ["3-5", "5-9"]);
        assert_eq!(reported("9", &[], "0"), ["0-9"]);
    }
}
