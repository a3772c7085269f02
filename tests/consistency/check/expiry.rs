//! When an item can, and when it must, be hidden by its expiry.
//!
//! An item is visible if and only if now < timestamp + the version's present TTL, and now is before its stored expiry.
//! The checker has neither the server's exact now nor the order of two overlapping changes of a TTL, so it considers
//! all possibilities.

use std::collections::HashMap;

use crate::history::{History, Moment, NANOS_PER_SEC, Outcome, Request, VersionName};

/// The visibility of an item for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// If it exists, the call sees it.
    Visible,
    Unsure,
    /// Even if it exists, the call must not see it.
    Hidden,
}

struct TtlWrite {
    from: Moment,
    latest: Moment,
    /// Its answer confirms that it happened.
    certain: bool,
    secs: u64,
}

/// The TTLs that each version ever had.
pub struct Expiry<'a> {
    history: &'a History,
    writes: HashMap<VersionName, Vec<TtlWrite>>,
}

impl<'a> Expiry<'a> {
    pub fn of(history: &'a History) -> Self {
        let mut writes: HashMap<VersionName, Vec<TtlWrite>> = HashMap::new();
        for (version, secs) in &history.versions {
            let first = TtlWrite { from: 0, latest: 0, certain: true, secs: *secs };
            writes.entry(version.clone()).or_default().push(first);
        }
        for call in &history.calls {
            let (version, secs) = match &call.request {
                Request::ChangeTtl { version, ttl_secs } | Request::CreateVersion { version, ttl_secs } => {
                    (version.clone(), *ttl_secs)
                }
                Request::CreateFeature { feature, ttl_secs } => {
                    (VersionName { feature: feature.clone(), label: String::new() }, *ttl_secs)
                }
                _ => continue,
            };
            let certain = call.outcome == Outcome::Done;
            if certain || call.unknown() {
                let write = TtlWrite { from: call.from, latest: history.latest(call), certain, secs };
                writes.entry(version).or_default().push(write);
            }
        }
        Self { history, writes }
    }

    pub fn history(&self) -> &'a History {
        self.history
    }

    /// The least and the greatest TTL, in seconds, that a version can have had at some instant of
    /// a span. A version that never was has none.
    fn ttl(&self, version: &VersionName, from: Moment, to: Moment) -> Option<(u64, u64)> {
        let writes = self.writes.get(version)?;
        if let [only] = writes.as_slice() {
            return Some((only.secs, only.secs));
        }
        let replaced = |write: &TtlWrite| {
            writes.iter().any(|other| other.certain && other.from > write.latest && other.latest < from)
        };
        let possible = || writes.iter().filter(|write| write.from <= to && !replaced(write)).map(|write| write.secs);
        Some((possible().min()?, possible().max()?))
    }

    /// When an item with this timestamp can expire by the TTL of its version during a span: at the
    /// earliest and at the latest, in nanoseconds since the Unix epoch.
    pub fn expiry(&self, version: &VersionName, timestamp: u64, from: Moment, to: Moment) -> (u64, u64) {
        let Some((least, most)) = self.ttl(version, from, to) else { return (0, u64::MAX) };
        let after = |secs: u64| timestamp.saturating_add(secs.saturating_mul(NANOS_PER_SEC));
        (after(least), after(most))
    }

    /// The visibility, for a call, of an item whose stored expiry is between two moments.
    pub fn sight(&self, version: &VersionName, timestamp: u64, stored: (u64, u64), from: Moment, to: Moment) -> Sight {
        let present = self.expiry(version, timestamp, from, to);
        let (now_least, now_most) = self.history.wall(from, to);
        if now_most < present.0.min(stored.0) {
            Sight::Visible
        } else if now_least >= present.1.min(stored.1) {
            Sight::Hidden
        } else {
            Sight::Unsure
        }
    }
}
