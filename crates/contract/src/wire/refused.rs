//! Why a body of a request is refused: serde's errors of a body, with the place of each mistake.

use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

use super::Problem;
use super::problem::place_within;
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
        Self { place: place_within(&member_place(name), &self.place), ..self }
    }

    pub fn at_index(self, index: usize) -> Self {
        Self { place: place_within(&format!("[{index}]"), &self.place), ..self }
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

/// The place of a member in its object: its name, as answers repeat it. A name that would not be read as one is written
/// as JSONPath writes it (RFC 9535, section 2.3.1): `["[0]"]`, `[""]`.
pub(crate) fn member_place(name: &str) -> String {
    let name: String = name.chars().take(ECHO_CHARS_MAX).collect();
    if name.is_empty() || name.contains(['[', ']', '"']) {
        format!("[{}]", serde_json::Value::from(name))
    } else {
        name
    }
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
        Self { place: member_place(name), mistake: Mistake::Unknown(known) }
    }

    fn missing_field(name: &'static str) -> Self {
        Self { place: name.to_owned(), mistake: Mistake::Missing }
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self { place: name.to_owned(), mistake: Mistake::Repeated }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::Error as _;

    use super::*;
    use crate::wire::ErrorCode;

    fn problem(refused: Refused) -> (&'static str, Option<String>, String) {
        let Problem { code, field, detail, .. } = refused.into_problem(Others::default());
        (code.name(), field.map(Into::into), detail.into())
    }

    fn field_and_detail(refused: Refused) -> (Option<String>, String) {
        let (code, field, detail) = problem(refused);
        assert_eq!(code, ErrorCode::InvalidArgument.name());
        (field, detail)
    }

    #[test]
    fn a_place_is_built_from_the_inside() {
        let at = |refused: Refused| refused.place;
        let mistake = || Refused::wanted("a string");
        assert_eq!(at(mistake()), "");
        assert_eq!(at(mistake().at_member("timestamp").at_index(3).at_member("items")), "items[3].timestamp");
        assert_eq!(at(mistake().at_index(1).at_index(2).at_member("windows")), "windows[2][1]");
        assert_eq!(mistake().at_member("min").at_index(0).at_member("windows").member(), "windows");
    }

    #[test]
    fn a_name_is_never_read_as_another_place() {
        for (name, place) in [
            ("plain name", "plain name"),
            ("app.kubernetes.io/name", "app.kubernetes.io/name"),
            ("", r#"[""]"#),
            ("[0]", r#"["[0]"]"#),
            ("a[0", r#"["a[0"]"#),
            (r#"a"]b"#, r#"["a\"]b"]"#),
        ] {
            assert_eq!(Refused::unknown_field(name, &[]).place, place);
            let inner = Refused::wanted("a string").at_member("x").at_member(name).at_member("labels");
            let dot = if place.starts_with('[') { "" } else { "." };
            assert_eq!(inner.place, format!("labels{dot}{place}.x"));
        }
        let (field, detail) = field_and_detail(Refused::unknown_field("", &["a", "b"]));
        assert_eq!((field.as_deref(), detail.as_str()), (Some(r#"[""]"#), "unknown field; known fields: a, b"));
        let long = "x".repeat(200);
        assert_eq!(Refused::unknown_field(&long, &[]).place.len(), ECHO_CHARS_MAX);
    }

    #[test]
    fn each_mistake_describes_the_problem() {
        let at = |refused: Refused| field_and_detail(refused.at_member("a"));
        let field = || Some("a".to_owned());
        assert_eq!(at(Refused::wanted("an array")), (field(), "a must be an array".to_owned()));
        let length = Refused::invalid_length(0, &"1 to 16 entries");
        assert_eq!(at(length), (field(), "a must have 1 to 16 entries".to_owned()));
        assert_eq!(field_and_detail(Refused::missing_field("a")), (field(), "a is missing".to_owned()));
        assert_eq!(field_and_detail(Refused::duplicate_field("a")), (field(), "duplicate a".to_owned()));
        assert_eq!(
            field_and_detail(Refused::wanted("a JSON object")),
            (None, "the body must be a JSON object".to_owned())
        );
    }

    #[test]
    fn a_refused_value_keeps_its_code_through_serde() {
        for code in Code::ALL {
            let invalid = Invalid { code, detail: "\u{1f}3 is no text".to_owned() };
            let refused: Refused = refuse(invalid.clone());
            assert_eq!(refused.mistake, Mistake::Value(invalid));
        }
        let (code, field, detail) = problem(refuse::<Refused>(Invalid::timestamp("soon")).at_member("as_of"));
        assert_eq!((code, field.as_deref(), detail.as_str()), ("invalid_timestamp", Some("as_of"), "soon"));
        assert_eq!(field_and_detail(Refused::custom("no code")), (None, "no code".to_owned()));
    }

    #[test]
    fn members_of_other_places_are_known_or_have_a_reason() {
        let others = Others { passed: &["ttl"], fixed: &[("name", "a feature cannot be renamed")] };
        let of = |name: &str| Refused::unknown_field(name, &["owner"]).into_problem(others);
        assert_eq!(of("x").detail, "unknown field; known fields: owner, ttl");
        assert_eq!((of("name").field.as_deref(), &*of("name").detail), (Some("name"), "a feature cannot be renamed"));
    }
}
