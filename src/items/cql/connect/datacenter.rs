//! The datacenter whose nodes are asked: the one of the options, or the only one that was found, and
//! then that one for as long as the process lives. A datacenter that joins later holds nothing yet,
//! and would answer reads with empty lists.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use scylla::cluster::ClusterState;
use scylla::cluster::metadata::Peer;
use scylla::policies::host_filter::HostFilter;

use super::connection_errors::unavailable;
use super::translate::Translations;
use crate::items::StoreError;

/// Which datacenter is ours. Shared by all sessions of a store.
#[derive(Debug, Default)]
pub struct LocalDatacenter {
    name: OnceLock<String>,
}

impl LocalDatacenter {
    pub fn of(configured: Option<&str>) -> Self {
        Self { name: configured.map(|name| OnceLock::from(name.to_owned())).unwrap_or_default() }
    }

    /// Its name, if it was configured or found before.
    pub fn name(&self) -> Option<&str> {
        self.name.get().map(String::as_str)
    }

    /// Its name in this cluster. The first time that a cluster of one datacenter is seen settles it.
    pub fn in_cluster(&self, cluster: &ClusterState) -> Result<&str, NoDatacenter> {
        self.among(datacenters(cluster))
    }

    /// Refuses names of datacenters that this cluster does not have.
    pub fn check_known<'a>(
        &self,
        cluster: &ClusterState,
        mut names: impl Iterator<Item = &'a str>,
    ) -> Result<(), NoDatacenter> {
        let known = datacenters(cluster);
        match names.find(|name| !known.contains(*name)) {
            Some(wanted) => Err(NoDatacenter::Unknown { wanted: wanted.to_owned(), known }),
            None => Ok(()),
        }
    }

    fn among(&self, known: BTreeSet<String>) -> Result<&str, NoDatacenter> {
        let Some(first) = known.first() else {
            // If the driver cannot read the cluster's nodes, it uses the contact points alone.
            return Err(NoDatacenter::Unreadable);
        };
        if self.name().is_none() && known.len() > 1 {
            return Err(NoDatacenter::Several { known });
        }
        let name = self.name.get_or_init(|| {
            tracing::warn!(
                datacenter = first,
                "items.cql.datacenter is not set: using the only datacenter; set it so that this server can still \
                 start after another datacenter is added"
            );
            first.clone()
        });
        if known.contains(name) { Ok(name) } else { Err(NoDatacenter::Unknown { wanted: name.clone(), known }) }
    }
}

fn datacenters(cluster: &ClusterState) -> BTreeSet<String> {
    cluster.get_nodes_info().iter().filter_map(|node| node.datacenter.clone()).collect()
}

/// Why no datacenter is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoDatacenter {
    /// The cluster does not report it.
    Unreadable,
    Unknown {
        wanted: String,
        known: BTreeSet<String>,
    },
    /// None was configured, and a guess could be the one that holds nothing.
    Several {
        known: BTreeSet<String>,
    },
}

impl fmt::Display for NoDatacenter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |known: &BTreeSet<String>| known.iter().cloned().collect::<Vec<_>>().join(", ");
        match self {
            Self::Unreadable => f.write_str(
                "cannot read the cluster's system tables: check that the cluster is healthy and that this login can \
                 read them",
            ),
            Self::Unknown { wanted, known } => write!(
                f,
                "the cluster has no datacenter {wanted:?}, only: {}; correct items.cql.datacenter and \
                 items.cql.replication",
                names(known)
            ),
            Self::Several { known } => write!(
                f,
                "the cluster has several datacenters ({}): set items.cql.datacenter to the one near this server that \
                 holds the items",
                names(known)
            ),
        }
    }
}

impl From<NoDatacenter> for StoreError {
    fn from(why: NoDatacenter) -> Self {
        unavailable(why.to_string())
    }
}

/// Lets the driver connect to nodes of our datacenter only; and while a session opens, to those alone
/// that were seen to answer.
pub struct NodeFilter {
    datacenter: Arc<LocalDatacenter>,
    translations: Translations,
    /// As the driver reaches them.
    only: ArcSwapOption<BTreeSet<SocketAddr>>,
}

impl NodeFilter {
    pub fn new(datacenter: Arc<LocalDatacenter>, translations: Translations, only: BTreeSet<SocketAddr>) -> Self {
        Self { datacenter, translations, only: ArcSwapOption::from_pointee(only) }
    }

    /// From the next look at the cluster on, all nodes of the datacenter are let in.
    pub fn widen(&self) {
        self.only.store(None);
    }
}

impl HostFilter for NodeFilter {
    fn accept(&self, peer: &Peer) -> bool {
        let at = SocketAddr::new(peer.address.ip(), peer.address.port());
        self.datacenter.name().is_none_or(|name| peer.datacenter.as_deref() == Some(name))
            && self.only.load().as_ref().is_none_or(|only| only.contains(&self.translations.of(peer.host_id, at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_only_datacenter_stays_selected_when_another_joins() {
        let ours = LocalDatacenter::of(None);
        assert_eq!(ours.among(known(&[])), Err(NoDatacenter::Unreadable));
        assert_eq!(ours.among(known(&["north"])), Ok("north"));
        assert_eq!(ours.among(known(&["east", "north"])), Ok("north"));
        assert!(matches!(ours.among(known(&["east"])), Err(NoDatacenter::Unknown { .. })), "nothing else is asked");
    }

    #[test]
    fn no_datacenter_is_guessed_among_several() {
        let why = LocalDatacenter::of(None).among(known(&["east", "north"])).unwrap_err();
        assert!(why.to_string().contains("east, north") && why.to_string().contains("items.cql.datacenter"), "{why}");
        assert_eq!(LocalDatacenter::of(Some("east")).among(known(&["east", "north"])), Ok("east"));
        let wrong = LocalDatacenter::of(Some("west"));
        assert!(wrong.among(known(&["east", "north"])).unwrap_err().to_string().contains("\"west\""));
    }
}
