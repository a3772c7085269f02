//! The errors of the driver that a simulated cluster returns.

use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::statement::Consistency;

pub(super) fn failed(error: DbError, text: &str) -> ExecutionError {
    ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text.to_owned()))
}

pub(super) fn write_timeout() -> ExecutionError {
    let write_type = scylla::errors::WriteType::Batch;
    failed(DbError::WriteTimeout { consistency: Consistency::LocalQuorum, received: 1, required: 2, write_type }, "")
}

pub(super) fn too_many_tombstones() -> ExecutionError {
    let (consistency, received, required) = (Consistency::LocalQuorum, 0, 2);
    let error = DbError::ReadFailure { consistency, received, required, numfailures: 2, data_present: false };
    failed(error, "READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000")
}
