//! Finds bags by an index: reads its entries, and the bag of each entry.
//!
//! An entry is a hint: it may belong to an earlier state of the bag, or to other values with the same name. So each bag
//! is checked again, and is found only by its present entry, which makes it appear once in a walk. The bag's stamp is
//! enough if the entry cannot belong to another state. Otherwise its document is parsed.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::bag::{BagsFound, FoundBag};
use super::lists::FIRST_BYTES;
use super::requests::FindBags;
use super::{Caller, Service, ServiceError};
use crate::actors::{ListError, ListPool, ResolveError};
use crate::background::has_entry;
use crate::domain::index::{Condition, ShallowDocument};
use crate::domain::page::{BagPlace, BagWalk};
use crate::domain::{EntityId, FeatureId, Index, Item, ItemKey, ListKey, Order, Timestamp, Ttl, VersionLabel};
use crate::items::{BagSwaps, ItemPage, Range};
use crate::metadata::MetadataError;
use crate::metadata::catalog::CatalogVersion;

/// Entries in one read, with their bags in memory.
const READ_AT_ONCE: usize = 50;
/// The maximum of stale entries that one call reads, in addition to one entry for each bag of the page. Beyond it a
/// page ends early, with a token.
const LEFT_OVER_MAX: usize = 2_000;

/// Entries have the IDs of entities. Memory is reserved for all entries of one read.
const _: () = assert!(READ_AT_ONCE * EntityId::BYTES_MAX <= FIRST_BYTES);

/// A query in progress.
struct IndexQuery<'q> {
    bags: &'q CatalogVersion,
    index: &'q Index,
    condition: Condition,
    /// Whether an entry is valid if the bag has its stamp.
    by_stamp: bool,
    entries: ListKey,
    range: Range,
}

impl Service {
    pub(crate) async fn find_bags(&self, caller: &Caller, request: FindBags<'_>) -> Result<BagsFound, ServiceError> {
        caller.take_items(1)?;
        let deadline = self.deadline(caller);
        let FindBags { entity_type, index: name, values, min, max, order, limit, page_token } = request;
        let id = FeatureId::of_bags(entity_type);
        let bags = self.bags_of(&id.entity_type, deadline).await?;
        let version = self.index_of(&id, &name, deadline).await?;
        let no_index = || MetadataError::IndexNotFound(id.entity_type.clone(), name.clone());
        let index = version.index.as_ref().ok_or_else(no_index)?;
        let values: Vec<_> = values.iter().map(|value| &**value).collect();
        let condition = index.spec.condition(&values, min.as_deref(), max.as_deref());
        let condition =
            condition.map_err(|refused| ServiceError::Invalid { field: refused.field, invalid: refused.invalid })?;
        let entity = condition.entity().map_err(ServiceError::invalid("value"))?;
        let entries = ListKey::new(version.feature_key.clone(), entity);
        let walk = BagWalk { entries: &entries, min: min.as_deref(), max: max.as_deref(), order };
        let place = page_token.map(|token| walk.resume(&token)).transpose();
        let place = place.map_err(ServiceError::invalid("page_token"))?;
        let (min_timestamp, mut max_timestamp) = condition.places();
        let follows_updates = index.spec.order_by().is_none() && order == Order::Oldest;
        let began_at = match place {
            Some(place) => place.began_at,
            None if follows_updates => self.last_update(caller, &entries, deadline).await?,
            None => self.clock.now(),
        };
        if follows_updates {
            // A bag that is updated during the walk moves ahead of it. The walk has already found it, or does not find
            // it.
            max_timestamp = max_timestamp.min(began_at);
        }
        let after = place.map(|place| place.after);
        let range =
            Range { min_timestamp, max_timestamp, after, limit: limit.get(), value_bytes_max: usize::MAX, order };
        let query = IndexQuery {
            bags: &bags,
            index,
            // The entry of a lost swap may have the stamp of the swap that was made. And restored definitions may
            // assign a generation a second time, for which entries of another index remain.
            by_stamp: self.lists.bag_swaps() == BagSwaps::Atomic
                && !self.metadata.is_shared()
                && index.spec.proves_values(&entries.entity_id),
            condition,
            entries: entries.clone(),
            range,
        };
        let (found, after) = self.find(caller, query, deadline).await?;
        caller.charge_items(found.len().saturating_sub(1));
        let next_page_token = after.map(|after| walk.token_at(BagPlace { after, began_at }));
        Ok(BagsFound { entity_type: id.entity_type, bags: found, next_page_token })
    }

    async fn index_of(
        &self,
        id: &FeatureId,
        label: &VersionLabel,
        deadline: Instant,
    ) -> Result<CatalogVersion, ServiceError> {
        let (entity_type, name) = (id.entity_type.as_str(), id.name.as_str());
        let found = self.metadata.resolve(entity_type, name, label.as_str(), deadline).await;
        found.map_err(|error| match error {
            ResolveError::FeatureNotFound => MetadataError::not_found(id.clone()).into(),
            ResolveError::VersionNotFound => MetadataError::version_not_found(id.clone(), label.clone()).into(),
            ResolveError::Unavailable { reason } => ServiceError::CatalogUnavailable { reason },
        })
    }

    /// A moment before which all entries of a list were made. It is now, or later if a server's clock is ahead, or if
    /// this server's clock was set back.
    async fn last_update(
        &self,
        caller: &Caller,
        entries: &ListKey,
        deadline: Instant,
    ) -> Result<Timestamp, ServiceError> {
        let newest = Range { limit: 1, ..Range::NEWEST };
        let (page, _) = self.lists_of(caller).get(entries, Ttl::ENDLESS, newest, deadline).await?;
        let now = self.clock.now();
        Ok(page.items.first().map_or(now, |entry| entry.timestamp.max(now)))
    }

    /// The bags of a page, and the last checked entry if others may follow. Memory is reserved before the store is
    /// read. Without memory, a page ends early.
    async fn find(
        &self,
        caller: &Caller,
        mut query: IndexQuery<'_>,
        deadline: Instant,
    ) -> Result<(Vec<FoundBag>, Option<ItemKey>), ServiceError> {
        let lists = self.lists_of(caller);
        let limit = query.range.limit;
        let (mut found, mut bytes, mut left_over) = (Vec::new(), 0, 0);
        loop {
            query.range.limit = (limit - found.len()).min(READ_AT_ONCE);
            let page = match self.entries_of(caller, &lists, &query, bytes, deadline).await {
                Err(ServiceError::NoMemoryForAnswer) if !found.is_empty() => return Ok((found, query.range.after)),
                page => page?,
            };
            let ItemPage { items, more } = page;
            let mut bags = EntryBags::in_memory(&lists, &query, &items, deadline);
            // Keys are computed only for the few entries at which a page or a read ends.
            let after = |index: usize| index.checked_sub(1).map_or(query.range.after, |last| Some(items[last].key()));
            for (index, entry) in items.iter().enumerate() {
                if let Some(missing) = bags.missing_at(index) {
                    match self.reserve_bags(caller, bytes, missing) {
                        Ok(part) => bags.read(index, part).await,
                        Err(_) if !found.is_empty() => return Ok((found, after(index))),
                        Err(lack) => return Err(lack),
                    }
                }
                match bags.take(index)? {
                    Some(bag) if query.holds(&bag, entry.timestamp) => {
                        let with_it = bytes + bag.value.len();
                        let fits = with_it <= self.options.page_bytes_max;
                        match self.reserve_if_long(caller, with_it) {
                            Ok(()) if fits || found.is_empty() => {}
                            Err(lack) if found.is_empty() => return Err(lack),
                            _ => return Ok((found, after(index))),
                        }
                        bytes = with_it;
                        let (entity_id, updated_at) = (entry.value.clone(), bag.timestamp);
                        found.push(FoundBag { entity_id, updated_at, document: bag.value });
                    }
                    other => {
                        left_over += 1;
                        if !other.is_some_and(|bag| query.has(&bag, entry.timestamp))
                            && let Some(entity) = entity_of(entry)
                        {
                            self.cleaner.entry(query.entries.clone(), entry.timestamp, entity);
                        }
                    }
                }
                if found.len() == limit || left_over >= LEFT_OVER_MAX {
                    let follows = more || index + 1 < items.len();
                    return Ok((found, after(index + 1).filter(|_| follows)));
                }
            }
            if !more {
                return Ok((found, None));
            }
            query.range.after = after(items.len());
        }
    }

    /// Reads entries, while the page already has some bytes of bags.
    async fn entries_of(
        &self,
        caller: &Caller,
        lists: &ListPool,
        query: &IndexQuery<'_>,
        bytes: usize,
        deadline: Instant,
    ) -> Result<ItemPage, ServiceError> {
        if let Some((page, _)) = lists.get_from_memory(&query.entries, Ttl::ENDLESS, &query.range, deadline) {
            return Ok(page);
        }
        self.reserve(caller, bytes + FIRST_BYTES)?;
        Ok(lists.get_through_actor(&query.entries, Ttl::ENDLESS, query.range, deadline).await?)
    }
}

/// The bags of entries: those in memory at once, and the others in parts.
struct EntryBags<'f> {
    lists: &'f ListPool,
    query: &'f IndexQuery<'f>,
    entries: &'f [Item],
    deadline: Instant,
    /// By entry. `None` until it is read.
    known: Vec<Option<Result<Option<Item>, ListError>>>,
}

impl<'f> EntryBags<'f> {
    fn in_memory(lists: &'f ListPool, query: &'f IndexQuery<'f>, entries: &'f [Item], deadline: Instant) -> Self {
        let known = lists.bags_from_memory(&query.bags.feature_key, entries, query.bags.properties.ttl, deadline);
        let known = known.into_iter().map(|bag| bag.map(Ok)).collect();
        Self { lists, query, entries, deadline, known }
    }

    /// If the bag of an entry is not read yet, the number of such bags from this one on.
    fn missing_at(&self, index: usize) -> Option<usize> {
        let count = || self.known[index..].iter().filter(|known| known.is_none()).count();
        self.known[index].is_none().then(count)
    }

    /// Reads a number of the missing bags, from an entry on.
    async fn read(&mut self, from: usize, count: usize) {
        let missing = (from..self.known.len()).filter(|index| self.known[*index].is_none());
        let missing: Vec<_> = missing.take(count).collect();
        let CatalogVersion { feature_key, properties, .. } = self.query.bags;
        let bag = async |entry: &Item| match entity_of(entry) {
            Some(entity) => {
                let list = ListKey::new(feature_key.clone(), entity);
                let read = self.lists.bag_through_actor(list, properties.ttl, self.deadline).await;
                read.map(|read| read.bag)
            }
            // The entry is damaged: no entity has such an ID.
            None => Ok(None),
        };
        let read = join_all(missing.iter().map(|index| bag(&self.entries[*index]))).await;
        for (index, bag) in missing.into_iter().zip(read) {
            self.known[index] = Some(bag);
        }
    }

    fn take(&mut self, index: usize) -> Result<Option<Item>, ListError> {
        self.known[index].take().unwrap_or(Ok(None))
    }
}

impl IndexQuery<'_> {
    fn holds(&self, bag: &Item, entry: Timestamp) -> bool {
        if self.by_stamp {
            return bag.timestamp == entry;
        }
        let document = ShallowDocument::parse(&bag.value);
        document.is_some_and(|document| self.index.spec.holds(&document, bag.timestamp, &self.condition, entry))
    }

    /// Whether an entry belongs to the bag, although the bag may not match the query: values with one name differ, and
    /// places are coarser than bounds.
    fn has(&self, bag: &Item, entry: Timestamp) -> bool {
        // If the stamp is the only criterion, it does not match here.
        !self.by_stamp && has_entry(self.index, bag, &self.entries.entity_id, entry)
    }
}

/// The entity of an entry.
fn entity_of(entry: &Item) -> Option<EntityId> {
    std::str::from_utf8(&entry.value).ok().and_then(|text| EntityId::new(text).ok())
}
