//! `liststore entity find`: the bags with given values in an index, through a server's HTTP API.

use clap::Args;
use liststore_contract::operations::find_bags_by_body;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::output::{Format, Output};
use super::pages::note_more;
use super::parse::{self, ServerOptions};
use crate::client::{RawPage, Request, printable, read};
use crate::domain::index::{OrderValue, Scalar};
use crate::domain::{EntityType, Limit, Order, VersionLabel};

/// Find bags by an index
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity find user by_country --value GB
  liststore entity find link by_user --value 17 --value '\"rust\"' --limit 20
  liststore entity find user by_country --value GB --min 7.5 --order oldest
  liststore entity find user by_city --value Paris --min -7d

A value is JSON: 17, true, null, \"17\". Any other text is used as a string.")]
pub(super) struct Arguments {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The index's name
    #[arg(value_name = "INDEX", value_parser = parse::index_name)]
    index: VersionLabel,
    /// A value for each property of the index, in order; may be given several times
    #[arg(long = "value", value_name = "VALUE", required = true, allow_hyphen_values = true, value_parser = value)]
    values: Vec<String>,
    /// Lower bound in the order of the index: a number or a time
    #[arg(long, allow_hyphen_values = true, value_parser = bound)]
    min: Option<String>,
    /// Upper bound in the order of the index
    #[arg(long, allow_hyphen_values = true, value_parser = bound)]
    max: Option<String>,
    /// Which end comes first: newest or oldest
    #[arg(long, default_value = "newest", value_parser = Order::parse)]
    order: Order,
    /// Maximum number of bags to show
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    options: ServerOptions,
}

/// The JSON text of a value.
fn value(text: &str) -> Result<String, String> {
    if Scalar::parse(text).is_ok() {
        return Ok(text.to_owned());
    }
    serde_json::to_string(text).map_err(|error| error.to_string())
}

/// A number, or a time in a person's notation, with quotes as in a bag or without. A time may be earlier or later than
/// the time of an item.
fn bound(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    match OrderValue::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => parse::time_of_any_year(text),
    }
}

/// The row of a bag in a table.
#[derive(Deserialize)]
struct Row {
    entity_id: String,
    updated_at: String,
    properties: Box<RawValue>,
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { entity_type, index, values, min, max, order, limit, options } = arguments;
    let (client, limit) = (options.server.client(None)?, usize::try_from(limit).unwrap_or(usize::MAX));
    let values: Vec<&RawValue> = values
        .iter()
        .map(|value| serde_json::from_str(value))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::failed(error.to_string()))?;
    let (mut found, mut next_page_token): (Vec<Box<RawValue>>, Option<String>) = (Vec::new(), None);
    loop {
        let page_size = (limit - found.len()).min(Limit::PAGE_SIZE_MAX);
        let mut body = json!({ "values": values, "order": order.as_str(), "limit": page_size });
        let members = [("min", &min), ("max", &max), ("page_token", &next_page_token)];
        for (name, text) in members.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
            body[name] = json!(text);
        }
        // In a body, so that values may be long and appear in no proxy's log.
        let request = Request::new(&find_bags_by_body::ROW, &[entity_type.as_str(), index.as_str()]).body(&body)?;
        let page: RawPage = client.ask(&request).await?;
        found.extend(page.entries);
        next_page_token = page.next_page_token;
        if next_page_token.is_none() || found.len() >= limit {
            break;
        }
    }
    let mut output = Output::open();
    match options.output {
        Format::Json => output.json(&json!({ "entities": found, "next_page_token": next_page_token }))?,
        Format::Ndjson => found.iter().try_for_each(|bag| output.json(bag))?,
        Format::Table => {
            let rows = found.iter().map(|bag| {
                let Row { entity_id, updated_at, properties } = read(bag.get().as_bytes())?;
                Ok(vec![printable(&entity_id), updated_at, printable(properties.get())])
            });
            let rows = rows.collect::<Result<Vec<_>, Failure>>()?;
            output.table(&["ENTITY ID", "UPDATED AT", "PROPERTIES"], &rows)?;
        }
    }
    output.flush()?;
    note_more(options.output, next_page_token.as_deref());
    Ok(())
}
