//! Reads the bodies of operations on many lists: `{"requests":[{…},…]}`.
//!
//! A body of plain form is read in one pass. Any other body is read as its type declares it.

use std::borrow::Cow;

use super::body::text_of;
use super::many::of_any_form;
use super::scanner::Scanner;
use super::{
    AddRequest, BATCH_ITEMS_MAX, BATCH_LISTS_MAX, BatchAddInput, BatchGetInput, GetRequest, Problem, Requests,
    check_bounds, plain_add,
};
use crate::domain::{EntityId, EntityType, FeatureName, Limit, Order, Timestamp, VersionLabel};

/// Bytes of a request, about: for as many as that, room is made at once.
const REQUEST_BYTES: usize = 64;
/// Items that a list is added to, about.
const ITEMS: usize = 16;

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

fn gets(body: &[u8]) -> Result<Requests<GetRequest<'_>>, Problem> {
    let text = text_of(body)?;
    let mut known = Names::default();
    plain(text, |scanner| plain_get(scanner, &mut known).map(Ok)).map_or_else(|| of_any_form(text, coherent), Ok)
}

fn adds(body: &[u8]) -> Result<Requests<AddRequest<'_>>, Problem> {
    let text = text_of(body)?;
    let mut known = Names::default();
    let plain = plain(text, |scanner| plain_add(scanner, &mut known).map(Ok))
        .filter(|requests| items(requests) <= BATCH_ITEMS_MAX);
    let requests = plain.map_or_else(|| of_any_form(text, Ok), Ok)?;
    if items(&requests) > BATCH_ITEMS_MAX {
        let detail = format!("a call takes at most {BATCH_ITEMS_MAX} items in total: split the request");
        return Err(Problem::argument("requests", detail));
    }
    Ok(requests)
}

fn items(requests: &Requests<AddRequest<'_>>) -> usize {
    requests.iter().flatten().map(|request| request.items.len()).sum()
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

/// Takes a member that must occur once.
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
        limit,
        min_timestamp,
        max_timestamp,
        as_of,
        order: order.unwrap_or_default(),
        page_token,
        aggregate: None,
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

/// Refuses members that do not go together.
fn coherent(request: GetRequest<'_>) -> Result<GetRequest<'_>, Problem> {
    check_bounds(request.min_timestamp, request.max_timestamp)?;
    if let Some(aggregate) = &request.aggregate {
        let given = [
            ("limit", request.limit.is_some()),
            ("min_timestamp", request.min_timestamp.is_some()),
            ("max_timestamp", request.max_timestamp.is_some()),
            ("as_of", request.as_of.is_some()),
            ("order", request.order != Order::default()),
            ("page_token", request.page_token.is_some()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, given)| *given) {
            let detail = format!("aggregate stands in place of items: leave {name} out");
            return Err(Problem::argument(name, detail));
        }
        aggregate.check().map_err(|problem| problem.within("aggregate"))?;
    }
    Ok(request)
}

/// A whole number. A number with too many digits saturates: the bound that follows names the accepted values.
pub(super) fn count(raw: &str) -> Option<usize> {
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

    /// The body of a call with one request, which has these members next to a list's name.
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
            limit: Limit::of_items(7).ok(),
            min_timestamp: at(1),
            max_timestamp: at(2),
            as_of: at(3),
            order: Order::Oldest,
            page_token: Some("x".into()),
            aggregate: None,
        };
        assert_eq!(read, [Ok(expected)]);
        let bare = one("");
        let default = gets(bare.as_bytes()).unwrap().remove(0).unwrap();
        assert_eq!((default.limit, default.order, default.as_of), (None, Order::Newest, None));
    }

    #[test]
    fn aggregates_stand_in_place_of_items() {
        let aggregate = r#""aggregate":{"windows":["1h"],"aggregates":[{"name":"n","function":"count"}]}"#;
        let body = one(&format!(",{aggregate}"));
        let read = gets(body.as_bytes()).unwrap().remove(0).unwrap();
        assert_eq!(read.aggregate.unwrap().aggregates.len(), 1);
        for (members, field) in [
            (format!(r#","limit":100,{aggregate}"#), "limit"),
            (format!(r#","order":"oldest",{aggregate}"#), "order"),
            (format!(r#","as_of":1,{aggregate}"#), "as_of"),
            (format!(r#",{}"#, aggregate.replace(r#"count""#, r#"count","k":1"#)), "aggregate.aggregates[0].k"),
            (format!(r#",{}"#, aggregate.replace("1h", "0s")), "aggregate.windows[0]"),
        ] {
            let problem = gets(one(&members).as_bytes()).unwrap().remove(0).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{members}");
        }
        assert_eq!(refusal(&one(r#","aggregate":{"windows":["1h"]}"#)).1, "requests[0].aggregate.aggregates");
        assert_eq!(refusal(&one(r#","aggregate":7"#)).1, "requests[0].aggregate");
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
            (r#","version":1"#, "version"),
            (r#","page_token":1"#, "page_token"),
            (r#","order":"up""#, "order"),
            (r#","order":null"#, "order"),
            (r#","as_of":null"#, "as_of"),
            (r#","min_timestamp":true,"version":".""#, "min_timestamp"),
        ] {
            assert_eq!(refusal(&one(members)), ("invalid_argument", format!("requests[0].{field}")), "{members}");
        }
        for (body, field) in [
            ("[]", ""),
            ("{}", "requests"),
            (r#"{"requests":{}}"#, "requests"),
            (r#"{"requests":[]}"#, "requests"),
            (r#"{"requests":[7]}"#, "requests[0]"),
            (r#"{"requests":[{}]}"#, "requests[0].entity_type"),
            (r#"{"requests":[{"entity_type":"a/b"}]}"#, "requests[0].feature"),
            (r#"{"requests":[{"entity_type":"a","feature":"b"}]}"#, "requests[0].entity_id"),
            (r#"{"requests":[{"entity_type":"a","feature":"b","entity_id":7}]}"#, "requests[0].entity_id"),
        ] {
            assert_eq!(refusal(body), ("invalid_argument", field.to_owned()), "{body}");
        }
        assert_eq!(refusal(&one(",")).0, "invalid_json");
    }

    /// The problem of the second of three requests, whose neighbours are read.
    fn own<T>(requests: Result<Requests<T>, Problem>) -> (&'static str, String) {
        let requests = requests.unwrap();
        assert!(requests.len() == 3 && requests[0].is_ok() && requests[2].is_ok());
        let problem = requests.into_iter().nth(1).unwrap().err().unwrap();
        (problem.code.name(), problem.field.unwrap_or_default().into_owned())
    }

    #[test]
    fn a_name_or_id_that_cannot_exist_is_a_problem_of_its_request_alone() {
        let id = |id: &str| format!(r#""entity_type":"a","feature":"b","entity_id":{id}"#);
        let long = format!("\"{}\"", "x".repeat(513));
        let ids = [r#""""#, r#"".""#, r#""..""#, r#""a\u0000b""#, r#""\ud800""#, &long];
        let mut gets_of = ids.map(|bad| (id(bad), "invalid_argument", "entity_id")).to_vec();
        for (members, code, field) in [
            (r#""entity_type":"a/b","feature":"b","entity_id":"u""#, "invalid_argument", "entity_type"),
            (r#""entity_type":"a","feature":"","entity_id":"u""#, "invalid_argument", "feature"),
            (r#""entity_type":"a","feature":"b","entity_id":"u","version":"..""#, "invalid_argument", "version"),
            (r#""entity_type":"a","feature":"b","entity_id":"u","as_of":-1"#, "invalid_timestamp", "as_of"),
            (
                r#""entity_type":"a","feature":"b","entity_id":"u","page_token":"\udc00""#,
                "invalid_argument",
                "page_token",
            ),
            (
                r#""entity_type":"a","feature":"b","entity_id":"u","max_timestamp":"soon""#,
                "invalid_timestamp",
                "max_timestamp",
            ),
            (
                r#""entity_type":"a","feature":"b","entity_id":"u","min_timestamp":2,"max_timestamp":1"#,
                "invalid_argument",
                "min_timestamp",
            ),
        ] {
            gets_of.push((members.to_owned(), code, field));
        }
        for (members, code, field) in &gets_of {
            let body = format!(r#"{{"requests":[{{{0}}},{{{members}}},{{{0}}}]}}"#, id("\"u\""));
            assert_eq!(own(gets(body.as_bytes())), (*code, (*field).to_owned()), "{members}");
        }
        let good = r#"{"timestamp":1,"value":"x"}"#;
        let item = |members: &str| (id("\"u\""), format!(r#"[{good},{{"value":1,{members}}}]"#));
        for ((list, items), code, field) in [
            ((id("\"..\""), format!("[{good}]")), "invalid_argument", "entity_id"),
            (item(r#""timestamp":"soon""#), "invalid_timestamp", "items[1].timestamp"),
            (item(r#""timestamp":-1"#), "invalid_timestamp", "items[1].timestamp"),
            (item(r#""timestamp":1,"key":"""#), "invalid_argument", "items[1].key"),
            (item(r#""timestamp":1,"key":"a\u0000b""#), "invalid_argument", "items[1].key"),
        ] {
            let of = |list: &str, items: &str| format!(r#"{{{list},"items":{items}}}"#);
            let neighbour = of(&id("\"u\""), &format!("[{good}]"));
            let body = format!(r#"{{"requests":[{neighbour},{},{neighbour}]}}"#, of(&list, &items));
            assert_eq!(own(adds(body.as_bytes())), (code, field.to_owned()), "{body}");
        }
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
        assert_eq!(refused(&body(&add(2).replacen('1', "null", 1), 1)), "requests[0].items[0].timestamp");
        assert_eq!(refused(&body(get, 1)), "requests[0].items");
    }

    proptest! {
        /// The fast reader reads a body as the careful one does.
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
                if let Some(requests) = plain(&text, |scanner| plain_get(scanner, &mut Names::default()).map(Ok)) {
                    prop_assert_eq!(of_any_form(&text, coherent), Ok(requests));
                }
            }
        }
    }
}
