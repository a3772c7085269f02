//! Entity types with their indexes in a file of definitions, and the differences of a server.

use std::collections::BTreeMap;

use liststore_contract::operations::create_index::IndexInput;
use liststore_contract::operations::list_indexes::IndexList;
use liststore_contract::operations::{list_entity_types, list_indexes};
use serde::{Deserialize, Serialize};

use crate::client::{Client, Failure, Request};
use crate::domain::index::{INDEXES_MAX, IndexSpec, Pointer};
use crate::domain::{Description, EntityType, Invalid, Labels, Limit, Owner, Ttl, VersionLabel};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN};
use crate::wire::{self, IndexState};

/// An entity type of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntityTypeText {
    entity_type: String,
    /// The longest, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    owner: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<IndexText>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexText {
    name: String,
    properties: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order_by: Option<String>,
}

/// An entity type as a file, or a server, has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeclaredType {
    pub ttl: Ttl,
    pub description: Description,
    pub owner: Owner,
    pub labels: Labels,
    pub indexes: BTreeMap<VersionLabel, DeclaredIndex>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeclaredIndex {
    pub properties: Vec<Pointer>,
    pub order_by: Option<Pointer>,
}

pub(super) type EntityTypes = BTreeMap<EntityType, DeclaredType>;

impl DeclaredType {
    /// Whether a server's type is equal, without comparing its indexes.
    pub fn is(&self, present: &wire::EntityType) -> bool {
        self.ttl.to_string() == present.ttl
            && self.description.as_str() == present.description
            && self.owner.as_str() == present.owner
            && *self.labels.as_map() == present.labels
    }
}

impl DeclaredIndex {
    pub fn input(&self, name: &VersionLabel) -> IndexInput {
        IndexInput { name: name.clone(), properties: self.properties.clone(), order_by: self.order_by.clone() }
    }

    /// For people.
    pub fn words(&self) -> String {
        let properties: Vec<_> = self.properties.iter().map(ToString::to_string).collect();
        let order = self.order_by.as_ref().map(|pointer| format!(", by {pointer}")).unwrap_or_default();
        format!("{}{order}", properties.join(" "))
    }
}

impl EntityTypeText {
    pub fn name(&self) -> &str {
        &self.entity_type
    }

    fn of(present: wire::EntityType, indexes: IndexList) -> Self {
        let kept = indexes.indexes.into_iter().filter(|index| index.state != IndexState::Dropping.as_str());
        let index =
            |index: wire::Index| IndexText { name: index.name, properties: index.properties, order_by: index.order_by };
        Self {
            entity_type: present.entity_type,
            ttl: Some(present.ttl),
            description: present.description,
            owner: present.owner,
            labels: present.labels,
            indexes: kept.map(index).collect(),
        }
    }

    pub fn parse(self) -> Result<(EntityType, DeclaredType), Invalid> {
        let mut indexes = BTreeMap::new();
        for IndexText { name, properties, order_by } in self.indexes {
            let properties: Vec<_> = properties.iter().map(|text| Pointer::new(text)).collect::<Result<_, _>>()?;
            let order_by = order_by.map(|text| Pointer::new(&text)).transpose()?;
            IndexSpec::new(properties.clone(), order_by.clone())?;
            if indexes.insert(VersionLabel::of_index(&name)?, DeclaredIndex { properties, order_by }).is_some() {
                return Err(Invalid::argument(format!("duplicate index {name}")));
            }
        }
        if indexes.len() > INDEXES_MAX {
            return Err(Invalid::argument(format!("an entity type must have at most {INDEXES_MAX} indexes")));
        }
        let declared = DeclaredType {
            ttl: self.ttl.map_or(Ok(Ttl::MAX), |text| Ttl::parse(&text))?,
            description: Description::new(self.description)?,
            owner: Owner::new(self.owner)?,
            labels: Labels::new(self.labels)?,
            indexes,
        };
        Ok((EntityType::new(&self.entity_type)?, declared))
    }
}

/// All entity types of a server, by name.
pub(super) async fn of_server(client: &Client) -> Result<Vec<EntityTypeText>, Failure> {
    #[derive(Deserialize)]
    struct Page {
        entity_types: Vec<wire::EntityType>,
        next_page_token: Option<String>,
    }
    let (mut texts, mut page_token) = (Vec::new(), None);
    loop {
        let request = Request::new(&list_entity_types::ROW, &[]).query(&PAGE_SIZE, Some(Limit::PAGE_SIZE_MAX));
        let page: Page = client.ask(&request.query(&PAGE_TOKEN, page_token.take())).await?;
        for present in page.entity_types {
            let indexes = client.ask(&Request::new(&list_indexes::ROW, &[&present.entity_type])).await?;
            texts.push(EntityTypeText::of(present, indexes));
        }
        page_token = page.next_page_token;
        if page_token.is_none() {
            return Ok(texts);
        }
    }
}

/// Entity types by their names, or why they make no sense.
pub(super) fn parse(texts: Vec<EntityTypeText>) -> Result<EntityTypes, Failure> {
    let mut types = EntityTypes::new();
    for text in texts {
        let name = text.name().to_owned();
        let (entity_type, declared) = text.parse().map_err(|invalid| Failure::failed(format!("{name}: {invalid}")))?;
        if types.insert(entity_type, declared).is_some() {
            return Err(Failure::failed(format!("duplicate entity type {name}")));
        }
    }
    Ok(types)
}
