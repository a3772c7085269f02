//! The meaning of the driver's errors: for the caller, for a retry, and for a write whose outcome may be unknown. The
//! one place that reads them; the driver's and the database's own words go no further.
//!
//! The source is the CQL binary protocol, version 4, section 9 ("Error codes").

use scylla::errors::{ConnectionPoolError, DbError, ExecutionError, OperationType, RequestAttemptError};
use scylla::statement::Consistency;

use super::connect::connection_errors::explain_connection_error;
use crate::domain::Invalid;
use crate::items::StoreError;

/// The kind of a failure in which no node was even connected.
pub const NO_CONNECTION: &str = "no_connection";

/// The kind of a failure for want of a table.
pub const NO_TABLE: &str = "no_table";

/// Why items cannot be removed by value while there is no index to find them.
pub const NO_INDEX: &str = "the index list_items_by_value is missing or not built: items can be read and added, but \
                            not removed by value; run `liststore migrate` to rebuild it";

/// One attempt that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub error: StoreError,
    /// Whether another attempt, on another node if there is one, may fare better. All statements of this store may be
    /// repeated: reads by nature, writes since they carry their timestamp, and swaps of bags since they recognise an
    /// earlier attempt.
    pub retry: bool,
    /// For logs and metrics: a word for the kind of failure.
    pub kind: &'static str,
}

impl Failure {
    /// Reads an error of a request that `writes` or only reads.
    pub fn of(error: &ExecutionError, writes: bool) -> Self {
        match error {
            ExecutionError::ConnectionPoolError(ConnectionPoolError::Broken { last_connection_error, .. }) => {
                let reason = format!("no connection to any node: {}", explain_connection_error(last_connection_error));
                unavailable(NO_CONNECTION, &reason)
            }
            ExecutionError::ConnectionPoolError(_) => unavailable(NO_CONNECTION, "no connection to any node"),
            ExecutionError::EmptyPlan => unavailable(
                "no_node",
                "no eligible node: check that items.cql.datacenter names a datacenter of this cluster",
            ),
            ExecutionError::LastAttemptError(error) => Self::of_attempt(error, writes),
            ExecutionError::RequestTimeout(_) => timeout("client_timeout").unsure_if(writes),
            // The statement was never sent.
            ExecutionError::BadQuery(_) | ExecutionError::PrepareError(_) => {
                internal("bad_statement", "cannot send the statement")
            }
            _ => internal("unexpected", "unexpected driver error").unsure_if(writes),
        }
    }

    /// Reads an error of a lightweight transaction. Its last round commits what replicas have accepted before. A
    /// coordinator that cannot begin that round answers as if it had begun nothing (Cassandra:
    /// `StorageProxy.commitPaxos`).
    pub fn of_transaction(error: &ExecutionError) -> Self {
        let is_accepted = match error {
            ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text)) => match error {
                DbError::Unavailable { consistency, .. } => {
                    !matches!(consistency, Consistency::Serial | Consistency::LocalSerial)
                }
                DbError::Overloaded => text.contains("hints"),
                DbError::RateLimitReached { .. } => true,
                _ => false,
            },
            _ => false,
        };
        Self::of(error, true).unsure_if(is_accepted)
    }

    fn of_attempt(error: &RequestAttemptError, writes: bool) -> Self {
        match error {
            RequestAttemptError::DbError(error, text) => Self::of_database(error, text, writes),
            // Whether the request arrived is unknown.
            RequestAttemptError::BrokenConnectionError(_) => {
                unavailable("broken_connection", "the connection to a node broke").unsure_if(writes)
            }
            RequestAttemptError::UnableToAllocStreamId => {
                overloaded("no_stream", "too many requests in flight on the connection to a node")
            }
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_)
            | RequestAttemptError::RepreparedIdChanged { .. }
            | RequestAttemptError::RepreparedIdMissingInBatch => internal("bad_statement", "cannot send the statement"),
            _ => internal("bad_answer", "cannot parse the response of a node").unsure_if(writes),
        }
    }

    fn of_database(error: &DbError, text: &str, writes: bool) -> Self {
        match error {
            // The coordinator counted the living replicas before it did anything.
            DbError::Unavailable { required, alive, consistency } => unavailable(
                "unavailable",
                &format!("{alive} of {required} needed replicas are alive, for consistency {consistency}"),
            ),
            DbError::IsBootstrapping => unavailable("bootstrapping", "a node is still joining the cluster"),
            DbError::Overloaded => overloaded("overloaded", "a node is overloaded"),
            DbError::RateLimitReached { op_type, rejected_by_coordinator } => {
                let reason = "the rate limit of the list's partition was reached";
                let may_be_done = matches!(op_type, OperationType::Write) && !rejected_by_coordinator;
                // A rate limit must not be evaded by asking another node.
                let failure = overloaded("rate_limit", reason);
                Self { error: after_unknown(failure.error, may_be_done), retry: false, ..failure }
            }
            DbError::ReadTimeout { .. } => timeout("read_timeout").unsure_if(writes),
            DbError::WriteTimeout { .. } => timeout("write_timeout").unsure_if(writes),
            // Cassandra's RequestFailureReason, which version 4 of the protocol has in the text alone.
            DbError::ReadFailure { .. } if text.contains("READ_TOO_MANY_TOMBSTONES") => {
                // The other replicas have them as well, and looking is dear.
                Self {
                    error: StoreError::TooManyTombstones { outcome_unknown: false },
                    retry: false,
                    kind: "tombstones",
                }
            }
            DbError::ReadFailure { .. }
                if text.contains("INDEX_NOT_AVAILABLE") || text.contains("INDEX_BUILD_IN_PROGRESS") =>
            {
                unavailable("no_index", "the index list_items_by_value is being built: try again later")
            }
            DbError::ReadFailure { .. } => {
                unavailable("read_failure", "replicas failed while they read").unsure_if(writes)
            }
            DbError::WriteFailure { .. } => {
                unavailable("write_failure", "replicas failed while they wrote").unsure_if(writes)
            }
            DbError::Unprepared { .. } => unavailable("unprepared", "a node repeatedly lost a prepared statement"),
            DbError::ServerError => {
                internal("server_error", "unexpected failure of a node").unsure_if(writes).retried()
            }
            DbError::AuthenticationError | DbError::Unauthorized => {
                let reason = "permission denied by the cluster: grant this user SELECT and MODIFY on the keyspace";
                Self { retry: false, ..unavailable("unauthorized", reason) }
            }
            DbError::Invalid => Self::of_invalid(text),
            DbError::SyntaxError | DbError::ProtocolError | DbError::ConfigError => {
                internal("refused_statement", "the cluster does not support a statement")
            }
            _ => internal("unexpected", "a node returned an unexpected error").unsure_if(writes),
        }
    }

    /// `Invalid` covers errors of the caller, of the operator, and of this program. Only its text distinguishes them.
    /// An unknown text is an internal error.
    fn of_invalid(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let refused = |invalid| Self { error: StoreError::Refused(invalid), retry: false, kind: "refused" };
        if text.contains("expiration date") {
            // Cassandra's ExpirationDateOverflowHandling: storage_compatibility_mode below NONE.
            return refused(Invalid::ttl_too_long(
                "this cluster cannot store expiries after 2038-01-19: set Cassandra's storage_compatibility_mode to \
                 NONE",
            ));
        }
        if text.contains("too large") || text.contains("larger than") || text.contains("exceeds the maximum") {
            return refused(Invalid::argument("too large for this cluster: send fewer or smaller items per request"));
        }
        if text.contains("allow filtering") {
            // The error text of both databases if no index can answer a query.
            return Self { retry: false, ..unavailable("no_index", NO_INDEX) };
        }
        if text.contains("unconfigured table")
            || text.contains("does not exist")
            || text.contains("can't find a column family")
        {
            let reason = "the table is missing: run `liststore migrate`";
            return Self { retry: false, ..unavailable(NO_TABLE, reason) };
        }
        internal("invalid", "the cluster refused a statement")
    }

    fn retried(self) -> Self {
        Self { retry: true, ..self }
    }

    /// Which failed writes may have been applied.
    fn unsure_if(self, writes: bool) -> Self {
        Self { error: after_unknown(self.error, writes), ..self }
    }
}

fn unavailable(kind: &'static str, reason: &str) -> Failure {
    Failure { error: StoreError::Unavailable { reason: reason.into(), outcome_unknown: false }, retry: true, kind }
}

fn overloaded(kind: &'static str, reason: &str) -> Failure {
    Failure { error: StoreError::Overloaded { reason: reason.into() }, retry: true, kind }
}

fn timeout(kind: &'static str) -> Failure {
    Failure { error: StoreError::Timeout { outcome_unknown: false }, retry: true, kind }
}

fn internal(kind: &'static str, reason: &str) -> Failure {
    Failure { error: StoreError::Internal { reason: reason.into(), outcome_unknown: false }, retry: false, kind }
}

/// An error as it is once something of the operation may have been carried out before.
pub fn after_unknown(error: StoreError, unknown: bool) -> StoreError {
    if unknown { error.with_outcome_unknown() } else { error }
}

/// A row that this store did not write.
pub fn damaged_row() -> StoreError {
    StoreError::Internal { reason: "a row that this store did not write".into(), outcome_unknown: false }
}

#[cfg(test)]
mod tests {
    use scylla::errors::WriteType;

    use super::*;
    use crate::domain::Code;

    fn of(error: DbError, text: &str, writes: bool) -> Failure {
        Failure::of(&ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text.into())), writes)
    }

    fn outcome(failure: &Failure) -> (bool, bool, bool) {
        (failure.retry, failure.error.is_retryable(), failure.error.outcome_unknown())
    }

    fn quorum() -> Consistency {
        Consistency::LocalQuorum
    }

    #[test]
    fn an_operation_that_was_not_begun_has_a_known_outcome() {
        let unavailable = DbError::Unavailable { consistency: quorum(), required: 2, alive: 1 };
        for error in [unavailable, DbError::Overloaded, DbError::IsBootstrapping] {
            assert_eq!(outcome(&of(error.clone(), "", true)), (true, true, false), "{error}");
        }
        assert_eq!(outcome(&Failure::of(&ExecutionError::EmptyPlan, true)), (true, true, false));
        let no_stream = ExecutionError::LastAttemptError(RequestAttemptError::UnableToAllocStreamId);
        assert_eq!(outcome(&Failure::of(&no_stream, true)), (true, true, false));
    }

    #[test]
    fn an_operation_that_may_have_been_applied_has_an_unknown_outcome() {
        let (consistency, received, required, numfailures) = (quorum(), 1, 2, 1);
        let write_type = WriteType::Batch;
        let timeout = DbError::WriteTimeout { consistency, received, required, write_type: write_type.clone() };
        let failure = DbError::WriteFailure { consistency, received, required, numfailures, write_type };
        assert_eq!(outcome(&of(timeout, "", true)), (true, true, true));
        assert_eq!(outcome(&of(failure, "", true)), (true, true, true));
        assert_eq!(outcome(&of(DbError::ServerError, "", true)), (true, false, true));
        assert_eq!(outcome(&of(DbError::Other(0x1700), "", true)), (false, false, true));
    }

    #[test]
    fn a_read_never_has_an_unknown_outcome() {
        let (consistency, received, required, numfailures) = (quorum(), 1, 2, 1);
        let data_present = false;
        for error in [
            DbError::ReadTimeout { consistency, received, required, data_present },
            DbError::ReadFailure { consistency, received, required, numfailures, data_present },
            DbError::ServerError,
            DbError::Other(1),
        ] {
            assert!(!of(error.clone(), "", false).error.outcome_unknown(), "{error}");
        }
    }

    #[test]
    fn too_many_tombstones_are_reported_without_a_retry() {
        let (consistency, received, required, numfailures) = (quorum(), 0, 2, 2);
        let error = DbError::ReadFailure { consistency, received, required, numfailures, data_present: false };
        let text = "Operation failed - received 0 responses and 2 failures: READ_TOO_MANY_TOMBSTONES from \
                    /127.0.0.1:7000, READ_TOO_MANY_TOMBSTONES from /127.0.0.2:7000";
        let failure = of(error, text, false);
        assert_eq!(outcome(&failure), (false, false, false));
        assert!(failure.error.to_string().contains("limit of tombstones"), "{}", failure.error);
    }

    #[test]
    fn a_transaction_whose_commit_cannot_begin_may_have_been_accepted() {
        let transaction = |error: DbError, text: &str| {
            let error = RequestAttemptError::DbError(error, text.into());
            outcome(&Failure::of_transaction(&ExecutionError::LastAttemptError(error)))
        };
        let unavailable = |consistency| DbError::Unavailable { consistency, required: 2, alive: 1 };
        for serial in [Consistency::Serial, Consistency::LocalSerial] {
            assert_eq!(transaction(unavailable(serial), ""), (true, true, false));
        }
        for commit in [quorum(), Consistency::EachQuorum] {
            assert_eq!(transaction(unavailable(commit), ""), (true, true, true));
        }
        assert_eq!(transaction(DbError::Overloaded, "Too many in flight hints: 1024"), (true, true, true));
        assert_eq!(transaction(DbError::Overloaded, ""), (true, true, false));
        let limit = DbError::RateLimitReached { op_type: OperationType::Write, rejected_by_coordinator: true };
        assert_eq!(transaction(limit, ""), (false, true, true));
        let (consistency, received, required) = (quorum(), 1, 2);
        let timeout = DbError::WriteTimeout { consistency, received, required, write_type: WriteType::Cas };
        assert_eq!(transaction(timeout, ""), (true, true, true));
        assert_eq!(transaction(DbError::Unauthorized, ""), (false, true, false));
        assert_eq!(outcome(&Failure::of_transaction(&ExecutionError::EmptyPlan)), (true, true, false));
    }

    #[test]
    fn a_rate_limit_is_respected() {
        let limit = |op_type, rejected_by_coordinator| {
            outcome(&of(DbError::RateLimitReached { op_type, rejected_by_coordinator }, "", true))
        };
        assert_eq!(limit(OperationType::Write, true), (false, true, false));
        assert_eq!(limit(OperationType::Write, false), (false, true, true));
        assert_eq!(limit(OperationType::Read, false), (false, true, false));
    }

    #[test]
    fn invalid_requests_are_classified_by_their_text() {
        let code = |text: &str| match of(DbError::Invalid, text, true).error {
            StoreError::Refused(invalid) => Some(invalid.code),
            _ => None,
        };
        let overflow = "Request on table a.b with ttl of 630720000 seconds exceeds maximum supported expiration date of \
                        2038-01-19T03:14:06+00:00.";
        assert_eq!(code(overflow), Some(Code::TtlTooLong));
        let too_large = "Rejected an oversized mutation of size 9000000/8388608 for keyspace: a. Mutation is too large";
        assert_eq!(code(too_large), Some(Code::InvalidArgument));
        assert_eq!(code("anything else"), None);
        let missing = of(DbError::Invalid, "unconfigured table list_items", true);
        assert!(
            matches!(&missing.error, StoreError::Unavailable { reason, .. } if reason.contains("liststore migrate"))
        );
    }

    #[test]
    fn texts_of_the_database_are_not_passed_on() {
        for error in [DbError::Invalid, DbError::ServerError, DbError::Unauthorized, DbError::Overloaded] {
            let failure = of(error, "secret-of-the-database", true);
            assert!(!format!("{:?}", failure.error).contains("secret"));
        }
    }

    #[test]
    fn an_unknown_outcome_sticks() {
        let errors = [
            StoreError::Overloaded { reason: "x".into() },
            StoreError::Timeout { outcome_unknown: false },
            StoreError::Refused(Invalid::argument("x")),
        ];
        assert!(errors.iter().all(|error| after_unknown(error.clone(), true).outcome_unknown()));
        assert!(errors.iter().all(|error| !after_unknown(error.clone(), false).outcome_unknown()));
    }
}
