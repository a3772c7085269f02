//! What the sessions of a store see of the cluster: for health, for metrics, and for one line in the log
//! when it changes, however many sessions and nodes have part in it.
//!
//! A node is reached if at least one session has a connection to it and it answers there. It must never
//! ask the cluster anything by itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often the view is looked at for the log.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// What lasts shorter than this is no news: a connection that broke is replaced within it.
const NEWS_AFTER: Duration = Duration::from_secs(1);
/// As many nodes are named in a line.
const NAMED_MAX: usize = 4;

/// What a session tells of itself.
pub trait Seen: Send + Sync {
    /// Each node of our datacenter, and whether it is connected and answers.
    fn nodes(&self) -> Vec<(SocketAddr, bool)>;
    fn connections(&self) -> u64;
    /// Why no node can be connected to, if that was found out.
    fn why_none(&self) -> Option<String>;
}

/// The sessions that are open.
#[derive(Default)]
pub struct Watch {
    sessions: Mutex<Vec<Weak<dyn Seen>>>,
    /// What is wrong with the index of values, if something is.
    index: Mutex<Option<String>>,
    refused: AtomicU64,
    told: Mutex<Told>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// All sessions' views together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub sessions: usize,
    /// Of these, how many reach no node at all.
    pub deaf: usize,
    pub connections: u64,
    /// Nodes of our datacenter, and whether some session reaches them.
    pub nodes: BTreeMap<SocketAddr, bool>,
    pub why: Option<String>,
}

/// What the log has said last.
#[derive(Debug, Default)]
struct Told {
    looked_at: Option<Instant>,
    /// Nodes that are not reached: since when, and whether that was said.
    lost: BTreeMap<SocketAddr, (Instant, bool)>,
    /// Since when no node at all is reached, and how many operations had been refused by then.
    silence: Option<(Instant, u64, bool)>,
}

impl View {
    fn lost(&self) -> impl Iterator<Item = SocketAddr> {
        self.nodes.iter().filter(|(_, reached)| !**reached).map(|(address, _)| *address)
    }

    pub fn reached(&self) -> usize {
        self.nodes.values().filter(|reached| **reached).count()
    }

    /// What an operator should look after, in one sentence.
    pub fn warning(&self) -> Option<String> {
        let (all, reached) = (self.nodes.len(), self.reached());
        if self.sessions == 0 {
            return None;
        }
        if self.deaf == self.sessions {
            let why = self.why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
            return Some(format!(
                "none of the cluster's {all} nodes is reached{why}: list operations are refused until one is; {}",
                named(self.nodes.keys().copied())
            ));
        }
        if self.deaf > 0 {
            return Some(format!(
                "{} of {} list actors reach no node of the cluster: their operations are refused until they do",
                self.deaf, self.sessions
            ));
        }
        (reached < all)
            .then(|| format!("{} of the cluster's {all} nodes are not reached: {}", all - reached, named(self.lost())))
    }
}

impl Watch {
    fn sessions(&self) -> MutexGuard<'_, Vec<Weak<dyn Seen>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a session from now on, until it is dropped.
    pub fn opened(&self, session: Weak<dyn Seen>) {
        self.sessions().push(session);
    }

    pub fn view(&self) -> View {
        let open: Vec<Arc<dyn Seen>> = {
            let mut sessions = self.sessions();
            sessions.retain(|session| session.strong_count() > 0);
            sessions.iter().filter_map(Weak::upgrade).collect()
        };
        let mut view = View { sessions: open.len(), ..View::default() };
        for session in open {
            let nodes = session.nodes();
            if !nodes.iter().any(|(_, reached)| *reached) {
                view.deaf += 1;
                view.why = view.why.or_else(|| session.why_none());
            }
            view.connections += session.connections();
            for (address, reached) in nodes {
                *view.nodes.entry(address).or_insert(false) |= reached;
            }
        }
        view
    }

    /// Counts an operation that was not even tried, since no node was reached.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Notes what is wrong with the index of values, or that nothing is. It is said once.
    pub fn index_is(&self, trouble: Option<String>) {
        let mut known = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != trouble {
            match &trouble {
                Some(trouble) => tracing::warn!(trouble, "items cannot be removed by value"),
                None => tracing::info!("items can be removed by value again"),
            }
            *known = trouble;
        }
    }

    pub fn index_trouble(&self) -> Option<String> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what has changed, if it is time for a look. Every session calls this now and then.
    pub fn look(&self, now: Instant) {
        let Ok(mut told) = self.told.try_lock() else { return };
        if told.looked_at.is_some_and(|at| now.saturating_duration_since(at) < LOOK_INTERVAL) {
            return;
        }
        told.looked_at = Some(now);
        for news in told.take_in(&self.view(), self.refusals(), now) {
            news.log();
        }
    }
}

/// A change of state.
#[derive(Debug, Clone, PartialEq, Eq)]
enum News {
    Lost { nodes: Vec<SocketAddr>, reached: usize, of: usize, why: Option<String> },
    Regained { nodes: Vec<SocketAddr>, reached: usize, of: usize, after: Duration },
    Silence { of: usize, why: Option<String> },
    SilenceEnds { after: Duration, refused: u64 },
}

impl Told {
    fn take_in(&mut self, view: &View, refusals: u64, now: Instant) -> Vec<News> {
        let mut news = Vec::new();
        if view.sessions == 0 {
            return news;
        }
        let (reached, of) = (view.reached(), view.nodes.len());
        let regained: Vec<_> = self.lost.extract_if(.., |address, _| view.nodes.get(address) != Some(&false)).collect();
        let since = regained.iter().filter(|(_, (_, told))| *told).map(|(_, (since, _))| *since).min();
        let nodes: Vec<_> = regained.iter().filter(|(_, (_, told))| *told).map(|(address, _)| *address).collect();
        if let Some(since) = since {
            news.push(News::Regained { nodes, reached, of, after: now.saturating_duration_since(since) });
        }
        for address in view.lost() {
            self.lost.entry(address).or_insert((now, false));
        }
        let mut fresh = Vec::new();
        for (address, (since, told)) in &mut self.lost {
            if !*told && now.saturating_duration_since(*since) >= NEWS_AFTER {
                *told = true;
                fresh.push(*address);
            }
        }
        let silent = view.deaf == view.sessions;
        match &mut self.silence {
            None if silent => self.silence = Some((now, refusals, false)),
            Some((since, _, told)) if silent && !*told && now.saturating_duration_since(*since) >= NEWS_AFTER => {
                *told = true;
                news.push(News::Silence { of, why: view.why.clone() });
            }
            Some((since, before, told)) if !silent => {
                if *told {
                    let after = now.saturating_duration_since(*since);
                    news.push(News::SilenceEnds { after, refused: refusals.saturating_sub(*before) });
                }
                self.silence = None;
            }
            _ => {}
        }
        if !fresh.is_empty() {
            news.push(News::Lost { nodes: fresh, reached, of, why: view.why.clone() });
        }
        news
    }
}

impl News {
    fn log(&self) {
        match self {
            Self::Lost { nodes, reached, of, why } => {
                let why = why.as_deref().unwrap_or("they are tried again by themselves");
                tracing::warn!(
                    lost = nodes.len(),
                    nodes = named(nodes.iter().copied()),
                    reached,
                    of,
                    why,
                    "nodes of the cluster are not reached"
                );
            }
            Self::Regained { nodes, reached, of, after } => {
                let after_secs = after.as_secs();
                tracing::info!(
                    regained = nodes.len(),
                    nodes = named(nodes.iter().copied()),
                    reached,
                    of,
                    after_secs,
                    "nodes of the cluster are reached again"
                );
            }
            Self::Silence { of, why } => {
                let why = why.as_deref().unwrap_or("they do not answer");
                tracing::error!(of, why, "no node of the cluster is reached: list operations are refused until one is");
            }
            Self::SilenceEnds { after, refused } => {
                let after_secs = after.as_secs();
                tracing::info!(after_secs, refused, "the cluster is reached again");
            }
        }
    }
}

/// A few addresses, and how many more there are.
fn named(addresses: impl Iterator<Item = SocketAddr>) -> String {
    let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    let more = addresses.len().saturating_sub(NAMED_MAX);
    let shown = addresses[..addresses.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Mutex<Vec<(SocketAddr, bool)>>);

    impl Seen for Fixed {
        fn nodes(&self) -> Vec<(SocketAddr, bool)> {
            self.0.lock().unwrap().clone()
        }
        fn connections(&self) -> u64 {
            self.nodes().iter().filter(|(_, reached)| *reached).count() as u64
        }
        fn why_none(&self) -> Option<String> {
            Some("connection refused".to_owned())
        }
    }

    fn node(n: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, n], 9042))
    }

    fn session(reached: [bool; 3]) -> Arc<Fixed> {
        Arc::new(Fixed(Mutex::new(reached.iter().zip(1..).map(|(reached, n)| (node(n), *reached)).collect())))
    }

    fn watch(sessions: &[Arc<Fixed>]) -> Watch {
        let watch = Watch::default();
        for session in sessions {
            let session: Arc<dyn Seen> = session.clone();
            watch.opened(Arc::downgrade(&session));
        }
        watch
    }

    #[test]
    fn what_is_missing_is_warned_of_at_once() {
        let sessions = [session([true; 3]), session([true; 3])];
        let watch = watch(&sessions);
        assert_eq!(watch.view().warning(), None);
        *sessions[0].0.lock().unwrap() = session([true, true, false]).nodes();
        assert_eq!(watch.view().warning(), None, "the other session reaches it");
        *sessions[1].0.lock().unwrap() = session([true, true, false]).nodes();
        let one = watch.view().warning().unwrap();
        assert!(one.contains("1 of the cluster's 3 nodes") && one.contains("10.0.0.3:9042"), "{one}");
        *sessions[0].0.lock().unwrap() = session([false; 3]).nodes();
        assert!(watch.view().warning().unwrap().contains("1 of 2 list actors"));
        *sessions[1].0.lock().unwrap() = session([false; 3]).nodes();
        let none = watch.view().warning().unwrap();
        assert!(none.contains("none of the cluster's 3 nodes") && none.contains("connection refused"), "{none}");
        assert_eq!(watch.view().connections, 0);
        drop(sessions);
        assert_eq!(watch.view(), View::default());
    }

    #[test]
    fn each_change_is_said_once_with_its_counts() {
        let sessions = [session([true; 3])];
        let (watch, mut told, start) = (watch(&sessions), Told::default(), Instant::now());
        let mut at = |secs: u64, reached: [bool; 3], refusals: u64| {
            *sessions[0].0.lock().unwrap() = session(reached).nodes();
            told.take_in(&watch.view(), refusals, start + Duration::from_secs(secs))
        };
        assert_eq!(at(0, [true; 3], 0), []);
        assert_eq!(at(1, [true, false, false], 0), [], "it may be back in a moment");
        let lost = at(2, [true, false, false], 0);
        assert!(matches!(&lost[..], [News::Lost { nodes, reached: 1, of: 3, .. }] if nodes.len() == 2), "{lost:?}");
        assert_eq!(at(3, [true, false, false], 0), []);
        at(4, [false; 3], 7);
        let silence = at(5, [false; 3], 20);
        assert!(matches!(&silence[..], [News::Silence { of: 3, .. }, News::Lost { reached: 0, .. }]), "{silence:?}");
        assert_eq!(at(60, [false; 3], 1_000), []);
        let back = at(64, [true; 3], 1_007);
        assert!(
            matches!(&back[..], [News::Regained { nodes, reached: 3, .. }, News::SilenceEnds { refused: 1_000, .. }] if nodes.len() == 3),
            "{back:?}"
        );
        assert_eq!(at(70, [true, false, true], 0), []);
        assert_eq!(at(70, [true; 3], 0), [], "it was gone for less than a second");
    }

    #[test]
    fn many_nodes_are_named_in_short() {
        assert_eq!(named((1..=2).map(node)), "10.0.0.1:9042, 10.0.0.2:9042");
        assert!(named((1..=30).map(node)).ends_with("10.0.0.4:9042 and 26 more"));
    }
}
