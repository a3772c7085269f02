//! The lines of the log about reached and lost nodes: one for each change of state, for all sessions and nodes
//! together. A state machine without clock or tasks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::view::View;

/// A shorter outage is not logged: a connection that broke is replaced within it.
const NEWS_AFTER: Duration = Duration::from_secs(1);

/// The state that the log last reported.
#[derive(Debug, Default)]
pub struct Reported {
    /// The nodes that are not reached.
    lost: BTreeMap<SocketAddr, State>,
    /// That no node at all is reached, and how many operations had been refused when that began.
    silence: Option<(State, u64)>,
    /// That some list actors reach no node, and others do.
    deafness: Option<State>,
}

/// A state that lasts.
#[derive(Debug, Clone, Copy)]
struct State {
    since: Instant,
    reported: bool,
}

impl State {
    fn begun(now: Instant) -> Self {
        Self { since: now, reported: false }
    }

    /// Whether the change must be logged now. It is logged once.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = !self.reported && now.saturating_duration_since(self.since) >= NEWS_AFTER;
        self.reported |= due;
        due
    }
}

/// A change of state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Nodes are not reached, and others are.
    Lost {
        nodes: Vec<SocketAddr>,
    },
    /// No node is reached.
    Silence,
    /// Reported nodes are reached again, or are no longer of the cluster.
    Regained {
        nodes: Vec<SocketAddr>,
        after: Duration,
    },
    /// Some node is reached after none was.
    SilenceEnds {
        after: Duration,
        refused: u64,
    },
    /// Some list actors reach no node, and others do.
    Deafness,
    DeafnessEnds {
        after: Duration,
    },
}

impl Reported {
    /// Takes the present view and the count of refused operations. Returns the news to log.
    pub fn take_in(&mut self, view: &View, refusals: u64, now: Instant) -> Vec<News> {
        let mut news = Vec::new();
        if view.sessions == 0 {
            return news;
        }
        if view.is_silent() {
            let (silence, _) = self.silence.get_or_insert((State::begun(now), refusals));
            news.extend(silence.is_due(now).then_some(News::Silence));
        } else if let Some((silence, before)) = self.silence.take().filter(|(silence, _)| silence.reported) {
            let after = now.saturating_duration_since(silence.since);
            news.push(News::SilenceEnds { after, refused: refusals.saturating_sub(before) });
        }
        if view.deaf > 0 && !view.is_silent() {
            let due = self.deafness.get_or_insert(State::begun(now)).is_due(now);
            news.extend(due.then_some(News::Deafness));
        } else if let Some(deafness) = self.deafness.take().filter(|deafness| deafness.reported && view.deaf == 0) {
            news.push(News::DeafnessEnds { after: now.saturating_duration_since(deafness.since) });
        }
        let lost: Vec<SocketAddr> = view.lost().collect();
        let regained = self.lost.extract_if(.., |address, _| !lost.contains(address));
        let regained: Vec<_> = regained.filter(|(_, state)| state.reported).collect();
        if let Some(since) = regained.iter().map(|(_, state)| state.since).min() {
            let nodes = regained.into_iter().map(|(address, _)| address).collect();
            news.push(News::Regained { nodes, after: now.saturating_duration_since(since) });
        }
        for address in lost {
            self.lost.entry(address).or_insert(State::begun(now));
        }
        let nodes: Vec<_> = self.lost.iter_mut().filter_map(|(at, state)| state.is_due(now).then_some(*at)).collect();
        // Where there is none at all, that line names them.
        if !nodes.is_empty() && !view.is_silent() {
            news.push(News::Lost { nodes });
        }
        news
    }

    /// For how long a node has not been reached.
    pub fn lost_for(&self, node: SocketAddr, now: Instant) -> Option<Duration> {
        self.lost.get(&node).map(|state| now.saturating_duration_since(state.since))
    }
}

impl News {
    pub fn log(&self, view: &View) {
        let (reached, of) = (view.reached(), view.nodes.len());
        match self {
            Self::Lost { nodes } => tracing::warn!(
                lost = nodes.len(),
                nodes = view.named(nodes.iter().copied()),
                reached,
                of,
                "nodes of the cluster are unreachable: list operations continue on the other nodes if their \
                 consistency level allows; check these nodes and their network"
            ),
            Self::Silence => tracing::error!(
                of,
                nodes = view.named(view.lost()),
                why = view.why(),
                "no node of the cluster is reachable: list operations are refused; retrying"
            ),
            Self::Regained { nodes, after } => tracing::info!(
                regained = nodes.len(),
                nodes = view.named(nodes.iter().copied()),
                reached,
                of,
                after_secs = after.as_secs(),
                "nodes of the cluster are reachable again, or have left it"
            ),
            Self::SilenceEnds { after, refused } => tracing::info!(
                reached,
                of,
                after_secs = after.as_secs(),
                refused,
                "the cluster is reachable again: list operations continue"
            ),
            Self::Deafness => tracing::warn!(
                actors = view.deaf,
                of = view.sessions,
                why = view.why(),
                "some list actors cannot reach any node of the cluster: operations on their lists are refused"
            ),
            Self::DeafnessEnds { after } => {
                tracing::info!(after_secs = after.as_secs(), "all list actors can reach the cluster again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::cql::health::view::Contact;

    fn node(n: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, n], 9042))
    }

    fn view(reached: [bool; 3]) -> View {
        let contact = |reached| if reached { Contact::Answers } else { Contact::Gone };
        let nodes = reached.iter().zip(1..).map(|(reached, n)| (node(n), contact(*reached))).collect();
        let mut view = View::default();
        view.add(nodes, 0, || None);
        view
    }

    #[test]
    fn each_change_is_logged_once_with_counts() {
        let (mut reported, start) = (Reported::default(), Instant::now());
        let mut at = |secs: u64, reached: [bool; 3], refusals: u64| {
            reported.take_in(&view(reached), refusals, start + Duration::from_secs(secs))
        };
        let secs = Duration::from_secs;
        assert_eq!(at(0, [true; 3], 0), []);
        assert_eq!(at(1, [true, false, false], 0), [], "it may be back in a moment");
        assert_eq!(at(2, [true, false, false], 0), [News::Lost { nodes: vec![node(2), node(3)] }]);
        assert_eq!(at(3, [true, false, false], 0), []);
        assert_eq!(at(4, [false; 3], 7), []);
        assert_eq!(at(5, [false; 3], 20), [News::Silence], "and nothing of the last node in addition");
        assert_eq!(at(60, [false; 3], 1_000), []);
        let all = vec![node(1), node(2), node(3)];
        let back =
            [News::SilenceEnds { after: secs(60), refused: 1_000 }, News::Regained { nodes: all, after: secs(63) }];
        assert_eq!(at(64, [true; 3], 1_007), back);
        assert_eq!(at(70, [true, false, true], 0), []);
        assert_eq!(at(70, [true; 3], 0), [], "it was gone for less than a second");
    }

    #[test]
    fn actors_without_a_node_while_others_reach_one_are_logged() {
        let (mut reported, start) = (Reported::default(), Instant::now());
        let mut at = |secs: u64, deaf: [bool; 2]| {
            let mut view = View::default();
            for deaf in deaf {
                let contact = if deaf { Contact::Gone } else { Contact::Answers };
                view.add(vec![(node(1), contact)], 0, || None);
            }
            reported.take_in(&view, 0, start + Duration::from_secs(secs))
        };
        assert_eq!(at(0, [true, false]), []);
        assert_eq!(at(1, [true, false]), [News::Deafness]);
        assert_eq!(at(2, [true, false]), []);
        assert_eq!(at(3, [false, false]), [News::DeafnessEnds { after: Duration::from_secs(3) }]);
        assert_eq!(at(4, [true, true]), []);
        assert!(at(5, [true, true]).contains(&News::Silence), "then it is all of them");
    }

    #[test]
    fn a_node_that_stays_lost_after_a_complete_outage_is_remembered() {
        let (mut reported, start) = (Reported::default(), Instant::now());
        let mut at =
            |secs: u64, reached: [bool; 3]| reported.take_in(&view(reached), 0, start + Duration::from_secs(secs));
        at(0, [false; 3]);
        assert_eq!(at(1, [false; 3]), [News::Silence]);
        let back = at(9, [true, true, false]);
        assert!(
            matches!(&back[..], [News::SilenceEnds { .. }, News::Regained { nodes, .. }] if nodes.len() == 2),
            "{back:?}"
        );
        assert_eq!(reported.lost_for(node(3), start + Duration::from_secs(12)), Some(Duration::from_secs(12)));
        assert_eq!(reported.lost_for(node(1), start), None);
    }
}
