//! Reads the body of an add in the form in which nearly all come: members without escapes in their
//! names, values that are strings without escapes or integers. One pass, one allocation.
//!
//! Whatever has another form, or anything wrong with it, is left to [`super::add_body`], which reads
//! all JSON, and says what is wrong.

use super::ItemInput;
use crate::domain::{ADD_ITEMS_MAX, Timestamp};

/// Bytes of an item, about: for as many as that, room is made at once.
const ITEM_BYTES: usize = 32;

/// The items of a body; `None` if it has to be read with more care.
pub(super) fn parse(text: &str) -> Option<Vec<ItemInput<'_>>> {
    let mut scanner = Scanner { text, at: 0 };
    let mut items = Vec::with_capacity((text.len() / ITEM_BYTES).clamp(1, ADD_ITEMS_MAX));
    scanner.token(b'{')?;
    if scanner.string()? != r#""items""# {
        return None;
    }
    scanner.token(b':')?;
    scanner.token(b'[')?;
    loop {
        items.push(scanner.item()?);
        if items.len() > ADD_ITEMS_MAX {
            return None;
        }
        if scanner.token(b',').is_none() {
            break;
        }
    }
    scanner.token(b']')?;
    scanner.token(b'}')?;
    scanner.skip_space();
    (scanner.at == text.len()).then_some(items)
}

/// Stands in a text, always between two characters.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// RFC 8259, section 2: what may stand between tokens.
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn token(&mut self, token: u8) -> Option<()> {
        self.skip_space();
        (self.peek()? == token).then(|| self.at += 1)
    }

    fn item(&mut self) -> Option<ItemInput<'a>> {
        let (mut timestamp, mut value) = (None, None);
        self.token(b'{')?;
        loop {
            let member = match self.string()? {
                r#""timestamp""# => &mut timestamp,
                r#""value""# => &mut value,
                _ => return None,
            };
            self.token(b':')?;
            if member.replace(self.scalar()?).is_some() {
                return None;
            }
            if self.token(b',').is_none() {
                break;
            }
        }
        self.token(b'}')?;
        Some(ItemInput { timestamp: Timestamp::from_json(timestamp?).ok()?, value: value? })
    }

    fn scalar(&mut self) -> Option<&'a str> {
        self.skip_space();
        if self.peek()? == b'"' { self.string() } else { self.integer() }
    }

    /// A string without escapes, with its quotation marks.
    fn string(&mut self) -> Option<&'a str> {
        self.token(b'"')?;
        let start = self.at - 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' | ..b' ' => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(start..self.at)
    }

    /// RFC 8259, section 6, without fraction and exponent.
    fn integer(&mut self) -> Option<&'a str> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        let digits = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        let number = self.text.get(digits..self.at)?;
        let sound = !number.is_empty() && (number == "0" || !number.starts_with('0'));
        // What follows, if it belongs to the number, is no token.
        sound.then(|| self.text.get(start..self.at))?
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::add_body;
    use super::*;

    #[test]
    fn plain_bodies_are_read() {
        let body = r#" {"items" : [{"timestamp":1,"value":"é/u"},{"value" :-20, "timestamp":"2"} , {"timestamp":0,"value":""}]}
            "#;
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        assert_eq!(
            parse(body),
            Some(vec![
                ItemInput { timestamp: at(1), value: "\"é/u\"" },
                ItemInput { timestamp: at(2), value: "-20" },
                ItemInput { timestamp: at(0), value: "\"\"" },
            ])
        );
    }

    proptest! {
        /// What is read here is what the general parser reads.
        #[test]
        fn a_body_means_the_same_to_both_parsers(
            items in prop::collection::vec(("timestamp|value|x", "[0-9]{1,3}|\"[0-9]{1,3}\"|-1|1e3|1\\.5|\"a\\\\n\"|nul|\\{\\}", "timestamp|value", "-?[0-9]{0,3}|\"[a-z\u{1}]{0,2}\"|true"), 0..3),
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
