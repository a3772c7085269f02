//! Adds items to many lists. Each list is all or nothing. Adds to one list run one after another, in the order of their
//! requests. Adds to different lists run concurrently, a bounded number of them.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::Instant;

use super::super::members::encode;
use super::super::requests::AddItems;
use super::super::{Caller, Service, ServiceError};
use super::{BatchPace, SetAside, in_time};
use crate::access::Permission;
use crate::actors::{AddOutcome, ListPool};
use crate::definition::VersionProperties;
use crate::domain::{ListKey, Timestamp, Value};
use crate::metadata::catalog::CatalogVersion;

/// Lists of one call that are written concurrently. Enough that most share a write of the log or, in a cluster, keep
/// its nodes busy. Few enough that one call does not use up the permits of an actor.
const WRITES_AT_ONCE: usize = 64;

type AddAnswer = Result<AddOutcome, ServiceError>;

/// The adds to one list, in the order of the requests.
struct Chain {
    list: ListKey,
    properties: VersionProperties,
    /// With the positions of their requests.
    adds: Vec<(usize, Vec<(Timestamp, Value)>)>,
}

impl Service {
    pub(crate) async fn batch_add(
        &self,
        caller: &Caller,
        requests: Vec<Result<AddItems<'_>, ServiceError>>,
    ) -> Result<Vec<AddAnswer>, ServiceError> {
        let (requests, refused) = SetAside::sort_out(requests);
        caller.take_items(requests.iter().map(|request| request.items.len()).sum())?;
        let deadline = self.deadline(caller);
        let lists = requests.iter().map(|request| &request.list);
        let versions = self.versions(caller, Permission::ListsWrite, lists, deadline).await;
        let mut answers: Vec<Option<AddAnswer>> = Vec::with_capacity(requests.len());
        let (mut chains, mut places) = (Vec::<Chain>::new(), HashMap::new());
        let mut turn = BatchPace::default();
        for (index, AddItems { list, items }) in requests.iter().enumerate() {
            turn.count(items.iter().map(|item| item.value.len()).sum()).await;
            let encoded = versions.of(index).clone().and_then(|found| Ok((encode(&found, items)?, found)));
            let (items, CatalogVersion { feature_key, properties, .. }) = match encoded {
                Ok(encoded) => encoded,
                Err(refused) => {
                    answers.push(Some(Err(refused)));
                    continue;
                }
            };
            answers.push(None);
            let list = ListKey::new(feature_key, list.entity_id.clone());
            let place = *places.entry(list.clone()).or_insert(chains.len());
            if place == chains.len() {
                chains.push(Chain { list, properties, adds: Vec::with_capacity(1) });
            }
            chains[place].adds.push((index, items));
        }
        let lists = self.lists_of(caller);
        let adding = chains.into_iter().map(|chain| add_in_turn(&lists, chain, deadline));
        let mut adding = stream::iter(adding).buffer_unordered(WRITES_AT_ONCE);
        while let Some(made) = adding.next().await {
            made.into_iter().for_each(|(index, answer)| answers[index] = Some(answer));
        }
        let lost = || Err(ServiceError::DeadlineExceeded { outcome_unknown: true });
        let answers = answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect();
        Ok(refused.put_back(answers))
    }
}

async fn add_in_turn(lists: &ListPool, chain: Chain, deadline: Instant) -> Vec<(usize, AddAnswer)> {
    let Chain { list, properties, adds } = chain;
    let (retention, timestamp_ahead_max) = (properties.retention(), properties.timestamp_ahead_max);
    let mut answers = Vec::with_capacity(adds.len());
    for (index, items) in adds {
        let answer = match in_time(deadline) {
            Ok(()) => {
                let added = lists.add(list.clone(), retention, timestamp_ahead_max, items, deadline).await;
                added.map_err(ServiceError::from)
            }
            Err(late) => Err(late),
        };
        answers.push((index, answer));
    }
    answers
}
