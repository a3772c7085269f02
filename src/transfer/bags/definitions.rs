//! Brings a server the entity type and the indexes of another one, as far as it does not have them.

use serde::Serialize;

use crate::client::{Client, ClientError, Failure, Request};
use crate::domain::index::Pointer;
use crate::domain::{Description, EntityType, Invalid, Labels, Owner, Ttl, VersionLabel};
use crate::service::OperationId;
use crate::wire::{self, EntityTypeInput, ErrorCode, Index, IndexInput, IndexList, IndexState};

/// What was not there before.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Brought {
    pub entity_type_created: bool,
    pub indexes_created: Vec<String>,
}

/// Creates what is missing. What is there has to be alike: else bags would expire, or be found, otherwise there.
///
/// Indexes are made before bags come, so that each enters those that it finds by the way, and is ready at once.
pub(super) async fn bring(from: &Client, to: &Client, entity_type: &EntityType) -> Result<Brought, Failure> {
    let name = entity_type.as_str();
    let mut brought = Brought::default();
    let wanted = Request::new(OperationId::GetEntityType, &[name]);
    let here: wire::EntityType = from.ask(&wanted).await?;
    match to.ask::<wire::EntityType>(&wanted).await {
        Ok(there) if there.ttl != here.ttl => {
            return Err(Failure::failed(format!(
                "{entity_type} has the ttl {} there, and {} here: change one of them first",
                there.ttl, here.ttl
            )));
        }
        Ok(_) => {}
        Err(ClientError::Problem(problem)) if problem.details.code == ErrorCode::EntityTypeNotFound.name() => {
            let input = EntityTypeInput {
                entity_type: entity_type.clone(),
                ttl: Some(Ttl::parse(&here.ttl).map_err(unreadable)?),
                description: Some(Description::new(here.description).map_err(unreadable)?),
                owner: Some(Owner::new(here.owner).map_err(unreadable)?),
                labels: Some(Labels::new(here.labels).map_err(unreadable)?),
            };
            to.send(&Request::new(OperationId::CreateEntityType, &[]).body(&input)?).await?;
            brought.entity_type_created = true;
        }
        Err(error) => return Err(error.into()),
    }
    let indexes = Request::new(OperationId::ListIndexes, &[name]);
    let there: IndexList = to.ask(&indexes).await?;
    let wanted: IndexList = from.ask(&indexes).await?;
    for index in wanted.indexes.into_iter().filter(|index| !is_dropping(index)) {
        match there.indexes.iter().find(|known| known.name == index.name) {
            Some(known) if (&known.properties, &known.order_by) != (&index.properties, &index.order_by) => {
                return Err(Failure::failed(format!(
                    "the index {} of {entity_type} has other properties, or another order, there: drop one of them first",
                    index.name
                )));
            }
            Some(known) if is_dropping(known) => {
                return Err(Failure::failed(format!(
                    "the index {} of {entity_type} is being dropped there: copy again once it is gone",
                    index.name
                )));
            }
            Some(_) => {}
            None => {
                let input = input_of(&index)?;
                to.send(&Request::new(OperationId::CreateIndex, &[name]).body(&input)?).await?;
                brought.indexes_created.push(index.name);
            }
        }
    }
    Ok(brought)
}

fn is_dropping(index: &Index) -> bool {
    index.state == IndexState::Dropping.as_str()
}

fn input_of(Index { name, properties, order_by, .. }: &Index) -> Result<IndexInput, Failure> {
    let pointer = |text: &String| Pointer::new(text).map_err(unreadable);
    Ok(IndexInput {
        name: VersionLabel::of_index(name).map_err(unreadable)?,
        properties: properties.iter().map(pointer).collect::<Result<_, _>>()?,
        order_by: order_by.as_ref().map(pointer).transpose()?,
    })
}

fn unreadable(error: Invalid) -> Failure {
    Failure::failed(format!("this version of liststore cannot read a definition: {error}"))
}
