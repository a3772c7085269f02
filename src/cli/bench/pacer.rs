//! Sleeps with a fine grain.
//!
//! tokio's timers count in milliseconds: requests of an open-loop run would leave in bursts, up to
//! a millisecond late, and the lateness would be measured as the server's.

use std::io;
use std::time::Duration;

/// A sleep is at least so long: a finer beat would cost more CPU than it is worth.
const SLEEP_MIN: Duration = Duration::from_micros(100);
/// And at most, so that whoever sleeps sees a request to stop.
const SLEEP_MAX: Duration = Duration::from_millis(50);

#[cfg(target_os = "linux")]
pub struct Pacer {
    timer: tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Pacer {
    /// Needs a tokio runtime with I/O.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, since not every type keeps its descriptor open; an OwnedFd does \
                  (https://github.com/tokio-rs/tokio/pull/8587)"
    )]
    pub fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self { timer: tokio::io::unix::AsyncFd::with_interest(timer, tokio::io::Interest::READABLE)? })
    }

    /// Sleeps for `wanted`, within the bounds above.
    pub async fn sleep(&self, wanted: Duration) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let wanted = wanted.clamp(SLEEP_MIN, SLEEP_MAX);
        let value = Timespec { tv_sec: 0, tv_nsec: wanted.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // Setting the timer also forgets that it has run out before (timerfd_create(2)).
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        self.timer.readable().await?.clear_ready();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
pub struct Pacer;

#[cfg(not(target_os = "linux"))]
impl Pacer {
    pub fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Sleeps for `wanted`, within the bounds above; up to a millisecond longer.
    pub async fn sleep(&self, wanted: Duration) -> io::Result<()> {
        tokio::time::sleep(wanted.clamp(SLEEP_MIN, SLEEP_MAX)).await;
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn sleeps_are_never_short_and_can_be_repeated() {
        let pacer = Pacer::new().unwrap();
        for micros in [1, 300, 5_000] {
            let began = Instant::now();
            pacer.sleep(Duration::from_micros(micros)).await.unwrap();
            assert!(began.elapsed() >= Duration::from_micros(micros));
        }
        let began = Instant::now();
        pacer.sleep(Duration::from_secs(3_600)).await.unwrap();
        assert!(began.elapsed() >= SLEEP_MAX);
    }
}
