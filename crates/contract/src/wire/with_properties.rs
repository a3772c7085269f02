//! Reads bodies that have the properties of a version next to their own members.

use serde::Deserialize;

use super::Problem;
use super::body;
use super::refused::Others;
use crate::definition::{GivenProperties, VersionProperties};

/// Why a version, or a change of one, cannot have a value type.
pub(crate) const VALUE_TYPE_OF_VERSION: (&str, &str) = (
    "value_type",
    "all versions have the value type of their feature, which cannot be changed: create another feature",
);

/// Reads a body whose properties stand next to its own members.
pub(crate) fn with_properties<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    passed: &[&str],
    fixed: &[(&'static str, &'static str)],
) -> Result<(T, GivenProperties), Problem> {
    let own = body::read_among(body, Others { passed, fixed })?;
    Ok((own, body::read(body)?))
}

/// Reads a change, which cannot have the `fixed` members. Members that are read `apart` are passed.
pub(crate) fn change_with_properties<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    apart: &[&str],
    fixed: &[(&'static str, &'static str)],
) -> Result<(T, GivenProperties), Problem> {
    let fixed = [GivenProperties::FIXED, fixed].concat();
    let names = apart.iter().chain(VersionProperties::NAMES).copied();
    let changeable: Vec<&str> = names.filter(|name| fixed.iter().all(|(fixed, _)| fixed != name)).collect();
    with_properties(body, &changeable, &fixed)
}
