//! Which store log segments and data files belong to.

use liststore_contract::domain::StoreId;

use super::file_id::FileId;

/// Which store the items belong to. Log segments and data files say so too, but for those that are
/// older than the store: it was taken in later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub id: StoreId,
    /// The first segment and the first data file that must say so.
    pub from_segment: u32,
    pub from_file: FileId,
}

impl Owner {
    /// The short form of it that a data file has room for. Zero stands for none.
    pub fn tag(&self) -> u32 {
        crc32c::crc32c(&self.id.number().to_le_bytes()).max(1)
    }
}
