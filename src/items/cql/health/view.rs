//! The view of the cluster at one moment, of all sessions of a store together, and its summary for an operator.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// As many nodes are named in a sentence.
const NAMED_MAX: usize = 4;
/// Why nothing is reached where nodes are connected.
pub const SILENT: &str = "nodes are connected but do not respond";

/// How a node is reached. Of several sessions, the best counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contact {
    /// There is no connection to it.
    Gone,
    /// There is a connection, but recent requests over it were not answered.
    Silent,
    Answers,
}

/// All sessions' views together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub sessions: usize,
    /// Of these, how many reach no node at all.
    pub deaf: usize,
    pub connections: u64,
    /// The nodes of our datacenter.
    pub nodes: BTreeMap<SocketAddr, Contact>,
    /// Why a session that reaches none does not.
    pub why: Option<String>,
}

impl View {
    /// Adds the view of one session.
    pub fn add(
        &mut self,
        nodes: Vec<(SocketAddr, Contact)>,
        connections: u64,
        outage_reason: impl FnOnce() -> Option<String>,
    ) {
        self.sessions += 1;
        self.connections += connections;
        if !nodes.iter().any(|(_, contact)| *contact == Contact::Answers) {
            self.deaf += 1;
            self.why = self.why.take().or_else(outage_reason);
        }
        for (address, contact) in nodes {
            let best = self.nodes.entry(address).or_insert(contact);
            *best = contact.max(*best);
        }
    }

    /// The nodes that no session reaches.
    pub fn lost(&self) -> impl Iterator<Item = SocketAddr> {
        self.nodes.iter().filter(|(_, contact)| **contact != Contact::Answers).map(|(address, _)| *address)
    }

    pub fn reached(&self) -> usize {
        self.nodes.len() - self.lost().count()
    }

    /// Whether no operation can be carried out.
    pub fn is_silent(&self) -> bool {
        self.sessions > 0 && self.deaf == self.sessions
    }

    /// Why no node is reached, if that is known.
    pub fn why(&self) -> &str {
        self.why.as_deref().unwrap_or("cause not known yet")
    }

    /// A warning for an operator, in a sentence. `lost_for` returns for how long a node has not been reached.
    pub fn warning(&self, lost_for: impl Fn(SocketAddr) -> Option<Duration>) -> Option<String> {
        let all = self.nodes.len();
        let longest = self.lost().filter_map(&lost_for).max().map(for_secs).unwrap_or_default();
        if self.is_silent() {
            return Some(format!(
                "none of the cluster's {all} nodes is reachable{longest} ({}): list operations are refused until one \
                 is; {}",
                self.why(),
                self.named(self.lost())
            ));
        }
        let lost = all - self.reached();
        let nodes = (lost > 0).then(|| {
            format!("{lost} of the cluster's {all} nodes are unreachable{longest}: {}", self.named(self.lost()))
        });
        let actors = (self.deaf > 0).then(|| {
            format!(
                "{} of {} list actors cannot reach any node of the cluster ({}): their operations are refused until \
                 they can",
                self.deaf,
                self.sessions,
                self.why()
            )
        });
        let both: Vec<String> = [actors, nodes].into_iter().flatten().collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// A few nodes, with marks on nodes that are connected but silent, and the number of other nodes.
    pub fn named(&self, addresses: impl Iterator<Item = SocketAddr>) -> String {
        let mark = |address: SocketAddr| match self.nodes.get(&address) {
            Some(Contact::Silent) => format!("{address} (connected, does not respond)"),
            Some(Contact::Gone) => format!("{address} (not connected)"),
            _ => address.to_string(),
        };
        let nodes: Vec<String> = addresses.map(mark).collect();
        let more = nodes.len().saturating_sub(NAMED_MAX);
        let shown = nodes[..nodes.len() - more].join(", ");
        if more == 0 { shown } else { format!("{shown} and {more} more") }
    }
}

fn for_secs(time: Duration) -> String {
    format!(" for {} s", time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::Contact::{Answers, Gone, Silent};
    use super::*;

    fn node(n: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, n], 9042))
    }

    fn view(sessions: &[[Contact; 3]]) -> View {
        let mut view = View::default();
        for contacts in sessions {
            let nodes = contacts.iter().zip(1..).map(|(contact, n)| (node(n), *contact)).collect();
            view.add(nodes, 2, || Some("connection refused".to_owned()));
        }
        view
    }

    fn warning(sessions: &[[Contact; 3]]) -> Option<String> {
        view(sessions).warning(|address| (address == node(3)).then_some(Duration::from_millis(95_400)))
    }

    #[test]
    fn a_node_that_one_session_reaches_is_reached() {
        let both = view(&[[Answers, Gone, Silent], [Answers, Answers, Gone]]);
        assert_eq!((both.reached(), both.sessions, both.deaf, both.connections), (2, 2, 0, 4));
        assert_eq!(both.nodes[&node(3)], Silent, "the best counts");
        assert_eq!(warning(&[[Answers; 3]]), None);
        assert_eq!(warning(&[]), None);
    }

    #[test]
    fn the_view_names_nodes_times_and_reasons() {
        let reported = warning(&[[Answers, Silent, Gone]]).unwrap();
        let expected = "2 of the cluster's 3 nodes are unreachable for 95 s: 10.0.0.2:9042 (connected, does not respond), \
                        10.0.0.3:9042 (not connected)";
        assert_eq!(reported, expected);
        let deaf = warning(&[[Answers; 3], [Gone; 3]]).unwrap();
        assert!(deaf.contains("1 of 2 list actors") && deaf.contains("connection refused"), "{deaf}");
        let both = warning(&[[Answers, Answers, Gone], [Gone; 3]]).unwrap();
        assert!(both.contains("1 of 2 list actors") && both.contains("1 of the cluster's 3 nodes"), "{both}");
    }

    #[test]
    fn without_any_node_the_view_has_the_reason() {
        let reported = warning(&[[Gone; 3], [Gone, Gone, Silent]]).unwrap();
        assert!(
            reported.starts_with("none of the cluster's 3 nodes is reachable for 95 s (connection refused)"),
            "{reported}"
        );
        assert!(reported.contains("10.0.0.3:9042 (connected, does not respond)"), "{reported}");
    }

    #[test]
    fn many_nodes_are_summarized() {
        let view = View::default();
        assert_eq!(view.named((1..=2).map(node)), "10.0.0.1:9042, 10.0.0.2:9042");
        assert!(view.named((1..=30).map(node)).ends_with("10.0.0.4:9042 and 26 more"));
    }
}
