//! A property of the checker: it allows every history of some plain bags with true answers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::super::check;
use super::super::proofs::check_cases;
use super::super::script::Case;
use crate::bags::{BagIndex, BagName, BagOutcome, BagRequest, BagState, Condition, FoundBag, Properties, Property};
use crate::history::{Call, History, NANOS_PER_SEC, Order, Outcome, Promises, Request};

pub const CASES: &[Case] = &[("allows_what_bags_did", allows_what_bags_did)];

#[derive(Debug, Clone)]
enum Act {
    Get,
    Unless,
    Put(Option<u64>, Option<u64>),
    Patch(Property, Option<u64>),
    Delete,
    Find(BagIndex, u64, Order),
}

/// The condition of a write, as a place among the entity tags that there were so far.
#[derive(Debug, Clone, Copy)]
enum When {
    Always,
    Absent,
    Tag(usize),
    Current,
}

/// When an act happened, how long its call was open before and after, and whether the answer was lost.
type Drawn = (Act, usize, When, u64, (u64, u64), bool);

fn acts() -> impl Strategy<Value = Vec<Drawn>> {
    let value = || proptest::option::weighted(0.8, 0_u64..3);
    let property = prop_oneof![Just(Property::City), Just(Property::Rank), Just(Property::Count)];
    let order = prop_oneof![Just(Order::Newest), Just(Order::Oldest)];
    let index = prop_oneof![Just(BagIndex::Updated), Just(BagIndex::Ranked)];
    let act = prop_oneof![
        4 => Just(Act::Get),
        1 => Just(Act::Unless),
        4 => (value(), value()).prop_map(|(city, rank)| Act::Put(city, rank)),
        4 => (property, value()).prop_map(|(property, value)| Act::Patch(property, value)),
        1 => Just(Act::Delete),
        3 => (index, 0_u64..3, order).prop_map(|(index, city, order)| Act::Find(index, city, order)),
    ];
    let when = prop_oneof![
        4 => Just(When::Always),
        1 => Just(When::Absent),
        1 => (0_usize..8).prop_map(When::Tag),
        2 => Just(When::Current),
    ];
    let open = (0_u64..40, 0_u64..40);
    proptest::collection::vec((act, 0_usize..2, when, 1_u64..500, open, proptest::bool::weighted(0.15)), 1..40)
}

fn name(number: usize) -> BagName {
    BagName { entity_type: "person".into(), entity: format!("p-{number}") }
}

/// Two bags, each with the moment of its last change, which is its entity tag.
#[derive(Default)]
struct Bags {
    present: BTreeMap<usize, (u64, Properties)>,
    /// The entity tags that answers have shown: clients know no others.
    tags: Vec<String>,
}

impl Bags {
    fn tag(updated_at: u64) -> String {
        format!("{updated_at:x}")
    }

    fn state(&self, number: usize) -> Option<BagState> {
        let (updated_at, properties) = self.present.get(&number)?;
        Some(BagState { tag: Self::tag(*updated_at), properties: *properties })
    }

    fn condition(&self, number: usize, when: When) -> Option<Condition> {
        let tag = match when {
            When::Always => return None,
            When::Absent => return Some(Condition::Absent),
            When::Tag(place) => self.tags.get(place).cloned(),
            When::Current => self.known(number),
        };
        tag.map(Condition::Tag)
    }

    fn holds(&self, number: usize, condition: &Option<Condition>) -> bool {
        match condition {
            None => true,
            Some(Condition::Absent) => self.state(number).is_none(),
            Some(Condition::Tag(tag)) => self.state(number).is_some_and(|state| state.tag == *tag),
        }
    }

    /// The entity tag of a bag, if a client can know it.
    fn known(&self, number: usize) -> Option<String> {
        self.state(number).map(|state| state.tag).filter(|tag| self.tags.contains(tag))
    }

    fn set(&mut self, number: usize, at: u64, properties: Properties) {
        self.present.insert(number, (at, properties));
    }

    fn answered(&mut self, outcome: &BagOutcome) {
        match outcome {
            BagOutcome::Shown(state) => self.tags.push(state.tag.clone()),
            BagOutcome::Stored { tag, .. } => self.tags.push(tag.clone()),
            BagOutcome::Found(found) => self.tags.extend(found.iter().map(|bag| bag.state.tag.clone())),
            _ => {}
        }
    }

    /// Carries an act out. `at` is a separate moment, and the number of the write.
    fn act(&mut self, act: Act, number: usize, when: When, at: u64) -> (BagRequest, BagOutcome) {
        let (bag, condition) = (name(number), self.condition(number, when));
        let (holds, before) = (self.holds(number, &condition), self.state(number));
        let shown = |state: Option<BagState>| state.map_or(BagOutcome::NotFound, BagOutcome::Shown);
        match act {
            Act::Get => (BagRequest::Get { bag, unless: None }, shown(before)),
            Act::Unless => {
                let unless = self.known(number);
                let outcome = if unless.is_some() { BagOutcome::NotModified } else { shown(before) };
                (BagRequest::Get { bag, unless }, outcome)
            }
            Act::Put(city, rank) => {
                let properties = Properties { by: at, city, rank, count: None };
                let request = BagRequest::Put { bag, properties, condition };
                if !holds {
                    return (request, BagOutcome::ConditionFailed);
                }
                self.set(number, at, properties);
                (request, BagOutcome::Stored { tag: Self::tag(at), created: before.is_none() })
            }
            Act::Patch(property, value) => {
                let request = BagRequest::Patch { bag, by: at, property, value, condition };
                match before {
                    _ if !holds => (request, BagOutcome::ConditionFailed),
                    None => (request, BagOutcome::NotFound),
                    Some(state) => {
                        self.set(number, at, state.properties.patched(at, property, value));
                        (request, shown(self.state(number)))
                    }
                }
            }
            Act::Delete => {
                let request = BagRequest::Delete { bag, condition };
                match before {
                    _ if !holds => (request, BagOutcome::ConditionFailed),
                    None => (request, BagOutcome::NotFound),
                    Some(_) => {
                        self.present.remove(&number);
                        (request, BagOutcome::Deleted)
                    }
                }
            }
            Act::Find(index, city, order) => {
                let entity_type = bag.entity_type;
                let request = BagRequest::Find { entity_type, index, city, order, limit: 9, is_settled: false };
                (request, BagOutcome::Found(self.found(index, city, order)))
            }
        }
    }

    fn found(&self, index: BagIndex, city: u64, order: Order) -> Vec<FoundBag> {
        let matching = self.present.iter().filter(|(_, (_, properties))| index.finds(*properties, city));
        let bag = |(number, (updated_at, properties)): (&usize, &(u64, Properties))| {
            let state = BagState { tag: Self::tag(*updated_at), properties: *properties };
            FoundBag { entity: name(*number).entity, updated_at: *updated_at, state }
        };
        let mut found: Vec<_> = matching.map(bag).collect();
        found.sort_by_key(|bag| match index {
            BagIndex::Updated => bag.updated_at,
            BagIndex::Ranked => bag.state.properties.rank.unwrap_or_default(),
        });
        if order == Order::Newest {
            found.reverse();
        }
        found
    }
}

fn reported_truthfully(mut drawn: Vec<Drawn>) -> History {
    drawn.sort_by_key(|(_, _, _, at, ..)| *at);
    let (mut bags, mut calls) = (Bags::default(), Vec::new());
    for (client, (act, number, when, at, (before, after), lost)) in drawn.into_iter().enumerate() {
        // Acts at one moment are in the order in which they were drawn.
        let at = (1_000 + at) * 100 + client as u64;
        let (request, outcome) = bags.act(act, number, when, at);
        let outcome = match lost {
            true if request.reads() => Outcome::NotDone { why: "lost".into() },
            true => Outcome::Unknown { why: "lost".into() },
            false => {
                bags.answered(&outcome);
                Outcome::Bag(outcome)
            }
        };
        let (from, to) = (at - before * 100, at + after * 100);
        calls.push(Call { client, incarnation: 0, from, to, batch: None, request: Request::Bag(request), outcome });
    }
    calls.sort_by_key(|call| call.from);
    History { epoch: 1_800_000_000 * NANOS_PER_SEC, ends: vec![1_000_000], calls, ..History::default() }
}

fn allows_what_bags_did() {
    check_cases(1_000, &acts(), |drawn| {
        let history = reported_truthfully(drawn);
        for promises in [Promises::Linearizable, Promises::Quorum] {
            let found = check(&History { promises, ..history.clone() }).map_err(TestCaseError::fail)?;
            let text: Vec<String> = found.iter().map(|violation| violation.explain(&history).to_string()).collect();
            prop_assert!(found.is_empty(), "{:?}: {}", promises, text.join("\n"));
        }
        Ok(())
    });
}
