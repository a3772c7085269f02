//! Histories of counts, searches for values, pages from the oldest item on, and removals of some items: forbidden
//! ones, and similar allowed ones.

use super::script::{Case, Script, aggregated, by_value, item, items, key, list, results, unknown};
use crate::history::{Aggregated, GroupBy, Groups, NANOS_PER_SEC, Order, Outcome, Promises, Reason, Request, Results};

const ITEM: &str = "linearizable adds, removals and reads of an item";
const THERE: &str = "what was acknowledged is there";
const NOT_BACK: &str = "what was removed, or never added, does not come back";
const COUNTS: &str = "exact counts";
const AGREE: &str = "aggregates of one answer agree";
const GROUPS: &str = "groups are those of the request, in their order";
const COMPLETE: &str = "a window that lacks items reports the reason";
const MOMENT: &str = "a page is the list at one moment";

type Span = (u64, u64);

fn moment(text: &str) -> u64 {
    item(text).timestamp
}

impl Script {
    fn oldest(self, span: Span, after: Option<&str>, page: &str, more: bool) -> Self {
        let (after, order) = (after.map(key), Order::Oldest);
        let request = Request::Get { list: list(), min: None, max: None, order, limit: None, after };
        self.call(span, request, Outcome::Page { items: items(page), more })
    }

    fn count(self, span: Span, limit: u64, count: u64, exact: bool) -> Self {
        let request = Request::Count { list: list(), min: None, max: None, limit: Some(limit) };
        self.call(span, request, Outcome::Counted { count, exact })
    }

    /// `a@5 b` states that the newest "a" is at 5 ns, and that there is no "b".
    fn contains(self, span: Span, reported: &str) -> Self {
        let reported = reported.split_whitespace().map(|text| match text.split_once('@') {
            Some((value, _)) => (format!("{value:?}"), Some(moment(text))),
            None => (format!("{text:?}"), None),
        });
        let (values, newest) = reported.unzip();
        let request = Request::Contains { list: list(), min: None, max: None, values };
        self.call(span, request, Outcome::Contained(newest))
    }

    fn remove_items(self, span: Span, named: &str, outcome: Outcome) -> Self {
        self.call(span, Request::RemoveItems { list: list(), items: items(named) }, outcome)
    }

    fn remove_between(self, span: Span, min: u64, max: u64, outcome: Outcome) -> Self {
        let (min, max) = (Some(moment(&format!("x@{min}"))), Some(moment(&format!("x@{max}"))));
        self.call(span, Request::RemoveBetween { list: list(), min, max }, outcome)
    }

    /// The last `parts` calls were parts of one.
    fn in_one_call(mut self, parts: usize) -> Self {
        let first = self.history.calls.len() - parts;
        let Some(client) = self.history.calls.get(first).map(|call| call.client) else { panic!("parts are needed") };
        for call in &mut self.history.calls[first..] {
            (call.client, call.batch) = (client, Some(0));
        }
        self
    }
}

pub const CASES: &[Case] = &[
    ("pages_from_the_oldest_item_on", || {
        let script = Script::new().add((0, 1), "a@1 b@2 c@3").oldest((2, 3), None, "a@1 b@2", true);
        script.oldest((4, 5), Some("b@2"), "c@3", false).allowed();
    }),
    ("oldest_first_in_the_other_order", || {
        let script = Script::new().add((0, 1), "a@1 b@2").oldest((2, 3), None, "b@2 a@1", false);
        script.forbidden("oldest first, ties by item key");
    }),
    ("oldest_first_begins_again", || {
        let script = Script::new().add((0, 1), "a@1 b@2").oldest((2, 3), Some("b@2"), "a@1", false);
        script.forbidden("a page starts after the one before it");
    }),
    ("oldest_first_leaves_one_out", || {
        Script::new().add((0, 1), "a@1").add((2, 3), "b@2").oldest((4, 5), None, "b@2", true).forbidden(THERE);
    }),
    ("oldest_first_leaves_out_what_is_behind_a_token", || {
        Script::new().add((0, 1), "a@1 b@2 c@3").oldest((2, 3), None, "a@1", true).allowed();
    }),
    ("oldest_first_promises_more_where_nothing_is", || {
        let script = Script::new().add((0, 1), "a@1 b@2").oldest((2, 3), None, "a@1 b@2", true);
        script.forbidden("a token is there exactly when more items are");
    }),
    ("a_count_of_what_is_there", || {
        Script::new().add((0, 1), "a@1 b@2").count((2, 3), 9, 2, true).count((2, 3), 2, 2, true).allowed();
    }),
    ("a_count_lacks_what_was_acknowledged", || {
        Script::new().add((0, 1), "a@1 b@2").count((2, 3), 9, 1, true).forbidden(COUNTS);
    }),
    ("a_count_of_what_was_removed", || {
        let script = Script::new().add((0, 1), "a@1").remove((2, 3), "a", Outcome::Removed(1));
        script.count((4, 5), 9, 1, true).forbidden(COUNTS);
    }),
    ("a_count_beyond_its_limit", || {
        let script = Script::new().add((0, 1), "a@1 b@2 c@3").count((2, 3), 2, 2, false);
        script.count((4, 5), 2, 2, true).forbidden(COUNTS);
    }),
    ("a_count_that_ends_before_its_limit", || {
        let script = Script::new().add((0, 1), "a@1 b@2").count((2, 3), 9, 2, false);
        script.forbidden("a count goes as far as its limit");
    }),
    ("a_count_of_two_moments", || {
        // At the first of them there was only "a", at the second one only "b", and in between nothing.
        let script = |count| {
            let script = Script::new().add((0, 1), "a@1").remove((3, 4), "a", Outcome::Removed(1)).add((5, 6), "b@2");
            script.count((2, 7), 9, count, true)
        };
        script(0).allowed();
        script(1).allowed();
        script(2).forbidden(COUNTS);
        script(2).allowed_by(Promises::Quorum);
    }),
    ("a_search_finds_the_newest", || {
        let script = Script::new().add((0, 1), "a@1 a@5 b@2").contains((2, 3), "a@5 b@2 c a@5");
        script.remove_items((4, 5), "a@5", Outcome::Removed(1)).contains((6, 7), "a@1").allowed();
    }),
    ("a_search_finds_an_older_one", || {
        Script::new().add((0, 1), "a@1").add((2, 3), "a@5").contains((4, 5), "a@1").forbidden(ITEM);
    }),
    ("a_search_misses_what_was_acknowledged", || {
        Script::new().add((0, 1), "a@1").contains((2, 3), "a").forbidden(THERE);
    }),
    ("a_search_finds_what_was_removed", || {
        let script = Script::new().add((0, 1), "a@1").remove((2, 3), "a", Outcome::Removed(1));
        script.contains((4, 5), "a@1").forbidden(NOT_BACK);
    }),
    ("a_search_finds_what_nobody_added", || {
        let script = Script::new().add((0, 1), "a@1").contains((2, 3), "a@2");
        script.forbidden("only what was added is returned");
    }),
    ("a_search_of_two_moments", || {
        let script = Script::new().add((0, 1), "a@1").add((4, 5), "b@2").remove((2, 3), "a", Outcome::Removed(1));
        script.contains((1, 6), "a@1 b@2").forbidden(MOMENT);
    }),
    ("a_search_says_two_things_of_a_value", || {
        let script = Script::new().add((0, 1), "a@1").contains((2, 3), "a@1 a");
        script.forbidden("a value has one newest item");
    }),
    ("aggregates_of_what_is_there", || {
        let script = Script::new().add((0, 1), "a@1 b@2 a@3");
        script
            .aggregate((2, 3), &[(1, 9, "a*2 b: a a"), (1, 3, "a*2 b: a a"), (2, 9, "a b: b a"), (4, 9, "")])
            .allowed();
    }),
    ("aggregates_lack_what_was_acknowledged", || {
        let script = || Script::new().add((0, 1), "a@1").add((0, 1), "b@2").aggregate((2, 3), &[(1, 2, "b: b b")]);
        script().forbidden(THERE);
        script().forbidden_at_quorum(THERE);
    }),
    ("aggregates_of_what_was_removed", || {
        let script = Script::new().add((0, 1), "a@1").remove((2, 3), "a", Outcome::Removed(1));
        script.aggregate((4, 5), &[(1, 2, "a: a a")]).forbidden(NOT_BACK);
    }),
    ("an_aggregate_counts_one_too_few", || {
        let script = || Script::new().add((0, 1), "a@1 a@3").aggregate((2, 3), &[(1, 3, "a: a a")]);
        script().forbidden(COUNTS);
        script().forbidden_at_quorum(COUNTS);
    }),
    ("an_aggregate_counts_more_than_were_added", || {
        let script = Script::new().add((0, 1), "a@1").add((4, 5), "a@2").aggregate((2, 3), &[(1, 2, "a*2: a a")]);
        script.forbidden("only what was added is returned");
    }),
    ("aggregates_of_two_moments", || {
        let script = || Script::new().add((0, 1), "a@1").add((4, 5), "b@2").remove((2, 3), "a", Outcome::Removed(1));
        script().aggregate((1, 6), &[(1, 2, "a b: a b")]).forbidden(MOMENT);
        script().aggregate((1, 6), &[(1, 1, "a: a a"), (2, 2, "b: b b"), (1, 2, "a b: a b")]).forbidden(MOMENT);
        script().aggregate((1, 6), &[(1, 2, "a: a a")]).allowed();
        script().aggregate((1, 6), &[(1, 2, "b: b b")]).allowed();
    }),
    ("a_value_of_several_items_is_counted_at_one_moment", || {
        let script = |first: &str, second: &str| {
            let script = Script::new().add((0, 1), "a@1").add((0, 1), "a@3");
            let script = script.remove_items((2, 9), "a@3", Outcome::Removed(1));
            script.aggregate((3, 4), &[(1, 3, first)]).aggregate((5, 6), &[(1, 3, second)])
        };
        script("a*2: a a", "a: a a").allowed();
        script("a: a a", "a*2: a a").forbidden(ITEM);
    }),
    ("aggregates_that_disagree", || {
        let script =
            |reported: &[Aggregated]| Script::new().add((0, 1), "a@1 b@2").aggregated((2, 3), reported.to_vec());
        let of = |text: &str| aggregated(1, 2, text);
        script(&[of("a b: a b"), of("a b: a b")]).allowed();
        let with = |results: Results| Aggregated { results, ..of("") };
        script(&[with(Results { count: 3, ..results("a b: a b") })]).forbidden(AGREE);
        script(&[with(Results { distinct: 3, ..results("a b: a b") })]).forbidden(AGREE);
        script(&[with(Results { first: None, ..results("a b: a b") })]).forbidden(AGREE);
        script(&[with(Results { sum: Some(7), ..results("a b: a b") })]).forbidden(AGREE);
        script(&[of("a b: a c")]).forbidden(AGREE);
        script(&[of("a b: b b")]).forbidden("the first and last value are of the oldest and newest item");
        script(&[of("a b: a b"), of("a: a a")]).forbidden("windows of one answer agree");
        script(&[of("a b*2: a b")]).forbidden("the most frequent values come first");
        script(&[of("b a: a b")]).forbidden("the most frequent values come first");
        script(&[of("a a: a a")]).forbidden("the most frequent values come first");
    }),
    ("a_count_of_the_items_that_were_read", || {
        let read = |items: u64| {
            let script = Script::new().add((0, 1), "a@1 b@2 c@3");
            script.aggregated_of((2, 3), vec![aggregated(1, 1, "a: a a"), aggregated(3, 4, "c: c c")], items)
        };
        read(3).allowed();
        read(2).forbidden(COMPLETE);
        read(4).forbidden(COUNTS);
        let of_one = Script::new().add((0, 1), "a@1").aggregated_of((2, 3), vec![aggregated(1, 1, "a: a a")], 2);
        of_one.forbidden(AGREE);
    }),
    ("groups_and_their_whole", || {
        let grouped = |max_groups: usize, shown: &[(&str, &str)]| {
            let window = by_value(1, 9, max_groups, shown);
            Script::new().add((0, 1), "a@1 b@2 a@3 c@4").aggregated((2, 3), vec![window])
        };
        grouped(3, &[("a", "a*2: a a"), ("b", "b: b b"), ("c", "c: c c")]).allowed();
        grouped(2, &[("a", "a*2: a a"), ("b", "b: b b"), ("", "c: c c")]).allowed();
        grouped(1, &[("a", "a*2: a a"), ("", "b c: b c")]).allowed();
        grouped(3, &[("a", "a*2: a a"), ("b", "b: b b")]).forbidden(THERE);
        grouped(3, &[("a", "a: a a"), ("b", "b: b b"), ("c", "c: c c")]).forbidden(COUNTS);
        grouped(4, &[("a", "a*2: a a"), ("b", "b: b b"), ("c", "c: c c"), ("d", "d: d d")])
            .forbidden("only what was added is returned");
        let first = "the first and last value are of the oldest and newest item";
        grouped(1, &[("a", "a*2: a a"), ("", "b c: c b")]).forbidden(first);
        let wrong: [(usize, &[(&str, &str)]); 10] = [
            (2, &[("a", "a*2: a a"), ("b", "b: b b"), ("c", "c: c c")]),
            (3, &[("a", "a*2: a a"), ("b", "b: b b"), ("", "c: c c")]),
            (3, &[("b", "b: b b"), ("a", "a*2: a a"), ("c", "c: c c")]),
            (3, &[("a", "a*2: a a"), ("c", "c: c c"), ("b", "b: b b")]),
            (3, &[("a", "a: a a"), ("a", "a: a a"), ("b", "b: b b")]),
            (3, &[("b", "a*2: a a"), ("a", "b: b b"), ("c", "c: c c")]),
            (1, &[("b", "b: b b"), ("", "a*2 c: a c")]),
            (1, &[("a", "a*2: a a"), ("", "a b: a b")]),
            (2, &[("a", "a*2: a a"), ("c", "c: c c"), ("", "b: b b")]),
            (2, &[("a", "a*2: a a"), ("b", ""), ("", "c: c c")]),
        ];
        for (max_groups, shown) in wrong {
            grouped(max_groups, shown).forbidden(GROUPS);
        }
        let mut miscounted = by_value(1, 9, 3, &[("a", "a*2: a a"), ("b", "b: b b"), ("c", "c: c c")]);
        miscounted.groups.iter_mut().for_each(|groups| groups.shown[0].count = 3);
        Script::new().add((0, 1), "a@1 b@2 a@3 c@4").aggregated((2, 3), vec![miscounted]).forbidden(GROUPS);
    }),
    ("items_without_a_group_are_skipped", || {
        let by_member = |skipped: u64| {
            // A text has no members.
            let groups = Groups { by: GroupBy { by_member: true, max_groups: 2 }, shown: vec![] };
            let window = Aggregated { skipped, groups: Some(groups), ..aggregated(1, 9, "") };
            Script::new().add((0, 1), "a@1 b@2").aggregated((2, 3), vec![window])
        };
        by_member(2).allowed();
        by_member(1).forbidden(COUNTS);
        by_member(3).forbidden(COUNTS);
        let window = Aggregated { skipped: 1, ..aggregated(1, 9, "b: b b") };
        Script::new().add((0, 1), "a@1 b@2").aggregated((2, 3), vec![window]).forbidden(AGREE);
    }),
    ("a_window_beyond_the_items_that_a_call_reads", || {
        let script = |windows: Vec<Aggregated>, items_read: u64| {
            let mut script = Script::new().add((0, 1), "a@1 b@2 a@3 c@4");
            script.history.aggregate_items_max = Some(2);
            script.aggregated_of((2, 3), windows, items_read)
        };
        let cut = |min: u64, text: &str| Aggregated { reason: Some(Reason::ItemsMax), ..aggregated(min, 9, text) };
        script(vec![cut(1, "a c: a c")], 2).allowed();
        script(vec![cut(1, "a c: a c"), aggregated(3, 9, "a c: a c"), aggregated(4, 9, "c: c c")], 2).allowed();
        script(vec![cut(1, "a c: a c"), cut(3, "a c: a c")], 2).forbidden(COMPLETE);
        script(vec![aggregated(1, 9, "a c: a c")], 2).forbidden(COUNTS);
        script(vec![aggregated(1, 2, "a b: a b"), aggregated(4, 9, "c: c c")], 2).forbidden(COMPLETE);
        script(vec![cut(1, "a b c: a c")], 3).forbidden(COMPLETE);
        script(vec![cut(1, "c: c c")], 1).forbidden(COMPLETE);
        script(vec![cut(1, "b c: b d")], 2).forbidden(AGREE);
        script(vec![cut(1, "c d: d c")], 2).forbidden("only what was added is returned");
        script(vec![cut(3, "a c: a c")], 2).forbidden(COMPLETE);
        script(vec![aggregated(4, 9, "c: c c")], 1).allowed();
    }),
    ("the_reasons_of_a_window_that_lacks_items", || {
        let script = |min_secs_ago: u64, reason: Option<Reason>| {
            let script = Script::new().change_ttl((0, 1), 60).add((2, 3), "a@1");
            let mut window = Aggregated { reason, ..aggregated(0, 9, "a: a a") };
            window.min -= min_secs_ago * NANOS_PER_SEC;
            script.aggregated((4, 5), vec![window])
        };
        script(50, None).allowed();
        script(50, Some(Reason::Ttl)).forbidden(COMPLETE);
        script(60, Some(Reason::Ttl)).allowed();
        script(60, None).forbidden(COMPLETE);
        script(50, Some(Reason::MaxItems)).forbidden(COMPLETE);
        script(50, Some(Reason::ItemsMax)).forbidden(COMPLETE);
    }),
    ("an_aggregate_of_other_bounds", || {
        let mut script = Script::new().add((0, 1), "a@1").aggregate((2, 3), &[(1, 2, "a: a a")]);
        let Some(Outcome::Aggregated(reported)) = script.history.calls.last_mut().map(|call| &mut call.outcome) else {
            panic!("a call is needed")
        };
        reported.windows[0].max += 1;
        script.forbidden("bounds are kept");
    }),
    ("items_are_removed_and_no_others", || {
        let script = Script::new().add((0, 1), "a@1 a@2 b@3").remove_items((2, 3), "a@2 b@3 c@4", Outcome::Removed(2));
        script.get((4, 5), "a@1").allowed();
    }),
    ("a_removal_of_items_takes_another_one", || {
        let script =
            Script::new().add((0, 1), "a@1").add((0, 1), "a@2").remove_items((2, 3), "a@2", Outcome::Removed(1));
        script.get((4, 5), "").forbidden(ITEM);
    }),
    ("a_removal_of_items_counts_one_too_few", || {
        let script = Script::new().add((0, 1), "a@1").add((0, 1), "b@2");
        script.remove_items((2, 3), "a@1 b@2", Outcome::Removed(1)).forbidden(ITEM);
    }),
    ("two_removals_of_items_count_the_same_one", || {
        let script = Script::new().add((0, 1), "a@1").remove_items((2, 5), "a@1", Outcome::Removed(1));
        let script = script.remove_items((3, 6), "a@1", Outcome::Removed(1));
        script.violations(Promises::Quorum).is_empty().then_some(()).expect("they may there");
        script.forbidden(ITEM);
    }),
    ("what_lies_between_is_removed_and_nothing_else", || {
        let script = Script::new().add((0, 1), "a@1 b@2 c@3 d@4").remove_between((2, 3), 2, 3, Outcome::Removed(2));
        script.get((4, 5), "d@4 a@1").allowed();
    }),
    ("a_removal_between_leaves_something", || {
        let script =
            Script::new().add((0, 1), "a@1").add((0, 1), "b@2").remove_between((2, 3), 1, 2, Outcome::Removed(2));
        script.get((4, 5), "a@1").forbidden(NOT_BACK);
    }),
    ("a_removal_between_takes_more", || {
        let script =
            Script::new().add((0, 1), "a@1").add((0, 1), "b@3").remove_between((2, 3), 1, 2, Outcome::Removed(1));
        script.get((4, 5), "").forbidden(THERE);
    }),
    ("a_removal_between_counts_wrong", || {
        let removed = |count| {
            let script = Script::new().add((0, 1), "a@1").add((0, 1), "b@2").add_unknown((0, 1), "c@2").killed(2);
            script.remove_between((3, 4), 1, 2, Outcome::Removed(count))
        };
        removed(1).forbidden(COUNTS);
        removed(1).forbidden_at_quorum(COUNTS);
        removed(2).allowed();
        removed(3).allowed();
        removed(4).forbidden(COUNTS);
    }),
    ("a_removal_between_whose_outcome_is_unknown", || {
        let removed = || Script::new().add((0, 1), "a@1").add((0, 1), "b@2").remove_between((2, 3), 1, 2, unknown());
        removed().killed(4).get((5, 6), "b@2 a@1").allowed();
        removed().killed(4).get((5, 6), "").allowed();
        removed().killed(4).get((5, 6), "b@2 a@1").get((7, 8), "").forbidden(ITEM);
    }),
    ("parts_of_one_call_have_no_order", || {
        let script = || Script::new().add((0, 1), "a@1").add((2, 5), "b@2").get((3, 4), "b@2 a@1").get((3, 4), "a@1");
        script().in_one_call(2).allowed();
    }),
];
