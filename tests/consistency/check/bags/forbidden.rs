//! Histories of bags that the promises forbid, and similar histories that they allow.

use super::super::script::{Case, Script, unknown};
use super::{FOUND_ONCE, IN_ORDER, LINEAR, MADE_ONCE, MATCHES, ONE_STATE};
use crate::bags::{BagIndex, BagName, BagOutcome, BagRequest, BagState, Condition, FoundBag, Properties, Property};
use crate::history::{Order, Outcome, Promises, Request};

type Span = (u64, u64);

const PARIS: u64 = 7;
const ROME: u64 = 8;

fn bag() -> BagName {
    BagName { entity_type: "person".into(), entity: "p".into() }
}

fn state(tag: &str, properties: Properties) -> BagState {
    BagState { tag: tag.into(), properties }
}

/// A bag with a count, which a write made.
fn count(by: u64, count: u64) -> Properties {
    Properties { by, city: None, rank: None, count: Some(count) }
}

fn city(by: u64, city: u64) -> Properties {
    Properties { by, city: Some(city), rank: Some(1), count: None }
}

fn tagged(tag: &str) -> Option<Condition> {
    Some(Condition::Tag(tag.into()))
}

fn on_bag(script: Script, span: Span, request: BagRequest, outcome: Outcome) -> Script {
    script.call(span, Request::Bag(request), outcome)
}

fn put_if(script: Script, span: Span, properties: Properties, condition: Option<Condition>, out: Outcome) -> Script {
    on_bag(script, span, BagRequest::Put { bag: bag(), properties, condition }, out)
}

fn stored(tag: &str, created: bool) -> Outcome {
    Outcome::Bag(BagOutcome::Stored { tag: tag.into(), created })
}

/// A put of the first bag, with the entity tag `a`.
fn created(properties: Properties) -> Script {
    put_if(Script::new(), (0, 1), properties, None, stored("a", true))
}

/// A put in the place of another bag.
fn put(script: Script, span: Span, properties: Properties, tag: &str) -> Script {
    put_if(script, span, properties, None, stored(tag, false))
}

fn patch(
    script: Script,
    span: Span,
    (by, property, value): (u64, Property, u64),
    condition: Option<Condition>,
    outcome: Outcome,
) -> Script {
    let request = BagRequest::Patch { bag: bag(), by, property, value: Some(value), condition };
    on_bag(script, span, request, outcome)
}

fn shown(tag: &str, properties: Properties) -> Outcome {
    Outcome::Bag(BagOutcome::Shown(state(tag, properties)))
}

fn get(script: Script, span: Span, outcome: Outcome) -> Script {
    on_bag(script, span, BagRequest::Get { bag: bag(), unless: None }, outcome)
}

fn none() -> Outcome {
    Outcome::Bag(BagOutcome::NotFound)
}

fn failed() -> Outcome {
    Outcome::Bag(BagOutcome::ConditionFailed)
}

fn delete(script: Script, span: Span, outcome: Outcome) -> Script {
    on_bag(script, span, BagRequest::Delete { bag: bag(), condition: None }, outcome)
}

fn find_with(script: Script, span: Span, order: Order, is_settled: bool, found: Vec<FoundBag>) -> Script {
    let (entity_type, index) = (bag().entity_type, BagIndex::Updated);
    let request = BagRequest::Find { entity_type, index, city: PARIS, order, limit: 100, is_settled };
    on_bag(script, span, request, Outcome::Bag(BagOutcome::Found(found)))
}

fn find(script: Script, span: Span, found: Vec<FoundBag>) -> Script {
    find_with(script, span, Order::Newest, false, found)
}

fn found(tag: &str, updated_at: u64, properties: Properties) -> FoundBag {
    FoundBag { entity: bag().entity, updated_at, state: state(tag, properties) }
}

/// A put of unknown outcome.
fn put_unknown(script: Script, span: Span, properties: Properties) -> Script {
    put_if(script, span, properties, None, unknown())
}

pub const CASES: &[Case] = &[
    ("a_swap_that_is_applied_twice_shows_two_entity_tags", || {
        let once = get(put(created(count(1, 1)), (2, 9), count(2, 2), "b"), (3, 4), shown("b", count(2, 2)));
        let other = put(once, (5, 6), count(3, 3), "c");
        get(other, (10, 11), shown("d", count(2, 2))).forbidden(MADE_ONCE);
    }),
    ("a_swap_that_is_applied_twice_on_top_of_a_patch", || {
        // The patch of the city has merged into the count of write 2, whose answer shows that city.
        let both = Properties { city: Some(PARIS), ..count(3, 2) };
        let cut = |at: Span| {
            let again = shown("d", Properties { by: 2, ..both });
            let twice = patch(created(count(1, 1)), at, (2, Property::Count, 2), None, again);
            patch(twice, (3, 4), (3, Property::City, PARIS), None, shown("c", both))
        };
        cut((2, 9)).forbidden(LINEAR);
        let after = Properties { city: Some(PARIS), ..count(3, 1) };
        let once = patch(created(count(1, 1)), (3, 4), (3, Property::City, PARIS), None, shown("c", after));
        let then = shown("d", Properties { by: 2, count: Some(2), ..after });
        patch(once, (2, 9), (2, Property::Count, 2), None, then).allowed();
    }),
    ("a_swap_that_is_applied_and_refused", || {
        let refused = put_if(created(count(1, 1)), (2, 9), count(2, 2), tagged("a"), failed());
        get(refused, (3, 4), shown("b", count(2, 2))).forbidden(LINEAR);
        let other = put(created(count(1, 1)), (2, 9), count(3, 3), "c");
        put_if(other, (2, 9), count(2, 2), tagged("a"), failed()).allowed();
    }),
    ("a_condition_that_fails_though_the_entity_tag_is_current", || {
        put_if(created(count(1, 1)), (2, 3), count(2, 2), tagged("a"), failed()).forbidden(LINEAR);
        put_if(created(count(1, 1)), (2, 3), count(2, 2), tagged("other"), failed()).allowed();
        put_if(created(count(1, 1)), (2, 3), count(2, 2), Some(Condition::Absent), failed()).allowed();
        put_if(created(count(1, 1)), (2, 3), count(2, 2), tagged("other"), stored("b", false)).forbidden(LINEAR);
        put_if(created(count(1, 1)), (2, 3), count(2, 2), Some(Condition::Absent), stored("b", true)).forbidden(LINEAR);
        put_if(created(count(1, 1)), (2, 3), count(2, 2), None, failed()).forbidden(LINEAR);
    }),
    ("an_update_that_is_lost", || {
        let one = put_if(created(count(1, 1)), (2, 9), count(2, 2), tagged("a"), stored("b", false));
        put_if(one, (2, 9), count(3, 2), tagged("a"), stored("c", false)).forbidden(LINEAR);
        let one = put_if(created(count(1, 1)), (2, 9), count(2, 2), tagged("a"), stored("b", false));
        put_if(one, (2, 9), count(3, 3), tagged("b"), stored("c", false)).allowed();
    }),
    ("a_patch_that_loses_the_change_of_another_patch", || {
        let patched = |after: Properties| {
            let paris = Properties { city: Some(PARIS), ..count(2, 1) };
            let one = patch(created(count(1, 1)), (2, 9), (2, Property::City, PARIS), None, shown("b", paris));
            patch(one, (10, 11), (3, Property::Rank, 1), None, shown("c", after))
        };
        let both = Properties { by: 3, city: Some(PARIS), rank: Some(1), count: Some(1) };
        patched(both).allowed();
        patched(Properties { city: None, ..both }).forbidden(LINEAR);
    }),
    ("a_stale_read_of_a_bag", || {
        let replaced = || put(created(count(1, 1)), (2, 3), count(2, 2), "b");
        get(replaced(), (4, 5), shown("b", count(2, 2))).allowed();
        get(replaced(), (4, 5), shown("a", count(1, 1))).forbidden(LINEAR);
        get(replaced(), (4, 5), none()).forbidden(LINEAR);
        get(put(created(count(1, 1)), (2, 9), count(2, 2), "b"), (4, 5), shown("a", count(1, 1))).allowed();
        let unless = BagRequest::Get { bag: bag(), unless: Some("a".into()) };
        let not_modified = || Outcome::Bag(BagOutcome::NotModified);
        on_bag(created(count(1, 1)), (4, 5), unless.clone(), not_modified()).allowed();
        on_bag(replaced(), (4, 5), unless, not_modified()).forbidden(LINEAR);
    }),
    ("two_reads_of_a_bag_in_the_wrong_order", || {
        let replaced = put(created(count(1, 1)), (2, 9), count(2, 2), "b");
        let seen = get(replaced, (3, 4), shown("b", count(2, 2)));
        get(seen, (5, 6), shown("a", count(1, 1))).forbidden(LINEAR);
    }),
    ("a_bag_lost_by_a_kill", || get(created(count(1, 1)).killed(2), (3, 4), none()).forbidden(LINEAR)),
    ("a_bag_that_nobody_wrote", || {
        get(created(count(1, 1)), (2, 3), shown("b", count(2, 1))).forbidden(LINEAR);
        get(created(count(1, 1)), (2, 3), shown("a", count(1, 2))).forbidden(ONE_STATE);
    }),
    ("a_deletion_of_a_bag", || {
        let deleted = || delete(created(count(1, 1)), (2, 3), Outcome::Bag(BagOutcome::Deleted));
        get(deleted(), (4, 5), none()).allowed();
        get(deleted(), (4, 5), shown("a", count(1, 1))).forbidden(LINEAR);
        delete(deleted(), (4, 5), Outcome::Bag(BagOutcome::Deleted)).forbidden(LINEAR);
        delete(deleted(), (4, 5), none()).allowed();
        put_if(deleted(), (4, 5), count(2, 2), None, stored("b", false)).forbidden(LINEAR);
        patch(deleted(), (4, 5), (2, Property::Count, 1), None, shown("b", count(2, 1))).forbidden(LINEAR);
    }),
    ("an_unknown_write_of_a_bag_is_made_or_not_and_does_not_flicker", || {
        let unsure = || put_unknown(created(count(1, 1)), (2, 3), count(2, 2));
        let old = |script, span| get(script, span, shown("a", count(1, 1)));
        let new = |script, span| get(script, span, shown("b", count(2, 2)));
        new(old(unsure(), (4, 5)), (6, 7)).allowed();
        old(unsure(), (4, 5)).allowed();
        old(new(unsure(), (4, 5)), (6, 7)).forbidden(LINEAR);
        // An ended process makes no further change, but a cluster may complete one.
        new(old(unsure().killed(4), (5, 6)), (7, 8)).forbidden(LINEAR);
        new(old(unsure().killed(4), (5, 6)), (7, 8)).allowed_by(Promises::Quorum);
    }),
    ("an_unknown_write_of_a_bag_on_top_of_a_later_change", || {
        let unsure = || put_unknown(created(count(1, 1)), (2, 3), count(2, 2)).killed(4);
        let later = |script| put(script, (5, 6), count(3, 3), "c");
        let seen = |script| get(script, (7, 8), shown("b", count(2, 2)));
        seen(later(unsure())).forbidden_at_quorum(LINEAR);
        seen(unsure()).allowed_by(Promises::Quorum);
        get(later(unsure()), (7, 8), shown("c", count(3, 3))).allowed_by(Promises::Quorum);
    }),
    ("a_find_that_misses_a_bag", || {
        find(created(city(1, PARIS)), (2, 3), vec![found("a", 1, city(1, PARIS))]).allowed();
        find(created(city(1, PARIS)), (2, 3), vec![]).forbidden(LINEAR);
        find(created(city(1, PARIS)), (2, 3), vec![]).forbidden_at_quorum(LINEAR);
        find(created(city(1, ROME)), (2, 3), vec![]).allowed();
        find(created(city(1, PARIS)).killed(2), (3, 4), vec![]).forbidden(LINEAR);
        // A bag that is changed during the query may be passed over.
        let moving = || put(created(city(1, PARIS)), (2, 9), city(2, PARIS), "b");
        find(moving(), (3, 4), vec![]).allowed();
        find(moving(), (10, 11), vec![]).forbidden(LINEAR);
    }),
    ("a_find_that_misses_a_bag_whose_entries_may_be_missing", || {
        let unsure = || put_unknown(created(city(1, ROME)), (2, 3), city(2, PARIS)).killed(4);
        let seen = || get(unsure(), (5, 6), shown("b", city(2, PARIS)));
        find(seen(), (7, 8), vec![]).forbidden(LINEAR);
        find(seen(), (7, 8), vec![]).allowed_by(Promises::Quorum);
        find_with(seen(), (7, 8), Order::Newest, true, vec![]).forbidden_at_quorum(LINEAR);
        let patched = patch(seen(), (7, 8), (3, Property::Rank, 1), None, shown("c", city(3, PARIS)));
        find(patched, (9, 10), vec![]).forbidden_at_quorum(LINEAR);
    }),
    ("a_find_that_shows_an_old_bag", || {
        let replaced = || put(created(city(1, PARIS)), (2, 3), city(2, PARIS), "b");
        find(replaced(), (4, 5), vec![found("b", 2, city(2, PARIS))]).allowed();
        find(replaced(), (4, 5), vec![found("a", 1, city(1, PARIS))]).forbidden(LINEAR);
        find(replaced(), (4, 5), vec![found("b", 2, city(2, ROME))]).forbidden(MATCHES);
    }),
    ("a_find_that_shows_a_bag_twice_or_out_of_order", || {
        let replaced = || put(created(city(1, PARIS)), (2, 9), city(2, PARIS), "b");
        let (old, new) = (|| found("a", 1, city(1, PARIS)), || found("b", 2, city(2, PARIS)));
        find(replaced(), (3, 4), vec![new(), old()]).forbidden(FOUND_ONCE);
        find(replaced(), (3, 4), vec![old(), new()]).forbidden(IN_ORDER);
        find_with(replaced(), (3, 4), Order::Oldest, false, vec![old(), new()]).allowed();
        find_with(replaced(), (3, 4), Order::Oldest, false, vec![new(), new()]).forbidden(FOUND_ONCE);
    }),
];
