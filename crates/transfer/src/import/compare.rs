//! Counts the items of a group that are in their list already, before the group is added.
//!
//! A store adds an item without reading its list, so the answer to an add does not distinguish new items. The import
//! reads instead: the part of the list between the oldest and the newest item of the group, or the members of a set. It
//! does not see changes by other clients between this read and the add, nor by other adds of the import.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use liststore_contract::operations::lookup_items::{LookupInput, LookupKeysInput, LookupValuesInput};
use liststore_contract::operations::{get_items, lookup_items};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::groups::Group;
use super::shape::SentItem;
use super::target::Target;
use crate::client::ClientError;
use crate::definition::VersionProperties;
use crate::domain::{Clock, IdentityKind, Int64As, Limit, SystemClock, Timestamp, Ttl};
use crate::wire::parameters::{INT64_AS, LIMIT, MAX_TIMESTAMP, MIN_TIMESTAMP, PAGE_TOKEN};
use crate::wire::{ErrorCode, Item};

/// Items of a list that are read in addition to twice the items of the group.
const READ_MORE: usize = 100;

/// Reads of a list for one group. A group that needs more is not compared, because the import would take much longer.
const READS_MAX: usize = 8;

/// The comparison of items with their lists, for a bounded number of items.
#[derive(Debug)]
pub struct Comparison {
    identity: IdentityKind,
    ttl: Ttl,
    /// Items that may still be compared.
    left: AtomicU64,
}

/// What distinguishes an item from others of its list.
type TimedValue = (u64, Vec<u8>);

#[derive(Deserialize)]
struct Page {
    items: Vec<Item>,
    next_page_token: Option<String>,
}

/// A result for each member of a set: `None` for a missing one.
#[derive(Deserialize)]
struct Found {
    results: Vec<Option<IgnoredAny>>,
}

impl Comparison {
    pub fn new(properties: &VersionProperties, items_max: u64) -> Self {
        Self { identity: properties.identity, ttl: properties.ttl, left: AtomicU64::new(items_max) }
    }

    /// Whether a group is compared, which the bound then counts.
    pub fn begin(&self, group: &Group) -> bool {
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(group.len() as u64));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// The number of items that are in their list already, or that occur again in the group. `None` if the group is
    /// not compared.
    pub async fn count(&self, target: &Target, group: &Group) -> Result<Option<u64>, ClientError> {
        // Boxed, so that it takes no space in the future of each add.
        let counted = match self.identity {
            IdentityKind::Item => Box::pin(self.items(target, group)).await,
            IdentityKind::Value | IdentityKind::Key => Box::pin(self.members(target, group)).await,
        };
        match counted {
            // The add itself may succeed.
            Err(ClientError::Problem(problem)) => {
                if self.left.swap(0, Ordering::Relaxed) > 0 {
                    let error = ClientError::Problem(problem);
                    target.tally.warn(format!("cannot compare more items with their lists: {error}"));
                }
                Ok(None)
            }
            counted => counted,
        }
    }

    /// The items that can be in the list: the server does not store expired ones.
    fn live<'g>(&self, group: &'g Group) -> Vec<SentItem<'g>> {
        let visible_from = self.ttl.visible_from(SystemClock.now()).as_nanos();
        let read = group.items().filter_map(|item| serde_json::from_slice::<SentItem<'g>>(item.json).ok());
        read.filter(|item| item.timestamp >= visible_from).collect()
    }

    async fn items(&self, target: &Target, group: &Group) -> Result<Option<u64>, ClientError> {
        let sent = self.live(group);
        // The server refuses values that have no stored form.
        let identities = sent.iter().filter_map(|item| Some((item.timestamp, target.shape.stored(item.value)?)));
        let sent: Vec<TimedValue> = identities.collect();
        let mut missing: HashSet<&TimedValue> = sent.iter().collect();
        let timestamps = || sent.iter().map(|(timestamp, _)| *timestamp);
        let (Some(oldest), Some(newest)) = (timestamps().min(), timestamps().max()) else { return Ok(Some(0)) };
        let limit = (2 * sent.len() + READ_MORE).min(Limit::ITEMS_MAX);
        let part = |min, max, token| part(target, group, (min, max), limit, token);
        let (last, more) = remove_found(target, &mut missing, part(oldest, newest, None).await?);
        let mut reads = 1;
        if more.is_some() {
            // The list has many other items in between, so a few are read by timestamp, and many by further pages.
            let unread = last.unwrap_or(newest);
            let mut rest: Vec<u64> =
                missing.iter().map(|(timestamp, _)| *timestamp).filter(|timestamp| *timestamp <= unread).collect();
            rest.sort_unstable();
            rest.dedup();
            let ranges: Vec<(u64, u64, Option<String>)> = if rest.len() < READS_MAX {
                rest.into_iter().map(|at| (at, at, None)).collect()
            } else {
                vec![(oldest, newest, more)]
            };
            for (min, max, mut token) in ranges {
                loop {
                    if reads == READS_MAX {
                        return Ok(None);
                    }
                    reads += 1;
                    (_, token) = remove_found(target, &mut missing, part(min, max, token).await?);
                    if token.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(Some((sent.len() - missing.len()) as u64))
    }

    async fn members(&self, target: &Target, group: &Group) -> Result<Option<u64>, ClientError> {
        let sent = self.live(group);
        let (mut seen, mut members) = (HashSet::new(), Vec::new());
        let mut present = 0;
        for item in &sent {
            let (member, stored) = match (self.identity, item.key) {
                (IdentityKind::Key, Some(key)) => {
                    (key.get(), serde_json::from_str::<String>(key.get()).ok().map(String::into_bytes))
                }
                _ => (item.value.get(), target.shape.stored(item.value)),
            };
            // The server refuses a member that has no stored form, here and in the add.
            let Some(stored) = stored else { continue };
            if seen.insert(stored) {
                members.push(member);
            } else {
                present += 1;
            }
        }
        let mut parts = vec![members.as_slice()];
        let mut reads = 0;
        while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
            if reads == READS_MAX {
                return Ok(None);
            }
            reads += 1;
            let input = match self.identity {
                IdentityKind::Key => LookupInput::Keys(LookupKeysInput { keys: part.to_vec() }),
                _ => LookupInput::Values(LookupValuesInput { values: part.to_vec() }),
            };
            let request = target.request(&lookup_items::ROW, group).body(&input)?;
            match target.client.ask::<Found>(&request).await {
                Ok(found) => present += found.results.iter().flatten().count() as u64,
                Err(error) if is_too_large(&error) && part.len() > 1 => {
                    parts.extend(<[&[&str]; 2]>::from(part.split_at(part.len() / 2)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(present))
    }
}

/// Reads a page of the list between two timestamps.
async fn part(
    target: &Target,
    group: &Group,
    (min, max): (u64, u64),
    limit: usize,
    token: Option<String>,
) -> Result<Page, ClientError> {
    let request = target
        .request(&get_items::ROW, group)
        .query(&MIN_TIMESTAMP, Some(min))
        .query(&MAX_TIMESTAMP, Some(max))
        .query(&LIMIT, Some(limit))
        .query(&PAGE_TOKEN, token)
        .query(&INT64_AS, Some(Int64As::Number));
    target.client.ask(&request).await
}

fn is_too_large(error: &ClientError) -> bool {
    error.has_code(ErrorCode::LookupTooLarge) || error.has_code(ErrorCode::PayloadTooLarge)
}

/// Removes the items of a page. Returns the timestamp of the last one, and the token of the next page.
fn remove_found(target: &Target, missing: &mut HashSet<&TimedValue>, page: Page) -> (Option<u64>, Option<String>) {
    let mut last = None;
    for item in page.items {
        let Ok(timestamp) = Timestamp::parse(&item.timestamp) else { continue };
        last = Some(timestamp.as_nanos());
        if let Some(value) = target.shape.stored(&item.value) {
            missing.remove(&(timestamp.as_nanos(), value));
        }
    }
    (last, page.next_page_token)
}
