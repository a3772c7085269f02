//! Just enough of Redis's protocol (RESP2) to measure a Redis in the same way.
//!
//! A list is a sorted set with the value as member and the timestamp as score, the usual form of such lists in Redis:
//! `ZRANGE … REV WITHSCORES`, `ZADD`, `ZREM`. Scores are doubles, so timestamps are in microseconds, which a double
//! represents exactly.

use std::ops::Range;

use liststore_contract::domain::Timestamp;

use super::batch::lists_of;
use super::data::{DataSet, ENTITY_PREFIX, write_added_value, write_list_digits};
use super::http::BODY_BYTES_MAX;
use super::operation::{ADDED_SPACING_NANOS, Kind, LoadRequest};
use super::response::{Malformed, Parsed, Response, ResponseStatus, SeenItem};

pub const NANOS_PER_SCORE: u64 = 1_000;
const LINE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub struct Resp {
    key_prefix: String,
    data: DataSet,
    batch: u64,
    /// `0`, the last index of a get, `REV`, `WITHSCORES`.
    get_tail: Vec<u8>,
    /// The lists of a get, which are as many commands, sent together.
    lists: u64,
}

impl Resp {
    pub fn new(feature: &str, data: DataSet, batch: u64, limit: u64) -> Self {
        let last = (limit - 1).to_string();
        let get_tail = format!("$1\r\n0\r\n${}\r\n{last}\r\n$3\r\nREV\r\n$10\r\nWITHSCORES\r\n", last.len());
        Self {
            key_prefix: format!("{feature}:{ENTITY_PREFIX}"),
            data,
            batch,
            get_tail: get_tail.into_bytes(),
            lists: 1,
        }
    }

    /// The same with gets of `lists` lists each.
    pub fn getting(self, lists: u64) -> Self {
        Self { lists, ..self }
    }

    pub fn render(&self, operation: &LoadRequest, out: &mut Vec<u8>) {
        match *operation {
            LoadRequest::Get { list } => {
                for list in lists_of(list, self.lists, &self.data) {
                    self.begin(6, "ZRANGE", list, out);
                    out.extend_from_slice(&self.get_tail);
                }
            }
            LoadRequest::Add { list, newest_nanos, number } => {
                let value_bytes = self.data.value_bytes;
                self.render_items(list, self.batch, out, |i, out| {
                    write_added_value(number + i, value_bytes, out);
                    newest_nanos - i * ADDED_SPACING_NANOS
                });
            }
            LoadRequest::Remove { list, index } => {
                self.begin(3, "ZREM", list, out);
                bulk_head(self.data.value_bytes, out);
                self.data.write_value(list, index, out);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Adds items `from..to` of the data set to a list.
    pub fn render_load(&self, list: u64, from: u64, to: u64, out: &mut Vec<u8>) {
        self.render_items(list, to - from, out, |i, out| {
            self.data.write_value(list, from + i, out);
            self.data.timestamp(list, from + i)
        });
    }

    /// `item` writes the value and returns the timestamp.
    fn render_items(&self, list: u64, count: u64, out: &mut Vec<u8>, item: impl Fn(u64, &mut Vec<u8>) -> u64) {
        self.begin(2 + 2 * count, "ZADD", list, out);
        let mut value = Vec::with_capacity(self.data.value_bytes);
        for i in 0..count {
            value.clear();
            let timestamp = item(i, &mut value);
            bulk((timestamp / NANOS_PER_SCORE).to_string().as_bytes(), out);
            bulk(&value, out);
        }
    }

    fn begin(&self, arguments: u64, command: &str, list: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("*{arguments}\r\n").as_bytes());
        bulk(command.as_bytes(), out);
        bulk_head(self.key_prefix.len() + super::data::LIST_DIGITS, out);
        out.extend_from_slice(self.key_prefix.as_bytes());
        write_list_digits(list, out);
        out.extend_from_slice(b"\r\n");
    }

    /// Looks for a whole answer. Only gets are answered with arrays, one for each list.
    pub fn parse(&self, input: &[u8]) -> Result<Parsed, Malformed> {
        let values = if input.first() == Some(&b'*') { self.lists } else { 1 };
        let mut bytes = 0;
        for _ in 0..values {
            match end_of_value(input, bytes, 0)? {
                Some(end) => bytes = end,
                None => return Ok(Parsed::Partial { bytes: None }),
            }
        }
        let status = match input {
            [b'-', ..] => {
                let text = String::from_utf8_lossy(&input[1..bytes]);
                let code = text.split_whitespace().next().unwrap_or("ERR").to_lowercase();
                ResponseStatus::Refused { retryable: matches!(code.as_str(), "loading" | "busy" | "tryagain"), code }
            }
            _ => ResponseStatus::Done,
        };
        Ok(Parsed::Complete(Response { bytes, body: 0..bytes, status, keep_alive: true }))
    }

    pub fn items(&self, kind: Kind, body: &[u8]) -> u64 {
        match kind {
            // Each item is two elements.
            Kind::Get => self.pages(body).unwrap_or_default().into_iter().map(elements_of).sum::<u64>() / 2,
            Kind::Add => self.batch,
            Kind::Remove => Self::read_integer(body).unwrap_or(0),
        }
    }

    /// The arrays of an answer to a get, one for each list.
    pub fn pages<'a>(&self, body: &'a [u8]) -> Result<Vec<&'a [u8]>, Malformed> {
        let mut begin = 0;
        let mut page = || {
            let end = end_of_value(body, begin, 0)?.ok_or_else(|| Malformed("a list is missing".into()))?;
            let page = &body[begin..end];
            begin = end;
            Ok(page)
        };
        (0..self.lists).map(|_| page()).collect()
    }

    pub fn read_integer(body: &[u8]) -> Result<u64, Malformed> {
        match (body.first(), line(body, 1)?) {
            (Some(b':'), Some((digits, _))) => Ok(parse_number(&body[digits]).max(0) as u64),
            _ => Err(Malformed("an integer was expected".into())),
        }
    }

    pub fn read_items(body: &[u8]) -> Result<Vec<SeenItem<'_>>, Malformed> {
        let mut elements = elements(body)?.into_iter();
        let mut items = Vec::new();
        while let (Some(member), Some(score)) = (elements.next(), elements.next()) {
            let score: u64 = std::str::from_utf8(score)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| Malformed("a score that is not a whole number".into()))?;
            let timestamp = Timestamp::saturating_from_nanos(u128::from(score) * u128::from(NANOS_PER_SCORE));
            items.push(SeenItem { timestamp, value: member.into() });
        }
        Ok(items)
    }
}

/// How many elements an array has.
fn elements_of(array: &[u8]) -> u64 {
    let elements = line(array, 1).ok().flatten().map_or(0, |(digits, _)| parse_number(&array[digits]));
    elements.max(0) as u64
}

/// The strings of an array; none if the answer is no such array.
pub fn strings(body: &[u8]) -> Vec<String> {
    let elements = elements(body).unwrap_or_default();
    elements.into_iter().map(|element| String::from_utf8_lossy(element).into_owned()).collect()
}

/// The strings of an array.
fn elements(body: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let broken = || Malformed("an array of strings was expected".into());
    if body.first() != Some(&b'*') {
        return Err(broken());
    }
    let (digits, mut at) = line(body, 1)?.ok_or_else(broken)?;
    let mut elements = Vec::new();
    for _ in 0..parse_number(&body[digits]) {
        if body.get(at) != Some(&b'$') {
            return Err(broken());
        }
        let (digits, begin) = line(body, at + 1)?.ok_or_else(broken)?;
        let end = begin + parse_number(&body[digits]).max(0) as usize;
        elements.push(body.get(begin..end).ok_or_else(broken)?);
        at = end + 2;
    }
    Ok(elements)
}

/// Where the value that begins at `at` ends; none if more bytes are needed.
fn end_of_value(input: &[u8], at: usize, depth: u8) -> Result<Option<usize>, Malformed> {
    let Some(kind) = input.get(at) else {
        return Ok(None);
    };
    let Some((text, mut end)) = line(input, at + 1)? else {
        return Ok(None);
    };
    match kind {
        b'+' | b'-' | b':' => Ok(Some(end)),
        b'$' => {
            let bytes = parse_number(&input[text]);
            if bytes > BODY_BYTES_MAX as i64 {
                return Err(Malformed(format!("a string of {bytes} bytes is too long")));
            }
            // Minus one means that there is none.
            let end = if bytes < 0 { end } else { end + bytes as usize + 2 };
            Ok((end <= input.len()).then_some(end))
        }
        b'*' if depth < 2 => {
            for _ in 0..parse_number(&input[text]) {
                match end_of_value(input, end, depth + 1)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        other => Err(Malformed(format!("not a Redis response: it begins with {:?}", char::from(*other)))),
    }
}

/// The line from `at` without its end, and where the next one begins.
fn line(input: &[u8], at: usize) -> Result<Option<(Range<usize>, usize)>, Malformed> {
    match input[at.min(input.len())..].iter().position(|byte| *byte == b'\r') {
        Some(length) if at + length + 1 < input.len() => Ok(Some((at..at + length, at + length + 2))),
        None if input.len() - at.min(input.len()) > LINE_BYTES_MAX => {
            Err(Malformed("a line of the response is too long".into()))
        }
        _ => Ok(None),
    }
}

fn parse_number(digits: &[u8]) -> i64 {
    std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    bulk_head(bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn bulk_head(bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("${bytes}\r\n").as_bytes());
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

    fn rendered(operation: LoadRequest) -> Vec<String> {
        let mut out = Vec::new();
        Resp::new("bench.lists", DATA, 2, 50).render(&operation, &mut out);
        // A command is an array too.
        assert_eq!(end_of_value(&out, 0, 0), Ok(Some(out.len())));
        elements(&out).unwrap().into_iter().map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()
    }

    fn resp() -> Resp {
        Resp::new("x", DATA, 2, 50)
    }

    #[test]
    fn commands_are_complete() {
        assert_eq!(
            rendered(LoadRequest::Get { list: 7 }),
            ["ZRANGE", "bench.lists:list-00000007", "0", "49", "REV", "WITHSCORES"]
        );
        let words = rendered(LoadRequest::Add { list: 8, newest_nanos: 1_724_949_845_430_001_000, number: 5 });
        assert_eq!(words[..3], ["ZADD", "bench.lists:list-00000008", "1724949845430001"]);
        assert_eq!((words.len(), words[4].as_str()), (6, "1724949845430000"));
        assert!(words[3].starts_with('A') && words[3].len() == 12);
        assert_eq!(rendered(LoadRequest::Remove { list: 9, index: 1 })[0], "ZREM");
    }

    #[test]
    fn an_answer_cut_at_any_byte_is_incomplete() {
        let answers: [&[u8]; 6] = [
            b"*4\r\n$2\r\nab\r\n$5\r\n17000\r\n$0\r\n\r\n$1\r\n1\r\n",
            b"*0\r\n",
            b"$-1\r\n",
            b":10\r\n",
            b"+OK\r\n",
            b"-LOADING Redis is loading the dataset in memory\r\n",
        ];
        for whole in answers {
            for cut in 0..whole.len() {
                assert_eq!(resp().parse(&whole[..cut]), Ok(Parsed::Partial { bytes: None }), "{cut}");
            }
            let Ok(Parsed::Complete(answer)) = resp().parse(whole) else { panic!("{whole:?}") };
            assert_eq!(answer.bytes, whole.len());
        }
        let Ok(Parsed::Complete(answer)) = resp().parse(answers[5]) else { panic!() };
        assert_eq!(answer.status, ResponseStatus::Refused { code: "loading".into(), retryable: true });
        assert!(resp().parse(b"HTTP/1.1 400 Bad Request\r\n").is_err());
    }

    #[test]
    fn a_get_of_several_lists_returns_one_array_each() {
        let resp = resp().getting(2);
        let mut sent = Vec::new();
        resp.render(&LoadRequest::Get { list: 1 }, &mut sent);
        assert_eq!(String::from_utf8(sent).unwrap().matches("ZRANGE").count(), 2);
        let whole = b"*2\r\n$2\r\nbb\r\n$4\r\n1700\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nc\r\n$1\r\n2\r\n";
        for cut in 0..whole.len() {
            assert_eq!(resp.parse(&whole[..cut]), Ok(Parsed::Partial { bytes: None }), "{cut}");
        }
        let Ok(Parsed::Complete(answer)) = resp.parse(whole) else { panic!() };
        assert_eq!((answer.bytes, resp.items(Kind::Get, whole)), (whole.len(), 3));
        let pages = resp.pages(whole).unwrap();
        assert_eq!(pages.iter().map(|page| Resp::read_items(page).unwrap().len()).collect::<Vec<_>>(), [1, 2]);
        assert!(matches!(resp.parse(b":3\r\n"), Ok(Parsed::Complete(_))), "an add is answered by one value");
    }

    #[test]
    fn items_are_counted_and_read() {
        let resp = Resp::new("x", DATA, 2, 50);
        let body = b"*4\r\n$2\r\nbb\r\n$4\r\n1700\r\n$2\r\naa\r\n$4\r\n1600\r\n";
        assert_eq!(resp.items(Kind::Get, body), 2);
        let items = Resp::read_items(body).unwrap();
        assert_eq!((items[0].timestamp.as_nanos(), &*items[0].value), (1_700_000, b"bb".as_slice()));
        assert_eq!(items.len(), 2);
        assert_eq!((resp.items(Kind::Get, b"*0\r\n"), resp.items(Kind::Get, b"*-1\r\n")), (0, 0));
        assert_eq!(resp.items(Kind::Remove, b":1\r\n"), 1);
        assert!(Resp::read_items(b":1\r\n").is_err());
    }
}
