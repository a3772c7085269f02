//! Get List Items.

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, ETAG, HeaderName, HeaderValue, VARY};
use liststore_contract::operations::get_items::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::compression::BY_CODING;
use crate::api::headers::has_already;
use crate::api::json::json_text;
use crate::api::lines;
use crate::api::negotiation::{LINES, prefers_lines};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::{bounds, count, form, moment};
use crate::api::response::Response;
use crate::domain::{Limit, Order};
pub(super) use crate::service::GetItems;
use crate::service::{Caller, PageRead, RenderedPage, Service, ServiceError};
use crate::wire::parameters::{AS_OF, LIMIT, ORDER};

impl Operation for GetItems<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = GetItems<'r>;
    type Reply = RenderedPage;

    fn read<'r>(call: &'r Call<'_>) -> Result<GetItems<'r>, Problem> {
        let [version, min_timestamp, max_timestamp, as_of, order, limit, page_token, int64_as] = call.query(&QUERY)?;
        let (min_timestamp, max_timestamp) = bounds(min_timestamp.as_deref(), max_timestamp.as_deref())?;
        let as_of = moment(&AS_OF, as_of.as_deref())?;
        let order = order.map(|text| Order::parse(&text)).transpose().map_err(|e| Problem::from(e).at(ORDER.name))?;
        let limit = match limit {
            Some(text) => Limit::of_items(count(LIMIT.name, &text)?).map_err(|e| Problem::from(e).at(LIMIT.name))?,
            None => Limit::DEFAULT,
        };
        let (list, order) = (call.list(version)?, order.unwrap_or_default());
        let int64_as = form(int64_as.as_deref())?;
        Ok(GetItems { list, min_timestamp, max_timestamp, as_of, order, limit, page_token, int64_as })
    }

    async fn run(service: &Service, caller: &Caller, request: GetItems<'_>) -> Result<RenderedPage, ServiceError> {
        caller.take_items(1)?;
        service.check_moment(request.as_of)?;
        // A cached page needs no clock.
        let mut deadline = None;
        let found = match service.known(&request.list) {
            Some(found) => found,
            None => service.resolve(&request.list, *deadline.insert(service.deadline(caller))).await?,
        };
        let read = PageRead::new(found, &request)?;
        if let Some(page) = service.kept_page(&read) {
            service.reserve_if_long(caller, page.text.len())?;
            caller.charge_items(page.items.saturating_sub(1));
            return Ok(page);
        }
        let deadline = deadline.unwrap_or_else(|| service.deadline(caller));
        let range = read.range(service.options.page_bytes_max);
        let (page, validity) = match service.lists.get_from_memory(&read.list, read.retention, &range, deadline) {
            Some(found) => found,
            // Boxed, because pages in memory do not need it.
            None => (Box::pin(service.read_page(caller, &read, deadline)).await?, None),
        };
        let page = service.render_page(caller, &read, &page, validity)?;
        caller.charge_items(page.items.saturating_sub(1));
        Ok(page)
    }

    /// In the form that the caller asks for, unless they have it.
    fn reply(call: &Call<'_>, page: RenderedPage) -> HandlerResult {
        let in_lines = prefers_lines(call.headers);
        let RenderedPage { text, tag, items } = if in_lines { lines::of(&page)? } else { page };
        let has_already = has_already(call.headers, &tag)?;
        let (name, value) = BY_FORM;
        if has_already {
            let mut response = Response::new(StatusCode::NOT_MODIFIED).with_text(ETAG, tag)?.with(name, value);
            // The confirmation has the same headers as the page.
            if text.len() >= call.state.options.compression_bytes_min {
                let (name, value) = BY_CODING;
                response.add(name, value);
            }
            return Ok(response);
        }
        call.state.metrics.items_read.inc_by(items as u64);
        // Both forms have `Vary`, so that a cache never returns one form for the other.
        let response = call.response().with_text(ETAG, tag)?.with(name, value);
        if in_lines {
            return Ok(response.with(CONTENT_TYPE, HeaderValue::from_static(LINES)).body(text));
        }
        Ok(json_text(response, text))
    }
}

/// Of answers that come in a form that the caller prefers.
const BY_FORM: (HeaderName, HeaderValue) = (VARY, HeaderValue::from_static("Accept"));
