//! Query strings, form-encoded. Each operation names its parameters, and any other is refused, because it is usually a
//! typo.

use std::borrow::Cow;

use super::percent::{cut, decode_form};
use super::problem::Problem;
use crate::domain::{Int64As, Invalid, Limit, Timestamp};
use crate::service::{JoinedList, JoinedLists};
use crate::wire::parameters::{INT64_AS, MAX_TIMESTAMP, MIN_TIMESTAMP, PAGE_SIZE, Parameter};
use crate::wire::{check_bounds, read_joined_lists};

/// The values of the named parameters, in their order; `None` for missing ones.
pub(crate) fn parse<'q, const N: usize>(
    query: Option<&'q str>,
    parameters: &[Parameter; N],
) -> Result<[Option<Cow<'q, str>>; N], Problem> {
    let mut values = [const { None }; N];
    read(query, parameters, |index, value| values[index] = Some(value))?;
    Ok(values)
}

/// Does the same for parameters that may occur several times: the values of each, in their order.
pub(crate) fn parse_repeated<'q, const N: usize>(
    query: Option<&'q str>,
    parameters: &[Parameter; N],
) -> Result<[Vec<Cow<'q, str>>; N], Problem> {
    let mut values = [const { Vec::new() }; N];
    read(query, parameters, |index, value| values[index].push(value))?;
    Ok(values)
}

/// Passes on each value, with the index of its parameter.
fn read<'q, const N: usize>(
    query: Option<&'q str>,
    parameters: &[Parameter; N],
    mut take: impl FnMut(usize, Cow<'q, str>),
) -> Result<(), Problem> {
    let mut given = [false; N];
    let mut rest = query;
    while let Some(text) = rest {
        let (pair, others) = cut(text, b'&');
        rest = others;
        if pair.is_empty() {
            continue;
        }
        let (name, raw) = cut(pair, b'=');
        let raw = raw.unwrap_or_default();
        let name = decode_form(name).map_err(|reason| Problem::argument("query", format!("the query {reason}")))?;
        let Some(index) = parameters.iter().position(|parameter| parameter.name == name) else {
            return Err(unknown(&name, parameters));
        };
        let parameter = &parameters[index];
        let field = parameter.name;
        let refused = |reason: &str| Problem::argument(field, format!("{field} {reason}"));
        if given[index] && !parameter.repeats {
            return Err(refused("is given twice"));
        }
        if raw.is_empty() && !parameter.may_be_empty {
            return Err(refused("is empty: remove it or set a value"));
        }
        given[index] = true;
        let value = decode_form(raw).map_err(refused)?;
        if value.contains('\0') {
            return Err(refused("must not contain NUL (%00)"));
        }
        take(index, value);
    }
    Ok(())
}

/// A moment, as RFC 3339 or nanoseconds.
pub(crate) fn moment(parameter: &Parameter, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let refused = |text: &str, invalid: Invalid| about_plus(Problem::from(invalid).at(parameter.name), text);
    text.map(|text| Timestamp::parse(text).map_err(|invalid| refused(text, invalid))).transpose()
}

/// Adds a hint on encoding a plus sign to a refusal, if the text may have contained one: `+02:00`, sent without
/// encoding.
pub(crate) fn about_plus(mut problem: Problem, text: &str) -> Problem {
    if text.contains(' ') {
        problem.detail =
            format!("{}; write a plus sign in a query as %2B because + means a space", problem.detail).into();
    }
    problem
}

fn unknown(name: &str, parameters: &[Parameter]) -> Problem {
    let known: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
    let known = if known.is_empty() {
        "this operation takes none".to_owned()
    } else {
        format!("it takes {}", known.join(", "))
    };
    let name: String = name.chars().take(64).collect();
    Problem::argument(name, format!("unknown parameter; {known}"))
}

/// A whole number, as `limit` and `page_size` are.
pub(crate) fn count(field: &'static str, text: &str) -> Result<usize, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // Too many digits saturate, and the check of the bound names the accepted range.
    let number = digits.then(|| text.parse().unwrap_or(usize::MAX));
    number.ok_or_else(|| Problem::argument(field, format!("{field} must be a whole number")))
}

/// The number of entries that a page has at most.
pub(crate) fn page_size(text: Option<&str>) -> Result<Limit, Problem> {
    let Some(text) = text else { return Ok(Limit::DEFAULT) };
    Limit::of_page(count(PAGE_SIZE.name, text)?).map_err(|invalid| Problem::from(invalid).at(PAGE_SIZE.name))
}

/// The bounds of timestamps that a query names.
pub(crate) fn bounds(min: Option<&str>, max: Option<&str>) -> Result<(Option<Timestamp>, Option<Timestamp>), Problem> {
    let (min, max) = (moment(&MIN_TIMESTAMP, min)?, moment(&MAX_TIMESTAMP, max)?);
    check_bounds(min, max)?;
    Ok((min, max))
}

/// `false` if it is left out.
pub(crate) fn flag(parameter: &Parameter, text: Option<&str>) -> Result<bool, Problem> {
    match text {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::argument(parameter.name, format!("{} must be true or false", parameter.name))),
    }
}

/// The lists that are returned with bags.
pub(crate) fn joined_lists(text: Option<&str>, int64_as: Option<&str>) -> Result<JoinedLists, Problem> {
    let lists = text.map(read_joined_lists).transpose()?.unwrap_or_default();
    let lists = lists.into_iter().map(|(feature, limit)| JoinedList { feature, limit }).collect();
    Ok(JoinedLists { lists, aggregates: Vec::new(), int64_as: form(int64_as)? })
}

/// How the values of items are written, if the caller asks for a form.
pub(crate) fn form(text: Option<&str>) -> Result<Option<Int64As>, Problem> {
    text.map(Int64As::parse).transpose().map_err(|invalid| Problem::from(invalid).at(INT64_AS.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parameters::{TEXT, VERSION};

    fn values(query: &str) -> Result<[Option<String>; 3], String> {
        parse(Some(query), &[VERSION, MIN_TIMESTAMP, TEXT])
            .map(|values| values.map(|value| value.map(Cow::into_owned)))
            .map_err(|problem| problem.field.unwrap_or_default().into_owned())
    }

    #[test]
    fn values_are_decoded() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(values(""), Ok([None, None, None]));
        assert_eq!(values("version="), Ok([some(""), None, None]));
        assert_eq!(values("q=a+b%2Bc&&version=v%2F1"), Ok([some("v/1"), None, some("a b+c")]));
        let offset = Ok([None, some("2024-08-29T18:44:05+02:00"), None]);
        assert_eq!(values("min_timestamp=2024-08-29T18%3A44%3A05%2B02:00"), offset);
        assert_eq!(values("min+timestamp=1"), Err("min timestamp".to_owned()));
        for plus in ["version=a+b", "min_timestamp=a+b", "q=a+b", "q=a%20b"] {
            assert!(values(plus).unwrap().contains(&some("a b")), "{plus}");
        }
        assert_eq!(values("q=%2B+%252B%25+"), Ok([None, None, some("+ %2B% ")]));
    }

    #[test]
    fn unknown_repeated_empty_and_undecodable_parameters_are_named() {
        for (query, field) in [
            ("limits=1", "limits"),
            ("q", "q"),
            ("q=", "q"),
            ("q=a&q=b", "q"),
            ("version=&version=", "version"),
            ("q=%FF", "q"),
            ("q=%F", "q"),
            ("q=%00", "q"),
            ("version=a%00+b", "version"),
            ("%FF=1", "query"),
            ("=1", ""),
        ] {
            assert_eq!(values(query), Err(field.to_owned()), "{query}");
        }
    }

    #[test]
    fn an_unencoded_plus_in_an_offset_is_refused_with_the_remedy() {
        let read = |text: &str| moment(&MIN_TIMESTAMP, Some(text)).map_err(|problem| problem.detail.into_owned());
        assert!(read("2024-08-29T18:44:05+02:00").unwrap().is_some());
        assert!(read("2024-08-29T18:44:05 02:00").unwrap_err().contains("%2B"));
        assert!(!read("yesterday").unwrap_err().contains("%2B"));
    }

    #[test]
    fn counts_are_digits() {
        assert_eq!(count("limit", "12").ok(), Some(12));
        assert_eq!(count("limit", "99999999999999999999999").ok(), Some(usize::MAX));
        for bad in ["", "-1", "+1", "1.0", "abc", " 1"] {
            assert!(count("limit", bad).is_err(), "{bad}");
        }
    }
}
