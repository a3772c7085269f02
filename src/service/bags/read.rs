//! Reads of bags: one, many, and the entities that have one, with lists of these entities.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::super::bag::{Bag, EntityName, JoinedList, JoinedLists};
use super::super::bag_conditions::BagError;
use super::super::batch::{AnswerRoom, SetAside, in_time};
use super::super::requests::{AggregateList, GetItems, ListName, ListRead};
use super::super::{Caller, Service, ServiceError};
use crate::access::{Permission, Resource, decide};
use crate::domain::{EntityType, FeatureName, Item, ListKey, Order};
use crate::items::ReadBag;
use crate::metadata::catalog::CatalogVersion;

type BagAnswer = Result<Bag, ServiceError>;

impl Service {
    pub(crate) async fn get_bag(
        &self,
        caller: &Caller,
        entity: EntityName,
        joined: JoinedLists,
    ) -> Result<Bag, ServiceError> {
        caller.take_items(1 + joined.count())?;
        let deadline = self.deadline(caller);
        let found = self.bags_of(&entity.entity_type, deadline).await?;
        let room = Cell::new(AnswerRoom::of(self.options.page_bytes_max));
        let list = ListKey::new(found.feature_key, entity.entity_id.clone());
        let bag = self.lists_of(caller).bag(list, found.properties.ttl, deadline).await?;
        let mut bags = vec![Ok(self.take_bag(caller, &room, entity, bag)?)];
        self.join(caller, &mut bags, &joined, &room, deadline).await?;
        bags.pop().unwrap_or(Err(BagError::NotFound.into()))
    }

    pub(crate) async fn batch_get_bags(
        &self,
        caller: &Caller,
        entities: Vec<Result<EntityName, ServiceError>>,
        joined: JoinedLists,
    ) -> Result<Vec<BagAnswer>, ServiceError> {
        caller.take_items(entities.len() * (1 + joined.count()))?;
        let (entities, refused) = SetAside::sort_out(entities);
        let deadline = self.deadline(caller);
        let mut types: BTreeMap<EntityType, Result<CatalogVersion, ServiceError>> = BTreeMap::new();
        for EntityName { entity_type, .. } in &entities {
            if !types.contains_key(entity_type) {
                let found = self.permitted_bags_of(caller, entity_type, deadline).await;
                types.insert(entity_type.clone(), found);
            }
        }
        let room = Cell::new(AnswerRoom::of(self.options.page_bytes_max));
        let mut bags = self.read_bags(caller, entities, &types, &room, deadline).await?;
        self.join(caller, &mut bags, &joined, &room, deadline).await?;
        Ok(refused.put_back(bags))
    }

    /// Reads bags: first those in memory, then the others in parts, after memory for each part is reserved. The caller
    /// requests bags again that do not fit the answer or its memory. If no bag fits, the call fails.
    async fn read_bags(
        &self,
        caller: &Caller,
        entities: Vec<EntityName>,
        types: &BTreeMap<EntityType, Result<CatalogVersion, ServiceError>>,
        room: &Cell<AnswerRoom>,
        deadline: Instant,
    ) -> Result<Vec<BagAnswer>, ServiceError> {
        let pool = self.lists_of(caller);
        let mut bags: Vec<Option<BagAnswer>> = Vec::with_capacity(entities.len());
        let mut missing = Vec::new();
        for (place, entity) in entities.iter().enumerate() {
            let found = match types.get(&entity.entity_type) {
                Some(Ok(found)) => found,
                Some(Err(error)) => {
                    bags.push(Some(Err(error.clone())));
                    continue;
                }
                None => {
                    bags.push(Some(Err(BagError::NotFound.into())));
                    continue;
                }
            };
            let (list, ttl) = (ListKey::new(found.feature_key.clone(), entity.entity_id.clone()), found.properties.ttl);
            let bag = match pool.bag_from_memory(list.borrowed(), ttl, deadline) {
                Some(bag) => {
                    Some(AnswerRoom::check(room).and_then(|()| self.take_bag(caller, room, entity.clone(), bag)))
                }
                None => {
                    missing.push((place, list, ttl));
                    None
                }
            };
            if matches!(bag, Some(Err(ServiceError::NoMemoryForAnswer))) {
                return Err(ServiceError::NoMemoryForAnswer);
            }
            bags.push(bag);
        }
        let mut rest = &missing[..];
        let lack = loop {
            let part = match self.next_part(caller, room, rest.len(), deadline) {
                Ok(0) => break None,
                Ok(part) => part,
                Err(lack) => break Some(lack),
            };
            let (now, later) = rest.split_at(part);
            rest = later;
            let reading = now.iter().map(|(_, list, ttl)| pool.bag_through_actor(list.clone(), *ttl, deadline));
            for ((place, ..), read) in now.iter().zip(join_all(reading).await) {
                let take = |read: ReadBag| self.take_bag(caller, room, entities[*place].clone(), read.bag);
                bags[*place] = Some(read.map_err(ServiceError::from).and_then(take));
            }
        };
        let lack = match lack {
            Some(ServiceError::NoMemoryForAnswer) if room.get().is_untouched() => {
                return Err(ServiceError::NoMemoryForAnswer);
            }
            Some(ServiceError::NoMemoryForAnswer) | None => ServiceError::NoRoomInAnswer,
            Some(lack) => lack,
        };
        Ok(bags.into_iter().map(|bag| bag.unwrap_or_else(|| Err(lack.clone()))).collect())
    }

    /// The number of bags that can be read now, after their memory is reserved.
    fn next_part(
        &self,
        caller: &Caller,
        room: &Cell<AnswerRoom>,
        bags: usize,
        deadline: Instant,
    ) -> Result<usize, ServiceError> {
        if bags == 0 {
            return Ok(0);
        }
        AnswerRoom::check(room)?;
        in_time(deadline)?;
        self.reserve_bags(caller, self.bytes_taken(room), bags)
    }

    /// Allots bytes of the answer to a bag, and reserves its memory. If other bags have memory, the caller requests a
    /// bag without memory again.
    fn take_bag(&self, caller: &Caller, room: &Cell<AnswerRoom>, entity: EntityName, found: Option<Item>) -> BagAnswer {
        let bag = found.ok_or(BagError::NotFound)?;
        let before = room.get();
        AnswerRoom::take_bytes(room, bag.value.len())?;
        if let Err(lack) = self.reserve_room(caller, room) {
            room.set(before);
            return Err(if before.is_untouched() { lack } else { ServiceError::NoRoomInAnswer });
        }
        let (lists, aggregates) = (Vec::new(), Vec::new());
        Ok(Bag { entity, updated_at: bag.timestamp, document: bag.value, lists, aggregates })
    }

    /// The definition of the bags of a type, if the caller may read them.
    async fn permitted_bags_of(
        &self,
        caller: &Caller,
        entity_type: &EntityType,
        deadline: Instant,
    ) -> Result<CatalogVersion, ServiceError> {
        decide(&caller.principal, Permission::ListsRead, Resource::EntityType(entity_type.as_str()))?;
        self.bags_of(entity_type, deadline).await
    }

    /// Reads the requested lists of bags: all lists of each bag, in the order of the request.
    async fn join(
        &self,
        caller: &Caller,
        bags: &mut [BagAnswer],
        joined: &JoinedLists,
        room: &Cell<AnswerRoom>,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        if joined.count() == 0 {
            return Ok(());
        }
        let entities: Vec<EntityName> = bags.iter().flatten().map(|bag| bag.entity.clone()).collect();
        let members: Vec<String> = joined.aggregates.iter().map(|(name, _)| format!("aggregates.{name}")).collect();
        let reads = entities.iter().flat_map(|entity| reads_of(entity, joined, &members)).collect();
        let mut answers = self.read_lists(caller, reads, room, deadline).await?.into_iter();
        for bag in bags.iter_mut().flatten() {
            bag.lists = joined.lists.iter().map(|list| list.feature.clone()).zip(answers.by_ref()).collect();
            bag.aggregates = joined.aggregates.iter().map(|(name, _)| name.clone()).zip(answers.by_ref()).collect();
        }
        Ok(())
    }
}

/// The reads of an entity's lists: pages, and then aggregates, whose inputs are these members of the request.
fn reads_of<'r>(
    entity: &'r EntityName,
    joined: &'r JoinedLists,
    members: &'r [String],
) -> impl Iterator<Item = ListRead<'r>> {
    let int64_as = joined.int64_as;
    let list = move |feature: &'r FeatureName| ListName {
        entity_type: entity.entity_type.as_str(),
        feature: feature.as_str(),
        version: Cow::Borrowed(""),
        entity_id: entity.entity_id.clone(),
    };
    let page = move |JoinedList { feature, limit }: &'r JoinedList| {
        ListRead::Items(GetItems {
            list: list(feature),
            min_timestamp: None,
            max_timestamp: None,
            as_of: None,
            order: Order::Newest,
            limit: *limit,
            page_token: None,
            int64_as,
        })
    };
    let aggregate = move |((feature, input), member): (&'r (FeatureName, _), &'r String)| {
        ListRead::Aggregates(AggregateList { list: list(feature), input, member, int64_as })
    };
    joined.lists.iter().map(page).chain(joined.aggregates.iter().zip(members).map(aggregate))
}
