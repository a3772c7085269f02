//! Takes settings out of the merged layers one by one, and collects every mistake on the way.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use config::{Map, Value, ValueKind};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::SettingError;
use super::choices::Choice;
use super::layers::{self, Merged};
use super::texts::{self, HostPort, Secret};

/// The value of a layer for one key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    Integer(i128),
    Boolean(bool),
    Text(String),
    List(Vec<Raw>),
    /// In a list: outside of one, tables are sections.
    Table(Vec<(String, Raw)>),
    /// A value of a kind that no setting has, by the name of its kind.
    Other(&'static str),
}

struct Given {
    raw: Raw,
    origin: String,
}

pub(super) struct Reader {
    /// By full key, the values that no rule has read yet.
    given: BTreeMap<String, Given>,
    /// Every key that was read: the keys that exist.
    known: Vec<&'static str>,
    origins: BTreeMap<String, String>,
    errors: Vec<SettingError>,
}

impl Reader {
    pub(super) fn new(merged: Merged) -> Self {
        let Merged { values, file_name } = merged;
        let mut given = BTreeMap::new();
        flatten("", values, &file_name, &mut given);
        Self { given, known: Vec::new(), origins: BTreeMap::new(), errors: Vec::new() }
    }

    /// Reads `key` into its place, which has the default.
    pub(super) fn read<T>(&mut self, key: &'static str, place: &mut T, parse: impl FnOnce(&Raw) -> Result<T, String>) {
        self.known.push(key);
        let Some(given) = self.given.remove(key) else {
            return;
        };
        self.origins.insert(key.to_owned(), given.origin.clone());
        match parse(&given.raw) {
            Ok(value) => *place = value,
            Err(problem) => self.errors.push(SettingError { key: key.to_owned(), origin: given.origin, problem }),
        }
    }

    /// Every key that was read.
    #[cfg(test)]
    pub(super) fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// Blames a key whose value does not go with the others.
    pub(super) fn blame(&mut self, key: &str, problem: impl Into<String>) {
        let origin = self.origins.get(key).cloned().unwrap_or_else(|| "not set".to_owned());
        // A key with an error has its default, so further errors about it would be misleading.
        if self.errors.iter().all(|e| e.key != key) {
            self.errors.push(SettingError { key: key.to_owned(), origin, problem: problem.into() });
        }
    }

    /// The source of each key; or all mistakes, including one for each unknown key.
    pub(super) fn finish(mut self) -> Result<BTreeMap<String, String>, Vec<SettingError>> {
        for (key, given) in std::mem::take(&mut self.given) {
            let section = self.known.iter().any(|known| known.strip_prefix(&key).is_some_and(|r| r.starts_with('.')));
            let problem = match (section, &given.raw) {
                (true, Raw::Other("a table")) => continue,
                (true, _) => "is a section, not a setting".to_owned(),
                (false, _) => match nearest(&key, &self.known) {
                    Some(known) => format!("unknown key; the nearest known one is {}", spelled(known, &given.origin)),
                    None => "unknown key".to_owned(),
                },
            };
            self.errors.push(SettingError { key, origin: given.origin, problem });
        }
        if self.errors.is_empty() {
            return Ok(self.origins);
        }
        self.errors.sort_by(|a, b| a.key.cmp(&b.key));
        Err(self.errors)
    }
}

/// The key as its source would spell it.
fn spelled(key: &str, origin: &str) -> String {
    if origin.starts_with(layers::ORIGIN_ENVIRONMENT) { layers::variable(key) } else { key.to_owned() }
}

fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |candidate: &&&str| {
        // `actors` at the top is nearer to `items.actors` than to `log.filter`.
        let in_another_section = strsim::osa_distance(&last(key), &last(candidate)) + 2;
        strsim::osa_distance(key, candidate).min(in_another_section)
    };
    known.iter().min_by_key(distance).copied()
}

fn flatten(prefix: &str, table: Map<String, Value>, file_name: &str, into: &mut BTreeMap<String, Given>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        let origin = value.origin().unwrap_or(file_name).to_owned();
        match value.kind {
            ValueKind::Table(inner) if !inner.is_empty() => flatten(&key, inner, file_name, into),
            kind => {
                into.insert(key, Given { raw: raw(kind), origin });
            }
        }
    }
}

fn raw(kind: ValueKind) -> Raw {
    match kind {
        ValueKind::I64(number) => Raw::Integer(number.into()),
        ValueKind::I128(number) => Raw::Integer(number),
        ValueKind::U64(number) => Raw::Integer(number.into()),
        ValueKind::U128(number) => i128::try_from(number).map_or(Raw::Other("a number out of range"), Raw::Integer),
        ValueKind::String(text) => Raw::Text(text),
        ValueKind::Array(values) => Raw::List(values.into_iter().map(|value| raw(value.kind)).collect()),
        ValueKind::Nil => Raw::Other("nothing"),
        ValueKind::Boolean(yes) => Raw::Boolean(yes),
        ValueKind::Float(_) => Raw::Other("a fraction"),
        ValueKind::Table(table) if table.is_empty() => Raw::Other("a table"),
        ValueKind::Table(table) => Raw::Table(table.into_iter().map(|(name, value)| (name, raw(value.kind))).collect()),
    }
}

/// The given value, for a message.
pub(super) fn shown(raw: &Raw) -> String {
    match raw {
        Raw::Integer(number) => number.to_string(),
        Raw::Boolean(_) => "a boolean".to_owned(),
        Raw::Text(text) => format!("{text:?}"),
        Raw::List(_) => "a list".to_owned(),
        Raw::Table(_) => "a table".to_owned(),
        Raw::Other(kind) => (*kind).to_owned(),
    }
}

/// A whole number within bounds.
pub(super) fn number<T: TryFrom<u64>>(bounds: RangeInclusive<u64>) -> impl FnOnce(&Raw) -> Result<T, String> {
    move |raw| {
        let number = match raw {
            Raw::Integer(number) => u64::try_from(*number).ok(),
            Raw::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|n| bounds.contains(n)).and_then(|n| T::try_from(n).ok());
        let (from, to) = (bounds.start(), bounds.end());
        number.ok_or_else(|| format!("must be a whole number from {from} to {to}, not {}", shown(raw)))
    }
}

/// A number of bytes within bounds: an integer, or a text with a unit.
pub(super) fn bytes(bounds: RangeInclusive<usize>) -> impl FnOnce(&Raw) -> Result<usize, String> {
    move |raw| {
        let number = match raw {
            Raw::Integer(number) => usize::try_from(*number).ok(),
            Raw::Text(text) => texts::parse_bytes(text.trim()).and_then(|n| usize::try_from(n).ok()),
            _ => None,
        };
        number.filter(|n| bounds.contains(n)).ok_or_else(|| {
            let (from, to) = (bounds.start(), bounds.end());
            format!("must be {from} to {to} bytes, as a whole number or such as \"2 MiB\", not {}", shown(raw))
        })
    }
}

pub(super) fn choice<T: Choice>(raw: &Raw) -> Result<T, String> {
    let found = match raw {
        Raw::Text(text) => T::ALL.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim())),
        _ => None,
    };
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = T::ALL.iter().map(|(word, _)| *word).collect();
        format!("must be one of {}, not {}", words.join(", "), shown(raw))
    })
}

pub(super) fn boolean(raw: &Raw) -> Result<bool, String> {
    let yes = match raw {
        Raw::Boolean(yes) => Some(*yes),
        Raw::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    yes.ok_or_else(|| format!("must be true or false, not {}", shown(raw)))
}

pub(super) fn text(raw: &Raw) -> Result<String, String> {
    match raw {
        Raw::Text(text) if text.trim().is_empty() => Err("must not be empty: remove the key".to_owned()),
        Raw::Text(text) => Ok(text.clone()),
        other => Err(format!("must be a string, not {}", shown(other))),
    }
}

/// Two texts with a character between them.
pub(super) fn pair<A, B>(
    between: char,
    such_as: &str,
    first: impl Fn(&Raw) -> Result<A, String>,
    second: impl Fn(&Raw) -> Result<B, String>,
) -> impl Fn(&Raw) -> Result<(A, B), String> {
    move |raw| {
        let text = text(raw)?;
        let (a, b) = text.rsplit_once(between).ok_or_else(|| format!("must be such as {such_as}, not {text:?}"))?;
        let read = |part: &str| Raw::Text(part.trim().to_owned());
        Ok((first(&read(a))?, second(&read(b))?))
    }
}

pub(super) fn path(raw: &Raw) -> Result<PathBuf, String> {
    text(raw).map(PathBuf::from)
}

pub(super) fn secret(raw: &Raw) -> Result<Secret, String> {
    match raw {
        Raw::Text(text) if !text.is_empty() => Ok(Secret::new(text.clone())),
        // Never with the given value: it may be a part of the secret.
        _ => Err("must be a non-empty string: remove the key instead".to_owned()),
    }
}

pub(super) fn host_port(default_port: Option<u16>) -> impl Fn(&Raw) -> Result<HostPort, String> {
    move |raw| match raw {
        Raw::Text(text) => HostPort::parse(text.trim(), default_port).map_err(|e| format!("{e}, not {text:?}")),
        other => Err(format!("must be a string such as 127.0.0.1:8080, not {}", shown(other))),
    }
}

/// A list: an array in the file; elsewhere a text, separated by commas.
pub(super) fn list<T>(parse: impl Fn(&Raw) -> Result<T, String>) -> impl FnOnce(&Raw) -> Result<Vec<T>, String> {
    move |raw| match raw {
        Raw::List(elements) => elements.iter().map(&parse).collect(),
        Raw::Text(text) => text.split(',').map(|part| parse(&Raw::Text(part.trim().to_owned()))).collect(),
        other => Err(format!("must be a list, not {}", shown(other))),
    }
}

/// A list of tables; elsewhere than in the file a text, which is a JSON array of objects.
pub(super) fn tables<T: DeserializeOwned>(
    check: impl Fn(&T) -> Result<(), String>,
) -> impl FnOnce(&Raw) -> Result<Vec<T>, String> {
    move |raw| {
        let elements = match raw {
            Raw::List(elements) => elements.iter().map(json).collect(),
            Raw::Text(text) => {
                serde_json::from_str(text).map_err(|e| format!("must be a JSON array of objects: {e}"))?
            }
            other => return Err(format!("must be a list of tables, not {}", shown(other))),
        };
        let read = |(n, element): (usize, Json)| {
            let read = serde_json::from_value(element).map_err(|e| e.to_string());
            read.and_then(|table| check(&table).map(|()| table)).map_err(|problem| format!("[{n}]: {problem}"))
        };
        let elements: Vec<Json> = elements;
        elements.into_iter().enumerate().map(read).collect()
    }
}

fn json(raw: &Raw) -> Json {
    match raw {
        Raw::Integer(number) => i64::try_from(*number).map_or(Json::Null, Json::from),
        Raw::Boolean(yes) => Json::from(*yes),
        Raw::Text(text) => Json::from(text.as_str()),
        Raw::List(elements) => elements.iter().map(json).collect(),
        Raw::Table(table) => table.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
        Raw::Other(_) => Json::Null,
    }
}

pub(super) fn some<T>(parse: impl FnOnce(&Raw) -> Result<T, String>) -> impl FnOnce(&Raw) -> Result<Option<T>, String> {
    move |raw| parse(raw).map(Some)
}
