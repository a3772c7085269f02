//! The table of all operations. The router, the metrics' labels, the OpenAPI document, the command
//! line's client and the tests of `docs/reference/api.md` are made from it. Each file has the rows of one subject.

use super::OperationId;
use super::descriptor::Descriptor;

mod bags;
mod batch;
mod entity_types;
mod erasure;
mod features;
mod indexes;
mod jobs;
mod keys;
mod lists;
mod parts;
pub mod queries;
mod server;

const PARTS: [&[Descriptor]; 10] = [
    &lists::ROWS,
    &batch::ROWS,
    &erasure::ROWS,
    &jobs::ROWS,
    &features::ROWS,
    &entity_types::ROWS,
    &indexes::ROWS,
    &bags::ROWS,
    &keys::ROWS,
    &server::ROWS,
];

/// All operations, in the order of [`OperationId`].
pub const OPERATIONS: [Descriptor; OperationId::COUNT] = {
    let mut rows = [lists::ROWS[0]; OperationId::COUNT];
    let (mut part, mut row) = (0, 0);
    while part < PARTS.len() {
        let mut next = 0;
        while next < PARTS[part].len() {
            rows[row] = PARTS[part][next];
            (row, next) = (row + 1, next + 1);
        }
        part += 1;
    }
    assert!(row == OperationId::COUNT, "an operation has no row");
    rows
};

impl OperationId {
    /// Its row of the table.
    pub fn descriptor(self) -> &'static Descriptor {
        &OPERATIONS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::access::Permission;

    #[test]
    fn the_table_stands_in_the_order_of_the_ids_and_names_each_once() {
        for (row, descriptor) in OPERATIONS.iter().enumerate() {
            assert_eq!(descriptor.id as usize, row, "{}", descriptor.name);
        }
        let names: BTreeSet<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
        let routes: BTreeSet<_> = OPERATIONS.iter().map(|o| (o.method.as_str(), o.path)).collect();
        assert_eq!((names.len(), routes.len()), (OPERATIONS.len(), OPERATIONS.len()));
    }

    #[test]
    fn a_path_is_written_with_its_segments_encoded() {
        let path = |id: OperationId, variables: &[&str]| id.descriptor().path_of(variables);
        assert_eq!(
            path(OperationId::GetVersion, &["user", "a.b-c", "2024/08:rc"]),
            "/v1/features/user/a.b-c/versions/2024%2F08:rc"
        );
        assert_eq!(path(OperationId::GetVersion, &["user", "a", ""]), "/v1/features/user/a/versions/");
        assert_eq!(
            path(OperationId::GetItems, &["user", "a", "a/b?c#d%2F é"]),
            "/v1/lists/user/a/a%2Fb%3Fc%23d%252F%20%C3%A9/items"
        );
    }

    /// `L` and `F` stand in the guide for the paths of a list and of a feature.
    #[test]
    fn the_guide_tells_of_every_operation_and_of_no_other() {
        let guide = include_str!("../../../docs/reference/api.md");
        let told: BTreeSet<_> = guide.split('`').skip(1).step_by(2).collect();
        let abbreviated = |operation: &Descriptor| {
            let path = operation.path.replace("/v1/lists/{entity_type}/{feature}/{entity_id}", "L");
            format!("{} {}", operation.method, path.replace("/v1/features/{entity_type}/{name}", "F"))
        };
        let known: BTreeSet<_> = OPERATIONS.iter().map(abbreviated).collect();
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
        for operation in &OPERATIONS {
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
