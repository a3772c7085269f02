//! Which key created which: the audit trail names a creator `key:` and the name of its key.
//!
//! A name becomes free when its key is revoked. Among several successive keys with one name, the creator is the last
//! one that existed at the creation.

use std::collections::{HashMap, HashSet};

use crate::domain::{ApiKey, KeyId};

/// The keys that a key created, directly or through another key, without revoked ones. In no particular order, in time
/// linear in the number of keys.
pub fn created_by(root: KeyId, keys: &[ApiKey]) -> Vec<ApiKey> {
    let mut holders: HashMap<&str, Vec<&ApiKey>> = HashMap::new();
    for key in keys {
        holders.entry(key.name.as_str()).or_default().push(key);
    }
    for named in holders.values_mut() {
        named.sort_by_key(|key| key.created_at);
    }
    let creator = |key: &ApiKey| {
        let named = holders.get(key.created_by.as_str().strip_prefix("key:")?)?;
        // Clocks of servers differ, so the first holder may seem younger than a key that it created.
        let place = named.partition_point(|holder| holder.created_at <= key.created_at).max(1) - 1;
        named.get(place).map(|holder| holder.id).filter(|id| *id != key.id)
    };
    let mut children: HashMap<KeyId, Vec<&ApiKey>> = HashMap::new();
    for key in keys {
        if let Some(creator) = creator(key) {
            children.entry(creator).or_default().push(key);
        }
    }
    let (mut found, mut seen, mut waiting) = (Vec::new(), HashSet::from([root]), vec![root]);
    while let Some(id) = waiting.pop() {
        for child in children.get(&id).into_iter().flatten().filter(|child| seen.insert(child.id)) {
            waiting.push(child.id);
            found.push(*child);
        }
    }
    found.into_iter().filter(|key| key.revoked_at.is_none()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Author, KeyName, RateLimits, Revision, Role, Scope, SecretHash, Timestamp};

    fn id(last: char) -> KeyId {
        KeyId::new(&format!("0000000000{last}0")).unwrap()
    }

    fn key(last: char, name: &str, created_by: &str, created: u64) -> ApiKey {
        ApiKey {
            id: id(last),
            name: KeyName::new(name).unwrap(),
            roles: vec![Role::Admin],
            scopes: vec![Scope::all()],
            limits: RateLimits::default(),
            hash: SecretHash::new([1; 32]),
            previous: None,
            created_at: Timestamp::from_nanos(created).unwrap(),
            created_by: Author::new(created_by).unwrap(),
            expires_at: None,
            rotated_at: None,
            revoked_at: None,
            last_used_at: None,
            revision: Revision(created),
        }
    }

    fn found(root: char, keys: &[ApiKey]) -> Vec<String> {
        let mut names: Vec<_> = created_by(id(root), keys).iter().map(|key| key.name.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn keys_lead_to_the_key_that_created_them_directly_or_through_others() {
        let mut keys = vec![
            key('a', "root", "local", 1),
            key('b', "child", "key:root", 2),
            key('c', "grandchild", "key:child", 3),
            key('d', "other", "jwt:root", 4),
            key('e', "sibling", "key:root", 5),
        ];
        assert_eq!(found('a', &keys), ["child", "grandchild", "sibling"]);
        assert_eq!((found('b', &keys), found('d', &keys)), (vec!["grandchild".to_owned()], vec![]));
        // A revoked key still leads to the keys that it created.
        keys[1].revoked_at = Some(Timestamp::MIN);
        assert_eq!(found('a', &keys), ["grandchild", "sibling"]);
    }

    #[test]
    fn a_reused_name_leads_to_the_key_of_that_time() {
        let keys = [
            key('a', "ops", "local", 10),
            key('b', "first", "key:ops", 15),
            key('c', "ops", "local", 20),
            key('d', "second", "key:ops", 25),
            // By the clock of another server.
            key('e', "early", "key:ops", 9),
            // A circle of names does not cause an endless walk.
            key('f', "x", "key:y", 30),
            key('g', "y", "key:x", 31),
        ];
        assert_eq!(
            (found('a', &keys), found('c', &keys)),
            (vec!["early".into(), "first".into()], vec!["second".into()])
        );
        assert_eq!((found('f', &keys), found('g', &keys)), (vec!["y".to_owned()], vec!["x".to_owned()]));
    }
}
