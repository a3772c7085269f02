//! Reads the requests of a call for many things: `{"requests":[{…},…]}`. An element without the form of a request
//! refuses the call. An element that asks for a thing that cannot exist concerns nothing else.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::object::Object;
use super::{BATCH_LISTS_MAX, Problem, Requests};
use crate::domain::{Invalid, json};

/// Why a request is not taken.
pub(super) enum Blamed {
    /// It has not the form of a request: the whole call is refused.
    Call(Problem),
    /// It has the form, and asks for what cannot exist.
    Request(Problem),
}

impl From<Problem> for Blamed {
    fn from(problem: Problem) -> Self {
        Self::Call(problem)
    }
}

/// The requests of a body of any form.
pub(super) fn of_any_form<'a, T>(
    text: &'a str,
    known: &[&str],
    request: impl Fn(&Object<'a>) -> Result<T, Blamed>,
) -> Result<Requests<T>, Problem> {
    let body = Object::read(text.as_bytes(), &["requests"], &[])?;
    let raw = body.required_raw("requests")?;
    let elements: Vec<&'a RawValue> =
        serde_json::from_str(raw).map_err(|_| Problem::argument("requests", "requests must be an array of objects"))?;
    if !(1..=BATCH_LISTS_MAX).contains(&elements.len()) {
        let detail = format!("requests must have 1 to {BATCH_LISTS_MAX} entries: send more in several calls");
        return Err(Problem::argument("requests", detail));
    }
    let read = |(index, element): (usize, &'a RawValue)| {
        let place = format!("requests[{index}]");
        if !element.get().starts_with('{') {
            let detail = format!("{place} must be an object");
            return Err(Problem::argument(place, detail));
        }
        let read = Object::read(element.get().as_bytes(), known, &[]).map_err(Blamed::Call);
        match read.and_then(|object| request(&object)) {
            Ok(request) => Ok(Ok(request)),
            // The answer names the place.
            Err(Blamed::Request(problem)) => Ok(Err(problem)),
            Err(Blamed::Call(problem)) => Err(problem.within(&place)),
        }
    };
    elements.into_iter().enumerate().map(read).collect()
}

/// A text that a request must have, of any content: JSON may hold halves of surrogate pairs, which no text has.
pub(super) struct Text<'a> {
    name: &'static str,
    text: Option<Cow<'a, str>>,
}

impl<'a> Text<'a> {
    pub fn required(object: &Object<'a>, name: &'static str) -> Result<Self, Problem> {
        Self::read(name, object.required_raw(name)?)
    }

    pub fn optional(object: &Object<'a>, name: &'static str) -> Result<Self, Problem> {
        object.raw(name).map_or(Ok(Self { name, text: Some(Cow::Borrowed("")) }), |raw| Self::read(name, raw))
    }

    pub fn read(name: &'static str, raw: &'a str) -> Result<Self, Problem> {
        if !raw.starts_with('"') {
            return Err(Problem::argument(name, format!("{name} must be a string")));
        }
        Ok(Self { name, text: json::string(raw) })
    }

    /// Reads the name or ID that it is. An error concerns its request alone.
    pub fn parse<T>(&self, parse: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<T, Blamed> {
        let text = self.text.as_deref().ok_or_else(|| self.no_text())?;
        parse(text).map_err(|invalid| Blamed::Request(Problem::from(invalid).at(self.name)))
    }

    /// The text itself.
    pub fn any(self) -> Result<Cow<'a, str>, Blamed> {
        match self.text {
            Some(text) => Ok(text),
            None => Err(self.no_text()),
        }
    }

    fn no_text(&self) -> Blamed {
        let name = self.name;
        let detail = format!("{name} has an unpaired surrogate, which is not a valid character");
        Blamed::Request(Problem::argument(name, detail))
    }
}
