//! The servers' counters of their work: they show whether a run exercised the parts that it must test.

use std::collections::BTreeMap;
use std::fmt;

use hyper::Method;

use crate::http::{Connection, Endpoint};

pub const DROPPED: &str = "expired items dropped by compactions";

/// The watched counters, and their meaning.
const WATCHED: [(&str, &str); 5] = [
    ("liststore_flushes_total", "flushes"),
    ("liststore_compactions_total", "compactions"),
    ("liststore_expired_items_dropped_total", DROPPED),
    ("liststore_head_hits_total", "reads of heads"),
    ("liststore_head_misses_total", "reads behind heads"),
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    /// The counters of a server so far; `None` if it does not answer.
    pub async fn of(connection: &mut Connection, address: &str) -> Option<Self> {
        let endpoint = Endpoint { address: address.to_owned(), incarnation: 0 };
        let answer = connection.exchange(&endpoint, Method::GET, "/metrics", None).await.ok()?;
        answer.status.is_success().then(|| Self::parse(&String::from_utf8_lossy(&answer.body)))
    }

    fn parse(text: &str) -> Self {
        let samples = text.lines().filter_map(|line| line.split_once(' '));
        let watched = samples.filter_map(|(name, value)| {
            let (_, what) = WATCHED.iter().find(|(watched, _)| *watched == name)?;
            Some((*what, value.parse().ok()?))
        });
        Self(watched.collect())
    }

    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// The watched events that never happened, except optional ones.
    pub fn missing(&self, needless: &[&str]) -> Option<&'static str> {
        let mut watched = WATCHED.iter().map(|(_, what)| *what).filter(|what| !needless.contains(what));
        watched.find(|what| self.0.get(what).is_none_or(|count| *count == 0))
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.0.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>();
        parts.sort_unstable();
        write!(f, "{}", parts.join(", "))
    }
}
