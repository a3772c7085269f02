//! Get List Items of many lists.

use std::borrow::Cow;

use liststore_contract::operations::batch_get::{BatchGetInput, GetRequest, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::form;
use crate::api::reply::failed;
use crate::domain::{Int64As, Limit};
use crate::service::{AggregateList, Caller, GetItems, ListName, ListRead, RenderedPage, Service, ServiceError};

pub struct BatchGet<'r> {
    input: BatchGetInput<'r>,
    int64_as: Option<Int64As>,
}

impl Operation for BatchGet<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = BatchGet<'r>;
    /// One result for each request, in order.
    type Reply = Vec<Result<RenderedPage, ServiceError>>;

    fn read<'r>(call: &'r Call<'_>) -> Result<BatchGet<'r>, Problem> {
        let [int64_as] = call.query(&QUERY)?;
        Ok(BatchGet { input: BatchGetInput::read(&call.body)?, int64_as: form(int64_as.as_deref())? })
    }

    async fn run(service: &Service, caller: &Caller, asked: BatchGet<'_>) -> Result<Self::Reply, ServiceError> {
        let BatchGet { input, int64_as } = asked;
        let requests = input.requests.iter().map(|request| {
            let request = request.as_ref().map_err(ServiceError::malformed)?;
            let GetRequest { entity_type, feature, version, entity_id, .. } = request;
            let version = Cow::Borrowed(&**version);
            let list = ListName { entity_type, feature, version, entity_id: entity_id.clone() };
            if let Some(input) = &request.aggregate {
                return Ok(ListRead::Aggregates(AggregateList { list, input, member: "aggregate", int64_as }));
            }
            Ok(ListRead::Items(GetItems {
                list,
                min_timestamp: request.min_timestamp,
                max_timestamp: request.max_timestamp,
                as_of: request.as_of,
                order: request.order,
                limit: request.limit.unwrap_or(Limit::DEFAULT),
                page_token: request.page_token.as_deref().map(Cow::Borrowed),
                int64_as,
            }))
        });
        service.batch_get(caller, requests.collect()).await
    }

    /// The pages are rendered already.
    fn reply(call: &Call<'_>, pages: Self::Reply) -> HandlerResult {
        /// The approximate size of the text between pages, and of a problem.
        const AROUND_PAGE: usize = 1;
        const PROBLEM_BYTES: usize = 256;
        let bytes = pages.iter().map(|page| page.as_ref().map_or(PROBLEM_BYTES, |page| AROUND_PAGE + page.text.len()));
        let mut out = Vec::with_capacity(bytes.sum::<usize>() + 16);
        let (mut items, mut before) = (0, &b"{\"results\":["[..]);
        for (index, page) in pages.into_iter().enumerate() {
            out.extend_from_slice(before);
            before = b",";
            match page {
                Ok(page) => {
                    items += page.items as u64;
                    out.extend_from_slice(&page.text);
                }
                Err(error) => serde_json::to_writer(&mut out, &failed(call, index, error))
                    .map_err(|error| Problem::internal(format!("cannot render the response: {error}")))?,
            }
        }
        out.extend_from_slice(b"]}");
        call.state.metrics.items_read.inc_by(items);
        Ok(json_text(call.response(), out))
    }
}
