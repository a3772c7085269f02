//! The store that log segments and data files belong to.

use liststore_contract::domain::StoreId;

use super::file_id::FileId;

/// The store that the items belong to. Log segments and data files contain it too, except those from before the items
/// became a part of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub id: StoreId,
    /// The first segment and the first data file that must contain it.
    pub from_segment: u32,
    pub from_file: FileId,
}

impl Owner {
    /// Its short form for data files. Zero stands for none.
    pub fn tag(&self) -> u32 {
        crc32c::crc32c(&self.id.number().to_le_bytes()).max(1)
    }
}
