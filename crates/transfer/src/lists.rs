//! Reads many lists in few calls, the first page of each, in the order of the requests.

use liststore_contract::operations::batch_get;
use serde::{Deserialize, Serialize};

use crate::client::{Client, Failure, Request};
use crate::domain::{FeatureId, Int64As, VersionLabel};
use crate::wire::parameters::INT64_AS;
use crate::wire::{ErrorCode, Item, ProblemBody};

/// Lists of one call.
pub(super) const CALL_LISTS: usize = 100;

/// A list to read. Moments are nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Asked<'a> {
    pub entity_type: &'a str,
    pub feature: &'a str,
    pub version: &'a str,
    pub entity_id: &'a str,
    pub limit: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_timestamp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<u64>,
}

impl<'a> Asked<'a> {
    /// The newest items of a list.
    pub fn new(feature: &'a FeatureId, version: &'a VersionLabel, entity_id: &'a str, limit: usize) -> Self {
        Self {
            entity_type: feature.entity_type.as_str(),
            feature: feature.name.as_str(),
            version: version.as_str(),
            entity_id,
            limit,
            min_timestamp: None,
            as_of: None,
        }
    }

    pub fn failed(&self, why: &str) -> Failure {
        Failure::failed(format!("{}.{}, entity {:?}: {why}", self.entity_type, self.feature, self.entity_id))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    requests: &'a [Asked<'a>],
}

#[derive(Deserialize)]
struct Results {
    results: Vec<ListResult>,
}

/// A page, or why there is none.
#[derive(Deserialize)]
struct ListResult {
    problem: Option<ProblemBody>,
    #[serde(default)]
    items: Vec<Item>,
    next_page_token: Option<String>,
}

/// A page of a list, newest first.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub items: Vec<Item>,
    pub next_page_token: Option<String>,
}

/// Reads at most [`CALL_LISTS`] lists: the first page of each.
pub(super) async fn first_pages(client: &Client, asked: &[Asked<'_>]) -> Result<Vec<Page>, Failure> {
    let mut pages = Vec::with_capacity(asked.len());
    while pages.len() < asked.len() {
        let left = &asked[pages.len()..];
        // Files and checksums have one form of values, however their features are defined.
        let request = Request::new(&batch_get::ROW, &[]).query(&INT64_AS, Some(Int64As::Number));
        let request = request.body(&Body { requests: left })?;
        let Results { results } = client.ask(&request).await?;
        if results.len() != left.len() {
            return Err(Failure::failed("the server returned an unexpected number of results"));
        }
        for (taken, (list, result)) in left.iter().zip(results).enumerate() {
            let ListResult { problem, items, next_page_token } = result;
            match problem {
                None => pages.push(Page { items, next_page_token }),
                // The answer had no room for it. The next one has.
                Some(problem) if problem.code == ErrorCode::ResponseTooLarge.name() && taken > 0 => break,
                Some(problem) => return Err(client.failed(list.failed(&problem.detail))),
            }
        }
    }
    Ok(pages)
}
