//! Finds properties in stored JSON by their pointers (RFC 6901), all in one walk and without building a tree.
//!
//! Values are stored in the canonical form (RFC 8785): without white space, and with one spelling of each string. So
//! the name of a member is found by its bytes. Stored values are valid JSON, so the walk checks only the parts that it
//! reads. It ends with the last property that it looks for.

use liststore_contract::domain::index::Pointer;

use super::words::{Needle, first_marked, next_word, repeated, zeros};

/// A step from a value to one that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    /// The name of a member of an object, as canonical JSON, with its colon.
    name: Needle<Box<[u8]>>,
    /// The place in an array, if it is one.
    place: Option<usize>,
    /// The index of the stop at its end.
    stop: usize,
}

/// The place of the step to the member that begins here, if there is one. `next` is the place of a likely one, up to
/// the number of steps.
#[inline]
fn step_at(steps: &[Step], next: usize, json: &[u8], at: usize) -> Option<usize> {
    let (before, behind) = steps.split_at(next);
    let is_here = |Step { name, .. }: &Step| json.get(at..at + name.bytes().len()).is_some_and(|here| name.is(here));
    behind.iter().position(is_here).map(|place| next + place).or_else(|| before.iter().position(is_here))
}

/// A value on the way to properties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stop {
    /// The number of the property that it is, if it is one.
    property: Option<usize>,
    /// In the order of their names, about as members are in canonical JSON.
    steps: Vec<Step>,
}

/// The ways to some properties: a tree, whose root comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ways(Vec<Stop>);

/// The place of a property in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    begin: usize,
    end: usize,
}

impl Span {
    /// Of a property that the value lacks: no JSON value is empty.
    pub const NONE: Self = Self { begin: 0, end: 0 };

    #[inline]
    pub fn of(self, json: &[u8]) -> Option<&[u8]> {
        json.get(self.begin..self.end).filter(|value| !value.is_empty())
    }
}

/// Stored bytes that are not canonical JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoJson;

/// How a walk through a value ended.
enum Walked {
    /// Behind the value.
    Behind(usize),
    /// Within the value, with everything found and no need to go on.
    Done,
}

impl Ways {
    /// To properties with these numbers; none if there are no properties.
    pub fn to<'p>(properties: impl IntoIterator<Item = (usize, &'p Pointer)>) -> Option<Self> {
        let mut stops = vec![Stop::default()];
        for (property, pointer) in properties {
            let mut at = 0;
            for token in pointer.tokens() {
                let name = format!("{}:", serde_json::Value::from(token)).into_bytes();
                let known = stops[at].steps.iter().find(|step| step.name.bytes() == name).map(|step| step.stop);
                at = known.unwrap_or_else(|| {
                    let is_place =
                        token == "0" || (!token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()));
                    let place = token.parse().ok().filter(|_| is_place);
                    let stop = stops.len();
                    stops[at].steps.push(Step { name: Needle::new(name.into()), place, stop });
                    stops.push(Stop::default());
                    stop
                });
            }
            stops[at].property = Some(property);
        }
        stops.iter_mut().for_each(|stop| stop.steps.sort_by(|one, other| one.name.bytes().cmp(other.name.bytes())));
        (stops.len() > 1).then_some(Self(stops))
    }

    /// Notes where each property is. `found` has a place for each number.
    #[inline]
    pub fn find(&self, json: &[u8], found: &mut [Span]) -> Result<(), NoJson> {
        found.iter_mut().for_each(|span| *span = Span::NONE);
        match (&self.0[0], json.first()) {
            // Nearly all values: it needs no further call.
            (Stop { property: None, steps }, Some(b'{')) => self.walk_object(json, 1, steps, false, found).map(drop),
            _ => self.walk(json, 0, 0, false, found).map(drop),
        }
    }

    /// Walks through the value that begins here, to its end if that is needed. It recurses as deep as the pointers.
    fn walk(
        &self,
        json: &[u8],
        begin: usize,
        stop: usize,
        needs_end: bool,
        found: &mut [Span],
    ) -> Result<Walked, NoJson> {
        let Stop { property, steps } = &self.0[stop];
        let needs_end = needs_end || property.is_some();
        let walked = match json.get(begin) {
            Some(b'{') if !steps.is_empty() => self.walk_object(json, begin + 1, steps, needs_end, found)?,
            Some(b'[') if !steps.is_empty() => self.walk_array(json, begin + 1, steps, needs_end, found)?,
            Some(_) if !needs_end => Walked::Done,
            _ => Walked::Behind(behind(json, begin)?),
        };
        if let (Some(property), Walked::Behind(end)) = (property, &walked) {
            found[*property] = Span { begin, end: *end };
        }
        Ok(walked)
    }

    /// `at` is behind the opening brace.
    fn walk_object(
        &self,
        json: &[u8],
        mut at: usize,
        steps: &[Step],
        needs_end: bool,
        found: &mut [Span],
    ) -> Result<Walked, NoJson> {
        if json.get(at) == Some(&b'}') {
            return Ok(Walked::Behind(at + 1));
        }
        let (mut left, mut next) = (steps.len(), 0);
        loop {
            if json.get(at) != Some(&b'"') {
                return Err(NoJson);
            }
            if left > 0
                && let Some(place) = step_at(steps, next, json, at)
            {
                let step = &steps[place];
                (left, next) = (left - 1, place + 1);
                let begin = at + step.name.bytes().len();
                match &self.0[step.stop] {
                    // Nearly all properties: it needs no further call.
                    Stop { property: Some(property), steps } if steps.is_empty() => {
                        at = behind(json, begin)?;
                        found[*property] = Span { begin, end: at };
                    }
                    _ => match self.walk(json, begin, step.stop, needs_end || left > 0, found)? {
                        Walked::Behind(end) => at = end,
                        Walked::Done => return Ok(Walked::Done),
                    },
                }
                if left == 0 && !needs_end {
                    return Ok(Walked::Done);
                }
            } else {
                let colon = behind_string(json, at)?;
                if json.get(colon) != Some(&b':') {
                    return Err(NoJson);
                }
                at = behind(json, colon + 1)?;
            }
            match json.get(at) {
                Some(b',') => at += 1,
                Some(b'}') => return Ok(Walked::Behind(at + 1)),
                _ => return Err(NoJson),
            }
        }
    }

    /// `at` is behind the opening bracket.
    fn walk_array(
        &self,
        json: &[u8],
        mut at: usize,
        steps: &[Step],
        needs_end: bool,
        found: &mut [Span],
    ) -> Result<Walked, NoJson> {
        if json.get(at) == Some(&b']') {
            return Ok(Walked::Behind(at + 1));
        }
        let mut left = steps.iter().filter(|step| step.place.is_some()).count();
        for place in 0.. {
            if left > 0
                && let Some(step) = steps.iter().find(|step| step.place == Some(place))
            {
                left -= 1;
                match self.walk(json, at, step.stop, needs_end || left > 0, found)? {
                    Walked::Behind(end) => at = end,
                    Walked::Done => return Ok(Walked::Done),
                }
            } else {
                at = behind(json, at)?;
            }
            if left == 0 && !needs_end {
                return Ok(Walked::Done);
            }
            match json.get(at) {
                Some(b',') => at += 1,
                Some(b']') => break,
                _ => return Err(NoJson),
            }
        }
        Ok(Walked::Behind(at + 1))
    }
}

/// Behind the value that begins here.
#[inline]
fn behind(json: &[u8], at: usize) -> Result<usize, NoJson> {
    match json.get(at) {
        Some(b'"') => behind_string(json, at),
        Some(b'{' | b'[') => behind_nested(json, at),
        Some(b',' | b'}' | b']') | None => Err(NoJson),
        Some(_) => Ok(behind_scalar(json, at + 1)),
    }
}

/// Behind the number or literal that reaches up to here or further.
#[inline]
fn behind_scalar(json: &[u8], mut at: usize) -> usize {
    // The closing brace and bracket differ in this bit.
    const CASE: u8 = b'}' ^ b']';
    loop {
        let rest = json.get(at..).unwrap_or_default();
        let Some(word) = next_word(rest) else {
            let ends = |b: &u8| *b == b',' || *b | CASE == b'}';
            return at + rest.iter().position(ends).unwrap_or(rest.len());
        };
        let marks = zeros(word ^ repeated(b',')) | zeros((word | repeated(CASE)) ^ repeated(b'}'));
        match first_marked(marks) {
            Some(len) => return at + len,
            None => at += 8,
        }
    }
}

/// Behind the object or array that begins here, without a call for each level.
fn behind_nested(json: &[u8], mut at: usize) -> Result<usize, NoJson> {
    let mut depth = 0_usize;
    loop {
        match json.get(at) {
            Some(b'"') => {
                at = behind_string(json, at)?;
                continue;
            }
            Some(b'{' | b'[') => depth += 1,
            Some(b'}' | b']') => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            Some(_) => {}
            None => return Err(NoJson),
        }
        at += 1;
    }
}

/// Behind the string that begins here.
#[inline]
fn behind_string(json: &[u8], at: usize) -> Result<usize, NoJson> {
    let mut at = at + 1;
    loop {
        let rest = json.get(at..).ok_or(NoJson)?;
        let len = match next_word(rest) {
            Some(word) => match first_marked(zeros(word ^ repeated(b'"')) | zeros(word ^ repeated(b'\\'))) {
                Some(len) => len,
                None => {
                    at += 8;
                    continue;
                }
            },
            None => rest.iter().position(|b| matches!(b, b'"' | b'\\')).ok_or(NoJson)?,
        };
        at += len + 1;
        if rest[len] == b'"' {
            return Ok(at);
        }
        // An escaped character is one byte, or begins with one.
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use liststore_contract::domain::json::canonicalize;

    use super::*;

    fn ways(pointers: &[&str]) -> Ways {
        let pointers: Vec<_> = pointers.iter().map(|pointer| Pointer::new(pointer).unwrap()).collect();
        Ways::to(pointers.iter().enumerate()).unwrap()
    }

    /// The values of properties that are looked for at once.
    fn all_found(pointers: &[&str], canonical: &str) -> Vec<Option<String>> {
        // Earlier results do not count.
        let mut found = vec![Span { begin: 0, end: 1 }; pointers.len()];
        ways(pointers).find(canonical.as_bytes(), &mut found).unwrap();
        let text =
            |found: Span| found.of(canonical.as_bytes()).map(|found| String::from_utf8_lossy(found).into_owned());
        found.into_iter().map(text).collect()
    }

    fn found(pointer: &str, json: &str) -> Option<String> {
        let canonical = String::from_utf8(canonicalize(json).unwrap()).unwrap();
        all_found(&[pointer], &canonical).remove(0)
    }

    /// RFC 6901, section 5.
    const SAMPLE: &str = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5,
        "k\"l": 6, " ": 7, "m~n": 8}"#;

    #[test]
    fn the_pointers_of_the_rfc_find_its_values() {
        for (pointer, expected) in [
            ("/foo", r#"["bar","baz"]"#),
            ("/foo/0", "\"bar\""),
            ("/foo/1", "\"baz\""),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ] {
            assert_eq!(found(pointer, SAMPLE).as_deref(), Some(expected), "{pointer}");
        }
        for pointer in ["/bar", "/foo/2", "/foo/00", "/foo/-", "/foo/+1", "/foo/bar", "/foo/0/0", "/a~1b/0"] {
            assert_eq!(found(pointer, SAMPLE), None, "{pointer}");
        }
    }

    #[test]
    fn properties_are_found_after_values_of_any_type() {
        let json = r#"{"a":{"x":[1,{"y":"}]\"\\"}],"z":null},"b":"\\\"}","c":[],"d":{},"e":true,"f":-1.5e-7,"é":"ü","\u0001":"c"}"#;
        for (pointer, expected) in [
            ("/a/x/1/y", r#""}]\"\\""#),
            ("/a/z", "null"),
            ("/b", r#""\\\"}""#),
            ("/c", "[]"),
            ("/d", "{}"),
            ("/e", "true"),
            ("/f", "-1.5e-7"),
            ("/é", "\"ü\""),
            ("/\u{1}", "\"c\""),
        ] {
            assert_eq!(found(pointer, json).as_deref(), Some(expected), "{pointer}");
        }
        for pointer in ["/c/0", "/d/x", "/e/0", "/a/x/2", "/a/x/1/y/0"] {
            assert_eq!(found(pointer, json), None, "{pointer}");
        }
        for whole in ["7", "\"a\"", "null", "[]", "{}"] {
            assert_eq!(found("/a", whole), None, "{whole}");
        }
    }

    #[test]
    fn several_properties_are_found_as_each_of_them_alone() {
        let values = [
            r#"{"a":{"b":1,"c":[{"d":2},3,"x\",\\"]},"a long name, of more than two words":7,"e":"f","g":true}"#,
            r#"{"a":[0,{"b":-1.5e-7},[[]]],"e":"a long text with \"quotes\", commas, and } and ] in it","g":{}}"#,
            r#"{"a":{"b":{"c":null},"bb":2},"g":"\\"}"#,
            r#"{"a":"b","c":12345678901234567890}"#,
            r#"[{"a":1},[2,3],4]"#,
            "[]",
            "{}",
            "7",
            r#""text""#,
        ];
        let pointers = [
            "/a",
            "/a/b",
            "/a/b/c",
            "/a/bb",
            "/a/c",
            "/a/c/0/d",
            "/a/c/2",
            "/a/1/b",
            "/a/2",
            "/a/2/0",
            "/a/2/0/0",
            "/e",
            "/g",
            "/c",
            "/0/a",
            "/1",
            "/1/1",
            "/2",
            "/x",
            "/a long name, of more than two words",
        ];
        for json in values {
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            let expected: Vec<_> = pointers.iter().map(|pointer| value.pointer(pointer).cloned()).collect();
            let read = |found: Option<String>| found.map(|found| serde_json::from_str(&found).unwrap());
            // All of them, each pair of them, and each alone.
            let all: Vec<Option<serde_json::Value>> = all_found(&pointers, json).into_iter().map(read).collect();
            assert_eq!(all, expected, "{json}");
            for (one, first) in pointers.iter().zip(&expected) {
                for (other, second) in pointers.iter().zip(&expected).filter(|(other, _)| *other != one) {
                    let pair: Vec<_> = all_found(&[one, other], json).into_iter().map(read).collect();
                    assert_eq!(pair, [first.clone(), second.clone()], "{one} {other} {json}");
                }
                assert_eq!(read(all_found(&[one], json).remove(0)), *first, "{one} {json}");
            }
        }
    }

    #[test]
    fn texts_and_numbers_of_any_length_are_passed() {
        for len in 0..40 {
            for text in ["x".repeat(len), "\u{e9}".repeat(len), "\\\"".repeat(len), "\\\\".repeat(len)] {
                let json = format!(r#"{{"a":"{text}","b":1{}}}"#, "0".repeat(len));
                let expected = [Some(format!("\"{text}\"")), Some(format!("1{}", "0".repeat(len)))];
                assert_eq!(all_found(&["/a", "/b"], &json), expected);
            }
        }
    }

    #[test]
    fn damaged_values_are_refused_without_a_panic() {
        let whole = br#"{"a":["x\"",{"b":[1,2]}],"c":{"d":"e"}}"#;
        for pointers in [&["/c/d"][..], &["/a/1/b/1"], &["/x"], &["/a/1", "/a/1/b", "/c", "/c/d/e"]] {
            let ways = ways(pointers);
            let mut found = vec![Span::NONE; pointers.len()];
            for len in 0..whole.len() {
                let _refused_or_not = ways.find(&whole[..len], &mut found);
                for other in [b']', b'}', b'"', b'\\', b',', b':', 0xff] {
                    let mut broken = whole.to_vec();
                    broken[len] = other;
                    let _refused_or_not = ways.find(&broken, &mut found);
                    assert!(found.iter().all(|span| *span == Span::NONE || span.of(&broken).is_some()));
                }
            }
            assert_eq!(ways.find(b"", &mut found), Err(NoJson));
            assert_eq!(ways.find(b"{", &mut found), Err(NoJson));
        }
    }
}
