//! Add List Items to many lists.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::parts::{ANY, BODY, WRITE, json};
use crate::domain::{ADD_ITEMS_MAX, EntityId};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::body::{read_part, text_of};
use crate::wire::many::{Checks, of_any_form, of_one, required};
use crate::wire::plain_requests::{Names, each_member, once, plain, unquoted};
use crate::wire::refused::Refused;
use crate::wire::scanner::Scanner;
use crate::wire::{
    Added, BATCH_ITEMS_MAX, ItemInput, Problem, RequestFailed, Requests, Type, members, plain_add, texts,
};

pub static ROW: Row = Row {
    name: "batch_add",
    summary: "Add items to many lists",
    description: "Each request is atomic. Requests for the same list are applied in order. Returns one \
                  result for each request, in order, with status 200 even if some failed. An invalid name, ID, key \
                  or timestamp is a problem of its request only.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Body,
    effect: Effect::RepeatableWrite,
    method: Method::Post,
    path: "/v1/lists:batchAdd",
    request: Some(Type::of::<BatchAddInput<'static>>()),
    replies: &[json(200, "One result for each request.", Type::of::<BatchAddResults>())],
    errors: &[ANY, WRITE, BODY],
    counts_items: true,
    ..Row::DEFAULT
};

/// The usual number of items for one list, for which memory is reserved.
const ITEMS: usize = 16;

/// Items to add to lists of any features.
#[derive(Debug, PartialEq, Eq, ToSchema)]
#[schema(example = json!({"requests": [{
    "entity_type": "user",
    "feature": "story_presented",
    "entity_id": "u-123",
    "items": [{"timestamp": "2024-08-29T16:44:05.43Z", "value": "story-17"}],
}]}))]
#[serde(deny_unknown_fields)]
pub struct BatchAddInput<'a> {
    /// At most 10,000 items in total.
    #[schema(value_type = Vec<AddRequest<'a>>, min_items = 1, max_items = 1000)]
    pub requests: Requests<AddRequest<'a>>,
}

/// Items to add to one list, all or none. An invalid name, ID, key or timestamp is a problem of this request only.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddRequest<'a> {
    #[serde(borrow, deserialize_with = "members::entity_type")]
    #[schema(value_type = String)]
    pub entity_type: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "members::feature")]
    #[schema(value_type = String)]
    pub feature: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "members::version")]
    #[schema(value_type = String, required = false)]
    pub version: Cow<'a, str>,
    #[schema(value_type = String)]
    pub entity_id: EntityId,
    #[serde(borrow, deserialize_with = "members::many::<ADD_ITEMS_MAX, _, _>")]
    #[schema(value_type = Vec<BatchItem>, min_items = 1, max_items = 1000)]
    pub items: Vec<ItemInput<'a>>,
}

/// An item to add, as in Add List Items.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read as an item of one add")]
pub struct BatchItem {
    #[schema(value_type = texts::AnyTimestamp, inline)]
    timestamp: (),
    /// The JSON of the feature's value type.
    #[schema(value_type = serde_json::Value)]
    value: (),
    /// Required if the feature has the identity `key`, refused otherwise.
    #[schema(value_type = String, required = false)]
    key: (),
}

/// One result for each request, in order.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchAddResults {
    pub results: Vec<AddResult>,
}

/// The result of one add, or the problem.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum AddResult {
    Added(Added),
    Failed(RequestFailed),
}

impl<'a> BatchAddInput<'a> {
    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        adds(body).map(|requests| Self { requests })
    }
}

fn adds(body: &[u8]) -> Result<Requests<AddRequest<'_>>, Problem> {
    let text = text_of(body)?;
    let mut known = Names::default();
    let plain = plain(text, |scanner| plain_add(scanner, &mut known).map(Ok))
        .filter(|requests| items(requests) <= BATCH_ITEMS_MAX);
    let requests = plain.map_or_else(|| of_any_form(text, Checks { form: form_of_items, ..Checks::default() }), Ok)?;
    if items(&requests) > BATCH_ITEMS_MAX {
        let detail = format!("a call takes at most {BATCH_ITEMS_MAX} items in total: split the request");
        return Err(Problem::argument("requests", detail));
    }
    Ok(requests)
}

/// Items without their form refuse the call, also next to a refused value.
fn form_of_items(request: &str) -> Result<(), Refused> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(required::<ItemInput<'static>>);
    let Entries { items } = read_part(request, &[])?;
    items.into_iter().enumerate().try_for_each(|(index, item)| {
        let read = of_one::<ItemInput<'_>>(item.get(), || NAMES.as_slice(), &[], |_| Ok(()));
        read.map(drop).map_err(|refused| refused.at_index(index).at_member("items"))
    })
}

/// The items of a request. The other members have been read.
#[derive(Deserialize)]
struct Entries<'a> {
    #[serde(borrow, deserialize_with = "members::many::<ADD_ITEMS_MAX, _, _>")]
    items: Vec<&'a RawValue>,
}

fn items(requests: &Requests<AddRequest<'_>>) -> usize {
    requests.iter().flatten().map(|request| request.items.len()).sum()
}

fn plain_add<'a>(scanner: &mut Scanner<'a>, known: &mut Names<'a>) -> Option<AddRequest<'a>> {
    let (mut entity_type, mut feature, mut version, mut entity_id, mut items) = (None, None, None, None, None);
    each_member(scanner, |name, scanner| match name {
        r#""entity_type""# => once(&mut entity_type, unquoted(scanner)?),
        r#""feature""# => once(&mut feature, unquoted(scanner)?),
        r#""version""# => once(&mut version, unquoted(scanner)?),
        r#""entity_id""# => once(&mut entity_id, unquoted(scanner)?),
        r#""items""# => once(&mut items, plain_add::items(scanner, ITEMS)?),
        _ => None,
    })?;
    let (entity_type, feature, version) = (entity_type?, feature?, version.unwrap_or_default());
    known.check(entity_type, feature, version)?;
    Some(AddRequest {
        entity_type: entity_type.into(),
        feature: feature.into(),
        version: version.into(),
        entity_id: EntityId::new(entity_id?).ok()?,
        items: items?,
    })
}
