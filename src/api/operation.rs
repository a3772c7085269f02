//! An operation as the table has it: its row, and the function that answers a call.

use std::pin::Pin;

use liststore_contract::row::Row;

use super::call::{Call, HandlerResult};

/// A call that is being answered. On the heap: what all requests go through is as large as the largest of these
/// otherwise, and is moved as a whole.
pub(crate) type Answering<'c> = Pin<Box<dyn Future<Output = HandlerResult> + 'c>>;

/// An operation of the table.
pub struct Registered {
    pub row: &'static Row,
    pub(crate) answer: for<'c> fn(Call<'c>) -> Answering<'c>,
}

/// Which operation of the table.
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
