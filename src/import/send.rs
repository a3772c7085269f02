//! The sender: from groups to adds, a few in flight, until all rows are added or one cannot be.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use super::groups::{Group, GroupItem};
use super::progress::{INTERVAL, Progress};
use super::shape::{SentItem, Shape};
use super::source::Source;
use super::tally::Tally;
use crate::client::Failure;
use crate::client::{Client, ClientError, Request};
use crate::domain::{FeatureId, VersionLabel};
use crate::service::OperationId;
use crate::wire::{ErrorCode, ProblemBody};

/// How long adds in flight are waited for once the import has failed or is interrupted.
const FAREWELL: Duration = Duration::from_secs(5);

/// Where items go, and what is known of the rows that they come from.
pub struct Target {
    pub client: Client,
    pub feature: FeatureId,
    pub version: VersionLabel,
    pub shape: Shape,
    pub sources: Vec<Source>,
    pub tally: Arc<Tally>,
}

/// Sends all groups, and ends when the reader has: with the first failure of either, or at a
/// signal. What is in flight then is waited for a moment, so that the counts are right.
pub async fn send_all(
    target: &Target,
    mut groups: mpsc::Receiver<Group>,
    reading: oneshot::Receiver<Result<(), Failure>>,
    concurrency: usize,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut in_flight = FuturesUnordered::new();
    let mut tick = tokio::time::interval(INTERVAL);
    let mut interrupted = std::pin::pin!(interrupted());
    let sent = loop {
        tokio::select! {
            failure = &mut interrupted => break Err(failure),
            Some(sent) = in_flight.next() => if let Err(failure) = sent { break Err(failure) },
            group = groups.recv(), if in_flight.len() < concurrency => match group {
                Some(group) => in_flight.push(target.add(group)),
                None => break Ok(()),
            },
            _ = tick.tick() => progress.update(),
        }
    };
    // The reader hears that nobody takes its groups any more.
    drop(groups);
    let done = match sent {
        Ok(()) => reading.await.unwrap_or_else(|_| Err(Failure::failed("the reading thread has failed"))),
        failed => failed,
    };
    if done.is_err() {
        // The failure is told already; the rest is only counted.
        let rest = async { while in_flight.next().await.is_some() {} };
        let _ = tokio::time::timeout(FAREWELL, rest).await;
        return done;
    }
    loop {
        tokio::select! {
            failure = &mut interrupted => return Err(failure),
            sent = in_flight.next() => match sent {
                Some(sent) => sent?,
                None => return Ok(()),
            },
            _ = tick.tick() => progress.update(),
        }
    }
}

/// A SIGINT (Ctrl-C) or SIGTERM.
async fn interrupted() -> Failure {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |e: std::io::Error| Failure::failed(format!("cannot listen for signals: {e}"));
    let mut signals = match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
        (Err(e), _) | (_, Err(e)) => return failed(e),
    };
    tokio::select! {
        _ = signals.0.recv() => {}
        _ = signals.1.recv() => {}
    }
    Failure::failed("interrupted; added items stay, and running the same import again is safe")
}

impl Target {
    /// Adds a group, in parts where the server wants them smaller, and without its bad rows.
    async fn add(&self, group: Group) -> Result<(), Failure> {
        let mut parts = vec![group];
        while let Some(group) = parts.pop() {
            if group.len() == 0 {
                continue;
            }
            let problem = match self.client.ask(&self.request(&group)).await {
                Ok(added) => {
                    self.tally.count_added(added);
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

    fn request(&self, group: &Group) -> Request {
        Request::of_list(OperationId::AddItems, &self.feature, &group.entity_id, &self.version).json(group.body())
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
