//! Queries outside the list operations: small queries, each with a time limit, since they have no deadline.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::unprepared::Statement;
use tokio::time::{Instant, sleep};

use super::error::{Failure, NO_TABLE, damaged_row};
use super::options::Consistency;
use crate::items::StoreError;

/// How long a look at one of the schema's tables may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node may take to know a table that its own tables name.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);
const KNOWN_CHECK_INTERVAL: Duration = Duration::from_millis(50);

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
    let result = session.query_unpaged(query(text, consistency), values).await;
    rows_of(result.map_err(|error| failed(&error))?)
}

/// The same of a table that the cluster's own tables name. They do so a moment before a node knows a table that is
/// being made, by a migration on the way: until then it says that there is none.
pub async fn select_from_named<R>(session: &Session, text: &str, consistency: Consistency) -> Result<Vec<R>, StoreError>
where
    R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
{
    let until = Instant::now() + KNOWN_WITHIN;
    loop {
        match session.query_unpaged(query(text, consistency), ()).await {
            Ok(result) => return rows_of(result),
            Err(error) if Failure::of(&error, false).kind == NO_TABLE && Instant::now() < until => {
                sleep(KNOWN_CHECK_INTERVAL).await;
            }
            Err(error) => return Err(failed(&error)),
        }
    }
}

fn rows_of<R>(result: QueryResult) -> Result<Vec<R>, StoreError>
where
    R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
{
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
