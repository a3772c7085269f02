//! The stored forms of keys: JSON, read through the domain's constructors, which refuse a damaged or edited record.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{KeyAction, KeyHistoryEntry};
use crate::domain::{
    ApiKey, Author, Invalid, KeyId, KeyName, PreviousSecret, Rate, RateLimits, Revision, Role, Scope, SecretHash,
    Timestamp,
};

/// Names the malformed part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken(pub &'static str);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRecord {
    id: String,
    name: String,
    roles: Vec<String>,
    scopes: Vec<String>,
    hash: String,
    previous: Option<(String, u64)>,
    created_at_nanos: u64,
    created_by: String,
    expires_at_nanos: Option<u64>,
    rotated_at_nanos: Option<u64>,
    revoked_at_nanos: Option<u64>,
    /// The limits of requests and items, each as a rate per second and a burst. Omitted without limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<[Option<(u32, u32)>; 2]>,
    revision: u64,
}

/// A key as stored: with its hashes, and without its last use, which is stored separately.
pub fn write(key: &ApiKey) -> Result<String, serde_json::Error> {
    let nanos = |at: Timestamp| at.as_nanos();
    let hash = |hash: &SecretHash| STANDARD.encode(hash.as_bytes());
    serde_json::to_string(&KeyRecord {
        id: key.id.to_string(),
        name: key.name.to_string(),
        roles: key.roles.iter().map(ToString::to_string).collect(),
        scopes: key.scopes.iter().map(ToString::to_string).collect(),
        hash: hash(&key.hash),
        previous: key.previous.as_ref().map(|previous| (hash(&previous.hash), previous.until.as_nanos())),
        created_at_nanos: key.created_at.as_nanos(),
        created_by: key.created_by.as_str().to_owned(),
        expires_at_nanos: key.expires_at.map(nanos),
        rotated_at_nanos: key.rotated_at.map(nanos),
        revoked_at_nanos: key.revoked_at.map(nanos),
        limits: (key.limits != RateLimits::default()).then(|| {
            let numbers = |rate: Rate| (rate.per_second().get(), rate.burst().get());
            [key.limits.requests, key.limits.items].map(|rate| rate.map(numbers))
        }),
        revision: key.revision.0,
    })
}

pub fn read(text: &[u8]) -> Result<ApiKey, Broken> {
    let record: KeyRecord = serde_json::from_slice(text).map_err(|_| Broken("record"))?;
    let previous = record.previous.map(|(hash, until)| {
        Ok(PreviousSecret { hash: secret_hash(&hash)?, until: valid("previous", Timestamp::from_nanos(until))? })
    });
    Ok(ApiKey {
        id: valid("id", KeyId::new(&record.id))?,
        name: valid("name", KeyName::new(&record.name))?,
        roles: roles(&record.roles)?,
        scopes: scopes(&record.scopes)?,
        limits: limits(record.limits)?,
        hash: secret_hash(&record.hash)?,
        previous: previous.transpose()?,
        created_at: valid("created_at", Timestamp::from_nanos(record.created_at_nanos))?,
        created_by: valid("created_by", Author::new(record.created_by))?,
        expires_at: moment("expires_at", record.expires_at_nanos)?,
        rotated_at: moment("rotated_at", record.rotated_at_nanos)?,
        revoked_at: moment("revoked_at", record.revoked_at_nanos)?,
        last_used_at: None,
        revision: Revision(record.revision),
    })
}

fn valid<T>(part: &'static str, outcome: Result<T, Invalid>) -> Result<T, Broken> {
    outcome.map_err(|_| Broken(part))
}

fn moment(part: &'static str, nanos: Option<u64>) -> Result<Option<Timestamp>, Broken> {
    nanos.map(Timestamp::from_nanos).transpose().map_err(|_| Broken(part))
}

fn limits(record: Option<[Option<(u32, u32)>; 2]>) -> Result<RateLimits, Broken> {
    let rate = |numbers: Option<(u32, u32)>| {
        let rate = numbers.map(|(per_second, burst)| Rate::new(per_second, Some(burst)));
        valid("limits", rate.transpose())
    };
    let [requests, items] = record.unwrap_or_default();
    Ok(RateLimits { requests: rate(requests)?, items: rate(items)? })
}

fn secret_hash(text: &str) -> Result<SecretHash, Broken> {
    let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(SecretHash::new).ok_or(Broken("hash"))
}

/// A key without a role or a scope would have no permission, so none is ever written.
pub fn roles(texts: &[String]) -> Result<Vec<Role>, Broken> {
    let roles: Result<Vec<_>, _> = texts.iter().map(|text| Role::parse(text)).collect();
    roles.ok().filter(|roles| !roles.is_empty()).ok_or(Broken("roles"))
}

pub fn scopes(texts: &[String]) -> Result<Vec<Scope>, Broken> {
    let scopes: Result<Vec<_>, _> = texts.iter().map(|text| Scope::parse(text)).collect();
    scopes.ok().filter(|scopes| !scopes.is_empty()).ok_or(Broken("scopes"))
}

/// A key as in the audit trail: in the trail's format, immutable, and without its hashes.
pub fn shown(key: &ApiKey) -> Json {
    let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let texts = |texts: Vec<String>| Json::from(texts);
    let mut shown = json!({
        "id": key.id.as_str(),
        "name": key.name.as_str(),
        "roles": texts(key.roles.iter().map(ToString::to_string).collect()),
        "scopes": texts(key.scopes.iter().map(ToString::to_string).collect()),
        "created_at": key.created_at.to_string(),
        "created_by": key.created_by.as_str(),
        "expires_at": moment(key.expires_at),
        "rotated_at": moment(key.rotated_at),
        "previous_secret_until": moment(key.previous.as_ref().map(|previous| previous.until)),
        "revoked_at": moment(key.revoked_at),
    });
    // Omitted without limits, as in entries from before limits existed.
    for (name, rate) in [("requests", key.limits.requests), ("items", key.limits.items)] {
        if let Some(rate) = rate {
            shown[format!("{name}_per_second")] = rate.per_second().get().into();
            shown[format!("{name}_burst")] = rate.burst().get().into();
        }
    }
    shown
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryRecord {
    format: u32,
    at_nanos: u64,
    by: String,
    on_behalf_of: Option<String>,
    action: KeyAction,
    id: String,
    name: String,
    before: Option<Json>,
    after: Option<Json>,
}

const ENTRY_FORMAT: u32 = 1;

pub fn write_entry(entry: &KeyHistoryEntry) -> Result<String, serde_json::Error> {
    serde_json::to_string(&EntryRecord {
        format: ENTRY_FORMAT,
        at_nanos: entry.at.as_nanos(),
        by: entry.by.as_str().to_owned(),
        on_behalf_of: entry.by.behalf().map(str::to_owned),
        action: entry.action,
        id: entry.id.to_string(),
        name: entry.name.to_string(),
        before: entry.before.clone(),
        after: entry.after.clone(),
    })
}

pub fn read_entry(revision: Revision, text: &[u8]) -> Result<KeyHistoryEntry, Broken> {
    let record: EntryRecord = serde_json::from_slice(text).map_err(|_| Broken("record"))?;
    if record.format != ENTRY_FORMAT {
        return Err(Broken("format"));
    }
    Ok(KeyHistoryEntry {
        revision,
        at: valid("at", Timestamp::from_nanos(record.at_nanos))?,
        by: author(record.by, record.on_behalf_of)?,
        action: record.action,
        id: valid("id", KeyId::new(&record.id))?,
        name: valid("name", KeyName::new(&record.name))?,
        before: record.before,
        after: record.after,
    })
}

/// The author of a change, from its two parts.
pub fn author(name: String, on_behalf_of: Option<String>) -> Result<Author, Broken> {
    let other = on_behalf_of.map(Author::new).transpose().map_err(|_| Broken("on_behalf_of"))?;
    Ok(valid("by", Author::new(name))?.on_behalf_of(other.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"id":"0123456789ab","name":"feed","roles":["reader","editor"],"scopes":["user.*"],"hash":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=","previous":["AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",9],"created_at_nanos":1,"created_by":"local","expires_at_nanos":5,"rotated_at_nanos":4,"revoked_at_nanos":null,"revision":7}"#;

    #[test]
    fn a_key_reads_back() {
        let key = read(RECORD.as_bytes()).unwrap();
        assert_eq!(write(&key).unwrap(), RECORD);
        assert!(!shown(&key).to_string().contains("AQEB"), "the audit trail has no hash");
    }

    #[test]
    fn limits_read_back() {
        let limited = RECORD.replacen("\"revision\":7", "\"limits\":[[5,50],null],\"revision\":7", 1);
        let key = read(limited.as_bytes()).unwrap();
        assert_eq!(key.limits, RateLimits { requests: Some(Rate::new(5, Some(50)).unwrap()), items: None });
        assert_eq!(write(&key).unwrap(), limited);
        assert_eq!(shown(&key)["requests_burst"], 50);
        for bad in ["[[0,1],null]", "[[5,0],null]", "[null]", "7"] {
            let part = if bad.starts_with("[[") { "limits" } else { "record" };
            assert_eq!(read(limited.replacen("[[5,50],null]", bad, 1).as_bytes()).err(), Some(Broken(part)), "{bad}");
        }
    }

    #[test]
    fn every_broken_part_is_named() {
        for (part, good, bad) in [
            ("id", "0123456789ab", "0123456789aB"),
            ("name", "\"feed\"", "\"\""),
            ("roles", "\"editor\"", "\"god\""),
            ("roles", "[\"reader\",\"editor\"]", "[]"),
            ("scopes", "[\"user.*\"]", "[]"),
            ("scopes", "user.*", "user"),
            ("hash", "\"hash\":\"AQ", "\"hash\":\""),
            ("created_by", "local", ""),
            ("expires_at", "\"expires_at_nanos\":5", "\"expires_at_nanos\":10000000000000000000"),
            ("record", "\"revision\":7", "\"revision\":7,\"more\":1"),
        ] {
            let broken = RECORD.replacen(good, bad, 1);
            assert_ne!(broken, RECORD, "{good}");
            assert_eq!(read(broken.as_bytes()).err(), Some(Broken(part)), "{bad}");
        }
    }

    #[test]
    fn an_entry_reads_back() {
        let key = read(RECORD.as_bytes()).unwrap();
        let by = author("key:feed".to_owned(), Some("alice".to_owned())).unwrap();
        let (id, name, after) = (key.id, key.name.clone(), Some(shown(&key)));
        let (at, action) = (Timestamp::MIN, KeyAction::RotateKey);
        let entry = KeyHistoryEntry { revision: Revision(7), at, by, action, id, name, before: None, after };
        let written = write_entry(&entry).unwrap();
        assert_eq!(read_entry(Revision(7), written.as_bytes()), Ok(entry));
        let newer = written.replacen("\"format\":1", "\"format\":2", 1);
        assert_eq!(read_entry(Revision(7), newer.as_bytes()), Err(Broken("format")));
    }
}
