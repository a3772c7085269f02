//! The sender: from groups to adds, a few in flight, until all rows are added or one cannot be.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use liststore_contract::operations::add_items;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::buffer::Buffer;
use super::compare::Comparison;
use super::groups::{Group, GroupItem};
use super::progress::{INTERVAL, Progress};
use super::shape::SentItem;
use super::target::Target;
use crate::client::{ClientError, Failure};
use crate::wire::{ErrorCode, ProblemBody};

/// How long adds in flight are waited for once the import has failed or is interrupted.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long rows of a pipe wait for others of the same list.
const AGE_MAX: Duration = Duration::from_secs(1);

/// How groups are sent.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Adds that may be in flight.
    pub concurrency: usize,
    /// Whether rows come gradually, as from a pipe, so that groups are sent by age.
    pub is_live: bool,
}

/// Sends all groups, and ends when the reader has: with the first failure of either, or at a
/// signal. At the first signal, the rows that were read from a pipe are still sent, because a pipe cannot be read
/// again. Adds in flight are awaited for a moment, so that the counts are right.
pub async fn send_all(
    target: &Target,
    comparison: &Comparison,
    buffer: &Buffer,
    mut reading: oneshot::Receiver<Result<(), Failure>>,
    Pace { concurrency, is_live }: Pace,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut in_flight = FuturesUnordered::new();
    let mut tick = tokio::time::interval(INTERVAL);
    let mut is_interrupted = false;
    let sent = loop {
        tokio::select! {
            () = signals.next() => {
                if is_interrupted || !is_live {
                    break Err(interrupted(false));
                }
                is_interrupted = true;
                target.tally.stop.set();
            }
            Some(sent) = in_flight.next() => if let Err(failure) = sent { break Err(failure) },
            group = buffer.next(), if in_flight.len() < concurrency => match group {
                Some(group) => in_flight.push(target.add(group, comparison)),
                None => break Ok(()),
            },
            now = tick.tick() => {
                progress.update();
                if is_interrupted && target.tally.stop.is_opening() {
                    buffer.close();
                    buffer.end();
                }
                if let Some(than) = now.checked_sub(AGE_MAX).filter(|_| is_live) {
                    buffer.release_older(than);
                }
            }
        }
    };
    buffer.close();
    let done = match sent {
        // The reader may wait for a writer of its source without end.
        Ok(()) if is_interrupted => reading.try_recv().unwrap_or(Ok(())),
        Ok(()) => reading.await.unwrap_or_else(|_| Err(Failure::failed("the reading thread has failed"))),
        failed => failed,
    };
    let mut done = done;
    while done.is_ok() {
        tokio::select! {
            () = signals.next() => return Err(interrupted(false)),
            sent = in_flight.next() => match sent {
                Some(sent) => done = sent,
                None if is_interrupted => return Err(interrupted(true)),
                None => return Ok(()),
            },
            _ = tick.tick() => progress.update(),
        }
    }
    // The failure is already reported; the rest is only counted.
    let rest = async { while in_flight.next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, rest).await;
    done
}

/// SIGINT (Ctrl-C) and SIGTERM.
struct Signals(Signal, Signal);

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let failed = |e: std::io::Error| Failure::failed(format!("cannot listen for signals: {e}"));
        let listen = |kind| signal(kind).map_err(failed);
        Ok(Self(listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

fn interrupted(all_are_sent: bool) -> Failure {
    Failure::failed(if all_are_sent {
        "interrupted; all rows that were read are sent"
    } else {
        "interrupted; added items stay, and running the same import again is safe"
    })
}

impl Target {
    /// Adds a group, in parts where the server wants them smaller, and without its bad rows.
    async fn add(&self, group: Group, comparison: &Comparison) -> Result<(), Failure> {
        // A group that is sent in parts is compared in parts, which the bound counts once.
        let mut is_compared = comparison.begin(&group);
        let mut parts = vec![group];
        while let Some(group) = parts.pop() {
            if group.len() == 0 {
                continue;
            }
            let already_there = if is_compared { comparison.count(self, &group).await? } else { None };
            is_compared = already_there.is_some();
            let problem = match self.client.ask(&self.request(&add_items::ROW, &group).json(group.body())).await {
                Ok(added) => {
                    self.tally.count_added(added, already_there);
                    continue;
                }
                Err(ClientError::Problem(problem)) => problem,
                Err(error) => return Err(error.into()),
            };
            let details = &problem.details;
            let too_large = details.code == ErrorCode::PayloadTooLarge.name();
            match (bad_item(details, &group), too_large) {
                (Some(bad), _) => parts.push(self.without_bad_items(&group, bad, details)?),
                (None, true) if group.len() > 1 => {
                    let half = group.len() / 2;
                    parts.extend(<[Group; 2]>::from(group.partition(|index| index < half)));
                }
                (None, true) => self.reject_all(&group, &details.detail)?,
                (None, false) => return Err(ClientError::Problem(problem).into()),
            }
        }
        Ok(())
    }

    /// The server names the first bad item only. The server's own rules find the others at once, rather than by a
    /// request each.
    fn without_bad_items(&self, group: &Group, bad: usize, problem: &ProblemBody) -> Result<Group, Failure> {
        let mut reasons: Vec<Option<String>> =
            group.items().map(|item| self.shape.check_strictly(item.json).err()).collect();
        reasons[bad] = Some(problem.detail.clone());
        if problem.code == ErrorCode::TimestampTooFarAhead.name() {
            // The server's clock decides, so a later item is too far ahead as well.
            let timestamps: Vec<Option<u64>> = group.items().map(|item| timestamp_of(item.json)).collect();
            for (reason, timestamp) in reasons.iter_mut().zip(&timestamps) {
                if *timestamp >= timestamps[bad] {
                    reason.get_or_insert_with(|| problem.detail.clone());
                }
            }
        }
        for (item, reason) in group.items().zip(&reasons) {
            if let Some(reason) = reason {
                self.reject(item, reason)?;
            }
        }
        Ok(group.partition(|index| reasons[index].is_none()).0)
    }

    fn reject_all(&self, group: &Group, reason: &str) -> Result<(), Failure> {
        group.items().try_for_each(|item| self.reject(item, reason))
    }

    fn reject(&self, item: GroupItem<'_>, reason: &str) -> Result<(), Failure> {
        let source = self.sources.get(item.origin.source as usize).map_or("", |source| &source.name);
        self.tally.reject(source, item.origin.line, reason, item.raw)
    }
}

fn timestamp_of(item: &[u8]) -> Option<u64> {
    serde_json::from_slice(item).ok().map(|item: SentItem<'_>| item.timestamp)
}

/// The item that a problem blames: 3 for `items[3].timestamp`.
fn bad_item(problem: &ProblemBody, group: &Group) -> Option<usize> {
    let field = problem.field.as_deref()?.strip_prefix("items[")?;
    let index: usize = field.split_once(']')?.0.parse().ok()?;
    ((400..500).contains(&problem.status) && index < group.len()).then_some(index)
}
