//! Addresses of nodes as this server reaches them, if the announced addresses are unreachable: behind a NAT, a proxy or
//! a port mapping.
//!
//! The cluster's tables have no ports. The driver adds the port of its control connection to every address, which is
//! another one whenever that connection moves to a node behind another port. So a node is known by its IP address, or
//! by its host ID.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use uuid::Uuid;

use crate::items::cql::options::TranslatedNode;

/// From nodes to where they are reached; any other node is reached where it says.
#[derive(Debug, Clone, Default)]
pub struct Translations(Arc<HashMap<TranslatedNode, SocketAddr>>);

impl Translations {
    pub fn new(pairs: &[(TranslatedNode, SocketAddr)]) -> Self {
        Self(Arc::new(pairs.iter().copied().collect()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a node is reached. Its host ID goes before its address.
    pub fn of(&self, host_id: Uuid, reported: SocketAddr) -> SocketAddr {
        let by = |node: TranslatedNode| self.0.get(&node).copied();
        by(TranslatedNode::HostId(host_id)).or_else(|| by(TranslatedNode::Address(reported.ip()))).unwrap_or(reported)
    }
}

#[async_trait]
impl AddressTranslator for Translations {
    async fn translate_address(&self, peer: &UntranslatedPeer) -> Result<SocketAddr, TranslationError> {
        Ok(self.of(peer.host_id(), peer.untranslated_address()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_host_id_or_address_with_any_port() {
        let (by_id, by_address) = (Uuid::from_u128(7), "10.0.0.1".parse().unwrap());
        let [one, two]: [SocketAddr; 2] = ["203.0.113.7:19042", "203.0.113.7:29042"].map(|at| at.parse().unwrap());
        let pairs = [(TranslatedNode::Address(by_address), one), (TranslatedNode::HostId(by_id), two)];
        let translations = Translations::new(&pairs);
        for port in [9042, 19042, 29042] {
            let reported = SocketAddr::new(by_address, port);
            assert_eq!(translations.of(Uuid::from_u128(1), reported), one);
            assert_eq!(translations.of(by_id, reported), two);
            let strange = SocketAddr::new("10.0.0.9".parse().unwrap(), port);
            assert_eq!(translations.of(Uuid::from_u128(1), strange), strange);
        }
    }
}
