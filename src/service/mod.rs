//! What the server does, whoever asks: operations as values.
//!
//! An [`Operation`] is a value: which operation, with its request in the domain's types. A [`Caller`] is who asks, and how
//! long they wait. [`Service::execute`] carries it out, and gives a [`Reply`] or a [`ServiceError`]. Nothing in here knows
//! HTTP, but for the JSON of a page of items: the service keeps pages as they are rendered.

mod audit;
mod bag;
mod bag_conditions;
mod bags;
mod batch;
mod begun;
mod changes;
mod entities;
mod erase;
mod error;
mod features;
mod find_bags;
mod index_view;
mod indexes;
mod jobs;
mod keys;
mod lists;
mod members;
mod operation;
mod page_cache;
mod page_end;
mod receipt;
mod render;
mod replay;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::access::{Budget, Principal, Refusals, Reservation, SMALL_BYTES};
use crate::actors::{ListPool, MetadataHandle};
use crate::background::{Cleaner, Jobs};
use crate::backup::Backups;
use crate::domain::{Author, Clock, FeatureId, Ttl};
use crate::metadata::{Change, MetadataError};
use crate::telemetry::Log;

use page_cache::PageCache;

pub use audit::REFUSE;
pub use bag::{Bag, BagOperation, EntityName, FoundBag, JoinedList};
pub use bag_conditions::{BagConditions, BagError, BagTags};
pub use error::ServiceError;
pub use index_view::IndexView;
pub use operation::{
    AddItems, Audited, CleanIndexes, CreateKey, FindBags, GetItems, ListName, Operation, PurgeFeature, Reply, RotateKey,
};
pub use page_cache::RenderedPage;
pub use receipt::{ErasedList, Receipt};
pub(crate) use render::{found, tag_of_text};
pub use replay::Repeated;

#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The deadline of a list operation, from when it is asked for.
    pub operation_timeout: Duration,
    /// A page of items ends early before it exceeds this as it is rendered, but never empty.
    pub page_bytes_max: usize,
    /// Memory for pages that are kept as they were rendered.
    pub page_cache_bytes: u64,
    /// How stale a catalog can be: what other servers need to learn of a deletion.
    pub poll_interval: Duration,
    /// The longest lifetime of keys from a caller whose own key, token or certificate expires.
    pub key_lifetime_max: Ttl,
    /// The server's name in the audit trail, among servers that share a metadata store.
    pub server_name: String,
}

/// Who asks for an operation.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Who asks, as far as somebody has made sure.
    pub principal: Principal,
    /// Who asks as they say themselves. None of those who did not say.
    pub author: Option<Author>,
    /// How long the caller waits, if that is shorter than the operation's own deadline.
    pub timeout: Option<Duration>,
    /// Memory for the answer.
    pub reservation: Reservation,
}

impl Caller {
    fn author(&self) -> Author {
        self.principal.author(self.author.as_ref())
    }

    /// Counts items that an operation is about to read or add, at least one, if the caller may have any now.
    /// An operation on several lists counts all of them at once.
    fn take_items(&self, items: usize) -> Result<(), ServiceError> {
        Ok(self.principal.limiter().map_or(Ok(()), |limiter| limiter.take_items(items))?)
    }

    /// Counts items that nobody knew of before they were read, beyond those that were taken.
    fn owe_items(&self, items: usize) {
        if let Some(limiter) = self.principal.limiter() {
            limiter.owe_items(items);
        }
    }

    /// How long the caller waits for an operation that may take `longest`.
    fn patience(&self, longest: Duration) -> Duration {
        self.timeout.map_or(longest, |asked| asked.min(longest))
    }
}

/// What a caller who left too early may believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changes {
    Nothing,
    Definitions,
}

/// Waits for the metadata handle, which has a deadline of its own, or for less if the caller asks so.
async fn within<T>(
    caller: &Caller,
    changes: Changes,
    asked: impl Future<Output = Result<T, MetadataError>>,
) -> Result<T, ServiceError> {
    let Some(time) = caller.timeout else { return Ok(asked.await?) };
    match timeout(time, asked).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(ServiceError::DeadlineExceeded { outcome_unknown: changes == Changes::Definitions }),
    }
}

/// What operations are carried out with.
pub struct ServiceHandles {
    pub lists: ListPool,
    pub metadata: MetadataHandle,
    pub backups: Backups,
    pub jobs: Jobs,
    pub cleaner: Cleaner,
    pub refusals: Arc<Refusals>,
    pub log: Arc<Log>,
    pub clock: Arc<dyn Clock>,
    pub budget: Arc<Budget>,
}

/// Carries out operations. Shared by all ways in.
pub struct Service {
    lists: ListPool,
    metadata: MetadataHandle,
    backups: Backups,
    jobs: Jobs,
    cleaner: Cleaner,
    refusals: Arc<Refusals>,
    log: Arc<Log>,
    /// Held while the log changes.
    log_turn: Arc<Mutex<()>>,
    clock: Arc<dyn Clock>,
    budget: Arc<Budget>,
    pages: PageCache,
    options: ServiceOptions,
}

impl Service {
    /// Registers the metrics of kept pages with `registry`.
    pub fn new(handles: ServiceHandles, options: ServiceOptions, registry: &Registry) -> prometheus::Result<Self> {
        let ServiceHandles { lists, metadata, backups, jobs, cleaner, refusals, log, clock, budget } = handles;
        let pages = PageCache::new(options.page_cache_bytes, registry)?;
        Ok(Self {
            lists,
            metadata,
            backups,
            jobs,
            cleaner,
            refusals,
            log,
            log_turn: Arc::default(),
            clock,
            budget,
            pages,
            options,
        })
    }

    /// Carries an operation out. Its caller may: that was decided by its row and its path. Where the body names the
    /// resources, each is decided on here.
    pub async fn execute(&self, caller: &Caller, operation: Operation<'_>) -> Result<Reply, ServiceError> {
        match operation {
            Operation::GetItems(request) => self.get_items(caller, request).await,
            Operation::AddItems(request) => self.add_items(caller, request).await,
            // On the heap: what all operations go through is as large as the largest of these otherwise.
            Operation::RemoveItems { list, removal } => Box::pin(self.remove_items(caller, list, removal)).await,
            Operation::CountItems { list, within, max } => Box::pin(self.count_items(caller, list, within, max)).await,
            Operation::ContainsItems { list, within, values } => {
                Box::pin(self.contains_items(caller, list, within, values)).await
            }
            Operation::LookupItems { list, input } => Box::pin(self.lookup_items(caller, list, input)).await,
            Operation::RemoveAllItems { list } => Box::pin(self.remove_all_items(caller, list)).await,
            Operation::ListEntities { id, version, page_size, page_token } => {
                Box::pin(self.list_entities(caller, id, version, page_size, page_token)).await
            }
            Operation::BatchGet(requests) => Box::pin(self.batch_get(caller, requests)).await,
            Operation::BatchAdd(requests) => Box::pin(self.batch_add(caller, requests)).await,
            Operation::EraseEntity { entity, conditions } => {
                Box::pin(self.erase_entity(caller, entity, conditions)).await
            }
            Operation::Bag(operation) => Box::pin(self.execute_bag(caller, operation)).await,
            Operation::PurgeFeature(request) | Operation::PurgeEntityType(request) => {
                Box::pin(self.purge_feature(caller, request)).await
            }
            Operation::ListJobs { page_size, page_token } => {
                Box::pin(self.list_jobs(caller, page_size, page_token)).await
            }
            Operation::GetJob(id) => Box::pin(self.get_job(caller, id)).await,
            Operation::CommandJob { id, command } => Box::pin(self.command_job(caller, id, command)).await,
            Operation::ListFeatures { filter, page_size, page_token }
            | Operation::ListEntityTypes { filter, page_size, page_token } => {
                Box::pin(self.list_features(caller, filter, page_size, page_token)).await
            }
            Operation::CreateFeature(new) | Operation::CreateEntityType(new) => {
                Box::pin(self.create_feature(caller, new)).await
            }
            Operation::GetFeature(id) => Box::pin(self.get_feature(caller, id)).await,
            Operation::UpdateFeature { id, patch, condition } => {
                Box::pin(self.change_feature(caller, Change::UpdateFeature { id, patch, condition })).await
            }
            Operation::DeleteFeature { id, condition } => {
                Box::pin(self.delete(caller, Change::DeleteFeature { id, condition })).await
            }
            Operation::GetHistory { id, page_size, page_token } => {
                Box::pin(self.get_history(caller, id, page_size, page_token)).await
            }
            Operation::CreateVersion { id, new } => {
                Box::pin(self.change_version(caller, Change::CreateVersion { id, new })).await
            }
            Operation::GetVersion { id, version } => Box::pin(self.get_version(caller, id, version)).await,
            Operation::UpdateVersion { id, version, patch, condition } => {
                Box::pin(self.change_version(caller, Change::UpdateVersion { id, version, patch, condition })).await
            }
            Operation::DeleteVersion { id, version, condition } => {
                Box::pin(self.delete(caller, Change::DeleteVersion { id, version, condition })).await
            }
            Operation::GetEntityType(entity_type) => {
                Box::pin(self.get_feature(caller, FeatureId::of_bags(entity_type))).await
            }
            Operation::UpdateEntityType { entity_type, patch, condition } => {
                let id = FeatureId::of_bags(entity_type);
                Box::pin(self.change_feature(caller, Change::UpdateFeature { id, patch, condition })).await
            }
            Operation::DeleteEntityType { entity_type, condition } => {
                let id = FeatureId::of_bags(entity_type);
                Box::pin(self.delete(caller, Change::DeleteFeature { id, condition })).await
            }
            Operation::GetEntityTypeHistory { entity_type, page_size, page_token } => {
                Box::pin(self.get_history(caller, FeatureId::of_bags(entity_type), page_size, page_token)).await
            }
            Operation::CreateIndex { entity_type, name, spec } => {
                Box::pin(self.create_index(caller, entity_type, name, spec)).await
            }
            Operation::ListIndexes(entity_type) => Box::pin(self.list_indexes(caller, entity_type)).await,
            Operation::GetIndex { entity_type, name } => Box::pin(self.get_index(caller, entity_type, name)).await,
            Operation::DeleteIndex { entity_type, name, condition } => {
                Box::pin(self.delete_index(caller, entity_type, name, condition)).await
            }
            Operation::CleanIndexes(request) => Box::pin(self.clean_indexes(caller, request)).await,
            Operation::FindBags(request) => Box::pin(self.find_bags(caller, request)).await,
            Operation::GetMe => Ok(Reply::Me(caller.principal.clone())),
            Operation::CreateKey(new) => Box::pin(self.create_key(caller, new)).await,
            Operation::ListKeys { page_size, page_token } => {
                Box::pin(self.list_keys(caller, page_size, page_token)).await
            }
            Operation::GetKey(id) => Box::pin(self.get_key(caller, id)).await,
            Operation::RotateKey(rotation) => Box::pin(self.rotate_key(caller, rotation)).await,
            Operation::RevokeKey { id, created_keys } => Box::pin(self.revoke_key(caller, id, created_keys)).await,
            Operation::ListAudit { filter, page_size, page_token } => {
                Box::pin(self.list_audit(caller, filter, page_size, page_token)).await
            }
            Operation::GetPool => Ok(Reply::Pool(self.lists.view())),
            Operation::ResizePool(resize) => Box::pin(self.resize_pool(caller, resize)).await,
            Operation::GetLog => Ok(Reply::Log(self.log.state())),
            Operation::ChangeLog { filter, access } => Box::pin(self.change_log(caller, filter, access)).await,
            Operation::CreateBackup { dir } => Box::pin(self.create_backup(caller, dir)).await,
        }
    }

    /// The lists, of which the caller may have a share only at work at once.
    fn lists_of(&self, caller: &Caller) -> Cow<'_, ListPool> {
        match caller.principal.limiter() {
            Some(limiter) => Cow::Owned(self.lists.limited(limiter)),
            None => Cow::Borrowed(&self.lists),
        }
    }

    /// Reserves memory for an answer, this many bytes at least, before it is made.
    fn reserve(&self, caller: &Caller, bytes: usize) -> Result<(), ServiceError> {
        let reserved = caller.reservation.reserve(&self.budget, &caller.principal, bytes);
        reserved.map_err(|_exhausted| ServiceError::NoMemoryForAnswer)
    }

    /// The same where the answer is in memory already, or is made at once: a short one needs no room.
    fn reserve_if_long(&self, caller: &Caller, bytes: usize) -> Result<(), ServiceError> {
        if bytes > SMALL_BYTES { self.reserve(caller, bytes) } else { Ok(()) }
    }

    /// When the caller of a list operation stops waiting.
    fn deadline(&self, caller: &Caller) -> Instant {
        Instant::now() + caller.patience(self.options.operation_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_shortens_and_never_lengthens() {
        let longest = Duration::from_secs(2);
        let patience = |timeout| Caller { timeout, ..Caller::default() }.patience(longest);
        assert_eq!(patience(None), longest);
        assert_eq!(patience(Some(Duration::from_millis(1))), Duration::from_millis(1));
        assert_eq!(patience(Some(Duration::MAX)), longest);
    }
}
