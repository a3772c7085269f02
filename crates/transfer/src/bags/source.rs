//! The bags of an entity type, read from a server part by part, and written to one.

use futures_util::stream::{self, TryStreamExt};
use liststore_contract::operations::batch_get_bags::{BagRequest, BatchGetBagsInput, JoinedAggregates};
use liststore_contract::operations::{batch_get_bags, list_bags, put_bag};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::{Client, ClientError, Failure, Request};
use crate::domain::{EntityId, EntityType, Limit};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN};
use crate::wire::{EntityPage, ErrorCode, ProblemBody};

/// Entities of a part.
const PART_ENTITIES: usize = 500;
/// Bags of one call.
const CALL_BAGS: usize = 100;
/// Bags that are written at once.
const WRITTEN_AT_ONCE: usize = 32;

/// A bag as it is moved.
#[derive(Debug)]
pub(super) struct MovedBag {
    pub entity_id: EntityId,
    pub properties: Box<RawValue>,
}

#[derive(Deserialize)]
struct BatchResults {
    results: Vec<BagResult>,
}

/// A bag, or why there is none.
#[derive(Deserialize)]
struct BagResult {
    properties: Option<Box<RawValue>>,
    problem: Option<ProblemBody>,
}

/// Reads a part: its bags, and the place where the walk continues, if it does. Bags that were deleted since are left
/// out.
pub(super) async fn part(
    client: &Client,
    entity_type: &EntityType,
    page_token: Option<&str>,
) -> Result<(Vec<MovedBag>, Option<String>), Failure> {
    let request = Request::new(&list_bags::ROW, &[entity_type.as_str()])
        .query(&PAGE_SIZE, Some(PART_ENTITIES.min(Limit::PAGE_SIZE_MAX)))
        .query(&PAGE_TOKEN, page_token);
    let EntityPage { entities, next_page_token } = client.ask(&request).await?;
    let ids = entities.iter().map(|id| EntityId::new(id).map_err(|invalid| Failure::failed(invalid.to_string())));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    let mut bags = Vec::with_capacity(ids.len());
    for some in ids.chunks(CALL_BAGS) {
        let mut left = some;
        while !left.is_empty() {
            let taken = read(client, entity_type, left, &mut bags).await?;
            left = &left[taken..];
        }
    }
    Ok((bags, next_page_token))
}

/// Reads as many bags as fit into one answer. Returns how many were processed.
async fn read(
    client: &Client,
    entity_type: &EntityType,
    ids: &[EntityId],
    bags: &mut Vec<MovedBag>,
) -> Result<usize, Failure> {
    let request = |entity_id: &EntityId| BagRequest { entity_type: entity_type.clone(), entity_id: entity_id.clone() };
    let input = BatchGetBagsInput { requests: ids.iter().map(request).collect(), aggregates: JoinedAggregates::new() };
    let request = Request::new(&batch_get_bags::ROW, &[]).body(&input)?;
    let BatchResults { results } = client.ask(&request).await?;
    if results.len() != ids.len() {
        return Err(Failure::failed("the server returned an unexpected number of results"));
    }
    let mut taken = 0;
    for (entity_id, result) in ids.iter().zip(results) {
        match result {
            BagResult { properties: Some(properties), .. } => {
                bags.push(MovedBag { entity_id: entity_id.clone(), properties });
            }
            BagResult { problem: Some(problem), .. } if problem.code == ErrorCode::BagNotFound.name() => {}
            // The answer had no room for it. The next one has.
            BagResult { problem: Some(problem), .. }
                if problem.code == ErrorCode::ResponseTooLarge.name() && taken > 0 =>
            {
                break;
            }
            BagResult { problem, .. } => {
                let why = problem.map(|problem| problem.detail).unwrap_or_default();
                return Err(client.failed(format!("{entity_type} {}: {why}", entity_id.as_str())));
            }
        }
        taken += 1;
    }
    Ok(taken)
}

/// Writes bags, each replacing the existing one. Writing one again changes nothing.
pub(super) async fn write(client: &Client, entity_type: &EntityType, bags: Vec<MovedBag>) -> Result<(), Failure> {
    let each = stream::iter(bags.into_iter().map(Ok::<_, Failure>));
    let put = async |MovedBag { entity_id, properties }: MovedBag| {
        let request = Request::new(&put_bag::ROW, &[entity_type.as_str(), entity_id.as_str()])
            .json(properties.get().as_bytes().to_vec())
            .repeatable();
        let failed = |error: ClientError| Failure::failed(format!("{entity_type} {}: {error}", entity_id.as_str()));
        client.send(&request).await.map(drop).map_err(failed)
    };
    each.try_for_each_concurrent(WRITTEN_AT_ONCE, put).await
}
