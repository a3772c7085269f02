//! Change the size of the pool of list actors.

use std::time::Duration;

use liststore_contract::operations::resize_pool::{PoolInput, ROW};
use liststore_contract::row::Row;
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::actors::{PoolSize, PoolView, Resize};
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::service::{Caller, Service, ServiceError};

/// The longest wait for a change of the pool: sessions with a cluster take time to open.
const RESIZE_TIMEOUT: Duration = Duration::from_secs(50);

pub struct ResizePool;

impl Operation for ResizePool {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Resize;
    type Reply = PoolView;

    fn read(call: &Call<'_>) -> Result<Resize, Problem> {
        let PoolInput { actors, permits_per_actor } = PoolInput::read(&call.body)?;
        Ok(Resize { actors, permits_per_actor })
    }

    async fn run(service: &Service, caller: &Caller, resize: Resize) -> Result<PoolView, ServiceError> {
        let deadline = Instant::now() + caller.patience(RESIZE_TIMEOUT);
        tracing::info!(by = %caller.principal, ?resize, "list pool resize requested");
        let before = service.lists.view().size;
        let after = PoolSize {
            actors: resize.actors.unwrap_or(before.actors),
            permits_per_actor: resize.permits_per_actor.unwrap_or(before.permits_per_actor),
        };
        let change = ServerChange {
            action: ServerAction::of(&ROW),
            target: "pool".to_owned(),
            before: shown(service, before),
            after: shown(service, after),
        };
        let lists = service.lists.clone();
        let making = async move { Ok(lists.resize(resize, deadline).await?) };
        service.noted(change, caller.author(), deadline, making).await?;
        Ok(service.lists.view())
    }

    fn reply(call: &Call<'_>, view: PoolView) -> HandlerResult {
        call.json(&reply::pool(&view))
    }
}

fn shown(service: &Service, size: PoolSize) -> Option<Json> {
    let PoolSize { actors, permits_per_actor } = size;
    Some(json!({"server": service.options.server_name, "actors": actors, "permits_per_actor": permits_per_actor}))
}
