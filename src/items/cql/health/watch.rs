//! The sessions of a store, looked at together: for health, for metrics, and for the log.
//!
//! A node is reached if at least one session has a connection to it and it answers there. Looking must
//! never ask the cluster anything.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::news::Reported;
use super::view::{Contact, View};

/// How often the view is looked at for the log.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The report of a session.
pub trait Seen: Send + Sync {
    /// Each node of our datacenter.
    fn nodes(&self) -> Vec<(SocketAddr, Contact)>;
    fn connections(&self) -> u64;
    /// Why no node is reached, if that was found out.
    fn outage_reason(&self) -> Option<String>;
}

/// The sessions that are open.
#[derive(Default)]
pub struct Watch {
    sessions: Mutex<Vec<Weak<dyn Seen>>>,
    /// The defect of the index of values, if it has one.
    index: Mutex<Option<String>>,
    refused: AtomicU64,
    log: Mutex<Log>,
}

/// The state that the log reported, and the time of the last check.
#[derive(Debug, Default)]
struct Log {
    checked_at: Option<Instant>,
    reported: Reported,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
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
        let mut view = View::default();
        for session in open {
            view.add(session.nodes(), session.connections(), || session.outage_reason());
        }
        view
    }

    /// What an operator should look after.
    pub fn warning(&self) -> Option<String> {
        let (view, now) = (self.view(), Instant::now());
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = view.warning(|node| log.reported.lost_for(node, now));
        let warnings: Vec<String> = [nodes, self.index_defect()].into_iter().flatten().collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }

    /// Counts an operation that was not even tried, since no node was reached.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Notes the defect of the index of values, or that it has none. A change is logged once.
    pub fn index_is(&self, defect: Option<String>) {
        let mut known = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != defect {
            match &defect {
                Some(defect) => tracing::warn!(defect, "items cannot be removed by value"),
                None => tracing::info!("items can be removed by value again: the value index is correct"),
            }
            *known = defect;
        }
    }

    pub fn index_defect(&self) -> Option<String> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Logs changes, if a check is due. Every session calls this regularly.
    pub fn log_changes(&self, now: Instant) {
        let Ok(mut log) = self.log.try_lock() else { return };
        if log.checked_at.is_some_and(|at| now.saturating_duration_since(at) < CHECK_INTERVAL) {
            return;
        }
        log.checked_at = Some(now);
        let view = self.view();
        for news in log.reported.take_in(&view, self.refusals(), now) {
            news.log(&view);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Contact);

    impl Seen for Fixed {
        fn nodes(&self) -> Vec<(SocketAddr, Contact)> {
            vec![(SocketAddr::from(([10, 0, 0, 1], 9042)), self.0)]
        }
        fn connections(&self) -> u64 {
            1
        }
        fn outage_reason(&self) -> Option<String> {
            Some("connection refused".to_owned())
        }
    }

    #[test]
    fn sessions_are_watched_while_they_are_open() {
        let (watch, one, other) = (Watch::default(), Arc::new(Fixed(Contact::Gone)), Arc::new(Fixed(Contact::Answers)));
        for session in [&one, &other] {
            let session: Arc<dyn Seen> = session.clone();
            watch.opened(Arc::downgrade(&session));
        }
        assert_eq!((watch.view().sessions, watch.view().connections, watch.view().deaf), (2, 2, 1));
        drop(other);
        assert!(watch.warning().unwrap().contains("none of the cluster's 1 nodes"));
        watch.index_is(Some("the index is gone".to_owned()));
        assert!(watch.warning().unwrap().ends_with("; the index is gone"));
        watch.index_is(None);
        drop(one);
        assert_eq!(watch.view(), View::default());
        assert_eq!(watch.warning(), None);
    }
}
