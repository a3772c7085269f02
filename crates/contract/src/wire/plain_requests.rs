//! Reads plain bodies of operations on many lists, `{"requests":[{…},…]}`, in one pass.

use super::BATCH_LISTS_MAX;
use super::scanner::Scanner;
use crate::domain::{EntityType, FeatureName, VersionLabel};

/// The usual bytes of a request, by which memory is reserved.
const REQUEST_BYTES: usize = 64;

/// The last well-formed names. Most requests of a call have the same feature.
#[derive(Default)]
pub(crate) struct Names<'a>(&'a str, &'a str, &'a str);

impl<'a> Names<'a> {
    pub fn check(&mut self, entity_type: &'a str, feature: &'a str, version: &'a str) -> Option<()> {
        if (self.0, self.1, self.2) != (entity_type, feature, version) {
            EntityType::new(entity_type).ok()?;
            FeatureName::new(feature).ok()?;
            VersionLabel::new(version).ok()?;
            *self = Self(entity_type, feature, version);
        }
        Some(())
    }
}

/// The requests of a body of plain form; `None` for a body of another form.
pub(crate) fn plain<'a, T>(text: &'a str, mut request: impl FnMut(&mut Scanner<'a>) -> Option<T>) -> Option<Vec<T>> {
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
pub(crate) fn each_member<'a>(
    scanner: &mut Scanner<'a>,
    mut member: impl FnMut(&str, &mut Scanner<'a>) -> Option<()>,
) -> Option<()> {
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

/// Stores a member, which must occur once.
pub(crate) fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// A string without its quotation marks.
pub(crate) fn unquoted<'a>(scanner: &mut Scanner<'a>) -> Option<&'a str> {
    let quoted = scanner.string()?;
    quoted.get(1..quoted.len() - 1)
}

/// A whole number. A number with too many digits saturates: the bound that follows names the accepted values.
pub(crate) fn count(raw: &str) -> Option<usize> {
    raw.bytes().all(|byte| byte.is_ascii_digit()).then(|| raw.parse().unwrap_or(usize::MAX))
}
