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
                    a_reopened_store_has_all_definitions,
                    generations_survive_a_reopening,
                    keys_survive_a_reopening,
                    erasures_survive_a_reopening,
                    changes_of_servers_survive_a_reopening,
                    jobs_survive_a_reopening,
                    entity_types_survive_a_reopening,
                }
            );
        }
    };
    (@every $attributes:tt $backend:expr) => {
        $crate::metadata::metadata_store_suite!(@cases $attributes $backend;
            keys {
                a_key_is_created_rotated_and_revoked,
                taken_names_and_missing_keys_are_reported,
                uses_are_stored_and_never_go_back,
                the_audit_trail_has_everything_in_one_order,
            }
            erasures {
                every_former_generation_is_listed,
                an_erasure_takes_a_revision_and_is_audited,
            }
            servers {
                a_change_of_a_server_takes_a_revision_and_is_audited,
            }
            indexes {
                an_index_is_a_version_of_bags_that_becomes_ready,
                an_index_is_deleted_in_one_change_with_the_job_that_clears_it,
                an_index_created_again_has_other_lists,
                an_entity_type_has_64_indexes_at_most,
            }
            jobs {
                a_state_of_a_job_replaces_only_its_predecessor,
                a_job_begins_in_one_change_with_its_audit_entry,
            }
            features {
                a_feature_has_its_given_properties,
                a_feature_that_exists_is_not_created_again,
                an_update_changes_named_members_only,
                an_update_that_changes_nothing_leaves_no_trace,
                labels_are_replaced_completely,
                max_items_can_be_set_and_unset,
                timestamp_ahead_max_can_be_set_and_unset,
                a_deleted_feature_is_removed_with_its_versions,
                missing_definitions_cannot_be_changed,
                preconditions_are_honoured,
                a_deletion_returns_the_longest_ttl_ever,
                texts_may_contain_anything_but_nul,
            }
            versions {
                a_version_has_its_given_properties,
                a_version_copies_the_ttl_of_its_feature_once,
                a_version_inherits_the_buckets_of_its_feature_or_sets_its_own,
                the_ttl_of_a_feature_equals_that_of_its_default_version,
                versions_are_ordered_by_label,
                a_version_that_exists_is_not_created_again,
                an_update_changes_named_members_only,
                an_update_that_changes_nothing_leaves_no_trace,
                the_default_version_changes_only_with_its_feature,
                missing_definitions_cannot_be_changed,
                preconditions_are_honoured,
                a_deleted_version_is_missing,
                a_deletion_returns_the_longest_ttl_ever,
                entity_tags_change_with_their_definition,
            }
            generations {
                a_feature_created_again_has_new_lists,
                a_version_created_again_has_new_lists,
                versions_of_a_feature_created_again_have_new_lists,
                names_count_their_generations_separately,
            }
            entity_types {
                an_entity_type_has_its_given_properties,
                an_entity_type_is_changed_on_conditions,
                an_entity_type_created_again_has_new_bags,
                entity_types_and_features_are_listed_separately,
                every_change_of_an_entity_type_is_in_the_history,
            }
            listing {
                features_come_in_byte_order,
                pages_are_exact,
                pages_are_correct_while_features_change,
                the_filter_accepts_an_entity_type,
                the_filter_takes_its_text_literally,
                the_filter_searches_name_description_and_owner,
                the_filter_ignores_the_case_of_ascii,
            }
            history {
                every_change_is_listed_newest_first,
                the_history_survives_the_deletion_of_its_feature,
                the_history_comes_in_pages,
                unknown_features_have_no_history,
                refused_changes_are_not_in_the_history,
            }
            definitions {
                a_snapshot_has_all_definitions,
                every_change_takes_the_next_revision,
            }
            races {
                changes_together_are_made_in_their_order_and_refused_one_by_one,
                one_of_several_racing_creations_wins,
                one_of_several_racing_conditional_updates_wins,
                racing_versions_of_one_feature_are_all_created,
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
