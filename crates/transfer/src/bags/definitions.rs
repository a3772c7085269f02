//! Creates the missing entity type and indexes of one server on another.

use liststore_contract::operations::create_entity_type::EntityTypeInput;
use liststore_contract::operations::create_index::IndexInput;
use liststore_contract::operations::list_indexes::IndexList;
use liststore_contract::operations::{create_entity_type, create_index, get_entity_type, list_indexes};
use serde::Serialize;

use crate::client::{Client, ClientError, Failure, Request};
use crate::definitions::create;
use crate::domain::index::Pointer;
use crate::domain::{Description, EntityType, Invalid, Labels, Owner, Ttl, VersionLabel};
use crate::wire::{self, Annotations, ErrorCode, Index, IndexState};

/// The created definitions.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Brought {
    pub entity_type_created: bool,
    pub indexes_created: Vec<String>,
}

/// Creates the definitions that the target lacks. Existing ones must be equal: otherwise bags would expire, or be
/// found, differently.
///
/// Indexes are created before bags arrive. So each enters the bags as they are written, and is ready at once.
pub(super) async fn bring(from: &Client, to: &Client, entity_type: &EntityType) -> Result<Brought, Failure> {
    let name = entity_type.as_str();
    let mut brought = Brought::default();
    let wanted = Request::new(&get_entity_type::ROW, &[name]);
    let source: wire::EntityType = from.ask(&wanted).await?;
    let target: wire::EntityType = match to.ask(&wanted).await {
        Err(ClientError::Problem(problem)) if problem.details.code == ErrorCode::EntityTypeNotFound.name() => {
            let input = EntityTypeInput {
                entity_type: entity_type.clone(),
                ttl: Some(Ttl::parse(&source.ttl).map_err(unreadable)?),
                annotations: Annotations::all(
                    Description::new(source.description).map_err(unreadable)?,
                    Owner::new(source.owner).map_err(unreadable)?,
                    Labels::new(source.labels).map_err(unreadable)?,
                ),
            };
            let creation = Request::new(&create_entity_type::ROW, &[]).body(&input)?;
            create(to, creation, ErrorCode::EntityTypeExists).await?;
            brought.entity_type_created = true;
            to.ask(&wanted).await?
        }
        answer => answer?,
    };
    if target.ttl != source.ttl {
        return Err(Failure::failed(format!(
            "{entity_type} has the ttl {} in the source but {} in the target: change one of them first",
            source.ttl, target.ttl
        )));
    }
    let indexes = Request::new(&list_indexes::ROW, &[name]);
    let target: IndexList = to.ask(&indexes).await?;
    let source: IndexList = from.ask(&indexes).await?;
    for index in source.indexes.iter().filter(|index| !is_dropping(index)) {
        match known(&target, index) {
            Some(known) => is_alike(entity_type, index, known)?,
            None => {
                let creation = Request::new(&create_index::ROW, &[name]).body(&input_of(index)?)?;
                if !create(to, creation, ErrorCode::IndexExists).await? {
                    let target: IndexList = to.ask(&indexes).await?;
                    known(&target, index).map_or(Ok(()), |known| is_alike(entity_type, index, known))?;
                }
                brought.indexes_created.push(index.name.clone());
            }
        }
    }
    Ok(brought)
}

fn known<'i>(indexes: &'i IndexList, index: &Index) -> Option<&'i Index> {
    indexes.indexes.iter().find(|known| known.name == index.name)
}

fn is_alike(entity_type: &EntityType, source: &Index, target: &Index) -> Result<(), Failure> {
    let name = &source.name;
    if (&source.properties, &source.order_by) != (&target.properties, &target.order_by) {
        return Err(Failure::failed(format!(
            "the index {name} of {entity_type} has different properties or order in source and target: drop one of \
             them first"
        )));
    }
    if is_dropping(target) {
        return Err(Failure::failed(format!(
            "the index {name} of {entity_type} is being dropped in the target: copy again when it is gone"
        )));
    }
    Ok(())
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
