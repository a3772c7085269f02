//! The metadata-store suite: the list of its cases, and its requirements for a store.

use std::sync::Arc;

use async_trait::async_trait;
use liststore::metadata::MetadataStore;

pub mod definitions;
pub mod durability;
pub mod entity_types;
pub mod erasures;
pub mod features;
pub mod generations;
pub mod history;
pub mod indexes;
pub mod jobs;
pub mod keys;
pub mod listing;
pub mod races;
pub mod sample;
pub mod servers;
pub mod versions;

/// One metadata store under test: every case creates a separate backend, whose store is empty.
#[async_trait(?Send)]
pub trait MetadataBackend {
    /// Opens the store. After a `close`, opens it again, with its stored contents.
    async fn open(&self) -> Arc<dyn MetadataStore>;
}

/// Makes the whole suite a module of tests for one store: `metadata_store_suite! { name: expression that makes a
/// backend }`. The prefix `durable` adds the cases for durable stores. Attributes are put on every test.
macro_rules! metadata_store_suite {
    ($(#[$attribute:meta])* $store:ident: $backend:expr) => {
        mod $store {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $crate::metadata::metadata_store_suite!(@every [$(#[$attribute])*] $backend);
        }
    };
    ($(#[$attribute:meta])* durable $store:ident: $backend:expr) => {
        mod $store {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $crate::metadata::metadata_store_suite!(@every [$(#[$attribute])*] $backend);
            $crate::metadata::metadata_store_suite!(@cases [$(#[$attribute])*] $backend;
                durability {
                    a_reopened_store_has_everything,
                    generations_outlive_a_reopening,
                    keys_outlive_a_reopening,
                    erasures_outlive_a_reopening,
                    changes_of_servers_outlive_a_reopening,
                    jobs_outlive_a_reopening,
                    entity_types_outlive_a_reopening,
                }
            );
        }
    };
    (@every $attributes:tt $backend:expr) => {
        $crate::metadata::metadata_store_suite!(@cases $attributes $backend;
            keys {
                a_key_is_made_rotated_and_revoked,
                names_and_changes_of_nothing_are_told,
                uses_are_noted_and_never_go_back,
                the_audit_trail_has_everything_in_one_order,
            }
            erasures {
                every_generation_that_ever_was_is_told,
                an_erasure_takes_a_revision_and_stands_in_the_audit_trail,
            }
            servers {
                a_change_of_a_server_takes_a_revision_and_stands_in_the_audit_trail,
            }
            indexes {
                an_index_is_a_version_of_bags_that_becomes_ready,
                an_index_is_deleted_in_one_change_with_the_job_that_clears_it,
                an_index_created_again_has_other_lists,
                an_entity_type_has_64_indexes_at_most,
            }
            jobs {
                a_state_takes_the_place_of_the_one_before_it_alone,
                a_job_begins_in_one_change_with_its_entry_of_the_audit_trail,
            }
            features {
                a_feature_is_what_it_was_created_from,
                a_feature_that_exists_is_not_created_again,
                an_update_changes_what_it_names,
                an_update_that_changes_nothing_leaves_no_trace,
                labels_are_replaced_whole,
                the_most_items_are_bounded_and_unbounded,
                how_far_ahead_timestamps_may_be_is_said_and_left_to_the_server,
                a_deleted_feature_is_gone_with_its_versions,
                what_is_not_there_cannot_be_changed,
                preconditions_are_honoured,
                the_longest_ttl_ever_is_told_on_deletion,
                texts_may_hold_anything_but_nul,
            }
            versions {
                a_version_is_what_it_was_created_from,
                a_version_copies_the_ttl_of_its_feature_once,
                a_version_inherits_the_buckets_of_its_feature_or_has_its_own,
                the_ttl_of_a_feature_is_that_of_its_default_version,
                versions_are_ordered_by_label,
                a_version_that_exists_is_not_created_again,
                an_update_changes_what_it_names,
                an_update_that_changes_nothing_leaves_no_trace,
                the_default_version_is_left_to_its_feature,
                what_is_not_there_cannot_be_changed,
                preconditions_are_honoured,
                a_deleted_version_is_gone,
                the_longest_ttl_ever_is_told_on_deletion,
                entity_tags_change_with_what_they_tag,
            }
            generations {
                a_feature_created_again_has_new_lists,
                a_version_created_again_has_new_lists,
                versions_of_a_feature_created_again_have_new_lists,
                names_count_their_generations_apart,
            }
            entity_types {
                an_entity_type_is_what_it_was_created_from,
                an_entity_type_is_changed_on_conditions,
                an_entity_type_created_again_has_new_bags,
                entity_types_and_features_are_listed_apart,
                every_change_of_an_entity_type_is_told,
            }
            listing {
                features_come_in_byte_order,
                pages_are_exact,
                pages_stay_right_while_features_come_and_go,
                the_filter_takes_an_entity_type,
                the_filter_takes_its_text_literally,
                the_filter_looks_at_name_description_and_owner,
                the_filter_ignores_the_case_of_ascii,
            }
            history {
                every_change_is_told_newest_first,
                the_history_outlives_its_feature,
                the_history_comes_in_pages,
                what_never_was_has_no_history,
                refused_changes_are_not_told,
            }
            definitions {
                definitions_are_all_that_there_is,
                every_change_takes_the_next_revision,
            }
            races {
                changes_together_are_made_in_their_order_and_refused_one_by_one,
                of_racing_creations_one_wins,
                of_racing_conditional_updates_one_wins,
                racing_versions_of_one_feature_all_come_to_be,
            }
        );
    };
    (@cases $attributes:tt $backend:expr; $($group:ident { $($case:ident),* $(,)? })*) => {
        $(mod $group {
            #[allow(unused_imports, reason = "what the backend's expression names")]
            use super::*;
            $($crate::metadata::metadata_store_suite!(@case $attributes $backend; $group $case);)*
        })*
    };
    (@case [$(#[$attribute:meta])*] $backend:expr; $group:ident $case:ident) => {
        #[test]
        $(#[$attribute])*
        fn $case() {
            let backend = $backend;
            $crate::run($crate::metadata::$group::$case(&backend));
        }
    };
}
pub(crate) use metadata_store_suite;
