//! The durable position of the items' log at the last write of this file. The file and the items of one moment agree if
//! the items are at least as new as this position.

use redb::{ReadTransaction, ReadableTable, WriteTransaction};

use super::JournalError;
use super::tables::META;

/// The key in [`META`].
const NAME: &str = "items_at";

/// Notes the position in a transaction, if it is known.
pub(super) fn note(transaction: &WriteTransaction, place: Option<u64>) -> Result<(), redb::Error> {
    let Some(place) = place else { return Ok(()) };
    let mut meta = transaction.open_table(META)?;
    let present = meta.get(NAME)?.map(|present| present.value());
    if present != Some(place) {
        meta.insert(NAME, place)?;
    }
    Ok(())
}

/// The last noted position.
pub(super) fn read(transaction: &ReadTransaction) -> Result<Option<u64>, JournalError> {
    Ok(transaction.open_table(META)?.get(NAME)?.map(|place| place.value()))
}
