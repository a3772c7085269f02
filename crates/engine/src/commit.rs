//! Group commit. One thread combines the queued writes into one frame of the log, and makes it as durable as the store
//! promises. Then it shows the writes to readers, and finally acknowledges them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore_storage::StoreError;

use super::engine::Engine;
use super::error::WriteError;
use super::health::{Subsystem, unavailable};
use super::log::change::{Changes, ListChange};
use super::log::frame::{FrameBuffer, Kind};
use super::log::queue::{self, GROUP_WRITES, Placed, Taken, Write, closed};
use super::log::writer::LogWriter;
use super::memory::memtable::Memtable;
use super::options::Fsync;
/// A frame with this many bytes takes no more writes.
const GROUP_BYTES: usize = 1 << 20;
/// The interval of the thread's checks without writes, until nothing is left to do.
const TICK: Duration = Duration::from_millis(50);
/// The interval between attempts to write a failed log.
const RETRY: Duration = Duration::from_millis(500);
/// The largest number of log segments that a memtable may span before it is frozen. It bounds the log.
pub const SEGMENTS_MAX: u32 = 4;

/// The thread that writes the log.
pub struct Committer {
    engine: Arc<Engine>,
    log: LogWriter,
    frame: FrameBuffer,
    sync_each_group: bool,
    /// Whether the last frame of the log states that everything before it is durable.
    sealed: bool,
    linger: bool,
    /// When the next attempt to write a failed log happens.
    retry_at: Option<Instant>,
}

impl Committer {
    pub fn new(engine: Arc<Engine>, log: LogWriter) -> Self {
        let sync_each_group = engine.options.fsync == Fsync::Group;
        Self {
            engine,
            log,
            frame: FrameBuffer::default(),
            sync_each_group,
            sealed: true,
            linger: false,
            retry_at: None,
        }
    }

    /// Commits until the queue is closed and empty, and then makes everything durable.
    pub fn run(mut self) {
        let _guard = Unattended(self.engine.clone());
        (self.engine.options.on_log_thread)();
        self.freeze_if_full();
        loop {
            let freeze_is_wanted =
                self.engine.queue.freeze_is_wanted() || self.engine.is_worth_a_flush(&self.engine.tables.view());
            let something_left = !self.sealed || self.retry_at.is_some() || freeze_is_wanted;
            match self.engine.queue.take(something_left.then_some(TICK), self.linger) {
                Taken::Closed => break,
                Taken::Nothing => self.tick(),
                Taken::Writes(writes) => self.commit_all(writes),
            }
        }
        if !self.engine.health.has_failed() {
            self.seal();
            self.sync();
        }
    }

    fn commit_all(&mut self, mut writes: VecDeque<Write>) {
        self.linger = !self.sync_each_group && writes.len() > 1;
        while !writes.is_empty() {
            let mut bytes = 0;
            let fits = |write: &&Write| {
                bytes += write.bytes();
                bytes <= GROUP_BYTES
            };
            let count = writes.iter().take(GROUP_WRITES).take_while(fits).count().max(1);
            self.commit(writes.drain(..count).collect());
        }
    }

    fn commit(&mut self, mut group: Vec<Write>) {
        self.engine.check_room_if_due(group.iter().map(Write::bytes).sum());
        if let Err(error) = self.wait_for_room() {
            return reply_all(group, &error);
        }
        if let Some(error) = self.engine.health.refuses_adds() {
            reply_all(group.extract_if(.., |write| write.is_add()), &error);
        }
        let now = Instant::now();
        for late in group.extract_if(.., |write| write.deadline <= now) {
            late.reply.answer(Err(StoreError::Timeout { outcome_unknown: false }));
        }
        let writes = group.iter().filter(|write| write.placed.is_some()).count();
        if writes > 0 {
            if let Err(error) = self.write(&group) {
                return reply_all(group, &error);
            }
            self.engine.metrics.commit_groups.inc();
            self.engine.metrics.commit_group_size.observe(writes as f64);
            let active = self.engine.tables.view().active.clone();
            for Placed { share, changes, .. } in group.iter().filter_map(|write| write.placed.as_ref()) {
                self.show(&active, changes);
                if *share == queue::QueueShare::Removals {
                    let noted = |one: &ListChange| self.engine.note_removal(&active, &one.list, &one.change);
                    changes.as_slice().iter().for_each(noted);
                }
            }
        }
        for write in group {
            write.reply.answer(Ok(()));
        }
        self.freeze_if_full();
    }

    /// Shows a write to readers.
    fn show(&self, active: &Memtable, changes: &Changes) {
        let apply = |ListChange { list, change, oldest }: &ListChange| active.apply(list, change, *oldest);
        match changes.as_slice() {
            [one] => self.engine.heads.change(&one.list, &one.change, || apply(one)),
            several => self.engine.heads.change_together(several, || several.iter().for_each(apply)),
        }
    }

    /// Writes a group to the log, as durably as the store promises.
    fn write(&mut self, group: &[Write]) -> Result<(), StoreError> {
        if let Some(reason) = self.engine.health.refuses_all()
            && self.retry_at.is_some_and(|retry_at| Instant::now() < retry_at)
        {
            return Err(unavailable(&reason));
        }
        self.frame.clear();
        // This one frame contains all changes of a write.
        for Placed { changes, .. } in group.iter().filter_map(|write| write.placed.as_ref()) {
            changes.as_slice().iter().for_each(|one| self.frame.push(&one.list, &one.change));
        }
        self.sealed = false;
        let appended = self.log.append(&mut self.frame);
        self.note(appended)?;
        if self.log.request_next_segment() {
            self.engine.bell.ring();
        }
        if self.sync_each_group && !self.sync() {
            let reason = self.engine.health.refuses_all().unwrap_or_default();
            return Err(StoreError::Unavailable { reason: format!("read-only: {reason}"), outcome_unknown: true });
        }
        Ok(())
    }

    /// Records the health of the log.
    fn note(&mut self, appended: Result<(), WriteError>) -> Result<(), StoreError> {
        let noted = self.judge(appended);
        if noted.is_err() {
            self.engine.bell.ring();
        }
        noted
    }

    fn judge(&mut self, appended: Result<(), WriteError>) -> Result<(), StoreError> {
        match appended {
            Ok(()) => {
                if self.retry_at.take().is_some() {
                    self.engine.health.clear(Subsystem::Log);
                }
                Ok(())
            }
            Err(WriteError::NotWritten(error)) => {
                let reason = cannot_write(&error);
                self.engine.health.block(Subsystem::Log, reason.clone());
                self.retry_at = Some(Instant::now() + RETRY);
                Err(unavailable(&reason))
            }
            Err(WriteError::Unknown(error)) => {
                let reason = format!("{}; restart the server", cannot_write(&error));
                self.engine.health.fail(reason.clone());
                Err(StoreError::Unavailable { reason: format!("read-only: {reason}"), outcome_unknown: true })
            }
        }
    }

    fn sync(&self) -> bool {
        self.engine.sync_log()
    }

    /// Writes to the log that everything before is durable, so that damage to it is never mistaken for a torn tail.
    fn seal(&mut self) {
        if self.sealed || !self.log.has_room_for_seal() {
            self.sealed = true;
            return;
        }
        if !self.engine.progress.is_durable() {
            return;
        }
        let sealed = self.log.append(&mut FrameBuffer::of(Kind::Seal));
        if self.note(sealed).is_ok() {
            self.sealed = true;
            if self.sync_each_group {
                self.sync();
            }
        }
    }

    /// The work of the thread without writes.
    fn tick(&mut self) {
        self.freeze_if_full();
        if self.engine.health.has_failed() {
            (self.sealed, self.retry_at) = (true, None);
        } else if let Some(retry_at) = self.retry_at {
            if Instant::now() >= retry_at {
                let tried = self.log.append(&mut FrameBuffer::of(Kind::Seal));
                if self.note(tried).is_ok() && self.sync_each_group {
                    self.sync();
                }
            }
        } else {
            self.seal();
        }
    }

    /// Freezes the memtable if it is large, spans much of the log, or a caller asks for it.
    fn freeze_if_full(&mut self) {
        let engine = self.engine.clone();
        let fresh_log = engine.queue.fresh_log_is_wanted();
        let view = engine.tables.view();
        let much_log = self.log.position().segment - view.active.start.segment >= SEGMENTS_MAX;
        let wanted = engine.queue.freeze_is_wanted() || engine.is_worth_a_flush(&view);
        if !(wanted || much_log || view.active.bytes() >= engine.options.pending_bytes()) {
            return;
        }
        if view.active.is_empty() && view.frozen.is_none() && !fresh_log {
            engine.queue.freeze_granted(fresh_log);
        } else if view.frozen.is_none() {
            if fresh_log {
                let begun = self.log.begin_next();
                if self.note(begun).is_err() {
                    return;
                }
            }
            engine.queue.freeze_granted(fresh_log);
            engine.tables.freeze(self.log.position());
            engine.bell.ring();
        }
    }

    /// Waits while the memtables are too large, because the flusher lags. Without space for files, removals alone may
    /// exceed the limit a little, because they free space.
    fn wait_for_room(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        let pending = || engine.tables.view().active.bytes() / engine.options.pending_bytes();
        loop {
            if let Some(error) = engine.health.failure() {
                return Err(error);
            }
            if pending() >= 2 {
                // Only this thread freezes, and only a frozen memtable can be flushed.
                self.freeze_if_full();
            }
            match engine.health.refuses_adds() {
                None if pending() < 2 => return Ok(()),
                Some(_) if pending() < 3 => return Ok(()),
                Some(error) => return Err(error),
                None => {}
            }
            if engine.queue.is_closed() {
                return Err(closed());
            }
            let changed = || engine.tables.view().frozen.is_none() || engine.health.read_only().is_some();
            engine.bell.wait_until(Some(TICK), changed);
        }
    }
}

fn cannot_write(error: &io::Error) -> String {
    format!("cannot write the log: {error}")
}

fn reply_all(group: impl IntoIterator<Item = Write>, error: &StoreError) {
    for write in group {
        write.reply.answer(Err(error.clone()));
    }
}

/// Leaves the store in order if the log's thread panics.
struct Unattended(Arc<Engine>);

impl Drop for Unattended {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.health.fail("the log thread panicked; restart the server".into());
        }
        self.0.queue.abandon();
    }
}
