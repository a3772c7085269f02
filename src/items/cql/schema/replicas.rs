//! The keyspace's replicas, against the consistency levels of the options and the nodes that there are.

use scylla::cluster::ClusterState;
use scylla::cluster::metadata::Strategy;

use crate::items::StoreError;
use crate::items::cql::connect::connection_errors::unavailable;
use crate::items::cql::options::CqlOptions;

/// Replicas that the keyspace has in a datacenter; `None` if its strategy does not define it.
pub fn replicas_in(cluster: &ClusterState, keyspace: &str, datacenter: &str) -> Option<u32> {
    let replicas = match &cluster.get_keyspace(keyspace)?.strategy {
        Strategy::NetworkTopologyStrategy { datacenter_repfactors } => {
            datacenter_repfactors.get(datacenter).copied().unwrap_or(0)
        }
        Strategy::SimpleStrategy { replication_factor } => *replication_factor,
        _ => return None,
    };
    u32::try_from(replicas).ok()
}

/// Refuses replicas that can never be enough for the consistency levels, on the nodes that there
/// are, up or down.
pub fn check_replicas(
    options: &CqlOptions,
    cluster: &ClusterState,
    datacenter: &str,
    replicas: u32,
) -> Result<(), StoreError> {
    let nodes = cluster.get_nodes_info().iter().filter(|node| node.datacenter.as_deref() == Some(datacenter)).count();
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    if replicas == 0 {
        return Err(unavailable(format!(
            "the keyspace {} has no replicas in the datacenter {datacenter}: add some with ALTER KEYSPACE, or set \
             items.cql.datacenter to a datacenter with replicas",
            options.keyspace
        )));
    }
    for (setting, consistency) in
        [("read_consistency", options.read_consistency), ("write_consistency", options.write_consistency)]
    {
        let needed = consistency.needs_of(replicas);
        if needed > replicas.min(nodes) {
            return Err(unavailable(format!(
                "items.cql.{setting} {} needs {needed} of {replicas} replicas, and the datacenter {datacenter} has \
                 {nodes} node(s): add nodes, or create the keyspace with items.cql.replication_factor = {}",
                consistency.as_str(),
                nodes.max(1)
            )));
        }
    }
    Ok(())
}

/// Whether each read meets every acknowledged write: where all replicas are in one datacenter, and enough of them are
/// asked.
pub fn quorums_overlap(options: &CqlOptions, cluster: &ClusterState, datacenter: &str) -> bool {
    let is_elsewhere = match cluster.get_keyspace(&options.keyspace).map(|keyspace| &keyspace.strategy) {
        Some(Strategy::NetworkTopologyStrategy { datacenter_repfactors }) => {
            datacenter_repfactors.iter().any(|(name, replicas)| name != datacenter && *replicas > 0)
        }
        _ => true,
    };
    let replicas = replicas_in(cluster, &options.keyspace, datacenter);
    !is_elsewhere && replicas.is_some_and(|replicas| overlap(options, replicas))
}

/// The same of replicas that are all in one datacenter.
fn overlap(options: &CqlOptions, replicas: u32) -> bool {
    options.read_consistency.needs_of(replicas) + options.write_consistency.needs_of(replicas) > replicas
}

/// Settings that work but weaken a promise: a sentence each.
pub fn cautions(options: &CqlOptions, cluster: &ClusterState, datacenter: &str) -> Vec<String> {
    let Some(keyspace) = cluster.get_keyspace(&options.keyspace) else { return Vec::new() };
    let simple = matches!(keyspace.strategy, Strategy::SimpleStrategy { .. });
    let replicas = replicas_in(cluster, &options.keyspace, datacenter);
    let mut cautions = replicas.map_or_else(Vec::new, |replicas| cautions_of(options, replicas, simple));
    cautions.extend(keyspace.tablet_based.then(|| on_tablets(&options.keyspace)));
    cautions
}

fn on_tablets(keyspace: &str) -> String {
    format!(
        "the keyspace {keyspace} uses tablets: while a node is down, the value index may miss added items, and a \
         removal by value then leaves them; migrate to a new keyspace with items.cql.tablets = \"disabled\", and copy \
         the items"
    )
}

fn cautions_of(options: &CqlOptions, replicas: u32, simple_strategy: bool) -> Vec<String> {
    let (keyspace, read, write) = (&options.keyspace, options.read_consistency, options.write_consistency);
    let needed = read.needs_of(replicas).max(write.needs_of(replicas));
    let mut cautions = Vec::new();
    if simple_strategy {
        cautions.push(format!(
            "the keyspace {keyspace} uses SimpleStrategy, which ignores datacenters and racks: change it to \
             NetworkTopologyStrategy with ALTER KEYSPACE, and repair"
        ));
    }
    if replicas < 3 && needed == replicas {
        cautions.push(format!(
            "the keyspace {keyspace} has {replicas} replica(s): while a node is down, its lists can be neither read \
             nor written; use 3 replicas (ALTER KEYSPACE, then a full repair)"
        ));
    }
    let (reads, writes) = (read.needs_of(replicas), write.needs_of(replicas));
    if !overlap(options, replicas) {
        cautions.push(format!(
            "items.cql.read_consistency {} and write_consistency {} use {reads} and {writes} of {replicas} replicas: a \
             read may miss acknowledged writes, and a removal may miss items; set both to LOCAL_QUORUM",
            read.as_str(),
            write.as_str(),
        ));
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::cql::options::Consistency;

    #[test]
    fn reads_see_all_writes_if_both_reach_more_replicas_than_exist() {
        let sees = |read_consistency, write_consistency, replicas| {
            overlap(&CqlOptions { read_consistency, write_consistency, ..CqlOptions::default() }, replicas)
        };
        let (one, quorum) = (Consistency::LocalOne, Consistency::LocalQuorum);
        assert_eq!([1, 2, 3, 5].map(|replicas| sees(quorum, quorum, replicas)), [true; 4]);
        assert_eq!([1, 2, 3].map(|replicas| sees(one, quorum, replicas)), [true, true, false]);
        assert_eq!([sees(Consistency::One, Consistency::All, 3), sees(one, one, 1)], [true, true]);
    }

    #[test]
    fn tablets_cause_a_warning_with_the_remedy() {
        let reported = on_tablets("lists");
        assert!(reported.contains("lists") && reported.contains("items.cql.tablets = \"disabled\""), "{reported}");
    }

    #[test]
    fn settings_that_weaken_a_promise_cause_a_warning() {
        let cautions = |read_consistency, write_consistency, replicas, simple| {
            let options = CqlOptions { read_consistency, write_consistency, ..CqlOptions::default() };
            cautions_of(&options, replicas, simple)
        };
        let quorum = Consistency::LocalQuorum;
        assert_eq!(cautions(quorum, quorum, 3, false), Vec::<String>::new());
        for replicas in [1, 2] {
            let reported = cautions(quorum, quorum, replicas, false);
            assert!(reported.len() == 1 && reported[0].contains(&format!("{replicas} replica(s)")), "{reported:?}");
        }
        let weak = cautions(Consistency::One, quorum, 3, false);
        assert!(weak.len() == 1 && weak[0].contains("read_consistency ONE"), "{weak:?}");
        assert_eq!(cautions(Consistency::One, Consistency::All, 3, false), Vec::<String>::new());
        assert!(cautions(quorum, quorum, 3, true)[0].contains("SimpleStrategy"));
    }
}
