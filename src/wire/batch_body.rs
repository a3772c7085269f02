//! Reads the bodies of operations on many lists: `{"requests":[{…},…]}`.
//!
//! A body of plain form is read in one pass. Any other is read with more care, and every refusal names the
//! request and the member to blame. A body is taken whole or refused whole.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::object::{Object, text_of};
use super::scanner::Scanner;
use super::{
    AddRequest, BATCH_ITEMS_MAX, BATCH_LISTS_MAX, BatchAddInput, BatchGetInput, GetRequest, Problem, add_body,
    plain_add,
};
use crate::domain::{EntityId, EntityType, FeatureName, Limit, Order, Timestamp, VersionLabel, json};

/// Bytes of a request, about: for as many as that, room is made at once.
const REQUEST_BYTES: usize = 64;
/// Items that a list is added to, about.
const ITEMS: usize = 16;

const GET: [&str; 10] = [
    "entity_type",
    "feature",
    "version",
    "entity_id",
    "limit",
    "min_timestamp",
    "max_timestamp",
    "as_of",
    "order",
    "page_token",
];
const ADD: [&str; 5] = ["entity_type", "feature", "version", "entity_id", "items"];

impl<'a> BatchGetInput<'a> {
    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        gets(body).map(|requests| Self { requests })
    }
}

impl<'a> BatchAddInput<'a> {
    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        adds(body).map(|requests| Self { requests })
    }
}

fn gets(body: &[u8]) -> Result<Vec<GetRequest<'_>>, Problem> {
    let text = text_of(body)?;
    let mut known = Names::default();
    plain(text, |scanner| plain_get(scanner, &mut known)).map_or_else(|| of_any_form(text, &GET, get), Ok)
}

fn adds(body: &[u8]) -> Result<Vec<AddRequest<'_>>, Problem> {
    let text = text_of(body)?;
    let mut known = Names::default();
    let plain =
        plain(text, |scanner| plain_add(scanner, &mut known)).filter(|requests| items(requests) <= BATCH_ITEMS_MAX);
    let requests = plain.map_or_else(|| of_any_form(text, &ADD, add), Ok)?;
    if items(&requests) > BATCH_ITEMS_MAX {
        let detail = format!("a call takes at most {BATCH_ITEMS_MAX} items in all: send more in several calls");
        return Err(Problem::argument("requests", detail));
    }
    Ok(requests)
}

fn items(requests: &[AddRequest<'_>]) -> usize {
    requests.iter().map(|request| request.items.len()).sum()
}

/// The names that were found to be well-formed last: most requests of a call are about one feature.
#[derive(Default)]
struct Names<'a>(&'a str, &'a str, &'a str);

impl<'a> Names<'a> {
    fn check(&mut self, entity_type: &'a str, feature: &'a str, version: &'a str) -> Option<()> {
        if (self.0, self.1, self.2) != (entity_type, feature, version) {
            EntityType::new(entity_type).ok()?;
            FeatureName::new(feature).ok()?;
            VersionLabel::new(version).ok()?;
            *self = Self(entity_type, feature, version);
        }
        Some(())
    }
}

/// The requests of a body of plain form; `None` if it has to be read with more care.
fn plain<'a, T>(text: &'a str, mut request: impl FnMut(&mut Scanner<'a>) -> Option<T>) -> Option<Vec<T>> {
    let mut scanner = Scanner::new(text);
    scanner.token(b'{')?;
    if scanner.string()? != r#""requests""# {
        return None;
    }
    scanner.token(b':')?;
    scanner.token(b'[')?;
    let mut requests = Vec::with_capacity((text.len() / REQUEST_BYTES).clamp(1, BATCH_LISTS_MAX));
    loop {
        requests.push(request(&mut scanner)?);
        if requests.len() > BATCH_LISTS_MAX {
            return None;
        }
        if scanner.token(b',').is_none() {
            break;
        }
    }
    scanner.token(b']')?;
    scanner.token(b'}')?;
    scanner.is_done().then_some(requests)
}

/// Reads an object of plain form member by member.
fn members<'a>(scanner: &mut Scanner<'a>, mut member: impl FnMut(&str, &mut Scanner<'a>) -> Option<()>) -> Option<()> {
    scanner.token(b'{')?;
    loop {
        let name = scanner.string()?;
        scanner.token(b':')?;
        member(name, scanner)?;
        if scanner.token(b',').is_none() {
            return scanner.token(b'}');
        }
    }
}

/// Takes a member that is there once.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// A string without its quotation marks.
fn unquoted<'a>(scanner: &mut Scanner<'a>) -> Option<&'a str> {
    let quoted = scanner.string()?;
    quoted.get(1..quoted.len() - 1)
}

fn plain_get<'a>(scanner: &mut Scanner<'a>, known: &mut Names<'a>) -> Option<GetRequest<'a>> {
    let (mut entity_type, mut feature, mut version, mut entity_id) = (None, None, None, None);
    let (mut limit, mut min_timestamp, mut max_timestamp, mut as_of) = (None, None, None, None);
    let (mut order, mut page_token) = (None, None);
    members(scanner, |name, scanner| match name {
        r#""entity_type""# => once(&mut entity_type, unquoted(scanner)?),
        r#""feature""# => once(&mut feature, unquoted(scanner)?),
        r#""version""# => once(&mut version, unquoted(scanner)?),
        r#""entity_id""# => once(&mut entity_id, unquoted(scanner)?),
        r#""limit""# => once(&mut limit, Limit::of_items(count(scanner.scalar()?)?).ok()?),
        r#""min_timestamp""# => once(&mut min_timestamp, Timestamp::from_json(scanner.scalar()?).ok()?),
        r#""max_timestamp""# => once(&mut max_timestamp, Timestamp::from_json(scanner.scalar()?).ok()?),
        r#""as_of""# => once(&mut as_of, Timestamp::from_json(scanner.scalar()?).ok()?),
        r#""order""# => once(&mut order, Order::parse(unquoted(scanner)?).ok()?),
        r#""page_token""# => once(&mut page_token, Cow::Borrowed(unquoted(scanner)?)),
        _ => None,
    })?;
    let (entity_type, feature, version) = (entity_type?, feature?, version.unwrap_or_default());
    known.check(entity_type, feature, version)?;
    if min_timestamp.zip(max_timestamp).is_some_and(|(min, max)| min > max) {
        return None;
    }
    Some(GetRequest {
        entity_type: entity_type.into(),
        feature: feature.into(),
        version: version.into(),
        entity_id: EntityId::new(entity_id?).ok()?,
        limit: limit.unwrap_or(Limit::DEFAULT),
        min_timestamp,
        max_timestamp,
        as_of,
        order: order.unwrap_or_default(),
        page_token,
    })
}

fn plain_add<'a>(scanner: &mut Scanner<'a>, known: &mut Names<'a>) -> Option<AddRequest<'a>> {
    let (mut entity_type, mut feature, mut version, mut entity_id, mut items) = (None, None, None, None, None);
    members(scanner, |name, scanner| match name {
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

/// The requests of a body of any form.
pub(super) fn of_any_form<'a, T>(
    text: &'a str,
    known: &[&str],
    request: impl Fn(&Object<'a>) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let body = Object::read(text.as_bytes(), &["requests"], &[])?;
    let raw = body.required_raw("requests")?;
    let elements: Vec<&'a RawValue> =
        serde_json::from_str(raw).map_err(|_| Problem::argument("requests", "requests must be an array of objects"))?;
    if !(1..=BATCH_LISTS_MAX).contains(&elements.len()) {
        let detail = format!("a call takes 1 to {BATCH_LISTS_MAX} requests: send more in several calls");
        return Err(Problem::argument("requests", detail));
    }
    let read = |(index, element): (usize, &'a RawValue)| {
        let place = format!("requests[{index}]");
        if !element.get().starts_with('{') {
            let detail = format!("{place} must be an object");
            return Err(Problem::argument(place, detail));
        }
        Object::read(element.get().as_bytes(), known, &[])
            .and_then(|object| request(&object))
            .map_err(|problem| problem.within(&place))
    };
    elements.into_iter().enumerate().map(read).collect()
}

fn get<'a>(object: &Object<'a>) -> Result<GetRequest<'a>, Problem> {
    let [entity_type, feature, version] = names(object)?;
    let limit = match object.raw("limit") {
        Some(raw) => {
            let limit = count(raw).ok_or_else(|| Problem::argument("limit", "limit must be a whole number"))?;
            Limit::of_items(limit).map_err(|invalid| Problem::from(invalid).at("limit"))?
        }
        None => Limit::DEFAULT,
    };
    let timestamp = |name: &'static str| {
        let parsed = object.raw(name).map(Timestamp::from_json).transpose();
        parsed.map_err(|invalid| Problem::from(invalid).at(name))
    };
    let (min_timestamp, max_timestamp) = (timestamp("min_timestamp")?, timestamp("max_timestamp")?);
    let as_of = timestamp("as_of")?;
    let order = object.optional("order", Order::parse)?.unwrap_or_default();
    if min_timestamp.zip(max_timestamp).is_some_and(|(min, max)| min > max) {
        return Err(Problem::argument("min_timestamp", "min_timestamp is above max_timestamp"));
    }
    let page_token = object
        .raw("page_token")
        .map(|raw| json::string(raw).ok_or_else(|| Problem::argument("page_token", "page_token must be a string")));
    let (entity_id, page_token) = (object.required("entity_id", EntityId::new)?, page_token.transpose()?);
    Ok(GetRequest {
        entity_type,
        feature,
        version,
        entity_id,
        limit,
        min_timestamp,
        max_timestamp,
        as_of,
        order,
        page_token,
    })
}

fn add<'a>(object: &Object<'a>) -> Result<AddRequest<'a>, Problem> {
    let [entity_type, feature, version] = names(object)?;
    let entity_id = object.required("entity_id", EntityId::new)?;
    let items = add_body::parse_items(object.required_raw("items")?)?;
    Ok(AddRequest { entity_type, feature, version, entity_id, items })
}

/// The names of a list's feature version, which are well-formed.
fn names<'a>(object: &Object<'a>) -> Result<[Cow<'a, str>; 3], Problem> {
    let entity_type = object.required("entity_type", |text| EntityType::new(text).map(|_| text.to_owned()))?;
    let feature = object.required("feature", |text| FeatureName::new(text).map(|_| text.to_owned()))?;
    let version = object.optional("version", |text| VersionLabel::new(text).map(|_| text.to_owned()))?;
    Ok([entity_type.into(), feature.into(), version.unwrap_or_default().into()])
}

/// A whole number. One with too many digits is as large as any: the bound that follows names what is taken.
fn count(raw: &str) -> Option<usize> {
    raw.bytes().all(|byte| byte.is_ascii_digit()).then(|| raw.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(body: &str) -> (&'static str, String) {
        let problem = gets(body.as_bytes()).unwrap_err();
        (problem.code.name(), problem.field.unwrap_or_default().into_owned())
    }

    /// The body of a call with one request, which has these members beside a list's name.
    fn one(members: &str) -> String {
        format!(r#"{{"requests":[{{"entity_type":"user","feature":"seen","entity_id":"u"{members}}}]}}"#)
    }

    #[test]
    fn requests_are_read_in_any_form() {
        let plain = one(
            r#","version":"v2","limit":7,"min_timestamp":1,"max_timestamp":"2","as_of":3,"order":"oldest","page_token":"x""#,
        );
        let escaped = plain.replace("user", r"us\u0065r").replace('{', " { ").replace(',', " ,\n");
        assert!(super::plain(&plain, |scanner| plain_get(scanner, &mut Names::default())).is_some());
        assert!(super::plain(&escaped, |scanner| plain_get(scanner, &mut Names::default())).is_none());
        let (read, expected) = (gets(escaped.as_bytes()).unwrap(), gets(plain.as_bytes()).unwrap());
        assert_eq!(read, expected);
        let at = |nanos| Timestamp::from_nanos(nanos).ok();
        let expected = GetRequest {
            entity_type: "user".into(),
            feature: "seen".into(),
            version: "v2".into(),
            entity_id: EntityId::new("u").unwrap(),
            limit: Limit::of_items(7).unwrap(),
            min_timestamp: at(1),
            max_timestamp: at(2),
            as_of: at(3),
            order: Order::Oldest,
            page_token: Some("x".into()),
        };
        assert_eq!(read, [expected]);
        let bare = one("");
        let default = gets(bare.as_bytes()).unwrap().remove(0);
        assert_eq!((default.limit, default.order, default.as_of), (Limit::DEFAULT, Order::Newest, None));
    }

    #[test]
    fn every_refusal_names_the_request_and_the_member() {
        for (members, field) in [
            (r#","limit":0"#, "limit"),
            (r#","limit":10001"#, "limit"),
            (r#","limit":99999999999999999999999"#, "limit"),
            (r#","limit":-1"#, "limit"),
            (r#","limit":"5""#, "limit"),
            (r#","limit":null"#, "limit"),
            (r#","limits":5"#, "limits"),
            (r#","entity_id":"v""#, "entity_id"),
            (r#","version":".""#, "version"),
            (r#","version":1"#, "version"),
            (r#","page_token":1"#, "page_token"),
            (r#","order":"up""#, "order"),
            (r#","order":null"#, "order"),
            (r#","min_timestamp":2,"max_timestamp":1"#, "min_timestamp"),
        ] {
            assert_eq!(refusal(&one(members)), ("invalid_argument", format!("requests[0].{field}")), "{members}");
        }
        let soon = one(r#","max_timestamp":"soon""#);
        assert_eq!(refusal(&soon), ("invalid_timestamp", "requests[0].max_timestamp".to_owned()));
        assert_eq!(refusal(&one(r#","as_of":-1"#)), ("invalid_timestamp", "requests[0].as_of".to_owned()));
        for (body, field) in [
            ("[]", ""),
            ("{}", "requests"),
            (r#"{"requests":{}}"#, "requests"),
            (r#"{"requests":[]}"#, "requests"),
            (r#"{"requests":[7]}"#, "requests[0]"),
            (r#"{"requests":[{}]}"#, "requests[0].entity_type"),
            (r#"{"requests":[{"entity_type":"a/b"}]}"#, "requests[0].entity_type"),
            (r#"{"requests":[{"entity_type":"a","feature":"b"}]}"#, "requests[0].entity_id"),
            (r#"{"requests":[{"entity_type":"a","feature":"b","entity_id":".."}]}"#, "requests[0].entity_id"),
        ] {
            assert_eq!(refusal(body), ("invalid_argument", field.to_owned()), "{body}");
        }
        assert_eq!(refusal(&one(",")).0, "invalid_json");
    }

    #[test]
    fn the_number_of_requests_and_of_items_is_bounded() {
        let get = r#"{"entity_type":"user","feature":"seen","entity_id":"u"}"#;
        let body = |request: &str, n: usize| format!(r#"{{"requests":[{}]}}"#, vec![request; n].join(","));
        assert_eq!(gets(body(get, BATCH_LISTS_MAX).as_bytes()).unwrap().len(), BATCH_LISTS_MAX);
        assert_eq!(refusal(&body(get, BATCH_LISTS_MAX + 1)), ("invalid_argument", "requests".to_owned()));
        let add = |items: usize| {
            let items = vec![r#"{"timestamp":1,"value":"x"}"#; items].join(",");
            format!(r#"{{"entity_type":"user","feature":"seen","entity_id":"u","items":[{items}]}}"#)
        };
        let refused = |body: &str| adds(body.as_bytes()).unwrap_err().field.unwrap_or_default().into_owned();
        assert_eq!(adds(body(&add(1_000), 10).as_bytes()).unwrap().len(), 10);
        assert_eq!(refused(&body(&add(1_000), 11)), "requests");
        assert_eq!(refused(&body(&add(1_001), 1)), "requests[0].items");
        assert_eq!(refused(&body(&add(1).replace("\"x\"", "x"), 1)), "");
        assert_eq!(
            refused(&body(&add(2).replacen('1', "soon", 1).replace("soon", "\"soon\""), 1)),
            "requests[0].items[0].timestamp"
        );
        assert_eq!(refused(&body(get, 1)), "requests[0].items");
    }

    proptest! {
        /// What is read at one go is what is read with care.
        #[test]
        fn a_body_means_the_same_to_both_readers(
            requests in prop::collection::vec(
                (
                    "entity_type|feature|limit|x", "\"[a.]{1,2}\"|[0-9]{1,2}|-1|\"\\\\n\"",
                    "feature|version|limit|min_timestamp|as_of|order|page_token",
                    "\"[a/]{0,2}\"|\"oldest\"|[0-9]{0,3}|\"[0-9]\"|true|1e1",
                ),
                0..3,
            ),
            cut in 0_usize..200,
            junk in "[\\]\\[{}:,\" \\\\a0]?",
        ) {
            let request = |(a, b, c, d): &(String, String, String, String)| {
                format!(r#"{{"entity_type":"e","{a}":{b},"{c}":{d},"entity_id":"u"}}"#)
            };
            let body = format!(r#"{{"requests":[{}]}}"#, requests.iter().map(request).collect::<Vec<_>>().join(","));
            for text in [body.clone(), [&body[..cut.min(body.len())], &junk, &body[cut.min(body.len())..]].concat()] {
                if let Some(requests) = plain(&text, |scanner| plain_get(scanner, &mut Names::default())) {
                    prop_assert_eq!(of_any_form(&text, &GET, get), Ok(requests));
                }
            }
        }
    }
}
