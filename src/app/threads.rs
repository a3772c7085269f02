//! The limit of threads: a start needs all of its threads, and names the limit if it does not get them.

use std::fs;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::process::{Resource, getrlimit};

use super::StartError;
use crate::config::Settings;

/// Threads other than workers, list actors and readers: of the main thread's runtime, the stores and background work.
const OTHERS: usize = 24;
const STACK_BYTES: usize = 64 << 10;

/// Starts and ends as many threads as a server needs. A thread that cannot be started later would end in a panic.
pub(super) fn require(settings: &Settings) -> Result<(), StartError> {
    let needed = settings.http.workers.saturating_add(settings.items.actors).saturating_add(OTHERS);
    let spawn = |work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name("probe".into()).stack_size(STACK_BYTES).spawn(work)
    };
    let (started, problem) = start(needed, spawn);
    problem.map_or(Ok(()), |source| Err(StartError::Threads { needed, started, limits: limits().join(", "), source }))
}

/// Starts threads until one cannot be started, and ends them. Returns their number, and why there are no more.
fn start(
    needed: usize,
    spawn: impl Fn(Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>,
) -> (usize, Option<io::Error>) {
    // All of them wait for a message that never comes: the end of the sender ends them.
    let (sender, receiver) = std::sync::mpsc::sync_channel::<()>(0);
    let receiver = Arc::new(std::sync::Mutex::new(receiver));
    let mut threads = Vec::new();
    let mut problem = None;
    for _ in 0..needed {
        let receiver = Arc::clone(&receiver);
        let wait = move || {
            let _ended = receiver.lock().map(|receiver| receiver.recv());
        };
        match spawn(Box::new(wait)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                problem = Some(error);
                break;
            }
        }
    }
    let started = threads.len();
    drop(sender);
    for thread in threads {
        let _ended = thread.join();
    }
    (started, problem)
}

/// The limits that apply, as far as the system shows them.
fn limits() -> Vec<String> {
    let mut limits = Vec::new();
    for path in ["/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"] {
        if let Ok(text) = fs::read_to_string(path) {
            limits.push(format!("pids.max of the control group is {}", text.trim()));
        }
    }
    if let Some(limit) = getrlimit(Resource::Nproc).current {
        limits.push(format!("`ulimit -u` is {limit}"));
    }
    if let Ok(text) = fs::read_to_string("/proc/sys/kernel/threads-max") {
        limits.push(format!("kernel.threads-max is {}", text.trim()));
    }
    limits
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_thread_limit_is_detected_before_threads_are_missing() {
        let left = Cell::new(5);
        let limited = |work: Box<dyn FnOnce() + Send>| {
            if left.get() == 0 {
                return Err(io::Error::from(io::ErrorKind::WouldBlock));
            }
            left.set(left.get() - 1);
            Ok(std::thread::spawn(work))
        };
        let (started, problem) = start(9, limited);
        assert_eq!((started, problem.unwrap().kind()), (5, io::ErrorKind::WouldBlock));
        left.set(5);
        assert!(matches!(start(5, limited), (5, None)));
    }
}
