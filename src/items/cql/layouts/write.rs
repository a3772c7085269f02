//! One write, which answers with no rows.

use std::sync::Arc;

use scylla::errors::{BadQuery, ExecutionError};
use scylla::response::query_result::QueryResult;
use scylla::serialize::SerializationError;
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;

use crate::items::cql::core::Core;
use crate::items::cql::error::damaged_row;
use crate::items::cql::pressure::permits::Permit;
use crate::items::cql::statements::lists::Statement;
use crate::items::{Operation, StoreError};

/// Carries out one write.
pub async fn write(
    core: &Arc<Core>,
    op: &Operation,
    statement: Statement,
    prepared: &PreparedStatement,
    permit: Permit,
    bind: impl Fn(PreparedStatement) -> Result<BoundStatement, SerializationError>,
) -> Result<Permit, StoreError> {
    let (result, permit) = core
        .attempts
        .run(core.request(statement, op), permit, |route| {
            let mut prepared = prepared.clone();
            prepared.set_load_balancing_policy(Some(route));
            send(Arc::clone(core), bind(prepared))
        })
        .await?;
    result.result_not_rows().map_err(|_| damaged_row())?;
    Ok(permit)
}

async fn send(
    core: Arc<Core>,
    bound: Result<BoundStatement, SerializationError>,
) -> Result<QueryResult, ExecutionError> {
    core.driver.execute_bound_unpaged(&bound.map_err(BadQuery::from)?).await
}
