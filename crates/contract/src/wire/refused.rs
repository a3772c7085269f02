//! Why a body of a request is refused: serde's errors of a body, with the place of each mistake.

use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

use super::Problem;
use crate::domain::{Code, Invalid};

/// The most characters of a caller's own word that an answer repeats.
const ECHO_CHARS_MAX: usize = 64;

/// Members of a body that its type does not declare.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Others<'n> {
    /// They are allowed, and not read here.
    pub passed: &'n [&'n str],
    /// They exist, but cannot be given in this body, for the reason next to them.
    pub fixed: &'n [(&'static str, &'static str)],
}

/// A mistake in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The path of the member, such as `items[3].timestamp`. Empty for the body itself.
    pub place: String,
    pub mistake: Mistake,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The required type or form.
    Wanted(String),
    /// The required length.
    Length(String),
    /// The names that exist.
    Unknown(&'static [&'static str]),
    Repeated,
    Missing,
    /// The member has the right form, but a value that is refused.
    Value(Invalid),
}

impl Refused {
    pub fn wanted(wanted: &str) -> Self {
        Self { place: String::new(), mistake: Mistake::Wanted(wanted.to_owned()) }
    }

    pub fn at_member(self, name: &str) -> Self {
        let dot = if self.place.is_empty() || self.place.starts_with('[') { "" } else { "." };
        Self { place: format!("{}{dot}{}", echo(name), self.place), ..self }
    }

    pub fn at_index(self, index: usize) -> Self {
        let dot = if self.place.is_empty() || self.place.starts_with('[') { "" } else { "." };
        Self { place: format!("[{index}]{dot}{}", self.place), ..self }
    }

    /// The member of the outermost object.
    pub fn member(&self) -> &str {
        self.place.split(['.', '[']).next().unwrap_or_default()
    }

    pub fn into_problem(self, others: Others<'_>) -> Problem {
        let Self { place, mistake } = self;
        if let Some((name, reason)) = others.fixed.iter().find(|(name, _)| *name == place)
            && matches!(mistake, Mistake::Unknown(_))
        {
            return Problem::argument(*name, *reason);
        }
        let whole = if place.is_empty() { "the body" } else { place.as_str() };
        let invalid = Invalid::argument(match mistake {
            Mistake::Wanted(wanted) => format!("{whole} must be {wanted}"),
            Mistake::Length(wanted) => format!("{whole} must have {wanted}"),
            Mistake::Unknown(known) => {
                let known: Vec<_> = known.iter().chain(others.passed).copied().collect();
                format!("unknown field; known fields: {}", known.join(", "))
            }
            Mistake::Repeated => format!("duplicate {whole}"),
            Mistake::Missing => format!("{whole} is missing"),
            Mistake::Value(invalid) => return problem_at(invalid, place),
        });
        problem_at(invalid, place)
    }
}

fn problem_at(invalid: Invalid, place: String) -> Problem {
    let problem = Problem::from(invalid);
    if place.is_empty() { problem } else { problem.at(place) }
}

/// A caller's word, as answers repeat it.
pub(crate) fn echo(word: &str) -> String {
    word.chars().take(ECHO_CHARS_MAX).collect()
}

/// Refuses a value of the right form, with its error code.
pub(crate) fn refuse<E: de::Error>(invalid: Invalid) -> E {
    E::custom(Coded(&invalid))
}

/// Refuses a value that does not have the form of `wanted`.
pub(crate) fn want<E: de::Error>(wanted: &str) -> E {
    E::invalid_value(Unexpected::Other("another value"), &wanted)
}

/// The alternate form of a refused value begins with this character and the one of its code. serde carries a refused
/// value as text, and [`Refused`] reads the code back.
const CODED: char = '\u{1f}';

struct Coded<'i>(&'i Invalid);

impl Display for Coded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Invalid { code, detail } = self.0;
        if f.alternate() { write!(f, "{CODED}{}{detail}", mark(*code)) } else { f.write_str(detail) }
    }
}

fn mark(code: Code) -> char {
    char::from(b'0' + code as u8)
}

impl From<Invalid> for Refused {
    fn from(invalid: Invalid) -> Self {
        Self { place: String::new(), mistake: Mistake::Value(invalid) }
    }
}

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.clone().into_problem(Others::default()).detail)
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: Display>(message: T) -> Self {
        let text = format!("{message:#}");
        let coded = text.strip_prefix(CODED).and_then(|rest| {
            let code = Code::ALL.into_iter().find(|code| rest.starts_with(mark(*code)))?;
            Some(Invalid { code, detail: rest.chars().skip(1).collect() })
        });
        coded.unwrap_or_else(|| Invalid::argument(text)).into()
    }

    fn invalid_type(_found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::wanted(&wanted.to_string())
    }

    fn invalid_value(_found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::wanted(&wanted.to_string())
    }

    fn invalid_length(_found: usize, wanted: &dyn Expected) -> Self {
        Self { place: String::new(), mistake: Mistake::Length(wanted.to_string()) }
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self { place: echo(name), mistake: Mistake::Unknown(known) }
    }

    fn missing_field(name: &'static str) -> Self {
        Self { place: name.to_owned(), mistake: Mistake::Missing }
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self { place: name.to_owned(), mistake: Mistake::Repeated }
    }
}
