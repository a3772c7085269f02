//! Wakes the loop with a fine grain.
//!
//! A poll's own timeout counts in milliseconds: requests of an open-loop run would leave in bursts,
//! up to a millisecond late, and the lateness would be measured as the server's.

use std::io;
use std::time::Duration;

use mio::{Registry, Token};

/// A wait is at least so long: a finer beat would cost more CPU than it is worth.
const WAIT_MIN: Duration = Duration::from_micros(100);

#[cfg(target_os = "linux")]
pub struct Pacer {
    timer: std::os::fd::OwnedFd,
    /// The moment, since the start, for which the timer is set.
    set_for: Duration,
}

#[cfg(target_os = "linux")]
impl Pacer {
    /// A timer whose events come with this token.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        use std::os::fd::AsRawFd;

        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        registry.register(&mut mio::unix::SourceFd(&timer.as_raw_fd()), token, mio::Interest::READABLE)?;
        Ok(Self { timer, set_for: Duration::ZERO })
    }

    /// Sees to it that the poll wakes at `at`, or a little later. Moments only ever grow: one for
    /// which the timer is set already is not set again.
    pub fn wake_at(&mut self, at: Duration, now: Duration) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        if self.set_for > now && self.set_for <= at.max(now + WAIT_MIN) {
            return Ok(());
        }
        let wait = at.saturating_sub(now).max(WAIT_MIN);
        self.set_for = now + wait;
        let value =
            Timespec { tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: wait.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // Setting the timer also forgets that it has run out before (timerfd_create(2)).
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
pub struct Pacer;

/// Elsewhere requests of an open loop leave up to a poll's millisecond late.
#[cfg(not(target_os = "linux"))]
impl Pacer {
    pub fn new(_registry: &Registry, _token: Token) -> io::Result<Self> {
        Ok(Self)
    }

    pub fn wake_at(&mut self, _at: Duration, _now: Duration) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_pacer_wakes_when_due_and_never_earlier() {
        let mut poll = mio::Poll::new().unwrap();
        let mut pacer = Pacer::new(poll.registry(), Token(7)).unwrap();
        let mut events = mio::Events::with_capacity(8);
        let start = Instant::now();
        for micros in [1, 300, 5_000] {
            let now = start.elapsed();
            let at = now + Duration::from_micros(micros);
            pacer.wake_at(at, now).unwrap();
            // The second call finds it set.
            pacer.wake_at(at, start.elapsed()).unwrap();
            poll.poll(&mut events, None).unwrap();
            assert!(events.iter().all(|event| event.token() == Token(7)));
            assert!(start.elapsed() >= at);
        }
    }
}
