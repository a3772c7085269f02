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
pub mod members;
pub mod order;
pub mod pages;
pub mod probe;
pub mod property;
pub mod queries;
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
                    all_items_survive_a_reopening,
                    removed_items_stay_removed,
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
                a_list_without_writes_is_empty,
                items_come_newest_first,
                equal_timestamps_are_ordered_by_the_text_of_the_item_key,
                both_bounds_are_inclusive,
                bounds_may_be_the_first_and_the_last_timestamp,
                items_may_have_the_first_and_the_last_timestamp,
            }
            pages {
                a_cursor_splits_ties_exactly,
                a_cursor_needs_no_item_under_it,
                a_cursor_and_bounds_apply_together,
                limit_and_more_are_exact,
                more_ignores_hidden_and_removed_items,
                a_page_ends_before_its_values_exceed_the_bound,
                a_page_has_an_item_despite_the_bound_on_values,
                a_long_walk_is_correct_under_writes,
            }
            adds {
                adding_again_changes_nothing,
                the_same_item_twice_in_one_add_is_one_item,
                timestamp_and_value_together_identify_an_item,
                any_bytes_read_back_unchanged,
                a_value_may_be_empty,
                a_value_may_have_64_000_bytes,
                an_add_may_have_a_thousand_items,
                overlapping_adds_are_all_stored,
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
                every_item_with_the_value_is_removed_and_no_other,
                hidden_items_are_removed_and_not_counted,
                items_past_their_own_expiry_are_not_counted,
                similar_values_stay,
                a_value_with_the_same_md5_stays,
                the_empty_value_can_be_removed,
                the_largest_value_can_be_removed,
                a_value_found_a_thousand_times_is_removed_completely,
                removing_again_counts_zero,
                removed_items_can_be_added_again,
                remove_all_empties_the_list,
                remove_all_includes_hidden_items,
                a_list_can_be_filled_again_after_remove_all,
                adds_that_overlap_a_removal_of_another_value_stay,
                named_items_are_removed_and_no_other,
                a_thousand_named_items_are_removed_at_once,
                all_items_between_two_moments_are_removed_and_no_other,
                hidden_items_between_two_moments_are_removed_too,
                large_items_between_two_moments_are_removed_completely,
            }
            queries {
                oldest_first_is_the_exact_reverse_order,
                a_page_of_the_oldest_ends_as_any_page_does,
                a_long_list_is_walked_from_its_oldest_item,
                a_walk_from_the_oldest_is_correct_under_writes,
                contains_returns_the_newest_visible_item_of_each_value,
                contains_finds_few_values_deep_in_a_long_list,
                counts_are_exact_up_to_their_bound,
            }
            aggregates {
                random_aggregates_agree_with_the_model,
                a_long_list_is_aggregated_whole,
                aggregates_of_a_missing_list_are_empty,
            }
            bounded {
                only_the_newest_items_are_shown_ties_included,
                bounds_select_among_visible_items,
                added_items_shorten_the_end_of_a_walk,
                removals_include_hidden_items_without_counting_them,
                expired_items_do_not_count_among_the_newest,
                random_operations_show_items_that_were_never_beyond_the_bound,
            }
            entities {
                every_entity_is_returned_once_in_a_stable_order,
                entities_without_visible_items_are_not_returned,
                a_walk_returns_lasting_entities_while_others_change,
            }
            lists {
                lists_with_similar_keys_are_separate,
                a_removal_affects_only_its_list,
                sessions_see_writes_acknowledged_by_others,
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
            fn members_survive_a_reopening() {
                let backend = $backend;
                $crate::run($crate::items::members::members_survive_a_reopening(&backend));
            }
        }
    };
    (@every $attributes:tt $backend:expr) => {
        $crate::items::item_store_suite!(@cases $attributes $backend;
            aggregates {
                random_aggregates_of_sets_agree_with_the_model,
            }
            members {
                a_value_occurs_once_at_its_newest_time,
                a_value_occurs_once_at_its_oldest_time,
                a_key_occurs_once_with_any_value,
                the_order_of_pages_decides_between_equal_timestamps,
                a_member_twice_in_one_add_is_stored_once,
                an_expired_member_counts_as_missing,
                a_member_hidden_by_a_shorter_ttl_never_occurs_twice,
                the_last_add_of_the_same_item_sets_its_expiry,
                members_are_removed_without_their_timestamps,
                every_removal_keeps_rows_and_lookups_consistent,
                contains_and_counts_compare_values,
                a_walk_with_moving_members_returns_none_twice,
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
                a_bag_has_the_content_of_the_last_swap,
                a_swap_of_a_changed_bag_is_refused,
                a_removed_bag_is_missing,
                a_hidden_bag_counts_as_missing,
                a_bag_ends_at_its_stored_expiry,
                a_bag_may_have_256_kib,
                one_of_many_concurrent_swaps_succeeds,
                a_walk_returns_every_bag_once,
                a_walk_returns_the_contents_of_bags,
                bags_are_separate_from_other_generations_and_lists,
                a_swap_may_name_the_read_row,
                remove_all_empties_a_bag,
                swapped_bags_survive_a_reopening,
            }
            bag_entries {
                entries_are_added_and_removed_with_their_bag,
                an_entry_ends_at_its_last_given_expiry,
                entries_of_many_bags_are_added_together,
            }
            bag_model {
                random_swaps_agree_with_the_model,
            }
        );
    };
}
pub(crate) use bag_suite;
