//! The cells of a spine, and the narrowest type that all cells of a column have.
//!
//! A training set must not change a cell. A column has a type only if each of its cells is written as that type
//! writes its values: `7`, but not `007` or `+7`; `0.5`, but not `0.50` or `5e-1`. All other columns are text.

use serde_json::value::RawValue;

use super::columns::Kind;
use crate::import::entity_id;
use crate::typed_times::{TimeReader, TypedTime};

/// A cell as the spine has it.
pub(super) enum RawCell {
    Text(String),
    Json(Box<RawValue>),
}

/// A cell of a column whose type is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub text: String,
    /// Whether the text is JSON, and no string to be quoted.
    pub is_json: bool,
}

/// The kind of a JSON value, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Null,
    String,
    Nested,
    /// A number or a boolean.
    Plain,
}

fn form(raw: &RawValue) -> Form {
    match raw.get().as_bytes().first() {
        Some(b'n') => Form::Null,
        Some(b'"') => Form::String,
        Some(b'{' | b'[') => Form::Nested,
        _ => Form::Plain,
    }
}

impl RawCell {
    fn is_nothing(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Json(raw) => form(raw) == Form::Null,
        }
    }

    /// The cell of a column of this type; none if there is nothing in it.
    pub fn of_kind(self, kind: Kind) -> Option<Cell> {
        if self.is_nothing() {
            return None;
        }
        Some(match self {
            Self::Text(text) => Cell { text, is_json: kind != Kind::Text },
            Self::Json(raw) => match serde_json::from_str::<String>(raw.get()) {
                Ok(text) if kind == Kind::Text => Cell { text, is_json: false },
                _ => Cell { text: raw.get().to_owned(), is_json: true },
            },
        })
    }

    pub fn entity_id(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Json(raw) => {
                let mut id = String::new();
                entity_id(raw.get(), &mut id).map(|()| id)
            }
        }
    }

    pub fn timestamp(&self, times: &TimeReader) -> Result<TypedTime, String> {
        match self {
            Self::Text(text) => times.text(text),
            Self::Json(raw) => times.json(raw.get()),
        }
    }
}

/// The types that fit all cells of a column so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds {
    is_empty: bool,
    plain: [bool; PLAIN.len()],
    strings: bool,
    nested: bool,
    /// Numbers, booleans, and text of CSV.
    others: bool,
}

/// Whether a text is a value of a type, as the type writes it.
type IsValue = fn(&str) -> bool;

/// Types of numbers and booleans, and whether a text is a value of each, as the type writes it.
const PLAIN: [(Kind, IsValue); 4] = [
    (Kind::Int64, |text| text.parse().is_ok_and(|number: i64| number.to_string() == text)),
    (Kind::UInt64, |text| text.parse().is_ok_and(|number: u64| number.to_string() == text)),
    (Kind::Double, |text| text.parse().is_ok_and(|number: f64| number.is_finite() && double_text(number) == text)),
    (Kind::Bool, |text| matches!(text, "true" | "false")),
];

impl Default for Kinds {
    fn default() -> Self {
        Self { is_empty: true, plain: [true; PLAIN.len()], strings: false, nested: false, others: false }
    }
}

impl Kinds {
    pub fn narrow(&mut self, cell: &RawCell) {
        if cell.is_nothing() {
            return;
        }
        self.is_empty = false;
        let text = match cell {
            RawCell::Text(text) => Some(&**text),
            RawCell::Json(raw) => {
                let form = form(raw);
                self.strings |= form == Form::String;
                self.nested |= form == Form::Nested;
                (form == Form::Plain).then(|| raw.get())
            }
        };
        for (fits, (_, is_written)) in self.plain.iter_mut().zip(PLAIN) {
            *fits = *fits && text.is_some_and(is_written);
        }
        self.others |= text.is_some();
    }

    /// The narrowest type of all values. JSON distinguishes strings from other values.
    pub fn narrowest(&self) -> Kind {
        let plain = self.plain.iter().zip(PLAIN).find(|(fits, _)| **fits).map(|(_, (kind, _))| kind);
        match plain {
            Some(kind) if !self.is_empty => kind,
            _ if self.nested || (self.strings && self.others) => Kind::Json,
            _ => Kind::Text,
        }
    }
}

/// The shortest text of a double that reads back as the same one, with a decimal point or an exponent: Python's
/// `repr`, which is also how pandas writes CSV.
fn double_text(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        return format!("{number:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(cells: impl IntoIterator<Item = RawCell>) -> Kind {
        let mut kinds = Kinds::default();
        cells.into_iter().for_each(|cell| kinds.narrow(&cell));
        kinds.narrowest()
    }

    fn of_text(cells: &[&str]) -> Kind {
        kind(cells.iter().map(|cell| RawCell::Text((*cell).to_owned())))
    }

    fn of_json(cells: &[&str]) -> Kind {
        kind(cells.iter().map(|cell| RawCell::Json(serde_json::from_str(cell).unwrap())))
    }

    #[test]
    fn a_type_is_chosen_only_if_it_preserves_every_cell() {
        for (cells, expected) in [
            (&["1", "-2", ""][..], Kind::Int64),
            (&["-9223372036854775808", "9223372036854775807"], Kind::Int64),
            (&["18446744073709551615", "0"], Kind::UInt64),
            (&["18446744073709551615", "-1"], Kind::Text),
            (&["18446744073709551616"], Kind::Text),
            (&["0.5", "-0.0", "1.0", "100000.0", "1e-05", "1.5e+16", "5e-324"], Kind::Double),
            (&["9007199254740993", "0.5"], Kind::Text),
            (&["1", "0.5"], Kind::Text),
            (&["true", "", "false"], Kind::Bool),
            (&["true", "1"], Kind::Text),
            (&["", ""], Kind::Text),
            (&[], Kind::Text),
        ] {
            assert_eq!(of_text(cells), expected, "{cells:?}");
        }
        for text in ["007", "+5", "-0", "1.50", "1e5", "1E-05", "1e-5", ".5", "5.", " 5", "NaN", "inf", "1e999", "True"]
        {
            assert_eq!(of_text(&[text]), Kind::Text, "{text}");
            assert_eq!(of_text(&["0.5", text]), Kind::Text, "{text}");
        }
    }

    #[test]
    fn a_column_of_json_distinguishes_strings_and_numbers() {
        for (cells, expected) in [
            (&["1", "null"][..], Kind::Int64),
            (&["9007199254740993", "0.5"], Kind::Text),
            (&["1.50"], Kind::Text),
            (&["\"1\"", "\"\""], Kind::Text),
            (&["\"1\"", "1"], Kind::Json),
            (&["\"a\"", "[1]"], Kind::Json),
            (&["{}", "7"], Kind::Json),
            (&["null"], Kind::Text),
        ] {
            assert_eq!(of_json(cells), expected, "{cells:?}");
        }
        let cell = |raw: &str, kind| RawCell::Json(serde_json::from_str(raw).unwrap()).of_kind(kind);
        let expected = |text: &str, is_json| Some(Cell { text: text.to_owned(), is_json });
        assert_eq!(cell("\"1\"", Kind::Text), expected("1", false));
        assert_eq!(cell("\"1\"", Kind::Json), expected("\"1\"", true));
        assert_eq!(cell("1.50", Kind::Text), expected("1.50", true));
        assert_eq!(cell("null", Kind::Text), None);
    }

    proptest! {
        #[test]
        fn doubles_have_one_text(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            let text = double_text(number);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
            prop_assert_eq!(of_text(&[&text]), Kind::Double);
        }

        #[test]
        fn any_column_reads_back(cells in prop::collection::vec(r"-?[0-9]{1,20}(\.[0-9]{1,3})?(e[-+][0-9]{1,2})?|true|.{0,3}", 1..4)) {
            let kind = of_text(&cells.iter().map(String::as_str).collect::<Vec<_>>());
            for cell in cells.iter().filter(|cell| !cell.is_empty()) {
                let read = match kind {
                    Kind::Int64 => cell.parse::<i64>().unwrap().to_string(),
                    Kind::UInt64 => cell.parse::<u64>().unwrap().to_string(),
                    Kind::Double => double_text(cell.parse().unwrap()),
                    _ => cell.clone(),
                };
                prop_assert_eq!(&read, cell);
            }
        }
    }
}
