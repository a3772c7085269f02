//! Bags: the properties of an entity.

use liststore_contract::domain::{EntityId, EntityType};
use liststore_contract::operations::{delete_bag, get_bag, patch_bag, put_bag};
use liststore_contract::row::Row;
use liststore_contract::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::ClientError;
use super::{Client, Request, read};

/// The condition of a write of a bag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    #[default]
    Always,
    /// Only if there is no bag yet.
    IfAbsent,
    /// Only if the bag still has this entity tag, as [`StoredBag::etag`] and [`Bag::etag`] have it.
    IfUnchanged(String),
}

/// The properties of an entity, as they are stored.
#[derive(Debug, Clone)]
pub struct Bag {
    /// For [`Condition::IfUnchanged`].
    pub etag: String,
    pub updated_at: String,
    /// A JSON object.
    pub json: Box<RawValue>,
}

impl Bag {
    /// The properties, read as a type of yours.
    pub fn properties<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        read(self.json.get().as_bytes())
    }
}

/// A bag after a write.
#[derive(Debug, Clone)]
pub struct StoredBag {
    pub updated_at: String,
    pub etag: Option<String>,
}

impl Client {
    /// The bag of an entity; none if it has none.
    pub async fn bag(&self, entity_type: &EntityType, entity_id: &EntityId) -> Result<Option<Bag>, ClientError> {
        match self.ask::<wire::Bag>(&of_entity(&get_bag::ROW, entity_type, entity_id)).await {
            Ok(bag) => Ok(Some(Bag { etag: bag.etag, updated_at: bag.updated_at, json: bag.properties })),
            Err(error) if error.has_code(wire::ErrorCode::BagNotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores the properties of an entity, and replaces all existing ones.
    pub async fn put_bag(
        &self,
        entity_type: &EntityType,
        entity_id: &EntityId,
        properties: &impl Serialize,
        condition: Condition,
    ) -> Result<StoredBag, ClientError> {
        self.write_bag(&put_bag::ROW, entity_type, entity_id, properties, condition).await
    }

    /// Merges properties into an entity's existing ones (RFC 7396): `null` removes a property.
    pub async fn patch_bag(
        &self,
        entity_type: &EntityType,
        entity_id: &EntityId,
        properties: &impl Serialize,
        condition: Condition,
    ) -> Result<StoredBag, ClientError> {
        self.write_bag(&patch_bag::ROW, entity_type, entity_id, properties, condition).await
    }

    /// Removes the bag of an entity.
    pub async fn delete_bag(
        &self,
        entity_type: &EntityType,
        entity_id: &EntityId,
        condition: Condition,
    ) -> Result<(), ClientError> {
        self.send(&under(of_entity(&delete_bag::ROW, entity_type, entity_id), condition)).await.map(drop)
    }

    async fn write_bag(
        &self,
        row: &'static Row,
        entity_type: &EntityType,
        entity_id: &EntityId,
        properties: &impl Serialize,
        condition: Condition,
    ) -> Result<StoredBag, ClientError> {
        let request = under(of_entity(row, entity_type, entity_id), condition).body(properties)?;
        let response = self.send(&request).await?;
        let stored: wire::BagStored = read(&response.body)?;
        Ok(StoredBag { updated_at: stored.updated_at, etag: response.etag })
    }
}

fn of_entity(row: &'static Row, entity_type: &EntityType, entity_id: &EntityId) -> Request {
    Request::new(row, &[entity_type.as_str(), entity_id.as_str()])
}

fn under(request: Request, condition: Condition) -> Request {
    match condition {
        Condition::Always => request,
        Condition::IfAbsent => request.if_none(),
        Condition::IfUnchanged(etag) => request.if_match(Some(etag)),
    }
}
