//! The progress bar, on a terminal only.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::tally::{RowCounts, Tally};

pub const INTERVAL: Duration = Duration::from_millis(200);
const OF_BYTES: &str = "{bar:30} {percent:>3}%  {msg}  {eta} left";
const OPEN_END: &str = "{spinner}  {msg}";

pub struct Progress {
    bar: ProgressBar,
    tally: Arc<Tally>,
    started: Instant,
}

impl Progress {
    /// Without a total number of bytes, as for standard input, there is no estimate of the end.
    pub fn start(bytes_total: Option<u64>, tally: Arc<Tally>) -> Self {
        // Standard error; hidden where that is not a terminal.
        let bar = ProgressBar::with_draw_target(bytes_total, ProgressDrawTarget::stderr());
        let template = if bytes_total.is_some() { OF_BYTES } else { OPEN_END };
        // A template that does not parse would be drawn in the default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, tally, started: Instant::now() }
    }

    pub fn update(&self) {
        let RowCounts { rows, added, .. } = self.tally.counts();
        let rows_per_second = rows as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!("{rows} rows, {rows_per_second:.0} rows/s, {added} items added"));
        self.bar.set_position(self.tally.bytes());
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
