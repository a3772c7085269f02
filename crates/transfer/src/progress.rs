//! How far a run has come, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

/// The number of entities is unknown, so there is no estimate of the end.
const TEMPLATE: &str = "{spinner}  {msg}";

pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
    items: u64,
}

impl Progress {
    pub fn start() -> Self {
        // Standard error; hidden where that is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now(), items: 0 }
    }

    /// Notes items that are through.
    pub fn add(&mut self, what: &str, items: u64) {
        self.items += items;
        let per_second = self.items as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!("{what}: {} items, {per_second:.0} items/s", self.items));
        self.bar.tick();
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
