//! Find values in a list.

use bytes::Bytes;
use liststore_contract::operations::contains_items::{Contained, ContainedValue, ContainsInput, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::{bounds, form};
use crate::domain::{Int64As, JsonForm, ListKey, Timestamp, Value};
use crate::items::Bounds;
use crate::service::{Caller, ListName, Service, ServiceError};

/// Find values in a list, within bounds.
pub struct ContainsItems<'r> {
    list: ListName<'r>,
    within: Bounds,
    /// As JSON.
    values: Vec<&'r str>,
    int64_as: Option<Int64As>,
}

/// The values that were requested, and the newest visible item of each.
pub struct ValuesContained {
    form: JsonForm,
    values: Vec<(Bytes, Option<Timestamp>)>,
}

impl Operation for ContainsItems<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ContainsItems<'r>;
    type Reply = ValuesContained;

    fn read<'r>(call: &'r Call<'_>) -> Result<ContainsItems<'r>, Problem> {
        let [version, min_timestamp, max_timestamp, int64_as] = call.query(&QUERY)?;
        let (min_timestamp, max_timestamp) = bounds(min_timestamp.as_deref(), max_timestamp.as_deref())?;
        let list = call.list(version)?;
        let (within, int64_as) = (Bounds::of(min_timestamp, max_timestamp), form(int64_as.as_deref())?);
        let ContainsInput { values } = ContainsInput::read(&call.body)?;
        Ok(ContainsItems { list, within, values, int64_as })
    }

    async fn run(
        service: &Service,
        caller: &Caller,
        request: ContainsItems<'_>,
    ) -> Result<ValuesContained, ServiceError> {
        let ContainsItems { list, within, values, int64_as } = request;
        caller.take_items(values.len())?;
        let deadline = service.deadline(caller);
        let found = service.resolve(&list, deadline).await?;
        let encode = |(index, value)| {
            let encoded = found.value_type.encode(value).map(Value::into_bytes);
            encoded.map_err(|invalid| ServiceError::InvalidEntry { field: "values", index, invalid })
        };
        let values: Vec<_> = values.into_iter().enumerate().map(encode).collect::<Result<_, _>>()?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        let newest = service
            .lists_of(caller)
            .contains(list, found.properties.retention(), within, values.clone(), deadline)
            .await?;
        let form = found.properties.json_form(found.value_type, int64_as);
        Ok(ValuesContained { form, values: values.into_iter().zip(newest).collect() })
    }

    fn reply(call: &Call<'_>, found: ValuesContained) -> HandlerResult {
        let results = found.values.iter().map(|(value, newest)| shown(found.form, value, *newest));
        call.json(&Contained { results: results.collect::<Result<_, _>>()? })
    }
}

/// A value is written as a get writes it.
fn shown(form: JsonForm, value: &[u8], newest: Option<Timestamp>) -> Result<ContainedValue, Problem> {
    let mut text = Vec::new();
    let written = form.write_json(value, &mut text).map_err(|error| error.to_string());
    let raw = written.and_then(|()| serde_json::from_slice(&text).map_err(|error| error.to_string()));
    let value = raw.map_err(|error| Problem::internal(format!("cannot render a value: {error}")))?;
    Ok(ContainedValue { value, timestamp: newest.map(|newest| newest.to_string()) })
}
