//! List API keys.

use std::borrow::Cow;

use liststore_contract::operations::list_keys::{KeyPage, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::domain::page::KeyWalk;
use crate::domain::{ApiKey, Limit};
use crate::service::{Caller, Changes, Listed, Service, ServiceError, end_early, json_bytes, within};
use crate::wire::{self, Key};

/// In the order of their names, revoked ones too.
pub struct ListKeys<'r> {
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for ListKeys<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListKeys<'r>;
    type Reply = Listed<ApiKey>;

    fn read<'r>(call: &'r Call<'_>) -> Result<ListKeys<'r>, Problem> {
        let [size, page_token] = call.query(&QUERY)?;
        Ok(ListKeys { page_size: page_size(size.as_deref())?, page_token })
    }

    async fn run(service: &Service, caller: &Caller, request: ListKeys<'_>) -> Result<Self::Reply, ServiceError> {
        let ListKeys { page_size, page_token } = request;
        let after = page_token.map(|token| KeyWalk.resume(token.as_ref())).transpose();
        let after = after.map_err(ServiceError::invalid("page_token"))?;
        let mut keys = within(caller, Changes::Nothing, service.metadata.keys()).await?;
        keys.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        keys.retain(|key| after.as_ref().is_none_or(|(name, id)| (&key.name, key.id) > (name, *id)));
        let (mut more, now) = (keys.len() > page_size.get(), service.clock.now());
        keys.truncate(page_size.get());
        more |= end_early(&mut keys, service.options.page_bytes_max, |key| json_bytes(&wire::Key::new(key, now)));
        let last = keys.last().filter(|_| more);
        let next_page_token = last.map(|key| KeyWalk.token_after(&key.name, key.id));
        Ok((keys, next_page_token))
    }

    fn reply(call: &Call<'_>, (keys, next_page_token): Self::Reply) -> HandlerResult {
        let now = call.state.clock.now();
        let keys = keys.iter().map(|key| Key::new(key, now)).collect();
        call.json(&KeyPage { keys, next_page_token: reply::text(next_page_token) })
    }
}
