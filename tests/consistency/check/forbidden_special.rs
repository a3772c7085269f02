//! The same for sets, and for lists that show their newest items only.

use super::script::{Case, Script, aggregated, item, items, list, unknown};
use crate::history::{Aggregated, Order, Outcome, Reason, Request, Special};

const MEMBER: &str = "linearizable adds, removals and lookups of a member";
const ONCE: &str = "a member occurs in a set once";
const COMPLETE: &str = "a window that lacks items reports the reason";

fn of(special: Special) -> Script {
    let mut script = Script::new();
    script.history.special.insert("seen".to_owned(), special);
    script
}

fn set() -> Script {
    of(Special::Sets)
}

/// `a@5 b` looks up a, which is at 5, and b, which is missing.
fn look_up(script: Script, span: (u64, u64), found: &str) -> Script {
    let value = |text: &str| format!("{:?}", text.split('@').next().unwrap());
    let values = found.split_whitespace().map(value).collect();
    let at = found.split_whitespace().map(|text| text.contains('@').then(|| item(text).timestamp)).collect();
    script.call(span, Request::Lookup { list: list(), values }, Outcome::Contained(at))
}

pub const CASES: &[Case] = &[
    ("a_member_stands_at_its_newest_time", || {
        let moved = || set().add((0, 1), "a@1").add((2, 3), "a@5").add((4, 5), "a@3");
        look_up(moved(), (6, 7), "a@5 b").get((8, 9), "a@5").allowed();
        look_up(moved(), (6, 7), "a@3").forbidden(MEMBER);
        moved().get((6, 7), "a@1").forbidden(MEMBER);
        moved().get((6, 7), "").forbidden(MEMBER);
    }),
    ("a_member_twice_in_a_page", || set().add((0, 1), "a@1").add((2, 9), "a@5").get((3, 4), "a@5 a@1").forbidden(ONCE)),
    ("a_member_that_was_removed_may_be_older_again", || {
        let removed = || set().add((0, 1), "a@5").remove((2, 3), "a", Outcome::Removed(1)).add((4, 5), "a@1");
        look_up(removed(), (6, 7), "a@1").allowed();
        look_up(removed(), (6, 7), "a@5").forbidden(MEMBER);
    }),
    ("a_member_lost_by_a_kill", || {
        look_up(set().add((0, 1), "a@5").killed(2), (3, 4), "a").forbidden(MEMBER);
    }),
    ("a_removal_of_a_member_that_was_not_there", || {
        set().remove((0, 1), "a", Outcome::Removed(1)).forbidden(MEMBER);
        set().add((0, 9), "a@1").remove((1, 2), "a", Outcome::Removed(1)).allowed();
    }),
    ("an_unknown_move_of_a_member_is_seen_or_not_and_does_not_flicker", || {
        let moved = || {
            let request = Request::Add { list: list(), items: items("a@5") };
            set().add((0, 1), "a@1").call((2, 3), request, unknown())
        };
        look_up(look_up(moved(), (4, 5), "a@1"), (6, 7), "a@5").allowed();
        look_up(look_up(moved(), (4, 5), "a@5"), (6, 7), "a@1").forbidden(MEMBER);
    }),
    ("a_lookup_and_a_page_that_disagree", || {
        let looked_up = look_up(set().add((0, 1), "a@1 b@2"), (2, 3), "a@1 b");
        looked_up.get((4, 5), "b@2 a@1").forbidden(MEMBER);
    }),
    ("aggregates_of_a_set", || {
        let counted =
            |reported: &str| set().add((0, 1), "a@1 b@2").add((2, 3), "a@5").aggregate((4, 5), &[(0, 9, reported)]);
        counted("a b: b a").allowed();
        counted("a: a a").forbidden(MEMBER);
        counted("a*2 b: a a").forbidden(ONCE);
        counted("a b c: b a").forbidden(MEMBER);
        let window = Aggregated { reason: Some(Reason::ItemsMax), ..aggregated(0, 9, "b: b b") };
        let mut lacks = set().add((0, 1), "a@1 b@2").aggregated((2, 3), vec![window]);
        lacks.history.aggregate_items_max = Some(1);
        lacks.forbidden(COMPLETE);
    }),
    ("aggregates_of_a_part_of_a_set", || {
        let counted = |min: u64, max: u64, reported: &str| {
            set().add((0, 1), "a@2").add((2, 3), "a@5").aggregate((4, 5), &[(min, max, reported)])
        };
        counted(0, 4, "").allowed();
        counted(6, 9, "").allowed();
        counted(3, 9, "a: a a").allowed();
        counted(5, 5, "a: a a").allowed();
        counted(0, 4, "a: a a").forbidden(MEMBER);
        counted(3, 4, "a: a a").forbidden(MEMBER);
        counted(6, 9, "a: a a").forbidden(MEMBER);
        counted(3, 9, "").forbidden(MEMBER);
    }),
    ("aggregates_of_a_bounded_list", || {
        let counted = |reported: &str| {
            let window = Aggregated { reason: Some(Reason::MaxItems), ..aggregated(0, 9, reported) };
            of(Special::Bounded(2)).add((0, 1), "a@1 b@2 c@3").aggregated((2, 3), vec![window])
        };
        counted("b c: b c").allowed();
        counted("a b c: a c").forbidden("a list shows no more items than it may");
        counted("c: c c").forbidden("what was acknowledged is there");
        counted("a c: a c").forbidden("what was acknowledged is there");
        counted("c*2 b: b c").forbidden("only what was added is returned");
        counted("c d: d c").forbidden("only what was added is returned");
    }),
    ("aggregates_of_a_part_of_a_bounded_list", || {
        let counted =
            |reported: &str| of(Special::Bounded(2)).add((0, 1), "a@1 b@2 c@3").aggregate((2, 3), &[(0, 2, reported)]);
        counted("b: b b").allowed();
        counted("b c: b c").forbidden("bounds are kept");
        counted("d: d d").forbidden("only what was added is returned");
    }),
    ("a_window_beyond_the_items_that_a_list_shows", || {
        let script = |windows: &[(u64, u64, &str, Option<Reason>)]| {
            let window = |(min, max, reported, reason): &(u64, u64, &str, Option<Reason>)| Aggregated {
                reason: *reason,
                ..aggregated(*min, *max, reported)
            };
            of(Special::Bounded(2)).add((0, 1), "a@1 b@2 c@3").aggregated((2, 3), windows.iter().map(window).collect())
        };
        let lacks = Some(Reason::MaxItems);
        let whole = (0, 9, "b c: b c", lacks);
        script(&[whole, (3, 9, "c: c c", None), (2, 2, "b: b b", lacks), (0, 1, "", lacks), (4, 9, "", None)])
            .allowed();
        script(&[(0, 9, "b c: b c", None)]).forbidden(COMPLETE);
        script(&[(2, 9, "b c: b c", None)]).forbidden(COMPLETE);
        script(&[whole, (3, 9, "c: c c", lacks)]).forbidden(COMPLETE);
        script(&[whole, (2, 2, "b: b b", None)]).forbidden(COMPLETE);
        script(&[whole, (0, 9, "b c: b c", Some(Reason::ItemsMax))]).forbidden(COMPLETE);
        script(&[whole, (3, 9, "", None)]).forbidden("windows of one answer agree");
        let short = of(Special::Bounded(2)).add((0, 1), "a@1");
        let window = Aggregated { reason: lacks, ..aggregated(0, 9, "a: a a") };
        short.aggregated((2, 3), vec![window]).forbidden(COMPLETE);
    }),
    ("a_bounded_list_shows_no_more_than_it_may", || {
        let full = || of(Special::Bounded(2)).add((0, 1), "a@1 b@2 c@3");
        full().get((2, 3), "c@3 b@2").allowed();
        full().get((2, 3), "c@3 b@2 a@1").forbidden("a list shows no more items than it may");
        full().get((2, 3), "c@3").forbidden("what was acknowledged is there");
        full().get((2, 3), "c@3 a@1").forbidden("what was acknowledged is there");
    }),
    ("what_lay_beyond_may_be_gone_and_may_be_there", || {
        let removed = || {
            let full = of(Special::Bounded(2)).add((0, 1), "a@1 b@2 c@3");
            full.remove((2, 3), "c", Outcome::Removed(1))
        };
        removed().get((4, 5), "b@2").allowed();
        removed().get((4, 5), "b@2 a@1").allowed();
        removed().get((4, 5), "a@1").forbidden("what was acknowledged is there");
        removed().get((4, 5), "c@3 b@2").forbidden("what was removed does not come back");
        let page =
            Request::Get { list: list(), min: None, max: None, order: Order::Newest, limit: Some(1), after: None };
        removed().call((4, 5), page, Outcome::Page { items: items("b@2"), more: true }).allowed();
    }),
];
