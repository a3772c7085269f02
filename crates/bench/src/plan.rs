//! The common parameters of all threads of a run.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::checks::Expectations;
use super::choice::Popularity;
use super::data::DataSet;
use super::operation::{Kind, Mix};
use super::protocol::Protocol;

#[derive(Debug)]
pub struct Plan {
    pub protocol: Protocol,
    pub addresses: Vec<SocketAddr>,
    pub mode: Mode,
    pub popularity: Popularity,
    pub data: DataSet,
    pub batch: u64,
    pub lists_per_get: u64,
    pub expectations: Expectations,
    /// One in this many answers is checked; 0 for none.
    pub check_every: u64,
    pub connections: usize,
    pub threads: usize,
    pub warmup: Duration,
    pub duration: Duration,
    pub timeout: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone)]
pub enum Mode {
    /// Each connection sends its next request when it has the answer to the last.
    Closed(Mix),
    /// Requests a second, of each kind.
    Open(Vec<(Kind, f64)>),
}

/// The common beginning, as an instant and as nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    pub instant: Instant,
    pub unix_nanos: u64,
}

impl Plan {
    /// When the run ends, since its start.
    pub fn end(&self) -> Duration {
        self.warmup + self.duration
    }

    /// The connections of one thread.
    pub fn share(&self, thread: usize) -> usize {
        self.connections / self.threads + usize::from(thread < self.connections % self.threads)
    }
}

impl Mode {
    pub fn removes(&self) -> bool {
        match self {
            Self::Closed(mix) => mix.share(Kind::Remove) > 0.0,
            Self::Open(rates) => rates.iter().any(|(kind, _)| *kind == Kind::Remove),
        }
    }
}
