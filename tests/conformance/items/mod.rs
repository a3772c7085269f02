//! The item-store suite: the list of its cases, and its requirements for a store.

use std::sync::Arc;

use async_trait::async_trait;
use liststore::domain::{Clock, SystemClock, Timestamp};
use liststore::items::ItemStore;

pub mod adds;
mod aggregate_cases;
mod aggregate_model;
pub mod aggregates;
pub mod bag_entries;
pub mod bag_model;
pub mod bags;
pub mod bounded;
pub mod durability;
pub mod entities;
pub mod expiry;
pub mod lists;
pub mod looking;
pub mod members;
pub mod order;
pub mod pages;
pub mod probe;
pub mod property;
pub mod removal;

/// One item store under test. Every case creates a separate backend, and drops it at its end.
#[async_trait(?Send)]
pub trait Backend {
    /// Opens the store. After a `close`, opens it again, with its stored contents.
    async fn open(&self) -> Arc<dyn ItemStore>;

    /// Whether `OpContext::now` is the store's only clock. Then a case may run in the year 1970 as well as in 2286, and
    /// see a row's expiry to the nanosecond. A store whose database expires rows by another clock, in whole seconds,
    /// returns `false`. Its cases run at the real time, where visibility under the present TTL is as exact.
    fn steps_clock(&self) -> bool {
        true
    }

    /// The real time, or a clock that follows it.
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Whether its contents survive a `close`.
    fn keeps(&self) -> bool {
        true
    }

    /// Whether a read sees an add in flight completely or not at all. A store that reads in pages promises that only
    /// for settled adds.
    fn isolates_reads(&self) -> bool {
        true
    }
}

/// Makes the whole suite a module of tests for one store: `item_store_suite! { name: expression that makes a backend
/// }`. The prefix `durable` adds the cases for durable stores. Attributes are put on every test, such as `#[ignore =
/// "needs a database"]`.
macro_rules! item_store_suite {
    ($(#[$attribute:meta])* $store:ident: $backend:expr) => {
        mod $store {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $crate::items::item_store_suite!(@every [$(#[$attribute])*] $backend);
        }
    };
    ($(#[$attribute:meta])* durable $store:ident: $backend:expr) => {
        mod $store {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $crate::items::item_store_suite!(@every [$(#[$attribute])*] $backend);
            $crate::items::item_store_suite!(@cases [$(#[$attribute])*] $backend;
                durability {
                    everything_is_there_after_a_reopening,
                    what_was_removed_stays_removed,
                    expiries_are_kept,
                    the_fate_of_a_dropped_add_is_settled_by_a_reopening,
                    random_operations_and_reopenings_agree_with_the_model,
                }
            );
        }
    };
    (@every $attributes:tt $backend:expr) => {
        $crate::items::item_store_suite!(@cases $attributes $backend;
            order {
                a_list_that_nobody_wrote_is_empty,
                items_come_newest_first,
                equal_timestamps_go_by_the_text_of_the_item_key,
                both_bounds_are_inclusive,
                bounds_may_be_the_first_and_the_last_timestamp,
                items_may_have_the_first_and_the_last_timestamp,
            }
            pages {
                a_cursor_splits_ties_exactly,
                a_cursor_needs_no_item_under_it,
                a_cursor_and_bounds_hold_together,
                limit_and_more_are_exact,
                more_does_not_count_what_is_hidden_or_gone,
                a_page_ends_before_its_values_exceed_the_bound,
                a_page_is_never_empty_for_the_bound_on_values,
                a_long_walk_stays_right_while_items_come_and_go,
            }
            adds {
                adding_again_changes_nothing,
                the_same_item_twice_in_one_add_is_one_item,
                timestamp_and_value_together_identify_an_item,
                any_bytes_come_back_as_they_were,
                a_value_may_be_empty,
                a_value_may_have_64_000_bytes,
                an_add_may_have_a_thousand_items,
                adds_that_overlap_all_land,
                a_dropped_add_is_never_seen_in_part,
                nothing_begins_after_the_deadline,
            }
            expiry {
                an_item_is_hidden_from_the_nanosecond_of_its_expiry_on,
                a_shortened_ttl_hides_at_once_and_a_lengthened_one_shows_again,
                a_clock_that_steps_back_shows_again,
                an_item_of_the_future_is_visible,
                a_row_keeps_its_own_expiry_under_a_longer_ttl,
                the_last_add_sets_the_expiry,
            }
            removal {
                every_item_with_the_value_goes_and_no_other,
                hidden_items_go_too_and_are_not_counted,
                items_past_their_own_expiry_are_not_counted,
                similar_values_stay,
                a_value_with_the_same_md5_stays,
                the_empty_value_can_be_removed,
                the_largest_value_can_be_removed,
                a_value_found_a_thousand_times_goes_whole,
                removing_again_or_nothing_counts_zero,
                what_was_removed_can_be_added_again,
                remove_all_empties_the_list,
                remove_all_takes_hidden_items_too,
                a_list_can_be_filled_again_after_remove_all,
                adds_that_overlap_a_removal_of_another_value_stay,
                named_items_go_and_no_other,
                a_thousand_named_items_go_at_once,
                all_between_two_moments_goes_and_no_other,
                hidden_items_between_two_moments_go_too,
                large_items_between_two_moments_go_whole,
            }
            looking {
                oldest_first_is_the_order_reversed_ties_included,
                a_page_of_the_oldest_ends_as_any_page_does,
                a_long_list_is_walked_from_its_oldest_item,
                a_walk_of_the_oldest_stays_right_while_items_come_and_go,
                contains_tells_the_newest_visible_item_of_each_value,
                contains_finds_few_values_deep_in_a_long_list,
                counts_are_exact_up_to_their_bound,
            }
            aggregates {
                random_aggregates_agree_with_the_model,
                a_long_list_is_aggregated_whole,
                aggregates_of_a_missing_list_are_of_nothing,
            }
            bounded {
                only_the_newest_items_are_shown_ties_included,
                bounds_choose_among_the_items_that_are_shown,
                what_is_added_pushes_the_end_of_a_walk_up,
                removals_take_what_is_not_shown_and_do_not_count_it,
                what_has_expired_is_none_of_the_newest,
                random_operations_show_what_never_lay_beyond,
            }
            entities {
                every_entity_is_met_once_in_an_order_that_stays,
                entities_of_whom_nothing_can_be_seen_are_not_met,
                a_walk_meets_whoever_stays_while_others_come_and_go,
            }
            lists {
                lists_that_look_alike_are_apart,
                removal_keeps_to_its_list,
                sessions_see_what_others_have_acknowledged,
            }
            property {
                random_operations_agree_with_the_model,
            }
        );
    };
    (@cases $attributes:tt $backend:expr; $($group:ident { $($case:ident),* $(,)? })*) => {
        $(mod $group {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $($crate::items::item_store_suite!(@case $attributes $backend; $group $case);)*
        })*
    };
    (@case [$(#[$attribute:meta])*] $backend:expr; $group:ident $case:ident) => {
        #[test]
        $(#[$attribute])*
        fn $case() {
            let backend = $backend;
            $crate::run($crate::items::$group::$case(&backend));
        }
    };
}
pub(crate) use item_store_suite;

/// The cases for stores with sets, as [`item_store_suite`].
macro_rules! set_suite {
    ($(#[$attribute:meta])* $store:ident: $backend:expr) => {
        mod $store {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $crate::items::set_suite!(@every [$(#[$attribute])*] $backend);
        }
    };
    ($(#[$attribute:meta])* durable $store:ident: $backend:expr) => {
        mod $store {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $crate::items::set_suite!(@every [$(#[$attribute])*] $backend);
            #[test]
            $(#[$attribute])*
            fn what_a_set_holds_is_there_after_a_reopening() {
                let backend = $backend;
                $crate::run($crate::items::members::what_a_set_holds_is_there_after_a_reopening(&backend));
            }
        }
    };
    (@every $attributes:tt $backend:expr) => {
        $crate::items::item_store_suite!(@cases $attributes $backend;
            aggregates {
                random_aggregates_of_sets_agree_with_the_model,
            }
            members {
                a_value_stands_once_at_its_newest_time,
                a_value_stands_once_at_its_oldest_time,
                a_key_stands_once_whatever_its_value,
                of_equal_timestamps_the_order_of_pages_decides,
                a_member_twice_in_one_add_stands_once,
                a_member_that_has_expired_is_as_if_it_were_not_there,
                a_member_hidden_by_a_shorter_ttl_never_stands_twice,
                the_last_add_of_the_same_item_sets_its_expiry,
                members_are_removed_without_knowing_when,
                every_removal_leaves_rows_and_lookups_alike,
                contains_and_counts_look_at_values,
                a_walk_towards_which_members_move_meets_none_twice,
                removing_all_of_any_identity_empties_sets_and_lists,
                random_operations_on_sets_agree_with_the_model,
            }
        );
    };
}
pub(crate) use set_suite;

/// The cases for stores with bags, as [`item_store_suite`].
macro_rules! bag_suite {
    ($(#[$attribute:meta])* $store:ident: $backend:expr) => {
        mod $store {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $crate::items::bag_suite!(@every [$(#[$attribute])*] $backend);
        }
    };
    (@every $attributes:tt $backend:expr) => {
        $crate::items::item_store_suite!(@cases $attributes $backend;
            bags {
                a_bag_is_what_was_swapped_in_last,
                a_swap_for_another_bag_than_is_there_is_lost,
                a_bag_that_was_taken_out_is_gone,
                a_bag_that_is_hidden_is_as_if_it_were_not_there,
                a_bag_ends_by_the_expiry_that_it_was_stored_with,
                a_bag_may_have_256_kib,
                of_many_swaps_at_once_one_is_done,
                a_walk_meets_every_bag_once,
                a_walk_tells_the_bags_that_it_meets,
                bags_are_apart_from_other_generations_and_lists,
                a_swap_may_name_the_row_that_was_read,
                remove_all_empties_a_bag,
                what_was_swapped_is_there_after_a_reopening,
            }
            bag_entries {
                entries_come_and_go_with_their_bag,
                an_entry_ends_by_its_own_expiry_the_last_one_given,
                entries_of_many_bags_are_added_together,
            }
            bag_model {
                random_swaps_agree_with_the_model,
            }
        );
    };
}
pub(crate) use bag_suite;
