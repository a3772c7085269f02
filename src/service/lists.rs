//! The data plane: the common parts of the operations on lists.
//!
//! All values are encoded before any is stored. These are the hot paths, which allocate only what an answer needs.

use bytes::Bytes;
use tokio::time::Instant;

use super::page_cache::RenderedPage;
use super::render;
use super::requests::{GetItems, ListName};
use super::{Caller, Service, ServiceError};
use crate::access::{ANSWER_BYTES_MIN, SMALL_BYTES};
use crate::actors::{ListPool, ResolveError};
use crate::domain::page::ItemWalk;
use crate::domain::{
    EntityType, FeatureId, FeatureName, Int64As, Invalid, Item, ItemKey, JsonForm, ListKey, MemberKey, Order,
    Retention, Timestamp, Value, VersionLabel,
};
use crate::items::{Bounds, ItemPage, Range, Validity};
use crate::metadata::MetadataError;
use crate::metadata::catalog::CatalogVersion;
use crate::wire::parameters::AS_OF;

/// The bytes of values that are read before memory for a longer page is reserved.
pub(super) const FIRST_BYTES: usize = 32 << 10;

/// The longest item of a set: the length of its key, the key and the value.
const MEMBER_BYTES_MAX: usize = 2 + MemberKey::BYTES_MAX + Value::BYTES_MAX;
/// Members in one lookup of the store.
const PART_MEMBERS: usize = 32;

/// Large answers never fill the memory that the lookup of one member needs.
const _: () = assert!(MEMBER_BYTES_MAX <= SMALL_BYTES);

/// The read of a page of a known feature version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRead {
    pub list: ListKey,
    pub retention: Retention,
    pub limit: usize,
    form: JsonForm,
    min_timestamp: Option<Timestamp>,
    max_timestamp: Option<Timestamp>,
    as_of: Option<Timestamp>,
    order: Order,
    after: Option<ItemKey>,
}

impl PageRead {
    pub fn new(found: CatalogVersion, request: &GetItems<'_>) -> Result<Self, ServiceError> {
        let GetItems { list, min_timestamp, max_timestamp, as_of, order, limit, page_token, int64_as } = request;
        let CatalogVersion { feature_key, value_type, properties, .. } = found;
        let mut read = Self {
            list: ListKey::new(feature_key, list.entity_id.clone()),
            retention: properties.retention(),
            limit: limit.get(),
            form: properties.json_form(value_type, *int64_as),
            min_timestamp: *min_timestamp,
            max_timestamp: *max_timestamp,
            as_of: *as_of,
            order: *order,
            after: None,
        };
        if let Some(token) = page_token {
            read.after = Some(read.walk().resume(token).map_err(ServiceError::invalid("page_token"))?);
        }
        Ok(read)
    }

    fn walk(&self) -> ItemWalk<'_> {
        let Self { list, min_timestamp, max_timestamp, as_of, order, .. } = self;
        let (min_timestamp, max_timestamp) = (*min_timestamp, *max_timestamp);
        ItemWalk { list, min_timestamp, max_timestamp, as_of: *as_of, order: *order }
    }

    /// Whether other gets can share the page. Its token is bound to the order and to the given bounds.
    fn is_first_page(&self) -> bool {
        let is_unbounded = self.min_timestamp.is_none() && self.max_timestamp.is_none() && self.as_of.is_none();
        is_unbounded && self.after.is_none() && self.order == Order::Newest
    }

    /// The properties of a first page, without its list.
    fn page_form(&self) -> (usize, Int64As) {
        (self.limit, self.form.int64_as)
    }

    /// A number that differs for most different reads.
    pub fn hash(&self) -> u64 {
        let moments = [self.min_timestamp, self.max_timestamp, self.as_of].into_iter().flatten();
        let number = (self.list.token().as_i64() as u64).wrapping_add(self.limit as u64);
        // An odd factor (Knuth's, of multiplicative hashing) keeps moments apart that differ in their low bits alone.
        moments.fold(number, |number, moment| (number ^ moment.as_nanos()).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The range to read, so that the rendered page has at most about `bytes_max`.
    pub fn range(&self, bytes_max: usize) -> Range {
        // An item that is visible now, and had happened by then, was also visible then.
        let latest = self.max_timestamp.into_iter().chain(self.as_of).min();
        let Bounds { min_timestamp, max_timestamp } = Bounds::of(self.min_timestamp, latest);
        Range {
            min_timestamp,
            max_timestamp,
            after: self.after,
            limit: self.limit,
            // A rendered value is not much shorter than the stored one. So items that the store leaves out would not
            // fit the answer.
            value_bytes_max: bytes_max,
            order: self.order,
        }
    }
}

impl Service {
    /// Refuses a read as of the future.
    pub(crate) fn check_moment(&self, as_of: Option<Timestamp>) -> Result<(), ServiceError> {
        if as_of.is_some_and(|moment| moment > self.clock.now()) {
            let future = Invalid::argument("as_of must not be in the future");
            return Err(ServiceError::Invalid { field: AS_OF.name, invalid: future });
        }
        Ok(())
    }

    /// The cached page, if it is still the answer.
    pub(crate) fn kept_page(&self, read: &PageRead) -> Option<RenderedPage> {
        if !read.is_first_page() {
            return None;
        }
        let state = self.lists.state(&read.list)?;
        self.pages.get(&read.list, read.page_form(), read.retention, self.clock.now(), state)
    }

    /// Reads a page through its list's actor.
    pub(crate) async fn read_page(
        &self,
        caller: &Caller,
        read: &PageRead,
        deadline: Instant,
    ) -> Result<ItemPage, ServiceError> {
        let lists = self.lists_of(caller);
        self.reserve(caller, FIRST_BYTES + render::bytes_around(read.limit))?;
        match self.read_first(&lists, read, deadline).await? {
            Some(page) => Ok(page),
            None => self.read_in_full(caller, &lists, read, deadline).await,
        }
    }

    /// Reads the page of a list, if its values have at most [`FIRST_BYTES`]. Nearly all pages are so short, and need
    /// not reserve the memory of the longest one.
    pub(super) async fn read_first(
        &self,
        lists: &ListPool,
        read: &PageRead,
        deadline: Instant,
    ) -> Result<Option<ItemPage>, ServiceError> {
        let range = read.range(FIRST_BYTES.min(self.options.page_bytes_max));
        let page = lists.get_through_actor(&read.list, read.retention, range, deadline).await?;
        let is_cut = page.more && page.items.len() < read.limit;
        Ok((!is_cut).then_some(page))
    }

    /// Reads a page of any length, after its memory is reserved.
    pub(super) async fn read_in_full(
        &self,
        caller: &Caller,
        lists: &ListPool,
        read: &PageRead,
        deadline: Instant,
    ) -> Result<ItemPage, ServiceError> {
        let bytes_max = self.options.page_bytes_max;
        self.reserve(caller, bytes_max)?;
        Ok(lists.get_through_actor(&read.list, read.retention, read.range(bytes_max), deadline).await?)
    }

    /// Renders a page, and caches it if it is known to stay valid.
    pub(crate) fn render_page(
        &self,
        caller: &Caller,
        read: &PageRead,
        page: &ItemPage,
        validity: Option<Validity>,
    ) -> Result<RenderedPage, ServiceError> {
        let bytes_max = self.options.page_bytes_max;
        // Checked first, so that no large page is rendered for nothing.
        self.reserve_if_long(caller, render::bytes_of(page).min(bytes_max))?;
        let rendered = render::page(page, read.form, &read.walk(), bytes_max)?;
        self.reserve_if_long(caller, rendered.text.len())?;
        if let Some(validity) = validity.filter(|_| read.is_first_page()) {
            self.pages.insert(&read.list, read.page_form(), read.retention, validity, &rendered);
        }
        Ok(rendered)
    }

    /// Looks up members in parts, after memory for their longest items is reserved. Several items that together exceed
    /// the bytes of a page are refused.
    pub(crate) async fn read_members(
        &self,
        caller: &Caller,
        list: &ListKey,
        retention: Retention,
        mut members: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Vec<Option<Item>>, ServiceError> {
        let (asked, lists) = (members.len(), self.lists_of(caller));
        let bytes_max = self.options.page_bytes_max;
        // Any budget has room for this.
        let reserved_max = bytes_max.max(ANSWER_BYTES_MIN);
        let (mut items, mut bytes, mut count) = (Vec::with_capacity(asked), 0, 0);
        while !members.is_empty() {
            let fitting = reserved_max.saturating_sub(bytes) / MEMBER_BYTES_MAX;
            let part = fitting.clamp(1, PART_MEMBERS).min(members.len());
            self.reserve(caller, (bytes + part * MEMBER_BYTES_MAX).min(reserved_max))?;
            let rest = members.split_off(part);
            let read = lists.lookup(list.clone(), retention, std::mem::replace(&mut members, rest), deadline).await?;
            for item in read {
                bytes += item.as_ref().map_or(0, |item| item.value.len());
                count += usize::from(item.is_some());
                if bytes > bytes_max && count > 1 {
                    return Err(ServiceError::LookupTooLarge { fitting: items.len(), asked });
                }
                items.push(item);
            }
        }
        Ok(items)
    }

    /// The feature version of a list, if the catalog has it.
    pub(crate) fn known(&self, list: &ListName<'_>) -> Option<CatalogVersion> {
        let ListName { entity_type, feature, version, .. } = list;
        if is_of_bags(feature) {
            return None;
        }
        self.metadata.catalog().version(entity_type, feature, version).ok()
    }

    /// Finds the feature version of a list.
    pub(crate) async fn resolve(&self, list: &ListName<'_>, deadline: Instant) -> Result<CatalogVersion, ServiceError> {
        let ListName { entity_type, feature, version, .. } = list;
        self.resolve_version(entity_type, feature, version, deadline).await
    }

    pub(crate) async fn resolve_version(
        &self,
        entity_type: &str,
        feature: &str,
        version: &str,
        deadline: Instant,
    ) -> Result<CatalogVersion, ServiceError> {
        if !is_of_bags(feature)
            && let Ok(found) = self.metadata.catalog().version(entity_type, feature, version)
        {
            return Ok(found);
        }
        let id = FeatureId {
            entity_type: EntityType::new(entity_type).map_err(ServiceError::invalid("entity_type"))?,
            name: FeatureName::new(feature).map_err(ServiceError::invalid("feature"))?,
        };
        let label = VersionLabel::new(version).map_err(ServiceError::invalid("version"))?;
        let found = self.metadata.resolve(entity_type, feature, version, deadline).await;
        found.map_err(|error| match error {
            ResolveError::FeatureNotFound => MetadataError::FeatureNotFound(id).into(),
            ResolveError::VersionNotFound => MetadataError::VersionNotFound(id, label).into(),
            ResolveError::Unavailable { reason } => ServiceError::CatalogUnavailable { reason },
        })
    }
}

/// Whether a feature's name is the empty one, under which the catalog has bags. List operations refuse it as malformed.
fn is_of_bags(feature: &str) -> bool {
    feature.is_empty()
}
