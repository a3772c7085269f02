//! The trait of operations: how an operation reads its request, runs and answers. And its form in the table.

use std::pin::Pin;

use bytes::Bytes;
use liststore_contract::row::Row;

use super::call::{Call, HandlerResult};
use super::problem::Problem;
use crate::service::{Caller, Service, ServiceError};

/// An operation. Each is one file with its row in the contract, and one file with this trait in the server.
pub(crate) trait Operation {
    /// The contract's row: path, permission, parameters, bodies and error codes.
    const ROW: &'static Row;
    type Request<'r>;
    type Reply;

    /// Reads the request from path, query, headers and body. The caller has the permission for the resources of the
    /// path.
    fn read<'r>(call: &'r Call<'_>) -> Result<Self::Request<'r>, Problem>;

    /// Carries the request out. If the row states that the body names the resources, this decides on each of them.
    fn run<'r>(
        service: &'r Service,
        caller: &'r Caller,
        request: Self::Request<'r>,
    ) -> impl Future<Output = Result<Self::Reply, ServiceError>>;

    /// Answers with the reply.
    fn reply(call: &Call<'_>, reply: Self::Reply) -> HandlerResult;

    /// Adds details to a refusal that only the call contains.
    fn refused(_call: &Call<'_>, problem: Problem) -> Problem {
        problem
    }
}

/// Answers a call of an operation.
pub(crate) async fn answer<O: Operation>(mut call: Call<'_>) -> HandlerResult {
    if O::ROW.query.is_empty() {
        let [] = call.query(&[])?;
    }
    let caller = call.caller()?;
    let request = O::read(&call)?;
    let reply = match O::run(&call.state.service, &caller, request).await {
        Ok(reply) => reply,
        Err(error) => return Err(O::refused(&call, error.into())),
    };
    // The request may borrow from its body until here.
    call.body = Bytes::new();
    Ok(O::reply(&call, reply)?.reserving(caller.reservation.take()))
}

fn boxed<'c, O: Operation + 'static>(call: Call<'c>) -> Answering<'c> {
    Box::pin(answer::<O>(call))
}

/// A call that is being answered. Boxed, because otherwise the path of all requests would be as large as the largest of
/// these, and move as a whole.
pub(crate) type Answering<'c> = Pin<Box<dyn Future<Output = HandlerResult> + 'c>>;

/// An operation of the table.
pub struct Registered {
    pub row: &'static Row,
    pub(crate) answer: for<'c> fn(Call<'c>) -> Answering<'c>,
}

impl Registered {
    pub(crate) const fn of<O: Operation + 'static>() -> Self {
        Self { row: O::ROW, answer: boxed::<O> }
    }
}

/// Identifies an operation of the table.
#[derive(Debug, Clone, Copy)]
pub struct OperationId {
    place: usize,
    row: &'static Row,
}

impl OperationId {
    pub fn new(place: usize, row: &'static Row) -> Self {
        Self { place, row }
    }

    /// Its place in the table.
    pub fn place(self) -> usize {
        self.place
    }

    pub fn row(self) -> &'static Row {
        self.row
    }
}
