//! Aggregates of lists among the reads of a call: each list with a separate result, together within the bytes of one
//! answer.

use std::cell::Cell;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::Instant;

use super::super::aggregate::SharedPlans;
use super::super::page_cache::RenderedPage;
use super::super::requests::AggregateList;
use super::super::{Caller, Service, ServiceError};
use super::get::{AnswerRoom, PageAnswer};
use super::in_time;
use crate::access::{ANSWER_BYTES_MIN, Permission, SMALL_BYTES};
use crate::wire::Problem;

/// Lists of one call that are aggregated at once.
const LISTS_AT_ONCE: usize = 8;

/// Any budget has room for their reservation.
const _: () = assert!(LISTS_AT_ONCE * SMALL_BYTES <= ANSWER_BYTES_MIN);

impl Service {
    /// Aggregates lists. The results are in the order of the requests.
    pub(super) async fn aggregate_lists(
        &self,
        caller: &Caller,
        requests: &[AggregateList<'_>],
        room: &Cell<AnswerRoom>,
        deadline: Instant,
    ) -> Result<Vec<PageAnswer>, ServiceError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        self.reserve(caller, requests.len().min(LISTS_AT_ONCE) * SMALL_BYTES)?;
        let lists = requests.iter().map(|request| &request.list);
        let versions = self.versions(caller, Permission::ListsRead, lists, deadline).await;
        let shared = SharedPlans::default();
        let aggregating = requests.iter().enumerate().map(|(index, request)| {
            let AggregateList { list, input, member, int64_as } = request;
            let (found, shared) = (versions.of(index).clone(), &shared);
            async move {
                AnswerRoom::check(room)?;
                in_time(deadline)?;
                let text = self.aggregate(caller, list, (found?, *input, *int64_as), shared, deadline).await;
                let text = text.map_err(|error| of_member(error, member))?;
                self.take_room(caller, room, RenderedPage { text: text.into(), tag: Bytes::new(), items: 0 })
            }
        });
        let aggregated: Vec<_> = stream::iter(aggregating).buffered(LISTS_AT_ONCE).collect().await;
        if aggregated.iter().any(|result| matches!(result, Err(ServiceError::NoMemoryForAnswer))) {
            return Err(ServiceError::NoMemoryForAnswer);
        }
        Ok(aggregated)
    }
}

/// A refusal of the input names its member.
fn of_member(error: ServiceError, member: &str) -> ServiceError {
    let problem = match error {
        ServiceError::Invalid { field, invalid } => Problem::from(invalid).at(field),
        ServiceError::Malformed(problem) if problem.field.is_some() => *problem,
        other => return other,
    };
    ServiceError::malformed(&problem.within(member))
}
