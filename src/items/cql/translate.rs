//! Addresses of nodes as this server reaches them, where those that the nodes tell are not: behind a
//! NAT, a proxy or a port mapping.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};

/// From what a node tells to where it is reached; whatever is not named is reached where it says.
#[derive(Debug, Clone, Default)]
pub struct Translations(Arc<HashMap<SocketAddr, SocketAddr>>);

impl Translations {
    pub fn new(pairs: &[(SocketAddr, SocketAddr)]) -> Self {
        Self(Arc::new(pairs.iter().copied().collect()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn of(&self, told: SocketAddr) -> SocketAddr {
        self.0.get(&told).copied().unwrap_or(told)
    }
}

#[async_trait]
impl AddressTranslator for Translations {
    async fn translate_address(&self, peer: &UntranslatedPeer) -> Result<SocketAddr, TranslationError> {
        Ok(self.of(peer.untranslated_address()))
    }
}
