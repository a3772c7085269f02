//! The request headers with a meaning in this API.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};

use super::problem::Problem;
use super::response::Response;
use crate::access::token::holds_a_secret;
use crate::access::{Left, Limiter, whole_secs};
use crate::domain::{Author, Revision, Timestamp};
use crate::metadata::Precondition;
use crate::service::{BagConditions, BagTags};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TIMEOUT: HeaderName = HeaderName::from_static("liststore-timeout-ms");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const USER: HeaderName = HeaderName::from_static("liststore-user");

const REQUEST_ID_CHARS_MAX: usize = 128;
/// The length of a generated ID: the process's number in 16 hexadecimal digits with a hyphen, and the count in up to
/// 16.
const PROCESS_BYTES: usize = 16 + 1;
const COUNT_BYTES: usize = 16;

/// The names of the limited quantities, in the order of [`Limiter::left`].
const LIMITED: [&str; 2] = ["requests", "items"];

/// Reports the remaining quota to callers with limits, in `RateLimit` and `RateLimit-Policy`
/// (draft-ietf-httpapi-ratelimit-headers-11).
///
/// A quota is the burst, and its window is the time in which the burst refills. The rest is valid until it grows, which
/// happens at the time of `Retry-After` at the latest. Items are a quota unit of this server, because the draft counts
/// requests by default.
pub(crate) fn report_limits(response: &mut Response, limiter: &Limiter) {
    let (mut limits, mut policies) = (String::new(), String::new());
    for (name, left) in LIMITED.iter().zip(limiter.left()) {
        let Some(Left { rate, units, more_in }) = left else { continue };
        let between = if limits.is_empty() { "" } else { ", " };
        let (quota, window) = (rate.burst().get(), rate.burst().get().div_ceil(rate.per_second().get()));
        limits.push_str(&format!("{between}\"{name}\";r={units};t={}", whole_secs(more_in)));
        policies.push_str(&format!("{between}\"{name}\";q={quota};w={window};qu=\"{name}\""));
    }
    for (name, value) in [(RATE_LIMIT, limits), (RATE_LIMIT_POLICY, policies)] {
        if let Ok(value) = HeaderValue::from_str(&value)
            && !value.is_empty()
        {
            response.add(name, value);
        }
    }
}

/// Makes IDs for requests without one: a random number from the start of the process, and a count. Unique, cheap, and
/// no secret.
#[derive(Debug)]
pub(crate) struct RequestIds {
    /// The number in hexadecimal digits, and a hyphen.
    process: [u8; PROCESS_BYTES],
    count: AtomicU64,
}

impl RequestIds {
    pub fn new() -> Self {
        let (number, _) = uuid::Uuid::new_v4().as_u64_pair();
        let mut process = [b'-'; PROCESS_BYTES];
        process.iter_mut().zip(format!("{number:016x}").bytes()).for_each(|(place, digit)| *place = digit);
        Self { process, count: AtomicU64::new(0) }
    }

    /// The ID of a request: its own if it is 1–128 visible ASCII characters, otherwise a new one. An ID that contains a
    /// secret is replaced, because the log has it on every line.
    pub fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let is_fit = |value: &&HeaderValue| {
            (1..=REQUEST_ID_CHARS_MAX).contains(&value.len())
                && value.as_bytes().iter().all(u8::is_ascii_graphic)
                && !holds_a_secret(value.as_bytes())
        };
        match headers.get(REQUEST_ID).filter(is_fit) {
            Some(own) => own.clone(),
            None => self.make(),
        }
    }

    fn make(&self) -> HeaderValue {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        // Makes one allocation, for the value, and does not use formatting, because every request without an ID runs
        // this.
        let mut id = [0; PROCESS_BYTES + COUNT_BYTES];
        let mut digits = [0; COUNT_BYTES];
        let length = PROCESS_BYTES + write_hexadecimal(count, &mut digits);
        id[..PROCESS_BYTES].copy_from_slice(&self.process);
        id[PROCESS_BYTES..].copy_from_slice(&digits);
        // A generated ID is always a valid value.
        HeaderValue::from_bytes(&id[..length]).unwrap_or(HeaderValue::from_static("-"))
    }
}

/// Writes a number with as few hexadecimal digits as possible. Returns their count.
fn write_hexadecimal(number: u64, digits: &mut [u8; COUNT_BYTES]) -> usize {
    let count = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    // Its first non-zero digit comes first. The bytes after its last digit are ignored.
    let number = number << (u64::BITS - 4 * count);
    let [first, last] = [(number >> 32) as u32, number as u32].map(eight_digits);
    *digits = (u128::from(first) << u64::BITS | u128::from(last)).to_be_bytes();
    count as usize
}

/// All hexadecimal digits of a number, computed together: one in each byte of a word, the first digit in the highest
/// byte.
fn eight_digits(number: u32) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let halves = u64::from(number);
    let halves = (halves | halves << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (halves | halves << 8) & 0x00ff_00ff_00ff_00ff;
    let values = (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Adding six to a digit of ten or above sets the fifth bit.
    let letters = ((values + 6 * ONES) >> 4) & ONES;
    values + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'0' - 10)
}

/// The value of a header that may occur once, if it was sent.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName, field: &'static str) -> Result<Option<&'h [u8]>, Problem> {
    let mut values = headers.get_all(name);
    let first = values.next().map(HeaderValue::as_bytes);
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Problem::argument(field, format!("duplicate header {field}"))),
    }
}

/// The value of `Liststore-Timeout-Ms`: whole milliseconds, at least 1.
pub(crate) fn requested_timeout(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    const FIELD: &str = "Liststore-Timeout-Ms";
    let Some(raw) = single(headers, &TIMEOUT, FIELD)? else { return Ok(None) };
    let refused = || Problem::argument(FIELD, "Liststore-Timeout-Ms must be a whole number of milliseconds from 1");
    let digits = std::str::from_utf8(raw).ok().filter(|text| !text.is_empty() && raw.iter().all(u8::is_ascii_digit));
    // More digits than a u64 has exceed the maximum of every operation.
    match digits.ok_or_else(refused)?.parse().unwrap_or(u64::MAX) {
        0 => Err(refused()),
        millis => Ok(Some(Duration::from_millis(millis))),
    }
}

/// The author of a change, if the request names one: `Liststore-User`, in UTF-8.
pub(crate) fn author(headers: &HeaderMap) -> Result<Option<Author>, Problem> {
    const FIELD: &str = "Liststore-User";
    let Some(raw) = single(headers, &USER, FIELD)? else { return Ok(None) };
    let text = std::str::from_utf8(raw).map_err(|_| Problem::argument(FIELD, "Liststore-User must be UTF-8"))?;
    Author::new(text).map(Some).map_err(|invalid| Problem::from(invalid).at(FIELD))
}

/// The condition of a change: `If-Match` (RFC 9110, section 13.1.1). The comparison is strong, so weak tags and foreign
/// tags never match.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Precondition, Problem> {
    const FIELD: &str = "If-Match";
    let mut revisions = Vec::new();
    let listed = read_tags(headers, &IF_MATCH, FIELD, |is_weak, tag| {
        if !is_weak {
            revisions.extend(revision_of(tag));
        }
    })?;
    Ok(match listed {
        Listed::Nothing | Listed::Anything => Precondition::None,
        Listed::Tags => Precondition::OneOf(revisions),
    })
}

/// The conditions of a write of a bag: `If-Match` and `If-None-Match`. The first compares strongly, the second weakly.
pub(crate) fn bag_conditions(headers: &HeaderMap) -> Result<BagConditions, Problem> {
    let tags = |name: &HeaderName, field: &'static str, weak_too: bool| {
        let mut stamps = Vec::new();
        let listed = read_tags(headers, name, field, |is_weak, tag| {
            if weak_too || !is_weak {
                stamps.extend(stamp_of(tag));
            }
        })?;
        Ok::<_, Problem>(match listed {
            Listed::Nothing => None,
            Listed::Anything => Some(BagTags::Any),
            Listed::Tags => Some(BagTags::OneOf(stamps)),
        })
    };
    Ok(BagConditions {
        matching: tags(&IF_MATCH, "If-Match", false)?,
        none_matching: tags(&IF_NONE_MATCH, "If-None-Match", true)?,
    })
}

/// Whether the caller already has the content with this entity tag: `If-None-Match` (RFC 9110, section 13.1.2). The
/// comparison is weak, so tags are equal if their opaque parts are equal.
pub(crate) fn has_already(headers: &HeaderMap, tag: &[u8]) -> Result<bool, Problem> {
    let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
    let mut found = false;
    let listed = read_tags(headers, &IF_NONE_MATCH, "If-None-Match", |_, listed| {
        found |= opaque.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) == Some(listed);
    })?;
    Ok(found || listed == Listed::Anything)
}

/// The content of a header with entity tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Nothing,
    /// `*`
    Anything,
    Tags,
}

/// Reads a list of entity tags. `each` receives whether a tag is weak, and its opaque part.
fn read_tags(
    headers: &HeaderMap,
    name: &HeaderName,
    field: &'static str,
    mut each: impl FnMut(bool, &[u8]),
) -> Result<Listed, Problem> {
    let mut lines = headers.get_all(name).map(HeaderValue::as_bytes).peekable();
    if lines.peek().is_none() {
        return Ok(Listed::Nothing);
    }
    // Several lines of a list are one list (RFC 9110, section 5.3).
    let list = lines.collect::<Vec<_>>().join(&b","[..]);
    if list.trim_ascii() == b"*" {
        return Ok(Listed::Anything);
    }
    let refused = || Problem::argument(field, format!("{field} must be * or a list of entity tags, such as \"17\""));
    let (mut rest, mut tags) = (list.as_slice(), 0);
    loop {
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b",") {
            // Empty elements of a list are skipped (RFC 9110, section 5.6.1.2).
            rest = after;
            continue;
        }
        if rest.is_empty() {
            break;
        }
        let weak = rest.strip_prefix(b"W/");
        let quoted = weak.unwrap_or(rest).strip_prefix(b"\"").ok_or_else(refused)?;
        let end = quoted.iter().position(|b| *b == b'"').ok_or_else(refused)?;
        let (tag, after) = (&quoted[..end], quoted[end + 1..].trim_ascii_start());
        if !tag.iter().all(|b| *b == 0x21 || (0x23..=0x7e).contains(b) || *b >= 0x80) {
            return Err(refused());
        }
        if !after.is_empty() && !after.starts_with(b",") {
            return Err(refused());
        }
        tags += 1;
        each(weak.is_some(), tag);
        rest = after;
    }
    if tags == 0 { Err(refused()) } else { Ok(Listed::Tags) }
}

fn revision_of(tag: &[u8]) -> Option<Revision> {
    let number: u64 = std::str::from_utf8(tag).ok()?.parse().ok()?;
    // Only a tag exactly as the server writes it is valid: not "007" or "+7".
    (number.to_string().as_bytes() == tag).then_some(Revision(number))
}

/// The entity tag of a bag with this stamp.
pub(crate) fn bag_tag(updated_at: Timestamp) -> String {
    format!("\"{:x}\"", updated_at.as_nanos())
}

/// Writes the text between the quotation marks of the tag, without formatting, for pages of many bags.
pub(crate) fn write_in_bag_tag(updated_at: Timestamp, text: &mut Vec<u8>) {
    let mut digits = [0; COUNT_BYTES];
    let count = write_hexadecimal(updated_at.as_nanos(), &mut digits);
    text.extend_from_slice(&digits[..count]);
}

fn stamp_of(tag: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(tag).ok()?;
    let stamp = Timestamp::from_nanos(u64::from_str_radix(text, 16).ok()?).ok()?;
    // Only a tag exactly as the server writes it is valid.
    (bag_tag(stamp).trim_matches('"') == text).then_some(stamp)
}

/// The entity tag of a revision.
pub(crate) fn etag(revision: Revision) -> String {
    format!("\"{}\"", revision.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(lines: &[&str]) -> Result<Precondition, ()> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IF_MATCH, HeaderValue::from_str(line).unwrap());
        }
        if_match(&headers).map_err(|_| ())
    }

    #[test]
    fn entity_tags_are_read_as_a_list() {
        let one_of = |revisions: &[u64]| Ok(Precondition::OneOf(revisions.iter().map(|r| Revision(*r)).collect()));
        assert_eq!(condition(&[]), Ok(Precondition::None));
        assert_eq!(condition(&["*"]), Ok(Precondition::None));
        assert_eq!(condition(&["\"7\""]), one_of(&[7]));
        assert_eq!(condition(&["\"7\" , \"8\",", "\"9\""]), one_of(&[7, 8, 9]));
        assert_eq!(condition(&["W/\"7\", \"a,b\", \"007\", \"\", \"+7\""]), one_of(&[]));
        for bad in ["7", "\"7", "\"7\" \"8\"", "", ",", "*, \"7\"", "w/\"7\"", "\"a b\""] {
            assert_eq!(condition(&[bad]), Err(()), "{bad}");
        }
    }

    #[test]
    fn tags_of_bags_are_read_back() {
        let stamp = Timestamp::from_nanos(1_724_949_845_430_000_000).unwrap();
        let conditions = |name: HeaderName, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
            bag_conditions(&headers).unwrap()
        };
        let tag = bag_tag(stamp);
        let weak = format!("W/{tag}, \"17F\", \"+1\", \"x\"");
        let of = |stamps: &[Timestamp]| Some(BagTags::OneOf(stamps.to_vec()));
        assert_eq!(conditions(IF_MATCH, &tag), BagConditions { matching: of(&[stamp]), none_matching: None });
        assert_eq!(conditions(IF_MATCH, &weak), BagConditions { matching: of(&[]), none_matching: None });
        assert_eq!(conditions(IF_NONE_MATCH, &weak), BagConditions { matching: None, none_matching: of(&[stamp]) });
        let unless_exists = BagConditions { matching: None, none_matching: Some(BagTags::Any) };
        assert_eq!(conditions(IF_NONE_MATCH, "*"), unless_exists);
        assert!(bag_conditions(&HeaderMap::new()).unwrap().is_none());
    }

    #[test]
    fn etags_of_callers_are_compared_weakly() {
        let has = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(IF_NONE_MATCH, HeaderValue::from_str(line).unwrap());
            }
            has_already(&headers, b"W/\"0a\"").map_err(|problem| problem.field)
        };
        for yes in [&["W/\"0a\""][..], &["\"0a\""], &["*"], &["\"1\", W/\"0a\""], &["\"1\"", "\"0a\""]] {
            assert_eq!(has(yes), Ok(true), "{yes:?}");
        }
        for no in [&[][..], &["\"\""], &["\"0A\""], &["W/\"0a-n\""], &["\"W/0a\""]] {
            assert_eq!(has(no), Ok(false), "{no:?}");
        }
        assert_eq!(has(&["0a"]), Err(Some("If-None-Match".into())));
    }

    #[test]
    fn a_timeout_is_whole_milliseconds_from_1() {
        let asked = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TIMEOUT, HeaderValue::from_str(text).unwrap());
            requested_timeout(&headers).map_err(|problem| problem.code.name())
        };
        assert_eq!(asked("1"), Ok(Some(Duration::from_millis(1))));
        assert_eq!(asked("99999"), Ok(Some(Duration::from_millis(99_999))));
        assert_eq!(asked("99999999999999999999999"), Ok(Some(Duration::from_millis(u64::MAX))));
        for bad in ["0", "-1", "+1", "1.5", "", "1s"] {
            assert_eq!(asked(bad), Err("invalid_argument"), "{bad}");
        }
        assert_eq!(requested_timeout(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn request_ids_are_kept_or_created() {
        let mut digits = [0; COUNT_BYTES];
        let of_some_digits = (0..u64::BITS).map(|bits| 0xfedc_ba98_7654_3210 >> bits);
        for number in [0, 1, 9, 0xa, 0xf, 0x10, 0x1234_5678_9abc_def0, u64::MAX].into_iter().chain(of_some_digits) {
            let count = write_hexadecimal(number, &mut digits);
            assert_eq!(std::str::from_utf8(&digits[..count]), Ok(format!("{number:x}").as_str()));
        }
        let ids = RequestIds::new();
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_str(text).unwrap());
            ids.of(&headers).to_str().unwrap().to_owned()
        };
        assert_eq!(of("abc-1"), "abc-1");
        assert_eq!(of(&"x".repeat(128)), "x".repeat(128));
        for bad in ["", "a b", &"x".repeat(129)] {
            assert_ne!(of(bad), bad);
        }
        assert_ne!(of(""), of(""));
    }
}
