//! The table of all operations. The router, the metrics' labels, the OpenAPI document and the tests of
//! `docs/reference/api.md` are made from it. A row is the contract's ([`liststore_contract::operations`]).

mod openapi;

use liststore_contract::operations as rows;

use crate::api::call::{Call, HandlerResult};
use crate::api::{
    OperationId, Registered, backups, bags, batch, entity_types, erasure, features, health, indexes, jobs, keys, lists,
    log, pool, versions,
};
use crate::background::Command;

/// The places of the operations that are called directly.
const GET_ITEMS: usize = 0;
const ADD_ITEMS: usize = 1;

/// All operations. The first path is the one that is asked for most.
pub static OPERATIONS: [Registered; 65] = [
    Registered { row: &rows::get_items::ROW, answer: |call| Box::pin(lists::get_items(call)) },
    Registered { row: &rows::add_items::ROW, answer: |call| Box::pin(lists::add_items(call)) },
    Registered { row: &rows::remove_all_items::ROW, answer: |call| Box::pin(lists::remove_all_items(call)) },
    Registered { row: &rows::remove_items::ROW, answer: |call| Box::pin(lists::remove_items(call)) },
    Registered { row: &rows::count_items::ROW, answer: |call| Box::pin(lists::count_items(call)) },
    Registered { row: &rows::contains_items::ROW, answer: |call| Box::pin(lists::contains_items(call)) },
    Registered { row: &rows::lookup_items::ROW, answer: |call| Box::pin(lists::lookup_items(call)) },
    Registered { row: &rows::list_entities::ROW, answer: |call| Box::pin(features::list_entities(call)) },
    Registered { row: &rows::batch_get::ROW, answer: |call| Box::pin(batch::batch_get(call)) },
    Registered { row: &rows::batch_add::ROW, answer: |call| Box::pin(batch::batch_add(call)) },
    Registered { row: &rows::erase_entity::ROW, answer: |call| Box::pin(erasure::erase_entity(call)) },
    Registered { row: &rows::purge_feature::ROW, answer: |call| Box::pin(jobs::purge_feature(call)) },
    Registered { row: &rows::list_jobs::ROW, answer: |call| Box::pin(jobs::list_jobs(call)) },
    Registered { row: &rows::get_job::ROW, answer: |call| Box::pin(jobs::get_job(call)) },
    Registered { row: &rows::update_job::ROW, answer: |call| Box::pin(jobs::update_job(call)) },
    Registered { row: &rows::pause_job::ROW, answer: |call| Box::pin(jobs::command_job(call, Command::Pause)) },
    Registered { row: &rows::resume_job::ROW, answer: |call| Box::pin(jobs::command_job(call, Command::Resume)) },
    Registered { row: &rows::cancel_job::ROW, answer: |call| Box::pin(jobs::command_job(call, Command::Cancel)) },
    Registered { row: &rows::list_features::ROW, answer: |call| Box::pin(features::list_features(call)) },
    Registered { row: &rows::create_feature::ROW, answer: |call| Box::pin(features::create_feature(call)) },
    Registered { row: &rows::get_feature::ROW, answer: |call| Box::pin(features::get_feature(call)) },
    Registered { row: &rows::update_feature::ROW, answer: |call| Box::pin(features::update_feature(call)) },
    Registered { row: &rows::delete_feature::ROW, answer: |call| Box::pin(features::delete_feature(call)) },
    Registered { row: &rows::get_history::ROW, answer: |call| Box::pin(features::get_history(call)) },
    Registered { row: &rows::create_version::ROW, answer: |call| Box::pin(versions::create_version(call)) },
    Registered { row: &rows::get_version::ROW, answer: |call| Box::pin(versions::get_version(call)) },
    Registered { row: &rows::update_version::ROW, answer: |call| Box::pin(versions::update_version(call)) },
    Registered { row: &rows::delete_version::ROW, answer: |call| Box::pin(versions::delete_version(call)) },
    Registered { row: &rows::list_entity_types::ROW, answer: |call| Box::pin(entity_types::list_entity_types(call)) },
    Registered { row: &rows::create_entity_type::ROW, answer: |call| Box::pin(entity_types::create_entity_type(call)) },
    Registered { row: &rows::get_entity_type::ROW, answer: |call| Box::pin(entity_types::get_entity_type(call)) },
    Registered { row: &rows::update_entity_type::ROW, answer: |call| Box::pin(entity_types::update_entity_type(call)) },
    Registered { row: &rows::delete_entity_type::ROW, answer: |call| Box::pin(entity_types::delete_entity_type(call)) },
    Registered {
        row: &rows::get_entity_type_history::ROW,
        answer: |call| Box::pin(entity_types::get_entity_type_history(call)),
    },
    Registered { row: &rows::purge_entity_type::ROW, answer: |call| Box::pin(entity_types::purge_entity_type(call)) },
    Registered { row: &rows::create_index::ROW, answer: |call| Box::pin(indexes::create_index(call)) },
    Registered { row: &rows::list_indexes::ROW, answer: |call| Box::pin(indexes::list_indexes(call)) },
    Registered { row: &rows::get_index::ROW, answer: |call| Box::pin(indexes::get_index(call)) },
    Registered { row: &rows::delete_index::ROW, answer: |call| Box::pin(indexes::delete_index(call)) },
    Registered { row: &rows::clean_indexes::ROW, answer: |call| Box::pin(indexes::clean_indexes(call)) },
    Registered { row: &rows::find_bags::ROW, answer: |call| Box::pin(indexes::find_bags(call)) },
    Registered { row: &rows::get_bag::ROW, answer: |call| Box::pin(bags::get_bag(call)) },
    Registered { row: &rows::put_bag::ROW, answer: |call| Box::pin(bags::put_bag(call)) },
    Registered { row: &rows::patch_bag::ROW, answer: |call| Box::pin(bags::patch_bag(call)) },
    Registered { row: &rows::delete_bag::ROW, answer: |call| Box::pin(bags::delete_bag(call)) },
    Registered { row: &rows::create_bag::ROW, answer: |call| Box::pin(bags::create_bag(call)) },
    Registered { row: &rows::list_bags::ROW, answer: |call| Box::pin(bags::list_bags(call)) },
    Registered { row: &rows::batch_get_bags::ROW, answer: |call| Box::pin(bags::batch_get_bags(call)) },
    Registered { row: &rows::get_me::ROW, answer: |call| Box::pin(keys::get_me(call)) },
    Registered { row: &rows::get_sign_in::ROW, answer: |call| Box::pin(async move { keys::get_sign_in(call) }) },
    Registered { row: &rows::create_key::ROW, answer: |call| Box::pin(keys::create_key(call)) },
    Registered { row: &rows::list_keys::ROW, answer: |call| Box::pin(keys::list_keys(call)) },
    Registered { row: &rows::get_key::ROW, answer: |call| Box::pin(keys::get_key(call)) },
    Registered { row: &rows::rotate_key::ROW, answer: |call| Box::pin(keys::rotate_key(call)) },
    Registered { row: &rows::revoke_key::ROW, answer: |call| Box::pin(keys::revoke_key(call)) },
    Registered { row: &rows::list_audit::ROW, answer: |call| Box::pin(keys::list_audit(call)) },
    Registered { row: &rows::get_pool::ROW, answer: |call| Box::pin(pool::get_pool(call)) },
    Registered { row: &rows::resize_pool::ROW, answer: |call| Box::pin(pool::resize_pool(call)) },
    Registered { row: &rows::get_log::ROW, answer: |call| Box::pin(log::get_log(call)) },
    Registered { row: &rows::change_log::ROW, answer: |call| Box::pin(log::change_log(call)) },
    Registered { row: &rows::create_backup::ROW, answer: |call| Box::pin(backups::create_backup(call)) },
    Registered { row: &rows::livez::ROW, answer: |call| Box::pin(async move { health::livez(call) }) },
    Registered { row: &rows::readyz::ROW, answer: |call| Box::pin(async move { health::readyz(call) }) },
    Registered { row: &rows::metrics::ROW, answer: |call| Box::pin(async move { health::metrics(call) }) },
    Registered { row: &rows::openapi::ROW, answer: |call| Box::pin(async move { self::openapi::openapi(call) }) },
];

/// Answers a call of an operation. Gets and adds of one list go without a box.
pub(crate) async fn answer(operation: OperationId, call: Call<'_>) -> HandlerResult {
    match operation.place() {
        GET_ITEMS => lists::get_items(call).await,
        ADD_ITEMS => lists::add_items(call).await,
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
