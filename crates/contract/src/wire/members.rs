//! How bodies read members whose form is not the one that serde knows: raw JSON, numbers within bounds, arrays of
//! limited length, and timestamps. Each function is named in a `deserialize_with`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;

use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::refused::{refuse, want};
use super::{Problem, body};
use crate::domain::timestamp::FORMS;
use crate::domain::{Code, EntityType, FeatureName, Invalid, Timestamp, VersionLabel, json};

/// The most entries of a set of words.
const SET_MAX: usize = 100;

/// A value as JSON.
pub(crate) fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'de str, D::Error> {
    <&'de RawValue>::deserialize(deserializer).map(RawValue::get)
}

/// The entries of an array as JSON.
pub(crate) fn raws<'de, const MAX: usize, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'de str>, D::Error> {
    let values = many::<MAX, &'de RawValue, D>(deserializer)?;
    Ok(values.into_iter().map(RawValue::get).collect())
}

/// An array of 1 to `MAX` entries, of which the caller can send more in other requests.
pub(crate) fn many<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Entries::<T> { max: MAX, remedy: ": split the request", entry: PhantomData })
}

/// An array of 1 to `MAX` entries.
pub(crate) fn few<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Entries::<T> { max: MAX, remedy: "", entry: PhantomData })
}

/// Reads an array, and stores at most as many entries as it may have.
struct Entries<T> {
    max: usize,
    remedy: &'static str,
    entry: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = array.next_element()? {
            if entries.len() == self.max {
                return Err(self.length(self.max + 1, self.remedy));
            }
            entries.push(entry);
        }
        if entries.is_empty() { Err(self.length(0, "")) } else { Ok(entries) }
    }
}

impl<T> Entries<T> {
    fn length<E: Error>(&self, length: usize, remedy: &str) -> E {
        let wanted = format!("1 to {} entries{remedy}", self.max);
        E::invalid_length(length, &wanted.as_str())
    }
}

/// A set of 1 to 100 words, without duplicates and in their order.
pub(crate) fn set<'de, T: Deserialize<'de> + Ord, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    // A wrong word is a mistake of the whole set.
    let words = few::<SET_MAX, String, D>(deserializer)?.into_iter();
    let words: BTreeSet<T> =
        words.map(|word| T::deserialize(word.into_deserializer())).collect::<Result<_, D::Error>>()?;
    Ok(words.into_iter().collect())
}

/// A whole number from 1 to `MAX`.
pub(crate) fn whole<'de, const MAX: u64, N: TryFrom<u64>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<N>, D::Error> {
    whole_of::<MAX, N, D::Error>(raw(deserializer)?).map(Some)
}

/// A whole number from 1 to `MAX`, or `null` for none.
pub(crate) fn whole_or_null<'de, const MAX: u64, N: TryFrom<u64>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<N>, D::Error> {
    match raw(deserializer)? {
        "null" => Ok(None),
        raw => whole_of::<MAX, N, D::Error>(raw).map(Some),
    }
}

fn whole_of<const MAX: u64, N: TryFrom<u64>, E: Error>(raw: &str) -> Result<N, E> {
    let number = whole_number(raw).filter(|number| (1..=MAX).contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| want(&format!("a whole number from 1 to {MAX}")))
}

/// A number without a fraction, however it is written: `5.0` is an integer to JSON Schema (section 6.1.1 of its
/// validation vocabulary) and to many writers of JSON.
pub(crate) fn whole_number(raw: &str) -> Option<u64> {
    /// Above it, neighbouring integers have the same double.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let of_double = || {
        let number: f64 = serde_json::from_str(raw).ok()?;
        ((0.0..=EXACT_MAX).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    };
    serde_json::from_str(raw).ok().or_else(of_double)
}

/// A text that `parse` accepts.
pub(crate) fn parsed<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<T, D::Error> {
    parse(&body::text(deserializer)?).map_err(refuse)
}

/// The same text, after `parse` accepted it.
pub(crate) fn checked<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<Cow<'de, str>, D::Error> {
    let text = body::text(deserializer)?;
    parse(&text).map_err(refuse::<D::Error>)?;
    Ok(text)
}

/// A text that `parse` accepts, or `null` for none.
pub(crate) fn parsed_or_null<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<Option<T>, D::Error> {
    match raw(deserializer)? {
        "null" => Ok(None),
        raw => match json::string(raw) {
            Some(text) => parse(&text).map(Some).map_err(refuse),
            None => Err(want("a string or null")),
        },
    }
}

/// A text in either form, or an integer.
pub(crate) fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    timestamp_of(raw(deserializer)?)
}

/// `null` stands for no bound, because generated clients write it for a bound that is left out.
pub(crate) fn some_timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    match raw(deserializer)? {
        "null" => Ok(None),
        raw => timestamp_of(raw).map(Some),
    }
}

fn timestamp_of<E: serde::de::Error>(raw: &str) -> Result<Timestamp, E> {
    Timestamp::from_json(raw).map_err(|invalid| match invalid.code {
        // JSON of another type.
        Code::InvalidArgument => want(&format!("a string or an integer; {}", FORMS)),
        _ => refuse(invalid),
    })
}

/// The name of an index.
pub(crate) fn index_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VersionLabel, D::Error> {
    parsed(deserializer, VersionLabel::of_index)
}

/// The most lists per second that a job can be limited to.
pub(crate) const LISTS_PER_SECOND_MAX: u64 = 1_000_000;

/// The speed limit of every job.
pub(crate) fn lists_per_second<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
    let lists: Option<u32> = whole::<LISTS_PER_SECOND_MAX, _, _>(deserializer)?;
    Ok(lists.and_then(NonZeroU32::new))
}

/// The well-formed name of an entity type, as it is written.
pub(crate) fn entity_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    checked(deserializer, EntityType::new)
}

/// The well-formed name of a feature.
pub(crate) fn feature<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    checked(deserializer, FeatureName::new)
}

/// The well-formed label of a version.
pub(crate) fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    checked(deserializer, VersionLabel::new)
}

/// Refuses bounds that contain no moment.
pub fn check_bounds(min: Option<Timestamp>, max: Option<Timestamp>) -> Result<(), Problem> {
    match (min, max) {
        (Some(min), Some(max)) if min > max => {
            Err(Problem::argument("min_timestamp", "min_timestamp must not be after max_timestamp"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_may_have_a_point_and_no_fraction() {
        let read = ["5", "5.0", "5e2", "18446744073709551615", "0.0"].map(|raw| whole_number(raw).unwrap());
        assert_eq!(read, [5, 5, 500, u64::MAX, 0]);
        for raw in ["5.5", "-1", "-1.0", "1e300", "\"5\"", "null", "true", ""] {
            assert_eq!(whole_number(raw), None, "{raw}");
        }
    }
}
