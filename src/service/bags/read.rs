//! Reads of bags: one, many, and who has one; with lists of their entities.

use std::cell::Cell;
use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use tokio::time::Instant;

use super::super::bag::{Bag, EntityName, JoinedList};
use super::super::bag_conditions::BagError;
use super::super::batch::{READS_AT_ONCE, Room, SetAside, in_time};
use super::super::operation::{GetItems, ListName, Reply};
use super::super::{Caller, PageRenderer, Service, ServiceError};
use crate::access::{Permission, Resource, decide};
use crate::actors::ListPool;
use crate::domain::{EntityType, Limit, ListKey, Order};
use crate::metadata::catalog::CatalogVersion;

impl<R: PageRenderer> Service<R> {
    pub(super) async fn get_bag(
        &self,
        caller: &Caller,
        entity: EntityName,
        lists: Vec<JoinedList>,
    ) -> Result<Reply, ServiceError> {
        caller.take_items(1 + lists.len())?;
        let deadline = self.deadline(caller);
        let found = self.bags_of(&entity.entity_type, deadline).await?;
        let room = Cell::new(Room::of(self.options.page_bytes_max));
        let bag = read_bag(&self.lists_of(caller), entity, &found, &room, deadline).await?;
        self.reserve_room(caller, &room)?;
        let mut bags = vec![Ok(bag)];
        self.join(caller, &mut bags, &lists, &room, deadline).await?;
        let bag = bags.pop().unwrap_or(Err(BagError::NotFound.into()))?;
        Ok(Reply::Bag(Box::new(bag)))
    }

    pub(super) async fn batch_get_bags(
        &self,
        caller: &Caller,
        entities: Vec<Result<EntityName, ServiceError>>,
        lists: Vec<JoinedList>,
    ) -> Result<Reply, ServiceError> {
        caller.take_items(entities.len() * (1 + lists.len()))?;
        let (entities, refused) = SetAside::sort_out(entities);
        let deadline = self.deadline(caller);
        let mut types: BTreeMap<EntityType, Result<CatalogVersion, ServiceError>> = BTreeMap::new();
        for EntityName { entity_type, .. } in &entities {
            if !types.contains_key(entity_type) {
                let found = self.permitted_bags_of(caller, entity_type, deadline).await;
                types.insert(entity_type.clone(), found);
            }
        }
        let room = Cell::new(Room::of(self.options.page_bytes_max));
        let pool = self.lists_of(caller);
        let read = entities.into_iter().map(|entity| {
            let found = types.get(&entity.entity_type).cloned().unwrap_or(Err(BagError::NotFound.into()));
            let (pool, room) = (&pool, &room);
            async move {
                Room::check(room)?;
                in_time(deadline)?;
                let bag = read_bag(pool, entity, &found?, room, deadline).await?;
                self.reserve_room(caller, room)?;
                Ok::<_, ServiceError>(bag)
            }
        });
        let mut bags: Vec<_> = stream::iter(read).buffered(READS_AT_ONCE).collect().await;
        if bags.iter().any(|bag| matches!(bag, Err(ServiceError::NoMemoryForAnswer))) {
            return Err(ServiceError::NoMemoryForAnswer);
        }
        self.join(caller, &mut bags, &lists, &room, deadline).await?;
        Ok(Reply::EachBag(refused.put_back(bags)))
    }

    pub(super) async fn list_bags(
        &self,
        caller: &Caller,
        entity_type: EntityType,
        page_size: Limit,
        page_token: Option<String>,
    ) -> Result<Reply, ServiceError> {
        let deadline = self.deadline(caller);
        let found = self.bags_of(&entity_type, deadline).await?;
        self.entities_of(caller, found, page_size, page_token, deadline).await
    }

    /// What there is to know of the bags of a type, if the caller may read them.
    async fn permitted_bags_of(
        &self,
        caller: &Caller,
        entity_type: &EntityType,
        deadline: Instant,
    ) -> Result<CatalogVersion, ServiceError> {
        decide(&caller.principal, Permission::ListsRead, Resource::EntityType(entity_type.as_str()))?;
        self.bags_of(entity_type, deadline).await
    }

    /// Reads the lists that are to come along with bags: for each of these all of them, in their order.
    async fn join(
        &self,
        caller: &Caller,
        bags: &mut [Result<Bag, ServiceError>],
        lists: &[JoinedList],
        room: &Cell<Room>,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        if lists.is_empty() {
            return Ok(());
        }
        let entities: Vec<EntityName> = bags.iter().flatten().map(|bag| bag.entity.clone()).collect();
        let of_entity = |entity: &'_ EntityName| {
            let EntityName { entity_type, entity_id } = entity.clone();
            lists.iter().map(move |list| (entity_type.clone(), entity_id.clone(), list))
        };
        let names: Vec<_> = entities.iter().flat_map(of_entity).collect();
        let requests: Vec<_> = names
            .iter()
            .map(|(entity_type, entity_id, JoinedList { feature, limit })| GetItems {
                list: ListName {
                    entity_type: entity_type.as_str(),
                    feature: feature.as_str(),
                    version: "",
                    entity_id: entity_id.clone(),
                },
                min_timestamp: None,
                max_timestamp: None,
                as_of: None,
                order: Order::Newest,
                limit: *limit,
                page_token: None,
            })
            .collect();
        let mut pages = self.read_pages(caller, &requests, room, deadline).await?.into_iter();
        for bag in bags.iter_mut().flatten() {
            bag.lists = lists.iter().map(|list| list.feature.clone()).zip(pages.by_ref()).collect();
        }
        Ok(())
    }
}

async fn read_bag(
    lists: &ListPool,
    entity: EntityName,
    found: &CatalogVersion,
    room: &Cell<Room>,
    deadline: Instant,
) -> Result<Bag, ServiceError> {
    let list = ListKey::new(found.feature_key.clone(), entity.entity_id.clone());
    let bag = lists.bag(list, found.retention.ttl, deadline).await?.ok_or(BagError::NotFound)?;
    Room::take_bytes(room, bag.value.len())?;
    Ok(Bag { entity, updated_at: bag.timestamp, document: bag.value, lists: Vec::new() })
}
