//! Renders a page of items as JSON, directly from stored bytes.

use std::fmt;

use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::error::ServiceError;
use super::page_cache::RenderedPage;
use crate::domain::page::ItemWalk;
use crate::domain::{Item, JsonForm, ListKey, Rfc3339Writer, ValueType};
use crate::items::ItemPage;

/// `{"timestamp":"2024-08-29T16:44:05.430000000Z","value":` and `},`
const BYTES_PER_ITEM: usize = 58;
/// The end of a page, with a token, and its tag.
const TAIL_BYTES: usize = 160;

/// An estimate of the bytes of a rendered page.
pub(crate) fn bytes_of(page: &ItemPage) -> usize {
    let value_bytes: usize = page.items.iter().map(|item| item.value.len()).sum();
    bytes_around(page.items.len()) + value_bytes + value_bytes / 8
}

/// The same for a number of items without their values.
pub(crate) fn bytes_around(items: usize) -> usize {
    items * BYTES_PER_ITEM + TAIL_BYTES
}

/// The page as the JSON of [`crate::wire::ItemPage`]. It ends early before it exceeds `bytes_max`, with at least one
/// item, and has a `next_page_token` exactly if at least one more item was there.
pub(crate) fn page(
    page: &ItemPage,
    form: JsonForm,
    walk: &ItemWalk<'_>,
    bytes_max: usize,
) -> Result<RenderedPage, ServiceError> {
    let mut out = Vec::with_capacity(bytes_of(page));
    out.extend_from_slice(b"{\"items\":[");
    let (mut rendered, mut writer) = (0, Rfc3339Writer::default());
    for item in &page.items {
        let end = out.len();
        if rendered > 0 {
            out.push(b',');
        }
        write_item(item, &mut writer, form, walk.list, &mut out)?;
        if rendered > 0 && out.len() + TAIL_BYTES > bytes_max {
            out.truncate(end);
            break;
        }
        rendered += 1;
    }
    out.push(b']');
    let more = page.more || rendered < page.items.len();
    if let Some(last) = page.items[..rendered].last().filter(|_| more) {
        out.extend_from_slice(b",\"next_page_token\":\"");
        // Base64url: nothing to escape.
        out.extend_from_slice(walk.token_after(last.key()).as_str().as_bytes());
        out.push(b'"');
    }
    out.push(b'}');
    let bytes = out.len();
    write_tag(&mut out);
    let both = Bytes::from(out);
    Ok(RenderedPage { text: both.slice(..bytes), tag: both.slice(bytes..), items: rendered })
}

/// The found members, as the JSON of [`Found`](liststore_contract::operations::lookup_items::Found). Several items that
/// exceed `bytes_max` are refused.
pub(crate) fn found(
    list: &ListKey,
    form: JsonForm,
    items: &[Option<Item>],
    bytes_max: usize,
) -> Result<Bytes, ServiceError> {
    let value_bytes: usize = items.iter().flatten().map(|item| item.value.len()).sum();
    let mut out = Vec::with_capacity(items.len() * BYTES_PER_ITEM + value_bytes + value_bytes / 8 + TAIL_BYTES);
    out.extend_from_slice(b"{\"results\":[");
    let (mut writer, mut is_first) = (Rfc3339Writer::default(), true);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match item {
            Some(item) => {
                write_item(item, &mut writer, form, list, &mut out)?;
                if out.len() > bytes_max && !is_first {
                    return Err(ServiceError::LookupTooLarge { fitting: index, asked: items.len() });
                }
                is_first = false;
            }
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"]}");
    Ok(out.into())
}

/// Appends the entity tag of a page to its text. It is a hash of the text, so that it stays valid after restarts and on
/// other servers. It is weak, because all content codings of the page share it.
fn write_tag(out: &mut Vec<u8>) {
    let hash = XxHash3_64::oneshot(out);
    out.extend_from_slice(b"W/\"");
    for nibble in (0..16).rev() {
        let digit = (hash >> (4 * nibble)) as u8 & 0xf;
        out.push(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit });
    }
    out.push(b'"');
}

/// The tag of another text.
pub(crate) fn tag_of_text(text: &[u8]) -> String {
    format!("W/\"{:016x}\"", XxHash3_64::oneshot(text))
}

fn write_item(
    item: &Item,
    writer: &mut Rfc3339Writer,
    form: JsonForm,
    list: &ListKey,
    out: &mut Vec<u8>,
) -> Result<(), ServiceError> {
    let damaged = |what: &dyn fmt::Display| {
        let ListKey { feature_key, entity_id, .. } = list;
        ServiceError::Damaged(format!("{what}: list {feature_key} of {entity_id}, item {}", item.key()))
    };
    let (key, value) = list.identity().split(&item.value);
    out.extend_from_slice(b"{\"timestamp\":\"");
    out.extend_from_slice(writer.text(item.timestamp));
    if let Some(key) = key {
        out.extend_from_slice(b"\",\"key\":");
        // A key is text, as strings are.
        ValueType::String.write_json(key, out).map_err(|undecodable| damaged(&undecodable))?;
        out.extend_from_slice(b",\"value\":");
    } else {
        out.extend_from_slice(b"\",\"value\":");
    }
    form.write_json(value, out).map_err(|undecodable| damaged(&undecodable))?;
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Int64As, ListKey, Order, Timestamp,
        VersionLabel,
    };

    fn list() -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        ListKey::new(key, EntityId::new("u-1").unwrap())
    }

    fn rendered(values: &[&'static [u8]], more: bool, bytes_max: usize) -> Result<serde_json::Value, ServiceError> {
        let list = list();
        let walk =
            ItemWalk { list: &list, min_timestamp: None, max_timestamp: None, as_of: None, order: Order::Newest };
        let items = values
            .iter()
            .enumerate()
            .map(|(at, value)| Item {
                timestamp: Timestamp::from_nanos(100 - at as u64).unwrap(),
                value: bytes::Bytes::from_static(value),
            })
            .collect();
        let form = JsonForm { value_type: ValueType::String, int64_as: Int64As::Number };
        let rendered = page(&ItemPage { items, more }, form, &walk, bytes_max)?;
        let json: serde_json::Value = serde_json::from_slice(&rendered.text).unwrap();
        assert_eq!(json["items"].as_array().unwrap().len(), rendered.items);
        let tag = std::str::from_utf8(&rendered.tag).unwrap();
        let digits = tag.strip_prefix("W/\"").and_then(|tag| tag.strip_suffix('"')).unwrap();
        assert_eq!(u64::from_str_radix(digits, 16), Ok(XxHash3_64::oneshot(&rendered.text)));
        Ok(json)
    }

    #[test]
    fn a_page_is_json() {
        let json = rendered(&[b"a\"b", b""], false, 10_000).unwrap();
        let expected = serde_json::json!({"items": [
            {"timestamp": "1970-01-01T00:00:00.000000100Z", "value": "a\"b"},
            {"timestamp": "1970-01-01T00:00:00.000000099Z", "value": ""},
        ]});
        assert_eq!(json, expected);
        assert_eq!(rendered(&[], false, 1).unwrap(), serde_json::json!({"items": []}));
    }

    #[test]
    fn a_token_is_present_exactly_if_more_items_follow() {
        let token = |json: serde_json::Value| json["next_page_token"].as_str().map(str::to_owned);
        assert_eq!(token(rendered(&[b"a", b"b"], false, 10_000).unwrap()), None);
        let after_a = token(rendered(&[b"a"], true, 10_000).unwrap());
        assert!(after_a.is_some());
        // Cut after one item, at any bound. The token has the key of the rendered item.
        assert_eq!(token(rendered(&[b"a", b"b"], false, 1).unwrap()), after_a);
    }

    #[test]
    fn an_unreadable_value_is_reported_with_its_item() {
        let damaged = rendered(&[b"\xff"], false, 10_000).unwrap_err();
        assert!(damaged.to_string().contains("user#seen| of u-1, item 0000000000000000100#"));
    }
}
