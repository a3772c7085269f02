//! Finds properties in stored JSON by their pointers (RFC 6901), without building a tree.
//!
//! Values are stored in the canonical form (RFC 8785): without white space, and with one spelling of each string. So
//! the name of a member is found by its bytes.

use liststore_contract::domain::index::Pointer;

/// A step from a value to one that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    /// The name of a member of an object, as canonical JSON.
    name: Box<[u8]>,
    /// The place in an array, if it is one.
    place: Option<usize>,
}

/// The way to a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way(Vec<Step>);

/// Stored bytes that are no canonical JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoJson;

impl Way {
    pub fn to(pointer: &Pointer) -> Self {
        let step = |token: &str| {
            let is_place = token == "0" || (!token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()));
            let name = serde_json::Value::from(token).to_string().into_bytes().into();
            Step { name, place: token.parse().ok().filter(|_| is_place) }
        };
        Self(pointer.tokens().map(step).collect())
    }

    /// The bytes of the property, if there is one.
    pub fn find<'v>(&self, json: &'v [u8]) -> Result<Option<&'v [u8]>, NoJson> {
        let mut at = 0;
        for step in &self.0 {
            let found = match json.get(at) {
                Some(b'{') => member(json, at + 1, &step.name)?,
                Some(b'[') => step.place.map_or(Ok(None), |place| element(json, at + 1, place))?,
                Some(_) => None,
                None => return Err(NoJson),
            };
            let Some(begin) = found else { return Ok(None) };
            at = begin;
        }
        let end = behind(json, at)?;
        Ok(json.get(at..end))
    }
}

/// Where the value of a member begins. `at` is behind the opening brace.
fn member(json: &[u8], mut at: usize, name: &[u8]) -> Result<Option<usize>, NoJson> {
    loop {
        match json.get(at) {
            Some(b'"') => {}
            Some(b'}') => return Ok(None),
            _ => return Err(NoJson),
        }
        let is_it = json[at..].starts_with(name);
        let colon = behind_string(json, at)?;
        if json.get(colon) != Some(&b':') {
            return Err(NoJson);
        }
        if is_it {
            return Ok(Some(colon + 1));
        }
        at = behind(json, colon + 1)?;
        match json.get(at) {
            Some(b',') => at += 1,
            Some(b'}') => return Ok(None),
            _ => return Err(NoJson),
        }
    }
}

/// Where an element begins. `at` is behind the opening bracket.
fn element(json: &[u8], mut at: usize, place: usize) -> Result<Option<usize>, NoJson> {
    if json.get(at) == Some(&b']') {
        return Ok(None);
    }
    for _ in 0..place {
        at = behind(json, at)?;
        match json.get(at) {
            Some(b',') => at += 1,
            Some(b']') => return Ok(None),
            _ => return Err(NoJson),
        }
    }
    Ok(Some(at))
}

/// Behind the value that begins here.
fn behind(json: &[u8], at: usize) -> Result<usize, NoJson> {
    match json.get(at) {
        Some(b'"') => behind_string(json, at),
        Some(b'{' | b'[') => behind_nested(json, at),
        Some(_) => {
            let rest = &json[at..];
            let len = rest.iter().position(|b| matches!(b, b',' | b'}' | b']')).unwrap_or(rest.len());
            if len == 0 { Err(NoJson) } else { Ok(at + len) }
        }
        None => Err(NoJson),
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
fn behind_string(json: &[u8], at: usize) -> Result<usize, NoJson> {
    let mut at = at + 1;
    loop {
        let rest = json.get(at..).ok_or(NoJson)?;
        let len = rest.iter().position(|b| matches!(b, b'"' | b'\\')).ok_or(NoJson)?;
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

    fn found(pointer: &str, json: &str) -> Option<String> {
        let canonical = canonicalize(json).unwrap();
        let found = Way::to(&Pointer::new(pointer).unwrap()).find(&canonical).unwrap();
        found.map(|found| String::from_utf8(found.to_vec()).unwrap())
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
    fn damaged_values_are_refused_without_a_panic() {
        let whole = br#"{"a":["x\"",{"b":[1,2]}],"c":{"d":"e"}}"#;
        for pointer in ["/c/d", "/a/1/b/1", "/x"] {
            let way = Way::to(&Pointer::new(pointer).unwrap());
            for len in 0..whole.len() {
                let _refused_or_not = way.find(&whole[..len]);
                let mut broken = whole.to_vec();
                broken[len] = b']';
                let _refused_or_not = way.find(&broken);
            }
            assert_eq!(way.find(b""), Err(NoJson));
            assert_eq!(way.find(b"{"), Err(NoJson));
        }
    }
}
