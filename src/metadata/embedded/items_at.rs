//! How far the items' log was durable when this file was written last. The file and the items of one moment agree: the
//! items are at least as new as this place.

use redb::{ReadTransaction, ReadableTable, WriteTransaction};

use super::JournalError;
use super::tables::META;

/// Where it stands in [`META`].
const NAME: &str = "items_at";

/// Notes the place as a part of a transaction, if it is known.
pub(super) fn note(transaction: &WriteTransaction, place: Option<u64>) -> Result<(), redb::Error> {
    let Some(place) = place else { return Ok(()) };
    let mut meta = transaction.open_table(META)?;
    let present = meta.get(NAME)?.map(|present| present.value());
    if present != Some(place) {
        meta.insert(NAME, place)?;
    }
    Ok(())
}

/// The place that was noted last.
pub(super) fn read(transaction: &ReadTransaction) -> Result<Option<u64>, JournalError> {
    Ok(transaction.open_table(META)?.get(NAME)?.map(|place| place.value()))
}
