//! Detects threads that no longer run their tasks, such as a list actor's thread that waits for a lock or a disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Each thread reports this often that it runs its tasks.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A thread hangs if it has not reported for this long. No operation holds up its thread for as long.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// When a thread last ran its tasks.
struct Beat(Mutex<Instant>);

/// The threads of the data plane. Cheap to clone.
#[derive(Clone, Default)]
pub struct Pulse(Arc<Mutex<Vec<Weak<Beat>>>>);

impl Pulse {
    fn beats(&self) -> MutexGuard<'_, Vec<Weak<Beat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports for as long as the thread runs it. Must be spawned on the watched thread, which is
    /// forgotten when the task is dropped.
    pub fn beat(&self) -> impl Future<Output = ()> + Send + use<> {
        let beat = Arc::new(Beat(Mutex::new(Instant::now())));
        let mut beats = self.beats();
        beats.retain(|beat| beat.strong_count() > 0);
        beats.push(Arc::downgrade(&beat));
        async move {
            loop {
                *beat.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                sleep(BEAT_INTERVAL).await;
            }
        }
    }

    /// How many threads hang, and for how long the first of them has, if any does.
    pub fn hanging(&self, now: Instant) -> Option<(usize, Duration)> {
        let last = |beat: &Beat| *beat.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present: Vec<_> = self.beats().iter().filter_map(Weak::upgrade).collect();
        let silent = present.iter().map(|beat| now.saturating_duration_since(last(beat)));
        let hanging: Vec<_> = silent.filter(|silent| *silent > HANGS_AFTER).collect();
        Some((hanging.len(), hanging.into_iter().max()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_does_not_report_hangs_until_its_task_is_gone() {
        let pulse = Pulse::default();
        let later = |secs| Instant::now() + Duration::from_secs(secs);
        assert_eq!(pulse.hanging(later(60)), None, "there is no thread");
        let stuck = pulse.beat();
        let running = tokio::spawn(pulse.beat());
        assert_eq!(pulse.hanging(Instant::now()), None);
        let (threads, silent) = pulse.hanging(later(60)).unwrap();
        assert!(threads == 2 && silent >= Duration::from_secs(60), "{threads} {silent:?}");
        drop(stuck);
        assert_eq!(pulse.hanging(later(60)).unwrap().0, 1);
        running.abort();
        assert!(running.await.is_err());
        assert_eq!(pulse.hanging(later(60)), None);
    }
}
