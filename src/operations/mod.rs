//! The table of all operations. The router, the metrics' labels, the OpenAPI document and the tests of
//! `docs/reference/api.md` are made from it. A row is the contract's ([`liststore_contract::operations`]).

mod add_items;
mod aggregate_items;
mod batch_add;
mod batch_get;
mod batch_get_bags;
mod cancel_job;
mod change_log;
mod clean_indexes;
mod contains_items;
mod count_items;
mod create_backup;
mod create_bag;
mod create_entity_type;
mod create_feature;
mod create_index;
mod create_key;
mod create_version;
mod delete_bag;
mod delete_entity_type;
mod delete_feature;
mod delete_index;
mod delete_version;
mod erase_entity;
mod find_bags;
mod find_bags_by_body;
mod get_bag;
mod get_entity_type;
mod get_entity_type_history;
mod get_feature;
mod get_history;
mod get_index;
mod get_items;
mod get_job;
mod get_key;
mod get_log;
mod get_me;
mod get_pool;
mod get_sign_in;
mod get_version;
mod list_audit;
mod list_bags;
mod list_entities;
mod list_entity_types;
mod list_features;
mod list_indexes;
mod list_jobs;
mod list_keys;
mod list_lists;
mod livez;
mod lookup_items;
mod metrics;
mod openapi;
mod patch_bag;
mod pause_job;
mod purge_entity_type;
mod purge_feature;
mod put_bag;
mod readyz;
mod remove_all_items;
mod remove_items;
mod resize_pool;
mod resume_job;
mod revoke_key;
mod rotate_key;
mod update_entity_type;
mod update_feature;
mod update_job;
mod update_version;

use crate::api::call::{Call, HandlerResult};
use crate::api::{OperationId, Registered, operation};
use crate::service::{AddItems, FindBags, GetItems};

/// The places of the operations that are called directly.
const GET_ITEMS: usize = 0;
const ADD_ITEMS: usize = 1;

/// All operations. The first path is the one that is asked for most.
pub static OPERATIONS: [Registered; 68] = [
    Registered::of::<GetItems>(),
    Registered::of::<AddItems>(),
    Registered::of::<batch_get::BatchGet>(),
    Registered::of::<batch_add::BatchAdd>(),
    Registered::of::<remove_items::RemoveItems>(),
    Registered::of::<lookup_items::LookupItems>(),
    Registered::of::<contains_items::ContainsItems>(),
    Registered::of::<count_items::CountItems>(),
    Registered::of::<aggregate_items::AggregateItems>(),
    Registered::of::<remove_all_items::RemoveAllItems>(),
    Registered::of::<list_lists::ListLists>(),
    Registered::of::<list_entities::ListEntities>(),
    Registered::of::<erase_entity::EraseEntity>(),
    Registered::of::<purge_feature::PurgeFeature>(),
    Registered::of::<list_jobs::ListJobs>(),
    Registered::of::<get_job::GetJob>(),
    Registered::of::<update_job::UpdateJob>(),
    Registered::of::<pause_job::PauseJob>(),
    Registered::of::<resume_job::ResumeJob>(),
    Registered::of::<cancel_job::CancelJob>(),
    Registered::of::<list_features::ListFeatures>(),
    Registered::of::<create_feature::CreateFeature>(),
    Registered::of::<get_feature::GetFeature>(),
    Registered::of::<update_feature::UpdateFeature>(),
    Registered::of::<delete_feature::DeleteFeature>(),
    Registered::of::<get_history::GetHistory>(),
    Registered::of::<create_version::CreateVersion>(),
    Registered::of::<get_version::GetVersion>(),
    Registered::of::<update_version::UpdateVersion>(),
    Registered::of::<delete_version::DeleteVersion>(),
    Registered::of::<list_entity_types::ListEntityTypes>(),
    Registered::of::<create_entity_type::CreateEntityType>(),
    Registered::of::<get_entity_type::GetEntityType>(),
    Registered::of::<update_entity_type::UpdateEntityType>(),
    Registered::of::<delete_entity_type::DeleteEntityType>(),
    Registered::of::<get_entity_type_history::GetEntityTypeHistory>(),
    Registered::of::<purge_entity_type::PurgeEntityType>(),
    Registered::of::<create_index::CreateIndex>(),
    Registered::of::<list_indexes::ListIndexes>(),
    Registered::of::<get_index::GetIndex>(),
    Registered::of::<delete_index::DeleteIndex>(),
    Registered::of::<clean_indexes::CleanIndexes>(),
    Registered::of::<FindBags>(),
    Registered::of::<find_bags_by_body::FindBagsByBody>(),
    Registered::of::<get_bag::GetBag>(),
    Registered::of::<put_bag::PutBag>(),
    Registered::of::<patch_bag::PatchBag>(),
    Registered::of::<delete_bag::DeleteBag>(),
    Registered::of::<create_bag::CreateBag>(),
    Registered::of::<list_bags::ListBags>(),
    Registered::of::<batch_get_bags::BatchGetBags>(),
    Registered::of::<get_me::GetMe>(),
    Registered::of::<get_sign_in::GetSignIn>(),
    Registered::of::<create_key::CreateKey>(),
    Registered::of::<list_keys::ListKeys>(),
    Registered::of::<get_key::GetKey>(),
    Registered::of::<rotate_key::RotateKey>(),
    Registered::of::<revoke_key::RevokeKey>(),
    Registered::of::<list_audit::ListAudit>(),
    Registered::of::<get_pool::GetPool>(),
    Registered::of::<resize_pool::ResizePool>(),
    Registered::of::<get_log::GetLog>(),
    Registered::of::<change_log::ChangeLog>(),
    Registered::of::<create_backup::CreateBackup>(),
    Registered::of::<livez::Livez>(),
    Registered::of::<readyz::Readyz>(),
    Registered::of::<metrics::Metrics>(),
    Registered::of::<openapi::OpenApi>(),
];

/// Answers a call of an operation. Gets and adds of one list go without a box.
pub(crate) async fn answer(operation: OperationId, call: Call<'_>) -> HandlerResult {
    match operation.place() {
        GET_ITEMS => operation::answer::<GetItems>(call).await,
        ADD_ITEMS => operation::answer::<AddItems>(call).await,
        other => (OPERATIONS[other].answer)(call).await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use actix_web::http::StatusCode;
    use liststore_contract::operations::{add_items, get_items, get_version};
    use liststore_contract::permission::Permission;
    use liststore_contract::row::Row;

    use super::*;

    fn rows() -> impl Iterator<Item = &'static Row> {
        OPERATIONS.iter().map(|operation| operation.row)
    }

    #[test]
    fn gets_and_adds_are_where_they_are_looked_for() {
        assert!(OPERATIONS[GET_ITEMS].row.is(&get_items::ROW) && OPERATIONS[ADD_ITEMS].row.is(&add_items::ROW));
    }

    #[test]
    fn every_status_of_a_reply_is_valid() {
        for number in rows().flat_map(|row| row.replies).map(|reply| reply.status) {
            assert_eq!(StatusCode::from_u16(number).map(|status| status.as_u16()).ok(), Some(number));
        }
    }

    #[test]
    fn the_table_has_each_operation_once() {
        let names: BTreeSet<_> = rows().map(|row| row.name).collect();
        let routes: BTreeSet<_> = rows().map(|row| (row.method.as_str(), row.path)).collect();
        assert_eq!((names.len(), routes.len()), (OPERATIONS.len(), OPERATIONS.len()));
    }

    #[test]
    fn a_path_is_written_with_its_segments_encoded() {
        let path = |row: &Row, variables: &[&str]| row.path_of(variables);
        assert_eq!(
            path(&get_version::ROW, &["user", "a.b-c", "2024/08:rc"]),
            "/v1/features/user/a.b-c/versions/2024%2F08:rc"
        );
        assert_eq!(path(&get_version::ROW, &["user", "a", ""]), "/v1/features/user/a/versions/");
        assert_eq!(
            path(&get_items::ROW, &["user", "a", "a/b?c#d%2F é"]),
            "/v1/lists/user/a/a%2Fb%3Fc%23d%252F%20%C3%A9/items"
        );
    }

    /// `L` and `F` stand in the guide for the paths of a list and of a feature.
    #[test]
    fn the_guide_tells_of_every_operation_and_of_no_other() {
        let guide = include_str!("../../docs/reference/api.md");
        let told: BTreeSet<_> = guide.split('`').skip(1).step_by(2).collect();
        let abbreviated = |operation: &Row| {
            let path = operation.path.replace("/v1/lists/{entity_type}/{feature}/{entity_id}", "L");
            format!("{} {}", operation.method, path.replace("/v1/features/{entity_type}/{name}", "F"))
        };
        let known: BTreeSet<_> = rows().map(abbreviated).collect();
        for call in &known {
            assert!(told.contains(call.as_str()), "docs/reference/api.md does not tell of `{call}`");
        }
        for span in told {
            let is_call = ["GET ", "POST ", "PUT ", "PATCH ", "DELETE "].iter().any(|method| span.starts_with(method));
            assert!(!is_call || known.contains(span), "docs/reference/api.md tells of `{span}`, which is no operation");
        }
    }

    #[test]
    fn what_writes_says_so_by_its_permission() {
        for operation in rows() {
            let reads = [
                Permission::Open,
                Permission::Known,
                Permission::ListsRead,
                Permission::FeaturesRead,
                Permission::ServerRead,
            ];
            let writes = !reads.contains(&operation.permission);
            // To know of keys, and of who did what, is as good as to make them.
            let is_known_to_writers = operation.permission == Permission::KeysWrite && !operation.effect.writes();
            assert_eq!(operation.effect.writes() || is_known_to_writers, writes, "{}", operation.name);
            let given_twice: BTreeSet<_> = operation.errors().map(|code| code as usize).collect();
            assert_eq!(given_twice.len(), operation.errors().count(), "{} has a code twice", operation.name);
        }
    }
}
