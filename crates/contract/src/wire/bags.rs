//! The bodies of bags: documents of properties as they are sent, and as they are answered.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::body::{check_syntax, text_of};
use super::texts::{self, JOINED_LISTS_MAX};
use super::{AggregatedResult, ErrorCode, PageResult, Problem};
use crate::domain::document::DOCUMENT_BYTES_MAX;
use crate::domain::{Document, FeatureName, Limit};

/// The largest number of entities of one call, and of lists that are returned with all of them.
pub const BATCH_BAGS_MAX: usize = 1_000;

/// The properties of an entity: a JSON object of at most 256 KiB and 100 levels, without duplicate keys. Numbers are
/// kept as written.
pub struct Properties;

impl PartialSchema for Properties {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Object))
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .description(Some(
                "The properties of an entity: a JSON object of at most 256 KiB and 100 levels, without duplicate keys. \
                 Numbers are kept as written.",
            ))
            .examples([json!({"name": "Ada", "city": "Paris", "age": 36, "tags": ["a", "b"]})])
            .into()
    }
}

impl ToSchema for Properties {}

/// Reads the body of a bag, or of a change of one.
pub fn read_document(body: &[u8]) -> Result<Document, Problem> {
    if body.len() > DOCUMENT_BYTES_MAX {
        let detail = format!("a bag must have at most {DOCUMENT_BYTES_MAX} bytes; this one has {}", body.len());
        return Err(Problem::new(ErrorCode::BagTooLarge, detail));
    }
    let text = text_of(body)?;
    // A text that is not JSON is reported as such, before any other mistake: it is not a document.
    Document::parse(text).or_else(|refused| {
        check_syntax(text)?;
        Err(refused.into())
    })
}

/// The bag of an entity.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Bag {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: String,
    #[schema(value_type = texts::EntityIdShown, inline)]
    pub entity_id: String,
    // When it was changed last: greater after every change.
    #[schema(value_type = texts::Timestamp, inline)]
    pub updated_at: String,
    /// The entity tag of the bag, for `If-Match`.
    pub etag: String,
    #[schema(value_type = Properties)]
    pub properties: Box<RawValue>,
    /// The newest items of the requested lists, by feature; absent if none were requested.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, PageResult>, required = false)]
    pub lists: Option<Box<RawValue>>,
    /// The requested aggregates of lists, by feature; absent if none were requested.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, AggregatedResult>, required = false)]
    pub aggregates: Option<Box<RawValue>>,
}

/// A bag that was stored.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"entity_type": "user", "entity_id": "u-123", "updated_at": "2024-08-29T16:44:05.430000000Z"}))]
pub struct BagStored {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: String,
    #[schema(value_type = texts::EntityIdShown, inline)]
    pub entity_id: String,
    #[schema(value_type = texts::Timestamp, inline)]
    pub updated_at: String,
}

/// Parses the lists to return with bags: `story_presented:10,purchase`. A number is the largest number of items.
pub fn read_joined_lists(text: &str) -> Result<Vec<(FeatureName, Limit)>, Problem> {
    let field = super::parameters::JOINED_LISTS.name;
    let read = |part: &str| {
        let (name, limit) = part.split_once(':').unzip();
        let feature = FeatureName::new(name.unwrap_or(part)).map_err(|invalid| Problem::from(invalid).at(field))?;
        let Some(limit) = limit else { return Ok((feature, Limit::DEFAULT)) };
        let digits = !limit.is_empty() && limit.bytes().all(|b| b.is_ascii_digit());
        // Too many digits saturate: the bound that follows names the accepted values.
        let number = digits.then(|| limit.parse().unwrap_or(usize::MAX));
        let wanted = "lists must be features with an optional number of items, such as story_presented:10,purchase:5";
        let number = number.ok_or_else(|| Problem::argument(field, wanted))?;
        let limit = Limit::of_items(number).map_err(|invalid| Problem::from(invalid).at(field))?;
        Ok((feature, limit))
    };
    let lists: Vec<(FeatureName, Limit)> = text.split(',').map(read).collect::<Result<_, Problem>>()?;
    if lists.len() > JOINED_LISTS_MAX {
        return Err(Problem::argument(field, format!("lists must name at most {JOINED_LISTS_MAX} features")));
    }
    for (place, (feature, _)) in lists.iter().enumerate() {
        if lists[..place].iter().any(|(known, _)| known == feature) {
            return Err(Problem::argument(field, format!("duplicate list {feature}")));
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_document_is_named_with_its_fault() {
        let code = |body: &[u8]| read_document(body).map(|_| ()).map_err(|problem| problem.code.name());
        assert_eq!(code(b" {\"a\": [1, {}]} "), Ok(()));
        for bad in [&b""[..], b"{", b"{\"a\":}", b"{} {}", b"{\"a\":\"\xff\"}", b"{a:1}", b"{\"a\":01}"] {
            assert_eq!(code(bad), Err("invalid_json"), "{}", String::from_utf8_lossy(bad));
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for bad in ["[]", "1", "null", "{\"a\":1,\"a\":2}", "{\"a\":1e999}", "{\"a\":\"\\ud800\"}", &deep] {
            assert_eq!(code(bad.as_bytes()), Err("invalid_argument"), "{bad}");
        }
        let of = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
        assert_eq!(code(of(DOCUMENT_BYTES_MAX).as_bytes()), Ok(()));
        assert_eq!(code(of(DOCUMENT_BYTES_MAX + 1).as_bytes()), Err("bag_too_large"));
    }

    #[test]
    fn included_lists_are_named_once_each() {
        let read = |text: &str| {
            let lists = read_joined_lists(text).map_err(|problem| problem.field.unwrap_or_default().into_owned())?;
            Ok::<_, String>(lists.iter().map(|(name, limit)| (name.to_string(), limit.get())).collect::<Vec<_>>())
        };
        assert_eq!(read("a:10,b").unwrap(), [("a".to_owned(), 10), ("b".to_owned(), 100)]);
        let many: Vec<_> = (0..=JOINED_LISTS_MAX).map(|n| format!("f{n}")).collect();
        assert_eq!(read(&many[1..].join(",")).unwrap().len(), JOINED_LISTS_MAX);
        for bad in ["", ",", "a,", "a:", "a:0", "a:10001", "a:x", "a:-1", "a:1:2", "a:1,a:2", "a b", &many.join(",")] {
            assert_eq!(read(bad), Err("lists".to_owned()), "{bad}");
        }
    }
}
