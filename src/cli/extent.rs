//! The extent of a deletion, in numbers for the question before it. All counts are bounded.

use liststore_contract::operations::count_items::Counted;
use liststore_contract::operations::{count_items, list_bags, list_entities, list_lists};

use super::failure::Failure;
use super::output::counted;
use crate::client::{Client, ClientError, Request};
use crate::domain::{EntityId, EntityType, FeatureId, Limit, VersionLabel};
use crate::wire::parameters::{COUNT_MAX, PAGE_SIZE, PAGE_TOKEN, VERSION};
use crate::wire::{EntityLists, EntityPage};

/// Pages of a listing that are counted.
const PAGES_MAX: usize = 10;
/// Lists whose items are counted.
const LISTS_MAX: usize = 50;
/// Items of one list that are counted.
pub(super) const ITEMS_MAX: usize = 100_000;

/// A number, or a lower bound of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub count: u64,
    pub is_exact: bool,
}

impl Extent {
    const NONE: Self = Self { count: 0, is_exact: true };

    /// `12 lists`, or `at least 10000 lists`. The rest of a listing may be empty.
    pub(super) fn of(self, noun: &str) -> String {
        match self {
            Self { count, is_exact: true } => counted(count, noun),
            Self { count: 0, is_exact: false } => format!("an unknown number of {noun}s"),
            Self { count, is_exact: false } => format!("at least {}", counted(count, noun)),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, is_exact: self.is_exact && other.is_exact }
    }
}

/// `12 lists with 340 items` of some versions, or why they were not counted.
pub(super) async fn of_lists(client: &Client, id: &FeatureId, versions: &[VersionLabel]) -> Result<String, Failure> {
    let (mut lists, mut items) = (Extent::NONE, Some(Extent::NONE));
    for version in versions {
        let (found, entities) = match lists_of(client, id, version).await {
            Ok(found) => found,
            Err(error) if is_forbidden(&error) => return Ok("lists that this key cannot count".to_owned()),
            Err(error) => return Err(error.into()),
        };
        lists = lists.plus(found);
        items = match items {
            Some(items) if found.is_exact && lists.count as usize <= LISTS_MAX => {
                let mut sum = items;
                for entity in &entities {
                    sum = sum.plus(items_of(client, id, entity, version).await?);
                }
                Some(sum)
            }
            _ => None,
        };
    }
    Ok(match items {
        Some(items) if lists.count > 0 => format!("{} with {}", lists.of("list"), items.of("item")),
        _ => lists.of("list"),
    })
}

/// The lists of a version, and the entities of the first of them.
async fn lists_of(
    client: &Client,
    id: &FeatureId,
    version: &VersionLabel,
) -> Result<(Extent, Vec<EntityId>), ClientError> {
    let label = Some(version).filter(|label| !label.is_default());
    entities_of(client, || Request::of_feature(&list_entities::ROW, id).query(&VERSION, label)).await
}

/// The number of entities in a listing, and the first of them.
async fn entities_of(client: &Client, request: impl Fn() -> Request) -> Result<(Extent, Vec<EntityId>), ClientError> {
    let (mut count, mut entities, mut page_token) = (0, Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let request = request().query(&PAGE_SIZE, Some(Limit::PAGE_SIZE_MAX)).query(&PAGE_TOKEN, page_token.take());
        let page: EntityPage = client.ask(&request).await?;
        count += page.entities.len() as u64;
        let left = LISTS_MAX.saturating_sub(entities.len());
        entities.extend(page.entities.iter().take(left).filter_map(|entity| EntityId::new(entity).ok()));
        page_token = page.next_page_token;
        if page_token.is_none() {
            break;
        }
    }
    Ok((Extent { count, is_exact: page_token.is_none() }, entities))
}

/// The items of a list.
pub(super) async fn items_of(
    client: &Client,
    id: &FeatureId,
    entity_id: &EntityId,
    version: &VersionLabel,
) -> Result<Extent, Failure> {
    let request = Request::of_list(&count_items::ROW, id, entity_id, version);
    let Counted { count, exact } = client.ask(&request.query(&COUNT_MAX, Some(ITEMS_MAX))).await?;
    Ok(Extent { count, is_exact: exact })
}

/// `12 bags` of an entity type, or why they were not counted.
pub(super) async fn of_bags(client: &Client, entity_type: &EntityType) -> Result<String, Failure> {
    match entities_of(client, || Request::new(&list_bags::ROW, &[entity_type.as_str()])).await {
        Ok((bags, _)) => Ok(bags.of("bag")),
        Err(error) if is_forbidden(&error) => Ok("bags that this key cannot count".to_owned()),
        Err(error) => Err(error.into()),
    }
}

/// `12 lists with items` of an entity, or why they were not counted.
pub(super) async fn of_entity(
    client: &Client,
    entity_type: &EntityType,
    entity_id: &EntityId,
) -> Result<String, Failure> {
    let (mut count, mut page_token) = (0, None);
    for _ in 0..PAGES_MAX {
        let request = Request::new(&list_lists::ROW, &[entity_type.as_str(), entity_id.as_str()]);
        let request = request.query(&PAGE_SIZE, Some(Limit::PAGE_SIZE_MAX)).query(&PAGE_TOKEN, page_token.take());
        let page: EntityLists = match client.ask(&request).await {
            Ok(page) => page,
            Err(error) if is_forbidden(&error) => return Ok("lists that this key cannot count".to_owned()),
            Err(error) => return Err(error.into()),
        };
        count += page.lists.len() as u64;
        page_token = page.next_page_token;
        if page_token.is_none() {
            break;
        }
    }
    Ok(format!("{} with items", Extent { count, is_exact: page_token.is_none() }.of("list")))
}

fn is_forbidden(error: &ClientError) -> bool {
    matches!(error, ClientError::Problem(problem) if problem.details.status == 403)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_claims_at_most_the_counted_number() {
        let extent = |count, is_exact| Extent { count, is_exact }.of("list");
        assert_eq!([extent(0, true), extent(1, true), extent(12, true)], ["0 lists", "1 list", "12 lists"]);
        assert_eq!([extent(10_000, false), extent(0, false)], ["at least 10000 lists", "an unknown number of lists"]);
    }
}
