//! Just enough HTTP/1.1 for a load generator: requests are rendered from prepared pieces, and answers must have a
//! length.
//!
//! A general client costs several times the CPU time of the measured server. This one sends at most one request ahead
//! of its answer, and refuses unknown forms.

use std::borrow::Cow;

use liststore_contract::domain::Timestamp;
use liststore_contract::operations::{add_items, get_items, remove_items};
use liststore_contract::row::Row;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::batch::BatchGet;
use super::data::{DataSet, ENTITY_PREFIX, write_added_value, write_list_digits};
use super::endpoint::{Endpoint, write_body};
use super::operation::{ADDED_SPACING_NANOS, Kind, LoadRequest};
use super::response::{Malformed, Parsed, Response, ResponseStatus, SeenItem};

const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Greater than the largest default answer of a server (4 MiB and one item).
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// The destination of requests, and their common parts.
#[derive(Debug)]
pub struct Http {
    get_head: Vec<u8>,
    get_tail: Vec<u8>,
    add_head: Vec<u8>,
    add_tail: Vec<u8>,
    remove_tail: Vec<u8>,
    /// For gets of several lists.
    several: Option<BatchGet>,
    data: DataSet,
    batch: u64,
}

impl Http {
    pub fn new(endpoint: &Endpoint, data: DataSet, batch: u64, limit: u64) -> Self {
        let Endpoint { host, lists_path, authorization, .. } = endpoint;
        let authorization = authorization.as_ref().map(|text| format!("Authorization: {text}\r\n")).unwrap_or_default();
        let host = format!("{host}\r\n{authorization}");
        // The length comes last in a head, where the body's own length is known.
        let post = |action: &str| {
            format!("{action} HTTP/1.1\r\nHost: {host}Content-Type: application/json\r\nContent-Length: ")
        };
        let behind = |operation: &'static Row| operation.path_around_last(&[]).1;
        Self {
            get_head: format!("GET {lists_path}{ENTITY_PREFIX}").into_bytes(),
            get_tail: format!("{}?limit={limit} HTTP/1.1\r\nHost: {host}\r\n", behind(&get_items::ROW)).into_bytes(),
            add_head: format!("POST {lists_path}{ENTITY_PREFIX}").into_bytes(),
            add_tail: post(behind(&add_items::ROW)).into_bytes(),
            remove_tail: post(behind(&remove_items::ROW)).into_bytes(),
            several: None,
            data,
            batch,
        }
    }

    /// The same with gets of `lists` lists each.
    pub fn getting(self, endpoint: &Endpoint, limit: u64, lists: u64) -> Self {
        Self { several: (lists > 1).then(|| BatchGet::new(endpoint, limit, lists)), ..self }
    }

    pub fn gets_several(&self) -> bool {
        self.several.is_some()
    }

    pub fn render(&self, operation: &LoadRequest, out: &mut Vec<u8>) {
        match *operation {
            LoadRequest::Get { list } => match &self.several {
                Some(several) => several.render(list, &self.data, out),
                None => {
                    out.extend_from_slice(&self.get_head);
                    write_list_digits(list, out);
                    out.extend_from_slice(&self.get_tail);
                }
            },
            LoadRequest::Add { list, newest_nanos, number } => {
                let value_bytes = self.data.value_bytes;
                self.render_items(list, self.batch, out, |i, out| {
                    write_decimal(newest_nanos - i * ADDED_SPACING_NANOS, out);
                    out.extend_from_slice(b",\"value\":\"");
                    write_added_value(number + i, value_bytes, out);
                });
            }
            LoadRequest::Remove { list, index } => {
                out.extend_from_slice(&self.add_head);
                write_list_digits(list, out);
                out.extend_from_slice(&self.remove_tail);
                write_body(out, |out| {
                    out.extend_from_slice(b"{\"value\":\"");
                    self.data.write_value(list, index, out);
                    out.extend_from_slice(b"\"}");
                });
            }
        }
    }

    /// Adds items `from..to` of the data set to a list.
    pub fn render_load(&self, list: u64, from: u64, to: u64, out: &mut Vec<u8>) {
        self.render_items(list, to - from, out, |i, out| {
            write_decimal(self.data.timestamp(list, from + i), out);
            out.extend_from_slice(b",\"value\":\"");
            self.data.write_value(list, from + i, out);
        });
    }

    fn render_items(&self, list: u64, count: u64, out: &mut Vec<u8>, item: impl Fn(u64, &mut Vec<u8>)) {
        out.extend_from_slice(&self.add_head);
        write_list_digits(list, out);
        out.extend_from_slice(&self.add_tail);
        write_body(out, |out| {
            let mut before = "{\"items\":[{\"timestamp\":";
            for i in 0..count {
                out.extend_from_slice(before.as_bytes());
                item(i, out);
                out.extend_from_slice(b"\"}");
                before = ",{\"timestamp\":";
            }
            out.extend_from_slice(b"]}");
        });
    }

    /// Looks for a whole answer.
    pub fn parse(input: &[u8]) -> Result<Parsed, Malformed> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let head_bytes = match response.parse(input) {
            Ok(httparse::Status::Complete(bytes)) => bytes,
            Ok(httparse::Status::Partial) if input.len() > HEAD_BYTES_MAX => {
                return Err(Malformed(format!("the response head is longer than {HEAD_BYTES_MAX} bytes")));
            }
            Ok(httparse::Status::Partial) => return Ok(Parsed::Partial { bytes: None }),
            Err(error) => return Err(Malformed(format!("the response is not HTTP/1.1: {error}"))),
        };
        let status = response.code.unwrap_or_default();
        let mut keep_alive = response.version == Some(1);
        let mut length = None;
        for header in response.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                length = Some(parse_decimal(header.value).ok_or_else(|| Malformed("no Content-Length".into()))?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(Malformed("the response is chunked: the load generator needs a Content-Length".into()));
            } else if header.name.eq_ignore_ascii_case("connection") {
                keep_alive &= !header.value.eq_ignore_ascii_case(b"close");
            }
        }
        let body_bytes = match (status, length) {
            (100..200, _) => return Err(Malformed(format!("unexpected interim response {status}"))),
            (204 | 304, _) => 0,
            (_, Some(length)) if length <= BODY_BYTES_MAX as u64 => length as usize,
            (_, Some(length)) => return Err(Malformed(format!("a response of {length} bytes is too long"))),
            (_, None) => return Err(Malformed("the response has no length".into())),
        };
        let bytes = head_bytes + body_bytes;
        if input.len() < bytes {
            return Ok(Parsed::Partial { bytes: Some(bytes) });
        }
        let body = head_bytes..bytes;
        let status =
            if (200..300).contains(&status) { ResponseStatus::Done } else { refused(status, &input[body.clone()]) };
        Ok(Parsed::Complete(Response { bytes, body, status, keep_alive }))
    }

    pub fn items(&self, kind: Kind, body: &[u8]) -> u64 {
        match kind {
            // One brace opens the answer, one each item, and one each list of several. No value of ours contains any.
            Kind::Get => {
                let others = 1 + self.several.as_ref().map_or(0, |several| several.count);
                (body.iter().filter(|byte| **byte == b'{').count() as u64).saturating_sub(others)
            }
            Kind::Add => self.batch,
            Kind::Remove => serde_json::from_slice(body).map_or(0, |Removed { removed }| removed),
        }
    }

    pub fn read_items(body: &[u8]) -> Result<Vec<SeenItem<'_>>, Malformed> {
        let page: Page<'_> = serde_json::from_slice(body).map_err(|e| Malformed(format!("a get's answer: {e}")))?;
        page.items.into_iter().map(ItemView::read).collect()
    }

    pub fn read_added(body: &[u8]) -> Result<u64, Malformed> {
        let Added { added, already_expired } =
            serde_json::from_slice(body).map_err(|e| Malformed(format!("the response of an add: {e}")))?;
        match already_expired {
            0 => Ok(added),
            expired => Err(Malformed(format!("{expired} current items were counted as expired"))),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page<'a> {
    #[serde(borrow)]
    items: Vec<ItemView<'a>>,
    #[serde(default, rename = "next_page_token")]
    _next_page_token: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemView<'a> {
    timestamp: &'a str,
    #[serde(borrow)]
    value: Cow<'a, str>,
}

impl<'a> ItemView<'a> {
    fn read(self) -> Result<SeenItem<'a>, Malformed> {
        let timestamp = Timestamp::parse(self.timestamp).map_err(|e| Malformed(e.to_string()))?;
        if timestamp.to_string() != self.timestamp {
            return Err(Malformed(format!("the timestamp {} is not in the documented form", self.timestamp)));
        }
        let value = match self.value {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        Ok(SeenItem { timestamp, value })
    }
}

#[derive(Deserialize)]
struct Added {
    added: u64,
    already_expired: u64,
}

#[derive(Deserialize)]
struct Removed {
    removed: u64,
}

/// The problem document's code (RFC 9457), or the status if there is none.
fn refused(status: u16, body: &[u8]) -> ResponseStatus {
    #[derive(Deserialize)]
    struct Problem {
        code: String,
        retryable: bool,
    }
    match serde_json::from_slice(body) {
        Ok(Problem { code, retryable }) => ResponseStatus::Refused { code, retryable },
        Err(_) => ResponseStatus::Refused { code: format!("http_{status}"), retryable: status >= 500 },
    }
}

fn write_decimal(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: DataSet = DataSet {
        lists: 10,
        length: 20,
        value_bytes: 12,
        oldest_nanos: 1_700_000_000_000_000_000,
        spacing_nanos: 1_000_000,
    };

    fn http() -> Http {
        let endpoint =
            Endpoint { host: "h:1".into(), lists_path: "/v1/lists/bench/lists/".into(), ..Endpoint::default() };
        Http::new(&endpoint, DATA, 3, 50)
    }

    fn rendered(operation: LoadRequest) -> (String, serde_json::Value) {
        let mut out = Vec::new();
        http().render(&operation, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        assert_eq!(length.map(|digits| digits.trim().parse()), (!body.is_empty()).then_some(Ok(body.len())));
        (head.lines().next().unwrap().to_owned(), serde_json::from_str(body).unwrap_or_default())
    }

    #[test]
    fn requests_are_complete() {
        let (line, _) = rendered(LoadRequest::Get { list: 7 });
        assert_eq!(line, "GET /v1/lists/bench/lists/list-00000007/items?limit=50 HTTP/1.1");

        let newest_nanos = 1_724_949_845_430_000_000;
        let (line, body) = rendered(LoadRequest::Add { list: 8, newest_nanos, number: 40 });
        assert_eq!(line, "POST /v1/lists/bench/lists/list-00000008/items HTTP/1.1");
        let items = body["items"].as_array().unwrap();
        assert_eq!(items.len(), 3);
        for (i, item) in items.iter().enumerate() {
            let mut value = Vec::new();
            write_added_value(40 + i as u64, 12, &mut value);
            assert_eq!(item["timestamp"].as_u64(), Some(newest_nanos - i as u64 * ADDED_SPACING_NANOS));
            assert_eq!(item["value"].as_str(), std::str::from_utf8(&value).ok());
        }

        let (line, body) = rendered(LoadRequest::Remove { list: 9, index: 4 });
        assert_eq!(line, "POST /v1/lists/bench/lists/list-00000009/items:remove HTTP/1.1");
        let mut value = Vec::new();
        DATA.write_value(9, 4, &mut value);
        assert_eq!(body["value"].as_str(), std::str::from_utf8(&value).ok());
    }

    #[test]
    fn a_load_carries_items_of_the_data_set() {
        let mut out = Vec::new();
        http().render_load(2, 5, 20, &mut out);
        let text = String::from_utf8(out).unwrap();
        let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body["items"].as_array().unwrap().len(), 15);
        assert_eq!(body["items"][0]["timestamp"].as_u64(), Some(DATA.timestamp(2, 5)));
    }

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 12\r\n\r\n{\"items\":[]}";

    #[test]
    fn an_answer_cut_at_any_byte_is_incomplete() {
        let answers: [&[u8]; 3] = [
            OK,
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 21\r\n\r\n{\"code\":\"overloaded\"}",
        ];
        for whole in answers {
            for cut in 0..whole.len() {
                match Http::parse(&whole[..cut]) {
                    Ok(Parsed::Partial { bytes }) => assert!(bytes.is_none_or(|bytes| bytes == whole.len()), "{cut}"),
                    other => panic!("cut at {cut}: {other:?}"),
                }
            }
            let mut followed = whole.to_vec();
            followed.extend_from_slice(b"HTTP/1.1 200");
            for input in [whole, &followed] {
                let Ok(Parsed::Complete(answer)) = Http::parse(input) else { panic!("{whole:?}") };
                assert_eq!((answer.bytes, answer.body.end), (whole.len(), whole.len()));
            }
        }
    }

    #[test]
    fn statuses_and_connections_are_distinguished() {
        let parse = |text: &str| match Http::parse(text.as_bytes()) {
            Ok(Parsed::Complete(answer)) => (answer.status, answer.keep_alive),
            other => panic!("{text}: {other:?}"),
        };
        let refused = |code: &str, retryable| ResponseStatus::Refused { code: code.into(), retryable };
        assert_eq!(parse("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), (ResponseStatus::Done, true));
        assert_eq!(parse("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), (ResponseStatus::Done, false));
        assert_eq!(
            parse(
                "HTTP/1.1 503 X\r\nConnection: Close\r\nContent-Length: 36\r\n\r\n{\"code\":\"draining\",\"retryable\":true}"
            ),
            (refused("draining", true), false)
        );
        assert_eq!(parse("HTTP/1.1 502 X\r\nContent-Length: 3\r\n\r\n<p>"), (refused("http_502", true), true));
        assert_eq!(parse("HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n"), (refused("http_404", false), true));
    }

    #[test]
    fn answers_without_framing_are_refused() {
        for bad in [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n",
        ] {
            assert!(Http::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Http::parse(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX)).as_bytes()).is_err());
    }

    #[test]
    fn items_are_counted_and_read() {
        let body = br#"{"items":[{"timestamp":"2024-08-29T16:44:05.430000000Z","value":"b"},{"timestamp":"2024-08-29T16:44:05.000000000Z","value":"a"}],"next_page_token":"x"}"#;
        assert_eq!(http().items(Kind::Get, body), 2);
        let items = Http::read_items(body).unwrap();
        assert_eq!(items[0].timestamp.as_nanos(), 1_724_949_845_430_000_000);
        assert_eq!(&*items[1].value, b"a");
        assert_eq!(http().items(Kind::Get, b"{\"items\":[]}"), 0);
        assert_eq!(http().items(Kind::Remove, b"{\"removed\":4}"), 4);
        for bad in [
            r#"{"items":[{"timestamp":"2024-08-29T16:44:05Z","value":"b"}]}"#,
            r#"{"items":[{"timestamp":"2024-08-29T16:44:05.430000000Z","value":"b"}],"more":1}"#,
            r#"{"items":[{"timestamp":"2024-08-29T16:44:05.430000000Z","value":"b"}"#,
            r#"{"items":[{"value":"b"}]}"#,
        ] {
            assert!(Http::read_items(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(Http::read_added(b"{\"added\":3,\"already_expired\":0}"), Ok(3));
        assert!(Http::read_added(b"{\"added\":2,\"already_expired\":1}").is_err());
    }
}
