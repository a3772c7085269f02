//! Queries outside the list operations: small ones, each bounded by itself, since they have no deadline.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::unprepared::Statement;

use super::error::{Failure, damaged_row};
use super::options::Consistency;
use crate::items::StoreError;

/// How long a look at one of the schema's tables may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// All rows of a small query.
pub async fn select<R>(
    session: &Session,
    text: &str,
    values: impl SerializeRow,
    consistency: Consistency,
) -> Result<Vec<R>, StoreError>
where
    R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
{
    let result = session.query_unpaged(query(text, consistency), values).await.map_err(|error| failed(&error))?;
    let rows = result.into_rows_result().map_err(|_| damaged_row())?;
    rows.rows::<R>().map_err(|_| damaged_row())?.collect::<Result<_, _>>().map_err(|_| damaged_row())
}

fn failed(error: &ExecutionError) -> StoreError {
    Failure::of(error, false).error
}

pub fn query(text: &str, consistency: Consistency) -> Statement {
    let mut statement = Statement::new(text);
    statement.set_consistency(consistency.of_driver());
    statement.set_request_timeout(Some(QUERY_TIMEOUT));
    statement
}
