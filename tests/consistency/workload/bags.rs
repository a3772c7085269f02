//! Calls on bags: a few entities, so that clients contend for them.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use fastrand::Rng;

use super::{Work, World};
use crate::bags::{BagIndex, BagName, BagOutcome, BagRequest, BagState, Condition, Properties, Property};
use crate::history::{Order, Outcome, Request};

/// Bags that most writes are about, and bags with few writes, which queries must find all the time.
const HOT: usize = 2;
const CALM: usize = 3;
const CITIES: u64 = 3;
const RANKS: u64 = 4;
/// Next to other work, clients switch to bags together: for this many calls in each period.
const RUSH_CALLS: u64 = 60;
const RUSH_EVERY: u64 = 480;
/// The limit of a query that needs one page.
const PAGE: usize = 100;

/// A bag, with the last state that a client read.
pub struct Bag {
    name: BagName,
    seen: Mutex<Option<BagState>>,
}

/// The bags of an entity type.
pub fn bags_of(entity_type: &str) -> Vec<Bag> {
    let name = |number| BagName { entity_type: entity_type.to_owned(), entity: format!("b/{number} é") };
    (0..HOT + CALM).map(|number| Bag { name: name(number), seen: Mutex::default() }).collect()
}

impl World {
    pub fn bags(&self) -> impl Iterator<Item = &BagName> {
        self.bags.iter().map(|bag| &bag.name)
    }

    /// Whether a client turns to bags next, where there is other work, too.
    pub(super) fn is_turn_of_bags(&self, rng: &mut Rng) -> bool {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) % RUSH_EVERY;
        rng.u8(0..100) < if turn < RUSH_CALLS { 80 } else { 3 }
    }

    pub(super) fn on_bag(&self, rng: &mut Rng) -> Work {
        let place = if rng.u8(0..100) < 75 { rng.usize(0..HOT) } else { HOT + rng.usize(0..CALM) };
        let seen = self.bags[place].seen.lock().expect("no client panics").as_ref().map(|state| state.tag.clone());
        let bag = self.bags[place].name.clone();
        let tag = |seen: Option<String>| seen.map(Condition::Tag);
        Work::Once(Request::Bag(match rng.u8(0..100) {
            0..18 => BagRequest::Get { bag, unless: seen.filter(|_| rng.u8(0..3) == 0) },
            18..38 => return Work::Increment(bag),
            38..50 => BagRequest::Put { bag, properties: self.properties(rng), condition: None },
            50..58 => BagRequest::Put { bag, properties: self.properties(rng), condition: Some(Condition::Absent) },
            58..80 => {
                let (property, value) = Self::change(rng);
                let condition = tag(seen).filter(|_| rng.u8(0..3) == 0);
                BagRequest::Patch { bag, by: self.number(), property, value, condition }
            }
            80..86 => BagRequest::Delete { bag, condition: tag(seen).filter(|_| rng.bool()) },
            _ => return Work::Find(self.find(rng)),
        }))
    }

    /// A query that finds several bags, in one page or in many.
    fn find(&self, rng: &mut Rng) -> BagRequest {
        let index = if rng.bool() { BagIndex::Updated } else { BagIndex::Ranked };
        let limit = if rng.bool() { PAGE } else { rng.usize(1..3) };
        let entity_type = self.bag_type.clone();
        BagRequest::Find {
            entity_type,
            index,
            city: rng.u64(0..CITIES),
            order: Self::order(rng),
            limit,
            is_settled: false,
        }
    }

    /// The queries that together show all bags that the indexes can find.
    pub fn last_finds(&self) -> impl Iterator<Item = BagRequest> + use<> {
        let (entity_type, cities) = (self.bag_type.clone(), if self.bags.is_empty() { 0 } else { CITIES });
        BagIndex::ALL.into_iter().flat_map(move |index| {
            let entity_type = entity_type.clone();
            (0..cities).map(move |city| BagRequest::Find {
                entity_type: entity_type.clone(),
                index,
                city,
                order: Order::Newest,
                limit: PAGE,
                is_settled: true,
            })
        })
    }

    /// The write that increments the counter of a bag, after a get of that bag.
    pub fn increment(&self, rng: &mut Rng, bag: &BagName, got: &Outcome) -> Option<Request> {
        let bag = bag.clone();
        let request = match got {
            Outcome::Bag(BagOutcome::NotFound) => {
                let properties = Properties { count: Some(1), ..self.properties(rng) };
                BagRequest::Put { bag, properties, condition: Some(Condition::Absent) }
            }
            Outcome::Bag(BagOutcome::Shown(BagState { tag, properties })) => {
                let (by, count) = (self.number(), Some(properties.count.unwrap_or(0) + 1));
                let condition = Some(Condition::Tag(tag.clone()));
                if rng.bool() {
                    BagRequest::Patch { bag, by, property: Property::Count, value: count, condition }
                } else {
                    BagRequest::Put { bag, properties: Properties { by, count, ..*properties }, condition }
                }
            }
            _ => return None,
        };
        Some(Request::Bag(request))
    }

    /// Remembers the state of a bag that an answer showed.
    pub fn note(&self, request: &Request, outcome: &Outcome) {
        let Request::Bag(request) = request else { return };
        let Some(place) = self.bags.iter().position(|bag| Some(&bag.name) == request.bag()) else { return };
        let state = match (request, outcome) {
            (_, Outcome::Bag(BagOutcome::Shown(state))) => state.clone(),
            (BagRequest::Put { properties, .. }, Outcome::Bag(BagOutcome::Stored { tag, .. })) => {
                BagState { tag: tag.clone(), properties: *properties }
            }
            _ => return,
        };
        *self.bags[place].seen.lock().expect("no client panics") = Some(state);
    }

    /// A number that no other write has.
    fn number(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    fn properties(&self, rng: &mut Rng) -> Properties {
        let some = |rng: &mut Rng, count| (rng.u8(0..5) > 0).then(|| rng.u64(0..count));
        Properties { by: self.number(), city: some(rng, CITIES), rank: some(rng, RANKS), count: None }
    }

    fn change(rng: &mut Rng) -> (Property, Option<u64>) {
        let (property, count) = match rng.u8(0..5) {
            0..2 => (Property::City, CITIES),
            2..4 => (Property::Rank, RANKS),
            _ => (Property::Count, 1_000),
        };
        (property, (rng.u8(0..6) > 0).then(|| rng.u64(0..count)))
    }
}
