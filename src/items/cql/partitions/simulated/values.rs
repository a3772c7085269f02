//! The values of a statement, by their types.

use crate::items::cql::statements::Value;

pub(super) fn text<'a>(values: &[Value<'a>], place: usize) -> &'a str {
    let Value::Text(text) = values[place] else { panic!("{values:?}") };
    text
}

pub(super) fn texts<'a>(values: &[Value<'a>], place: usize) -> &'a [String] {
    let Value::Texts(texts) = values[place] else { panic!("{values:?}") };
    texts
}

pub(super) fn int(values: &[Value<'_>], place: usize) -> i32 {
    let Value::Int(int) = values[place] else { panic!("{values:?}") };
    int
}

pub(super) fn long(values: &[Value<'_>], place: usize) -> i64 {
    let Value::Long(long) = values[place] else { panic!("{values:?}") };
    long
}

pub(super) fn blob<'a>(values: &[Value<'a>], place: usize) -> &'a [u8] {
    let Value::Bytes(bytes) = values[place] else { panic!("{values:?}") };
    bytes
}
