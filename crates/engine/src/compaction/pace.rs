//! Limits the rate of background writers, so that the log's syncs stay short.

use std::time::{Duration, Instant};

use prometheus::IntCounter;

use super::give_way::GiveWay;
use crate::bell::Bell;
use crate::engine::Engine;
use crate::files::Pace;

/// How far ahead of its rate a writer may be.
const BURST: Duration = Duration::from_millis(20);

/// Limits the rate of bytes, and may yield to other threads, unless there is a hurry.
pub struct RateLimit<'a, H: Fn() -> bool> {
    bell: &'a Bell,
    bytes_per_sec: u64,
    /// Whether a thread that waits for the writer must not wait longer.
    hurry: H,
    /// When all bytes so far would have been written at the rate.
    due: Instant,
    /// `None` for a writer that waits for the disk and hardly uses the processor.
    give_way: Option<GiveWay>,
}

impl<'a, H: Fn() -> bool> RateLimit<'a, H> {
    pub fn new(engine: &'a Engine, hurry: H) -> Self {
        let bytes_per_sec = engine.options.background_bytes_per_sec.max(1);
        Self { bell: &engine.bell, bytes_per_sec, hurry, due: Instant::now(), give_way: None }
    }

    /// Yields, and counts how often.
    pub fn giving_way(self, gave_way: &IntCounter) -> Self {
        Self { give_way: Some(GiveWay::new(gave_way.clone())), ..self }
    }
}

impl<H: Fn() -> bool> Pace for RateLimit<'_, H> {
    fn wrote(&mut self, bytes: usize) {
        let now = Instant::now();
        let cost = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / self.bytes_per_sec);
        self.due = self.due.max(now) + cost;
        let ahead = self.due.saturating_duration_since(now);
        if ahead > BURST {
            self.bell.wait_until(Some(ahead - BURST), || (self.hurry)());
        }
    }

    fn worked(&mut self) {
        self.give_way.iter_mut().for_each(|give_way| give_way.worked(&self.hurry));
    }
}
