//! Erasure: the bytes of removed items leave all files of the store, at once or until a date.
//!
//! A promised date covers all items that were removed before. One run keeps the promises of half the interval, so that
//! a store is rewritten at most twice in it. The manifest contains the earliest date, and a restarted store continues
//! with it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use liststore_contract::domain::Timestamp;
use liststore_storage::StoreError;

use super::engine::Engine;
use super::error::WriteError;
use super::health::{Subsystem, unavailable};
use super::promises::Promise;

/// The interval between attempts of a failed run.
const RETRY: Duration = Duration::from_secs(60);
/// The longest interval between checks of the thread.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Promises a date from which no file holds the bytes of items that were removed before the call. Blocks on the disk.
pub fn promise(engine: &Engine) -> Result<Timestamp, StoreError> {
    let within = engine.options.erase_within;
    let by = Timestamp::saturating_from_nanos(u128::from(engine.clock.now().as_nanos()) + within.as_nanos());
    let mut promised = engine.erasures.promised();
    if promised.waiting.is_none() {
        if !promised.is_running {
            note(engine, Some(by.as_nanos()))?;
        }
        promised.waiting = Some(Promise { by: by.as_nanos(), begin_at: Instant::now() + within / 2 });
        drop(promised);
        engine.erasures.is_news.store(true, Ordering::Release);
        engine.bell.ring();
    }
    Ok(by)
}

/// Stores the earliest promised date.
fn note(engine: &Engine, by: Option<u64>) -> Result<(), StoreError> {
    engine.tables.install_erasure(by).map_err(|error| {
        let (WriteError::NotWritten(source) | WriteError::Unknown(source)) = &error;
        let reason = format!("cannot write the manifest: {source}");
        if matches!(error, WriteError::Unknown(_)) {
            engine.note(Subsystem::Compaction, Err(error));
        }
        unavailable(&reason)
    })
}

/// The work of the erasing thread until the store stops.
pub fn run(engine: &Arc<Engine>) {
    while !engine.bell.is_stopping() {
        let begin_at = engine.erasures.begin_at();
        let left =
            begin_at.map_or(CHECK_INTERVAL, |at| at.saturating_duration_since(Instant::now()).min(CHECK_INTERVAL));
        engine.bell.wait_until(Some(left), || engine.erasures.is_news.swap(false, Ordering::AcqRel));
        let due = {
            let mut promised = engine.erasures.promised();
            let due = promised.waiting.take_if(|promise| promise.begin_at <= Instant::now());
            promised.is_running = due.is_some();
            due
        };
        if let Some(due) = due.filter(|_| !engine.bell.is_stopping()) {
            keep(engine, due);
        }
    }
}

/// Keeps promises, or schedules another attempt.
fn keep(engine: &Engine, due: Promise) {
    let erased = erase(engine);
    let mut promised = engine.erasures.promised();
    promised.is_running = false;
    let erased = erased.and_then(|()| note(engine, promised.waiting.map(|promise| promise.by)));
    match erased {
        Ok(()) => tracing::info!("erased the bytes of removed items from all files"),
        Err(_) if engine.bell.is_stopping() => promised.waiting = Some(due),
        Err(error) => {
            let is_late = engine.clock.now().as_nanos() > due.by;
            tracing::warn!(%error, is_late, "cannot erase the bytes of removed items yet");
            promised.waiting = Some(Promise { begin_at: Instant::now() + RETRY, ..due });
        }
    }
}

/// Removes all bytes of items that were removed before the call from all files. It compacts data files, and uses up log
/// segments without reusing them. Blocks.
pub fn erase(engine: &Engine) -> Result<(), StoreError> {
    let _one_at_a_time = engine.erasures.run.lock().unwrap_or_else(PoisonError::into_inner);
    let last = engine.progress.written().segment;
    engine.progress.keep_none_to_be_used_again(&*engine.disk);
    let _as_before = scopeguard::guard((), |()| engine.progress.keep_some_to_be_used_again());
    engine.queue.want_fresh_log();
    wait_for(engine, || {
        let view = engine.tables.view();
        view.frozen.is_none() && view.active.start.segment > last
    })?;
    compact(engine)?;
    // A flush frees its part of the log after its files are installed.
    wait_for(engine, || engine.progress.first_in_use() > last || engine.progress.is_pinned())?;
    if engine.progress.first_in_use() > last {
        return Ok(());
    }
    let reason = "a backup is in progress and needs the current log".to_owned();
    Err(StoreError::Unavailable { reason, outcome_unknown: false })
}

/// Compacts all data files, and returns once that is done. Blocks.
pub fn compact(engine: &Engine) -> Result<(), StoreError> {
    engine.compact_all.store(true, Ordering::Release);
    engine.bell.ring();
    wait_for(engine, || !engine.compact_all.load(Ordering::Acquire))?;
    let failed = || StoreError::Unavailable { reason: "cannot compact data files".into(), outcome_unknown: false };
    if engine.compacted_all.load(Ordering::Acquire) { Ok(()) } else { Err(failed()) }
}

/// Waits for a state that the background threads produce, unless they cannot.
pub fn wait_for(engine: &Engine, done: impl Fn() -> bool) -> Result<(), StoreError> {
    engine.bell.wait_until(None, || done() || engine.health.refuses_flush().is_some());
    match engine.health.refuses_flush() {
        _ if done() => Ok(()),
        Some(reason) => Err(unavailable(&reason)),
        None => Err(StoreError::Unavailable { reason: "the item store is closed".into(), outcome_unknown: false }),
    }
}
