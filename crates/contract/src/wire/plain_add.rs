//! Reads the body of an add in the form in which nearly all come: members without escapes in their
//! names, values that are strings without escapes or integers. One pass, one allocation.
//!
//! A text of another form, or with a mistake, is left to [`super::add_body`], which reads all JSON and reports
//! mistakes.

use super::scanner::Scanner;
use super::{ItemInput, member_key};
use crate::domain::{ADD_ITEMS_MAX, Timestamp};

/// Bytes of an item, about: for as many as that, room is made at once.
const ITEM_BYTES: usize = 32;

/// The items of a body; `None` if it has to be read with more care.
pub(super) fn parse(text: &str) -> Option<Vec<ItemInput<'_>>> {
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
pub(super) fn items<'a>(scanner: &mut Scanner<'a>, expected: usize) -> Option<Vec<ItemInput<'a>>> {
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
    use proptest::prelude::*;

    use super::super::add_body;
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

    proptest! {
        /// This reader reads a body as the general parser does.
        #[test]
        fn a_body_means_the_same_to_both_parsers(
            items in prop::collection::vec(("timestamp|value|key|x", "[0-9]{1,3}|\"[0-9]{1,3}\"|-1|1e3|1\\.5|\"a\\\\n\"|nul|\\{\\}", "timestamp|value|key", "-?[0-9]{0,3}|\"[a-z\u{1}]{0,2}\"|true"), 0..3),
            cut in 0_usize..200,
            junk in "[\\]\\[{}:,\" \\\\a0]?",
        ) {
            let items: Vec<_> = items.iter().map(|(a, b, c, d)| format!(r#"{{"{a}":{b},"{c}":{d}}}"#)).collect();
            let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
            for text in [body.clone(), [&body[..cut.min(body.len())], &junk, &body[cut.min(body.len())..]].concat()] {
                if let Some(items) = parse(&text) {
                    prop_assert_eq!(add_body::parse_any(&text), Ok(items));
                }
            }
        }
    }
}
