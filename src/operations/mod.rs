//! The table of all operations. The router, the metrics' labels, the OpenAPI document and the tests of
//! `docs/reference/api.md` are made from it. A row is the contract's ([`liststore_contract::operations`]).

use crate::api::call::{Call, HandlerResult};
use crate::api::{OperationId, Registered, operation};

/// The places of the operations that are called directly.
const GET_ITEMS: usize = 0;
const ADD_ITEMS: usize = 1;

/// Declares the file of each operation, and the table. The contract lists both
/// ([`each_operation`](liststore_contract::each_operation)).
macro_rules! table {
    ($($file:ident: $operation:ident,)+) => {
        $(mod $file;)+

        const COUNT: usize = [$(stringify!($file)),+].len();

        /// All operations. The first path is the one that is requested most.
        pub static OPERATIONS: [Registered; COUNT] = [$(Registered::of::<$file::$operation>()),+];
    };
}

liststore_contract::each_operation!(table);

/// Answers a call of an operation. Gets and adds of one list go without a box.
pub(crate) async fn answer(operation: OperationId, call: Call<'_>) -> HandlerResult {
    match operation.place() {
        GET_ITEMS => operation::answer::<get_items::GetItems>(call).await,
        ADD_ITEMS => operation::answer::<add_items::AddItems>(call).await,
        other => (OPERATIONS[other].answer)(call).await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use actix_web::http::StatusCode;
    use liststore_contract::operations::{NAMES, add_items as add, get_items as get, get_version};
    use liststore_contract::permission::Permission;
    use liststore_contract::row::Row;

    use super::*;

    fn rows() -> impl Iterator<Item = &'static Row> {
        OPERATIONS.iter().map(|operation| operation.row)
    }

    #[test]
    fn gets_and_adds_have_their_fixed_indexes() {
        assert!(OPERATIONS[GET_ITEMS].row.is(&get::ROW) && OPERATIONS[ADD_ITEMS].row.is(&add::ROW));
    }

    #[test]
    fn every_status_of_a_reply_is_valid() {
        for number in rows().flat_map(|row| row.replies).map(|reply| reply.status) {
            assert_eq!(StatusCode::from_u16(number).map(|status| status.as_u16()).ok(), Some(number));
        }
    }

    #[test]
    fn an_operation_has_the_name_of_its_file() {
        assert!(rows().map(|row| row.name).eq(NAMES.iter().copied()));
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
            path(&get::ROW, &["user", "a", "a/b?c#d%2F é"]),
            "/v1/lists/user/a/a%2Fb%3Fc%23d%252F%20%C3%A9/items"
        );
    }

    /// In the guide, `L` and `F` are the paths of a list and of a feature.
    #[test]
    fn the_guide_documents_exactly_the_operations() {
        let guide = include_str!("../../docs/reference/api.md");
        let reported: BTreeSet<_> = guide.split('`').skip(1).step_by(2).collect();
        let abbreviated = |operation: &Row| {
            let path = operation.path.replace("/v1/lists/{entity_type}/{feature}/{entity_id}", "L");
            format!("{} {}", operation.method, path.replace("/v1/features/{entity_type}/{name}", "F"))
        };
        let known: BTreeSet<_> = rows().map(abbreviated).collect();
        for call in &known {
            assert!(reported.contains(call.as_str()), "docs/reference/api.md does not describe `{call}`");
        }
        for span in reported {
            let is_call = ["GET ", "POST ", "PUT ", "PATCH ", "DELETE "].iter().any(|method| span.starts_with(method));
            assert!(
                !is_call || known.contains(span),
                "docs/reference/api.md describes `{span}`, which is no operation"
            );
        }
    }

    #[test]
    fn operations_that_write_have_a_write_permission() {
        for operation in rows() {
            let reads = [
                Permission::Open,
                Permission::Known,
                Permission::ListsRead,
                Permission::FeaturesRead,
                Permission::ServerRead,
            ];
            let writes = !reads.contains(&operation.permission);
            // Only callers that may change keys or a pool may read them.
            let is_of_writers = matches!(operation.permission, Permission::KeysWrite | Permission::PoolsWrite);
            let is_known_to_writers = is_of_writers && !operation.effect.writes();
            assert_eq!(operation.effect.writes() || is_known_to_writers, writes, "{}", operation.name);
            let given_twice: BTreeSet<_> = operation.errors().map(|code| code as usize).collect();
            assert_eq!(given_twice.len(), operation.errors().count(), "{} has a code twice", operation.name);
        }
    }
}
