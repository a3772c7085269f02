//! The content of a feature version, in three numbers: equal items make equal numbers, in any order.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::source::Sink;
use crate::client::Failure;
use crate::wire::Item;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    pub lists: u64,
    pub items: u64,
    /// The sum of the hashes of all items.
    pub checksum: u64,
}

/// Adds up the received items.
#[derive(Default)]
pub(super) struct Digesting {
    pub digest: Digest,
    last: Option<String>,
}

impl Sink for Digesting {
    async fn take(&mut self, entity_id: &str, items: &[Item]) -> Result<(), Failure> {
        if self.last.as_deref() != Some(entity_id) {
            self.digest.lists += 1;
            self.last = Some(entity_id.to_owned());
        }
        self.digest.items += items.len() as u64;
        for item in items {
            // No text has a zero byte: JSON writes it otherwise, and no entity ID or key may hold one.
            let mut text = [entity_id, &item.timestamp, item.value.get()].join("\0");
            text.extend(item.key.iter().flat_map(|key| ["\0", key]));
            self.digest.checksum = self.digest.checksum.wrapping_add(XxHash3_64::oneshot(text.as_bytes()));
        }
        Ok(())
    }
}
