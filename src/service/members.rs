//! Encodes items and members from requests, by a version's value type and identity. Also decodes the items of lookups
//! in sets.

use bytes::Bytes;
use liststore_contract::operations::lookup_items::LookupInput;

use super::ServiceError;
use crate::domain::{IdentityKind, Invalid, MemberKey, Timestamp, Value};
use crate::items::Removal;
use crate::metadata::catalog::CatalogVersion;
use crate::wire::{ItemInput, member_key};

/// Encodes items for the store.
pub(crate) fn encode(
    version: &CatalogVersion,
    items: &[ItemInput<'_>],
) -> Result<Vec<(Timestamp, Value)>, ServiceError> {
    let mut encoded = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let stored = stored(version, item);
        let stored = stored.map_err(|(member, invalid)| ServiceError::InvalidItem { index, member, invalid })?;
        encoded.push((item.timestamp, stored));
    }
    Ok(encoded)
}

/// The stored bytes of an item, or the refused part of it with the reason.
fn stored(version: &CatalogVersion, item: &ItemInput<'_>) -> Result<Value, (&'static str, Invalid)> {
    let value = version.value_type.encode(item.value).map_err(|invalid| ("value", invalid))?;
    match (version.feature_key.identity().kind(), item.key) {
        (IdentityKind::Key, Some(raw)) => with_key(raw, &value).map_err(|invalid| ("key", invalid)),
        (IdentityKind::Key, None) => {
            Err(("key", Invalid::identity("key is missing: the feature has the identity key")))
        }
        (kind, Some(_)) => Err((
            "key",
            Invalid::identity(format!("the feature has the identity {kind}, so its items have no keys: leave key out")),
        )),
        (_, None) => Ok(value),
    }
}

fn with_key(raw: &str, value: &Value) -> Result<Value, Invalid> {
    Ok(value.with_key(&MemberKey::new(&member_key(raw)?)?))
}

/// Members of a set that are named by their keys.
fn members_of_keys(version: &CatalogVersion, keys: &[&str], field: &'static str) -> Result<Vec<Bytes>, ServiceError> {
    let kind = version.feature_key.identity().kind();
    if kind != IdentityKind::Key {
        let refused = Invalid::identity(format!("the feature has the identity {kind}, so its items have no keys"));
        return Err(ServiceError::Invalid { field, invalid: refused });
    }
    let member = |(index, raw): (usize, &&str)| {
        let member = member_key(raw).map(|key| Bytes::copy_from_slice(key.as_bytes()));
        member.map_err(|invalid| ServiceError::InvalidEntry { field, index, invalid })
    };
    keys.iter().enumerate().map(member).collect()
}

/// The removal of members by their keys.
pub(crate) fn removal_of_keys(version: &CatalogVersion, keys: &[&str]) -> Result<Removal, ServiceError> {
    Ok(Removal::Members(members_of_keys(version, keys, "keys")?))
}

/// The removal of a member by its key.
pub(crate) fn removal_of_key(version: &CatalogVersion, key: &str) -> Result<Removal, ServiceError> {
    let member = members_of_keys(version, &[key], "key").map_err(|error| match error {
        ServiceError::InvalidEntry { field, invalid, .. } => ServiceError::Invalid { field, invalid },
        other => other,
    })?;
    Ok(Removal::Members(member))
}

/// The removal of all items with a value. In a set of values it is one member.
pub(crate) fn removal_of_value(version: &CatalogVersion, value: Bytes) -> Removal {
    match version.feature_key.identity().kind() {
        IdentityKind::Value => Removal::Members(vec![value]),
        IdentityKind::Item | IdentityKind::Key => Removal::Value(value),
    }
}

/// The members of a lookup, in its order.
pub(crate) fn looked_up(version: &CatalogVersion, input: &LookupInput<'_>) -> Result<Vec<Bytes>, ServiceError> {
    match input {
        LookupInput::Keys(keys) => members_of_keys(version, &keys.keys, "keys"),
        LookupInput::Values(values) => members_of_values(version, &values.values),
    }
}

/// Members of a set of values.
fn members_of_values(version: &CatalogVersion, values: &[&str]) -> Result<Vec<Bytes>, ServiceError> {
    let kind = version.feature_key.identity().kind();
    if kind != IdentityKind::Value {
        let refused = Invalid::identity(match kind {
            IdentityKind::Key => "the feature has the identity key: send keys",
            _ => "the feature has the identity item, so values do not identify its items: use items:contains",
        });
        return Err(ServiceError::Invalid { field: "values", invalid: refused });
    }
    let member = |(index, raw): (usize, &&str)| {
        let member = version.value_type.encode(raw).map(Value::into_bytes);
        member.map_err(|invalid| ServiceError::InvalidEntry { field: "values", index, invalid })
    };
    values.iter().enumerate().map(member).collect()
}
