//! Lists: reading and changing their items.

use liststore_contract::domain::{
    EntityId, EntityType, FeatureId, FeatureName, Invalid, Order, Timestamp, VersionLabel,
};
use liststore_contract::operations::add_items::AddItemsInput;
use liststore_contract::operations::contains_items::{Contained, ContainsInput};
use liststore_contract::operations::count_items::Counted;
use liststore_contract::operations::lookup_items::{Found, LookupInput, LookupKeysInput, LookupValuesInput};
use liststore_contract::operations::remove_items::{
    RemoveBetweenInput, RemoveItemsInput, RemoveKeysInput, RemoveNamedInput, RemoveValueInput, Removed,
};
use liststore_contract::operations::{
    add_items, aggregate_items, contains_items, count_items, get_items, lookup_items, remove_all_items, remove_items,
};
use liststore_contract::row::Row;
use liststore_contract::wire::parameters::{AS_OF, COUNT_MAX, LIMIT, MAX_TIMESTAMP, MIN_TIMESTAMP, ORDER, PAGE_TOKEN};
use liststore_contract::wire::{Added, AggregateInput, Aggregated};
use serde::Serialize;
use serde_json::value::RawValue;

use super::error::ClientError;
use super::items::{Item, ItemPage, NewItem, PageRead, json_of};
use super::{Client, Request};

/// Which list: one entity's items of one feature version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListName {
    pub feature: FeatureId,
    /// The default version if it is empty.
    pub version: VersionLabel,
    pub entity_id: EntityId,
}

impl ListName {
    /// The list of the default version.
    pub fn new(entity_type: &str, feature: &str, entity_id: &str) -> Result<Self, Invalid> {
        let feature = FeatureId { entity_type: EntityType::new(entity_type)?, name: FeatureName::new(feature)? };
        Ok(Self { feature, version: VersionLabel::default_version(), entity_id: EntityId::new(entity_id)? })
    }

    /// The same entity's list of another version.
    pub fn of_version(self, version: &str) -> Result<Self, Invalid> {
        Ok(Self { version: VersionLabel::new(version)?, ..self })
    }
}

/// Bounds of timestamps, both inclusive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Within {
    pub min: Option<Timestamp>,
    pub max: Option<Timestamp>,
}

/// Which items of a list a get returns. The default is the newest 100.
#[derive(Debug, Clone, Default)]
pub struct Get {
    pub within: Within,
    /// Shows the list as of this time, which must not be in the future.
    pub as_of: Option<Timestamp>,
    pub order: Order,
    /// The most items of a page, up to 10,000.
    pub limit: Option<usize>,
    /// The `next_page_token` of the page before.
    pub page_token: Option<String>,
}

/// One list of a server. [`Client::list`] makes it.
#[derive(Debug, Clone, Copy)]
pub struct List<'c> {
    client: &'c Client,
    name: &'c ListName,
}

impl Client {
    /// The operations of one list.
    pub fn list<'c>(&'c self, name: &'c ListName) -> List<'c> {
        List { client: self, name }
    }
}

impl<'c> List<'c> {
    fn request(&self, row: &'static Row) -> Request {
        Request::of_list(row, &self.name.feature, &self.name.entity_id, &self.name.version)
    }

    /// One page of items. A list without writes is empty.
    pub async fn get(&self, get: &Get) -> Result<ItemPage, ClientError> {
        let order = (get.order != Order::default()).then(|| get.order.as_str());
        let request = within(self.request(&get_items::ROW), &get.within)
            .query(&AS_OF, get.as_of)
            .query(&ORDER, order)
            .query(&LIMIT, get.limit)
            .query(&PAGE_TOKEN, get.page_token.as_deref());
        self.client.ask::<PageRead>(&request).await?.try_into()
    }

    /// All items, page by page, from the beginning of `get`.
    pub fn pages(&self, get: Get) -> Pages<'c> {
        Pages { list: *self, next: Some(get) }
    }

    /// Adds items: all of them or none. It is safe to repeat: an item is its timestamp and its value.
    pub async fn add(&self, items: &[NewItem]) -> Result<Added, ClientError> {
        let keys = NewItem::keys(items)?;
        let items = NewItem::inputs(items, &keys);
        self.client.ask(&self.request(&add_items::ROW).body(&AddItemsInput { items })?).await
    }

    /// How many items are visible. It counts no further than `max`, by default 10,000.
    pub async fn count(&self, bounds: &Within, max: Option<usize>) -> Result<Counted, ClientError> {
        self.client.ask(&within(self.request(&count_items::ROW), bounds).query(&COUNT_MAX, max)).await
    }

    /// Counts, sums and other aggregates in windows of time.
    pub async fn aggregate(&self, input: &AggregateInput) -> Result<Aggregated, ClientError> {
        self.client.ask(&self.request(&aggregate_items::ROW).body(input)?).await
    }

    /// When each of these values was last added, in their order. At most 1,000 values.
    pub async fn contains<V: Serialize>(&self, bounds: &Within, values: &[V]) -> Result<Contained, ClientError> {
        let values = to_json(values)?;
        let input = ContainsInput { values: texts(&values) };
        self.client.ask(&within(self.request(&contains_items::ROW), bounds).body(&input)?).await
    }

    /// The members of a set with these keys, in their order. At most 1,000 keys.
    pub async fn lookup_keys(&self, keys: &[impl AsRef<str>]) -> Result<Vec<Option<Item>>, ClientError> {
        let keys = to_json(&keys.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
        self.lookup(&LookupInput::Keys(LookupKeysInput { keys: texts(&keys) })).await
    }

    /// The members of a set with these values, in their order. At most 1,000 values.
    pub async fn lookup_values<V: Serialize>(&self, values: &[V]) -> Result<Vec<Option<Item>>, ClientError> {
        let values = to_json(values)?;
        self.lookup(&LookupInput::Values(LookupValuesInput { values: texts(&values) })).await
    }

    async fn lookup(&self, input: &LookupInput<'_>) -> Result<Vec<Option<Item>>, ClientError> {
        let found: Found = self.client.ask(&self.request(&lookup_items::ROW).body(input)?).await?;
        found.results.into_iter().map(|item| item.map(Item::try_from).transpose()).collect()
    }

    /// Removes all items with this value. Returns how many were visible.
    pub async fn remove_value(&self, value: &impl Serialize) -> Result<u64, ClientError> {
        let value = to_json(&[value])?;
        self.remove(&RemoveItemsInput::Value(RemoveValueInput { value: value[0].get() })).await
    }

    /// Removes the members of a set with these keys. At most 1,000 keys.
    pub async fn remove_keys(&self, keys: &[impl AsRef<str>]) -> Result<u64, ClientError> {
        let keys = to_json(&keys.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
        self.remove(&RemoveItemsInput::Keys(RemoveKeysInput { keys: texts(&keys) })).await
    }

    /// Removes these items. At most 1,000 items.
    pub async fn remove_items(&self, items: &[NewItem]) -> Result<u64, ClientError> {
        let keys = NewItem::keys(items)?;
        let items = NewItem::inputs(items, &keys);
        self.remove(&RemoveItemsInput::Items(RemoveNamedInput { items })).await
    }

    /// Removes all items within bounds, at least one of which must be given.
    pub async fn remove_between(&self, bounds: &Within) -> Result<u64, ClientError> {
        let input = RemoveBetweenInput { min_timestamp: bounds.min, max_timestamp: bounds.max };
        self.remove(&RemoveItemsInput::Between(input)).await
    }

    async fn remove(&self, input: &RemoveItemsInput<'_>) -> Result<u64, ClientError> {
        let removed: Removed = self.client.ask(&self.request(&remove_items::ROW).body(input)?).await?;
        Ok(removed.removed)
    }

    /// Removes all items.
    pub async fn clear(&self) -> Result<(), ClientError> {
        self.client.send(&self.request(&remove_all_items::ROW)).await.map(drop)
    }
}

/// The pages of a list. [`List::pages`] makes it.
#[derive(Debug)]
pub struct Pages<'c> {
    list: List<'c>,
    next: Option<Get>,
}

impl Pages<'_> {
    /// The next page; `None` after the last one. After an error, the next call requests the same page again.
    pub async fn next(&mut self) -> Result<Option<ItemPage>, ClientError> {
        let Some(get) = &self.next else { return Ok(None) };
        let page = self.list.get(get).await?;
        self.next = page.next_page_token.clone().map(|token| Get { page_token: Some(token), ..get.clone() });
        Ok(Some(page))
    }
}

fn within(request: Request, bounds: &Within) -> Request {
    request.query(&MIN_TIMESTAMP, bounds.min).query(&MAX_TIMESTAMP, bounds.max)
}

fn to_json(values: &[impl Serialize]) -> Result<Vec<Box<RawValue>>, ClientError> {
    values.iter().map(json_of).collect()
}

fn texts(values: &[Box<RawValue>]) -> Vec<&str> {
    values.iter().map(|value| value.get()).collect()
}
