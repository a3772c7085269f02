//! Histories that the promises forbid, and neighbours of theirs that they allow: the proof that
//! the checker can fail, and does not cry wolf.

use super::script::{Case, DAY, Script, item, items, key, list, ms, unknown, version};
use crate::history::{ClockStep, Order, Outcome, Promises, Request};

const ITEM: &str = "linearizable adds, removals and reads of an item";
const THERE: &str = "what was acknowledged is there";
const NOT_BACK: &str = "what was removed, or never added, does not come back";
const ONE_MOMENT: &str = "a page is the list at one moment";
const CATALOG: &str = "a change of a definition holds for list operations once it is acknowledged";

/// Two values whose order as ties is known: `(smaller, larger)` by the text of their digests.
fn tie() -> (String, String) {
    if key("a@1") < key("b@1") { ("a@1".into(), "b@1".into()) } else { ("b@1".into(), "a@1".into()) }
}

/// Every case, by the name that it is run under.
pub const CASES: &[Case] = &[
    ("a_lost_add", || Script::new().add((0, 1), "a@1").get((2, 3), "").forbidden(THERE)),
    ("a_lost_add_at_quorum", || Script::new().add((0, 1), "a@1").get((2, 3), "").forbidden_at_quorum(THERE)),
    ("an_add_lost_by_a_kill", || Script::new().add((0, 1), "a@1").killed(2).get((3, 4), "").forbidden(THERE)),
    ("an_add_in_flight_may_be_seen_or_not", || {
        Script::new().add((0, 9), "a@1").get((1, 2), "").get((3, 4), "a@1").get((10, 11), "a@1").allowed();
    }),
    ("a_stale_read_while_the_add_is_in_flight", || {
        Script::new().add((0, 9), "a@1").get((1, 2), "a@1").get((3, 4), "").forbidden(ITEM);
    }),
    ("at_quorum_an_add_in_flight_may_flicker", || {
        Script::new().add((0, 9), "a@1").get((1, 2), "a@1").get((3, 4), "").allowed_by(Promises::Quorum);
    }),
    ("an_item_that_nobody_added", || {
        Script::new().add((0, 1), "a@1").get((2, 3), "b@2 a@1").forbidden("only what was added is returned");
    }),
    ("an_item_from_the_future", || {
        Script::new().get((0, 1), "a@1").add((2, 3), "a@1").forbidden("only what was added is returned");
    }),
    ("a_resurrected_item", || {
        let removed = Script::new().add((0, 1), "a@1").remove((2, 3), "a", Outcome::Removed(1));
        removed.get((4, 5), "a@1").forbidden(NOT_BACK);
    }),
    ("an_item_resurrected_by_a_kill", || {
        let cleared = Script::new().add((0, 1), "a@1").clear((2, 3), Outcome::Done).get((4, 5), "");
        cleared.killed(6).get((7, 8), "a@1").forbidden(NOT_BACK);
    }),
    ("a_removed_item_may_be_added_again", || {
        let removed = Script::new().add((0, 1), "a@1").remove((2, 3), "a", Outcome::Removed(1));
        removed.get((4, 5), "").add((6, 7), "a@1").get((8, 9), "a@1").allowed();
    }),
    ("half_an_add_in_a_page", || {
        Script::new().add((0, 9), "a@1 b@2").get((1, 2), "a@1").forbidden("an add is atomic");
    }),
    ("half_an_add_in_a_page_after_each_was_removed_once", || {
        // The removals distinguish the items, which are still one add.
        let script = Script::new().remove((0, 1), "a", Outcome::Removed(0)).add((2, 9), "a@1 b@2");
        script.get((3, 4), "a@1").forbidden(ITEM);
    }),
    ("half_an_add_after_a_kill", || {
        Script::new().add_unknown((0, 1), "a@1 b@2").killed(2).get((3, 4), "b@2").forbidden("an add is atomic");
    }),
    ("at_quorum_a_page_may_show_half_an_add_in_flight", || {
        Script::new().add((0, 9), "a@1 b@2").get((1, 2), "a@1").allowed_by(Promises::Quorum);
    }),
    ("half_an_add_at_quorum_when_acknowledged", || {
        Script::new().add((0, 1), "a@1 b@2").get((2, 3), "a@1").forbidden_at_quorum(THERE);
    }),
    ("a_duplicate_in_a_page", || {
        Script::new().add((0, 1), "a@1").get((2, 3), "a@1 a@1").forbidden("no duplicates in a page");
    }),
    ("a_page_out_of_order", || {
        Script::new().add((0, 1), "a@1 b@2").get((2, 3), "a@1 b@2").forbidden("newest first, ties by item key");
    }),
    ("ties_in_the_wrong_order", || {
        let (small, large) = tie();
        let script = Script::new().add((0, 1), &format!("{small} {large}"));
        script.get((2, 3), &format!("{small} {large}")).forbidden("newest first, ties by item key");
    }),
    ("a_tie_skipped_at_a_page_border", || {
        let (small, large) = tie();
        let script = Script::new().add((0, 1), &format!("{small} {large} c@0"));
        let first = script.page((2, 3), None, Some(1), &large, true);
        first.page((4, 5), Some(&large), Some(10), "c@0", false).forbidden(THERE);
    }),
    ("a_walk_over_ties", || {
        let (small, large) = tie();
        let script = Script::new().add((0, 1), &format!("{small} {large} c@0"));
        let first = script.page((2, 3), None, Some(1), &large, true);
        first.page((4, 5), Some(&large), Some(10), &format!("{small} c@0"), false).allowed();
    }),
    ("a_page_that_repeats_the_last_item", || {
        let first = Script::new().add((0, 1), "a@1 b@2").page((2, 3), None, Some(1), "b@2", true);
        first.page((4, 5), Some("b@2"), None, "b@2 a@1", false).forbidden("a page starts after the one before it");
    }),
    ("a_page_beyond_its_limit", || {
        let script = Script::new().add((0, 1), "a@1 b@2");
        script.page((2, 3), None, Some(1), "b@2 a@1", false).forbidden("the limit is kept");
    }),
    ("a_page_that_ends_without_a_token", || {
        Script::new().add((0, 1), "a@1 b@2").page((2, 3), None, Some(1), "b@2", false).forbidden(THERE);
    }),
    ("a_token_that_leads_nowhere", || {
        let script = Script::new().add((0, 1), "a@1").page((2, 3), None, Some(1), "a@1", true);
        script.forbidden("a token is there exactly when more items are");
    }),
    ("an_item_outside_the_bounds", || {
        let request = Request::Get {
            list: list(),
            min: Some(item("x@2").timestamp),
            max: None,
            order: Order::Newest,
            limit: None,
            after: None,
        };
        let script = Script::new().add((0, 1), "a@1");
        script.call((2, 3), request, Outcome::Page { items: items("a@1"), more: false }).forbidden("bounds are kept");
    }),
    ("an_item_on_the_bound_left_out", || {
        let bound = Some(item("x@1").timestamp);
        let request =
            Request::Get { list: list(), min: bound, max: bound, order: Order::Newest, limit: None, after: None };
        let script = Script::new().add((0, 1), "a@1");
        script.call((2, 3), request, Outcome::Page { items: vec![], more: false }).forbidden(THERE);
    }),
    ("a_wrong_removed_count", || {
        let script = Script::new().add((0, 1), "a@1").add((2, 3), "a@2");
        script.remove((4, 5), "a", Outcome::Removed(1)).forbidden(ITEM);
    }),
    ("a_removed_count_of_more_than_was_there", || {
        Script::new().add((0, 1), "a@1").remove((2, 3), "a", Outcome::Removed(2)).forbidden("exact counts");
    }),
    ("two_removals_count_the_same_item", || {
        let script = Script::new().add((0, 1), "a@1").remove((2, 5), "a", Outcome::Removed(1));
        script.remove((3, 6), "a", Outcome::Removed(1)).forbidden(ITEM);
    }),
    ("two_removals_share_what_is_there", || {
        let script = Script::new().add((0, 1), "a@1").remove((2, 5), "a", Outcome::Removed(1));
        script.remove((3, 6), "a", Outcome::Removed(0)).allowed();
    }),
    ("a_wrong_removed_count_at_quorum", || {
        let script = Script::new().add((0, 1), "a@1").add((2, 3), "a@2");
        script.remove((4, 5), "a", Outcome::Removed(1)).forbidden_at_quorum("exact counts");
    }),
    ("a_page_that_mixes_two_moments", || {
        // b was begun after a was acknowledged, so no moment has b without a.
        let script = Script::new().add((1, 2), "a@1").add((3, 4), "b@2");
        script.get((0, 5), "b@2").forbidden(ONE_MOMENT);
    }),
    ("a_client_that_is_shown_an_item_and_then_is_not", || {
        let script = || Script::new().add((0, 9), "b@2").get((1, 2), "b@2").get((3, 4), "").by_the_same_client();
        script().forbidden("monotonic reads");
        script().killed(5).forbidden("monotonic reads");
        script().allowed_by(Promises::Quorum);
        let removed = Script::new().add((0, 9), "b@2").remove((0, 3), "b", unknown());
        removed.get((1, 2), "b@2").get((3, 4), "").by_the_same_client().allowed();
    }),
    ("a_client_that_is_shown_less_by_a_lower_limit", || {
        let script = Script::new().add((0, 9), "a@1 b@2").get((1, 2), "b@2 a@1");
        script.page((3, 4), None, Some(1), "b@2", true).by_the_same_client().allowed();
    }),
    ("a_long_get_sees_one_moment", || {
        let script = Script::new().add((1, 2), "a@1").add((3, 4), "b@2");
        script.get((0, 5), "a@1").get((0, 5), "").get((0, 5), "b@2 a@1").allowed();
    }),
    ("at_quorum_a_page_may_mix_moments", || {
        let script = Script::new().add((1, 2), "a@1").add((3, 4), "b@2");
        script.get((0, 5), "b@2").allowed_by(Promises::Quorum);
    }),
    ("an_unknown_add_may_come_late_or_never", || {
        let script = Script::new().add_unknown((0, 1), "a@1").get((2, 3), "");
        script.get((4, 5), "a@1").get((6, 7), "a@1").allowed();
        Script::new().add_unknown((0, 1), "a@1").get((2, 3), "").allowed();
    }),
    ("an_unknown_add_that_was_seen_stays", || {
        Script::new().add_unknown((0, 1), "a@1").get((2, 3), "a@1").get((4, 5), "").forbidden(ITEM);
    }),
    ("an_unknown_add_that_was_seen_survives_a_kill", || {
        Script::new().add_unknown((0, 1), "a@1").get((2, 3), "a@1").killed(4).get((5, 6), "").forbidden(ITEM);
    }),
    ("an_unknown_add_does_not_come_after_the_kill", || {
        let script = Script::new().add_unknown((0, 1), "a@1").killed(2).get((3, 4), "");
        script.get((5, 6), "a@1").forbidden(ITEM);
    }),
    ("an_unknown_removal_may_happen_or_not", || {
        let script = || Script::new().add((0, 1), "a@1").remove((2, 3), "a", unknown()).killed(4);
        script().get((5, 6), "").allowed();
        script().get((5, 6), "a@1").allowed();
    }),
    ("an_unknown_removal_happens_once", || {
        let script = Script::new().add((0, 1), "a@1").remove((2, 3), "a", unknown()).get((4, 5), "");
        script.add((6, 7), "a@1").get((8, 9), "").forbidden(ITEM);
    }),
    ("a_remove_all_that_leaves_something", || {
        Script::new().add((0, 1), "a@1 b@2").clear((2, 3), Outcome::Done).get((4, 5), "a@1").forbidden(NOT_BACK);
    }),
    ("an_expired_item_returned", || {
        let script = Script::new().change_ttl((0, 1), 1).add((2, 3), "a@0");
        script.get((1_001, 1_002), "a@0").forbidden("an expired item is never returned");
    }),
    ("an_item_gone_before_its_time", || {
        Script::new().change_ttl((0, 1), 1).add((2, 3), "a@0").get((990, 997), "").forbidden(THERE);
    }),
    ("an_item_that_expires_may_be_there_or_not", || {
        let script = Script::new().change_ttl((0, 1), 1).add((2, 3), "a@0");
        script.get((997, 1_001), "").get((997, 1_001), "a@0").get((1_001, 1_002), "").allowed();
    }),
    ("a_removal_does_not_count_what_has_expired", || {
        let script = || Script::new().change_ttl((0, 1), 1).add((2, 3), "a@0");
        script().remove((1_001, 1_002), "a", Outcome::Removed(0)).allowed();
        script().remove((1_001, 1_002), "a", Outcome::Removed(1)).forbidden(ITEM);
    }),
    ("a_shortened_ttl_hides_at_once", || {
        let script = Script::new().add((0, 1), "a@0").get((2_000, 2_001), "a@0").change_ttl((2_002, 2_003), 1);
        script.get((2_004, 2_005), "a@0").forbidden("an expired item is never returned");
    }),
    ("a_lengthened_ttl_brings_nothing_back", || {
        let script = Script::new().change_ttl((0, 1), 1).add((2, 3), "a@0").change_ttl((4, 5), DAY);
        script.get((1_001, 1_002), "a@0").forbidden("an expired item is never returned");
    }),
    ("a_shortened_and_lengthened_ttl_shows_again", || {
        let script = Script::new().add((0, 1), "a@0").change_ttl((2, 3), 1).get((1_001, 1_002), "");
        script.change_ttl((1_003, 1_004), DAY).get((1_005, 1_006), "a@0").allowed();
    }),
    ("the_clock_stepped_back", || {
        let mut script = Script::new().change_ttl((0, 1), 1).add((2, 3), "a@0");
        script.history.clock_steps.push(ClockStep { from: ms(500), to: ms(510), offset_secs: -3_600 });
        script.get((1_001, 1_002), "").forbidden(THERE);
    }),
    ("the_clock_stepped_back_behind_an_expiry", || {
        let stepped = |at: u64| {
            let mut script = Script::new().change_ttl((0, 1), 1).add((2, 3), "a@0");
            script.history.clock_steps.push(ClockStep { from: ms(at), to: ms(at + 1), offset_secs: -3_600 });
            script
        };
        // Dropped or not, before it could show again.
        stepped(1_500).get((1_600, 1_601), "").allowed();
        stepped(1_500).get((1_600, 1_601), "a@0").allowed();
        stepped(900).get((1_600, 1_601), "").forbidden(THERE);
        // An hour ahead for a moment is enough.
        let mut script = Script::new().change_ttl((0, 1), 1).add((2, 3), "a@0");
        script.history.clock_steps.push(ClockStep { from: ms(10), to: ms(11), offset_secs: 3_600 });
        script.history.clock_steps.push(ClockStep { from: ms(20), to: ms(21), offset_secs: 0 });
        script.get((30, 31), "").allowed();
    }),
    ("an_old_ttl_read", || {
        let promise = "a TTL is the last one that was set";
        Script::new().change_ttl((0, 1), 60).read_ttl((2, 3), DAY).forbidden(promise);
        Script::new().change_ttl((0, 9), 60).read_ttl((2, 3), 60).read_ttl((4, 5), DAY).forbidden(promise);
        Script::new().change_ttl((0, 9), 60).read_ttl((2, 3), DAY).read_ttl((4, 5), 60).allowed();
    }),
    ("a_wrong_sum_of_added_and_expired", || {
        let request = Request::Add { list: list(), items: items("a@1 b@2") };
        let script = Script::new().call((0, 1), request, Outcome::Added { added: 1, already_expired: 0 });
        script.forbidden("added and already expired make up what was sent");
    }),
    ("a_list_of_a_deleted_feature_answers", || {
        Script::new().delete((0, 1), Outcome::Done).get((2, 3), "").forbidden(CATALOG);
    }),
    ("a_list_of_a_feature_that_is_there_does_not", || {
        let request =
            Request::Get { list: list(), min: None, max: None, order: Order::Newest, limit: None, after: None };
        Script::new().call((2, 3), request, Outcome::FeatureNotFound).forbidden(CATALOG);
    }),
    ("a_created_again_feature_is_not_empty", || {
        let script = Script::new().add((0, 1), "a@1").delete((2, 3), Outcome::Done).create((4, 5), Outcome::Done);
        script.get((6, 7), "a@1").forbidden(NOT_BACK);
    }),
    ("a_created_again_feature_is_empty", || {
        let script = Script::new().add((0, 1), "a@1").delete((2, 3), Outcome::Done).create((4, 5), Outcome::Done);
        script.get((6, 7), "").add((8, 9), "a@1").get((10, 11), "a@1").allowed();
    }),
    ("an_add_that_a_deletion_overtakes_vanishes", || {
        let script = Script::new().delete((1, 2), Outcome::Done).create((3, 4), Outcome::Done);
        script.add((0, 5), "a@1").get((6, 7), "").allowed();
    }),
    ("a_deletion_lost_by_a_kill", || {
        let promise = "definitions are linearizable";
        Script::new().delete((0, 1), Outcome::Done).killed(2).create((3, 4), Outcome::Exists).forbidden(promise);
    }),
    ("two_creations_both_win", || {
        let script = Script::new().delete((0, 1), Outcome::Done).create((2, 5), Outcome::Done);
        script.create((3, 6), Outcome::Done).forbidden("definitions are linearizable");
    }),
    ("a_version_outlives_its_feature", || {
        let create = Request::CreateVersion { version: version("b"), ttl_secs: DAY };
        let read = Request::ReadTtl { version: version("b") };
        let script = Script::new().call((0, 1), create, Outcome::Done).delete((2, 3), Outcome::Done);
        script.call((4, 5), read, Outcome::Ttl(DAY)).forbidden("definitions are linearizable");
    }),
    ("a_row_that_outlives_a_lengthened_ttl_for_seconds", || {
        let read_at = |ms: u64| {
            let script = Script::new().change_ttl((0, 1), 5).add((2, 3), "a@1").change_ttl((4, 5), DAY);
            script.get((ms, ms + 1), "a@1")
        };
        read_at(4_900).allowed();
        read_at(5_100).forbidden("an expired item is never returned");
        read_at(7_900).allowed_by(Promises::Quorum);
        read_at(8_100).forbidden_at_quorum("an expired item is never returned");
    }),
    ("an_answer_that_is_not_documented", || {
        let request = Request::RemoveAll { list: list() };
        let script = Script::new().call((0, 1), request, Outcome::Forbidden { answer: "500 internal".into() });
        script.forbidden("documented answers only");
    }),
];
