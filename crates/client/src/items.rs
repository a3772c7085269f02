//! Items, as they are added and as they are read.

use liststore_contract::domain::Timestamp;
use liststore_contract::wire::{self, ItemInput};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::error::ClientError;

/// An item to add.
#[derive(Debug, Clone)]
pub struct NewItem {
    timestamp: Timestamp,
    key: Option<String>,
    value: Box<RawValue>,
}

impl NewItem {
    /// The value must have the feature's value type: a string, a number, a truth value, or any JSON.
    pub fn new(timestamp: Timestamp, value: &impl Serialize) -> Result<Self, ClientError> {
        Ok(Self { timestamp, key: None, value: json_of(value)? })
    }

    /// A member of a set whose feature has the identity `key`.
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// The keys as JSON, in the order of the items.
    pub(super) fn keys(items: &[Self]) -> Result<Vec<Option<Box<RawValue>>>, ClientError> {
        items.iter().map(|item| item.key.as_ref().map(json_of).transpose()).collect()
    }

    pub(super) fn inputs<'i>(items: &'i [Self], keys: &'i [Option<Box<RawValue>>]) -> Vec<ItemInput<'i>> {
        let input = |(item, key): (&'i Self, &'i Option<Box<RawValue>>)| ItemInput {
            timestamp: item.timestamp,
            value: item.value.get(),
            key: key.as_deref().map(RawValue::get),
        };
        items.iter().zip(keys).map(input).collect()
    }
}

/// An item of a list.
#[derive(Debug, Clone)]
pub struct Item {
    pub timestamp: Timestamp,
    /// Of a member of a set whose feature has the identity `key`.
    pub key: Option<String>,
    /// As JSON of the feature's value type.
    pub json: Box<RawValue>,
}

impl Item {
    /// The value, read as a type of yours.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_str(self.json.get()).map_err(|error| ClientError::Unreadable(error.to_string()))
    }
}

impl TryFrom<wire::Item> for Item {
    type Error = ClientError;

    fn try_from(item: wire::Item) -> Result<Self, ClientError> {
        let timestamp = Timestamp::parse(&item.timestamp);
        let timestamp = timestamp.map_err(|invalid| ClientError::Unreadable(invalid.to_string()))?;
        Ok(Self { timestamp, key: item.key, json: item.value })
    }
}

/// A page of a list, in the requested order.
#[derive(Debug, Clone)]
pub struct ItemPage {
    pub items: Vec<Item>,
    /// Present if and only if more items follow.
    pub next_page_token: Option<String>,
}

/// A page, as it arrives.
#[derive(Deserialize)]
pub(super) struct PageRead {
    items: Vec<wire::Item>,
    next_page_token: Option<String>,
}

impl TryFrom<PageRead> for ItemPage {
    type Error = ClientError;

    fn try_from(PageRead { items, next_page_token }: PageRead) -> Result<Self, ClientError> {
        Ok(Self { items: items.into_iter().map(Item::try_from).collect::<Result<_, _>>()?, next_page_token })
    }
}

/// A value as JSON, with the digits that it has.
pub(super) fn json_of(value: &(impl Serialize + ?Sized)) -> Result<Box<RawValue>, ClientError> {
    to_raw_value(value).map_err(|error| ClientError::Setup(format!("cannot write the request: {error}")))
}
