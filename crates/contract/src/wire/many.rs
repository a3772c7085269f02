//! Reads the requests of a call for many things: `{"requests":[{…},…]}`.
//!
//! A request without the documented form refuses the whole call. A value of the right JSON type that is no name, ID,
//! key or timestamp is a problem of its request alone. A value that a program fixes, such as an order, is of the form.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use utoipa::PartialSchema;
use utoipa::openapi::{RefOr, Schema};

use super::body::{read_part, read_text};
use super::members;
use super::refused::{Mistake, Others, Refused};
use super::{BATCH_LISTS_MAX, Problem, Requests};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Elements<'a> {
    #[serde(borrow, deserialize_with = "members::many::<BATCH_LISTS_MAX, _, _>")]
    requests: Vec<&'a RawValue>,
}

/// How requests are checked beyond their own members.
pub(crate) struct Checks<T> {
    /// Members of the body next to the requests, which are read separately.
    pub others: &'static [&'static str],
    /// Members of a request whose values are part of the form: a refused one refuses the call.
    pub strict: &'static [&'static str],
    /// Refuses mistakes of form within the members of a request, if a value is refused.
    pub form: fn(&str) -> Result<(), Refused>,
    /// Refuses the call if members of one request exclude each other.
    pub exclusion: fn(&T) -> Result<(), Problem>,
    /// Refuses one request whose values do not go together.
    pub coherence: fn(T) -> Result<T, Problem>,
}

impl<T> Default for Checks<T> {
    fn default() -> Self {
        Self { others: &[], strict: &[], form: |_| Ok(()), exclusion: |_| Ok(()), coherence: Ok }
    }
}

/// The requests of a body of any form.
pub(crate) fn of_any_form<'a, T: Deserialize<'a> + PartialSchema>(
    text: &'a str,
    checks: Checks<T>,
) -> Result<Requests<T>, Problem> {
    let Checks { others, strict, form, exclusion, coherence } = checks;
    let Elements { requests } = read_text(text, Others { passed: others, ..Others::default() })?;
    // A schema takes longer to make than a request to read.
    let names: LazyCell<Vec<String>> = LazyCell::new(required::<T>);
    let read = |(index, request): (usize, &'a RawValue)| match of_one(request.get(), || names.as_slice(), strict, form)
    {
        Ok(Ok(request)) => {
            exclusion(&request).map_err(|problem| problem.within(&format!("requests[{index}]")))?;
            Ok(coherence(request))
        }
        // The answer names the place.
        Ok(Err(problem)) => Ok(Err(problem)),
        Err(refused) => Err(refused.at_index(index).at_member("requests").into_problem(Others::default())),
    };
    requests.into_iter().enumerate().map(read).collect()
}

/// Reads one request. An error within is a refused value. It counts only if the request has no mistake of form, so the
/// other members are read, too, and `form` reads what is within the member of the refused value. A refused value of a
/// `strict` member is a mistake of form.
pub(crate) fn of_one<'a, 'n, T: Deserialize<'a>>(
    text: &'a str,
    required: impl FnOnce() -> &'n [String],
    strict: &[&str],
    form: fn(&str) -> Result<(), Refused>,
) -> Result<Result<T, Problem>, Refused> {
    let mut refused: Vec<Refused> = Vec::new();
    loop {
        let passed: Vec<&str> = refused.iter().map(Refused::member).collect();
        match read_part::<T>(text, &passed) {
            Ok(request) if passed.is_empty() => return Ok(Ok(request)),
            Ok(_) => break,
            Err(next) if next.mistake == Mistake::Missing && passed.contains(&&*next.place) => break,
            Err(next)
                if matches!(next.mistake, Mistake::Value(_))
                    && !passed.contains(&next.member())
                    && !strict.contains(&next.member()) =>
            {
                refused.push(next);
            }
            Err(next) => return Err(next),
        }
    }
    // A required member that was passed ends the read before the next missing member is found.
    let given: BTreeMap<String, IgnoredAny> = read_part(text, &[])?;
    match required().iter().find(|name| !given.contains_key(*name)) {
        Some(name) => Err(Refused { place: name.clone(), mistake: Mistake::Missing }),
        None => form(text).map(|()| Err(refused.swap_remove(0).into_problem(Others::default()))),
    }
}

/// The names of the members that a request must have.
pub(crate) fn required<T: PartialSchema>() -> Vec<String> {
    match T::schema() {
        RefOr::T(Schema::Object(object)) => object.required,
        _ => Vec::new(),
    }
}
