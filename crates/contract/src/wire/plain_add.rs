//! Reads the body of an add in the form in which nearly all come: members without escapes in their
//! names, values that are strings without escapes or integers. One pass, one allocation.
//!
//! A text of another form, or with a mistake, is left to [`super::body`], which reads all JSON and reports mistakes.

use super::scanner::Scanner;
use super::{ItemInput, member_key};
use crate::domain::{ADD_ITEMS_MAX, Timestamp};

/// Bytes of an item, about: for as many as that, room is made at once.
const ITEM_BYTES: usize = 32;

/// The items of a body; `None` if it has to be read with more care.
pub(crate) fn parse(text: &str) -> Option<Vec<ItemInput<'_>>> {
    let mut scanner = Scanner::new(text);
    scanner.token(b'{')?;
    if scanner.string()? != r#""items""# {
        return None;
    }
    scanner.token(b':')?;
    let items = items(&mut scanner, (text.len() / ITEM_BYTES).clamp(1, ADD_ITEMS_MAX))?;
    scanner.token(b'}')?;
    scanner.is_done().then_some(items)
}

/// An array of items, of which there are about as many as `expected`.
pub(crate) fn items<'a>(scanner: &mut Scanner<'a>, expected: usize) -> Option<Vec<ItemInput<'a>>> {
    let mut items = Vec::with_capacity(expected);
    scanner.token(b'[')?;
    loop {
        items.push(item(scanner)?);
        if items.len() > ADD_ITEMS_MAX {
            return None;
        }
        if scanner.token(b',').is_none() {
            break;
        }
    }
    scanner.token(b']')?;
    Some(items)
}

fn item<'a>(scanner: &mut Scanner<'a>) -> Option<ItemInput<'a>> {
    let (mut timestamp, mut value, mut key) = (None, None, None);
    scanner.token(b'{')?;
    loop {
        // As nearly all serializers write them, without white space.
        let member = if scanner.exactly(r#""timestamp":"#) {
            &mut timestamp
        } else if scanner.exactly(r#""value":"#) {
            &mut value
        } else {
            let member = match scanner.string()? {
                r#""timestamp""# => &mut timestamp,
                r#""value""# => &mut value,
                r#""key""# => &mut key,
                _ => return None,
            };
            scanner.token(b':')?;
            member
        };
        if member.replace(scanner.scalar()?).is_some() {
            return None;
        }
        if scanner.token(b',').is_none() {
            break;
        }
    }
    scanner.token(b'}')?;
    key.map(member_key).transpose().ok()?;
    Some(ItemInput { timestamp: Timestamp::from_json(timestamp?).ok()?, value: value?, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_bodies_are_read() {
        let body = r#" {"items" : [{"timestamp":1,"value":"é/u"},{"value" :-20, "timestamp":"2", "key":"k"} , {"timestamp":0,"value":""}]}
            "#;
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        assert_eq!(
            parse(body),
            Some(vec![
                ItemInput { timestamp: at(1), value: "\"é/u\"", key: None },
                ItemInput { timestamp: at(2), value: "-20", key: Some("\"k\"") },
                ItemInput { timestamp: at(0), value: "\"\"", key: None },
            ])
        );
    }
}
