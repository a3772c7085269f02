//! Remove List Items.

use liststore_contract::operations::remove_items::{
    QUERY, ROW, RemoveBetweenInput, RemoveItemsInput, RemoveKeyInput, RemoveKeysInput, RemoveNamedInput,
    RemoveValueInput, Removed,
};
use liststore_contract::row::Row;

use crate::actors::Turn;
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::domain::{ListKey, Value};
use crate::items::{Bounds, Removal};
use crate::service::members::{encode, removal_of_key, removal_of_keys, removal_of_value};
use crate::service::{Caller, ListName, Service, ServiceError};

/// Remove items of a list.
pub struct RemoveItems<'r> {
    list: ListName<'r>,
    /// With values as JSON.
    removal: RemoveItemsInput<'r>,
}

impl Operation for RemoveItems<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = RemoveItems<'r>;
    /// How many visible items went.
    type Reply = u64;

    fn read<'r>(call: &'r Call<'_>) -> Result<RemoveItems<'r>, Problem> {
        let [version] = call.query(&QUERY)?;
        Ok(RemoveItems { list: call.list(version)?, removal: RemoveItemsInput::read(&call.body)? })
    }

    async fn run(service: &Service, caller: &Caller, request: RemoveItems<'_>) -> Result<u64, ServiceError> {
        let RemoveItems { list, removal } = request;
        let named = match &removal {
            RemoveItemsInput::Items(named) => named.items.len(),
            RemoveItemsInput::Keys(named) => named.keys.len(),
            _ => 1,
        };
        caller.take_items(named)?;
        let deadline = service.deadline(caller);
        let found = service.resolve(&list, deadline).await?;
        let encode_value = |value: &str| found.value_type.encode(value).map(Value::into_bytes);
        let removal = match removal {
            RemoveItemsInput::Value(RemoveValueInput { value }) => {
                removal_of_value(&found, encode_value(value).map_err(ServiceError::invalid("value"))?)
            }
            RemoveItemsInput::Items(RemoveNamedInput { items }) => {
                let items = encode(&found, &items)?.into_iter();
                Removal::Items(items.map(|(timestamp, value)| (timestamp, value.into_bytes())).collect())
            }
            RemoveItemsInput::Key(RemoveKeyInput { key }) => removal_of_key(&found, key)?,
            RemoveItemsInput::Keys(RemoveKeysInput { keys }) => removal_of_keys(&found, &keys)?,
            RemoveItemsInput::Between(RemoveBetweenInput { min_timestamp, max_timestamp }) => {
                Removal::Between(Bounds::of(min_timestamp, max_timestamp))
            }
        };
        let list = ListKey::new(found.feature_key, list.entity_id);
        let (lists, retention) = (service.lists_of(caller), found.properties.retention());
        let removed = lists
            .write(list, Turn::Alone, retention, deadline, async move |session, op, list| {
                session.remove(op, list, &removal).await
            })
            .await?;
        caller.charge_items((removed as usize).saturating_sub(named));
        Ok(removed)
    }

    fn reply(call: &Call<'_>, removed: u64) -> HandlerResult {
        call.state.metrics.items_removed.inc_by(removed);
        call.json(&Removed { removed })
    }
}
