//! The identity of a caller and its grants, regardless of the credentials: an API key, a token of an identity
//! provider, or a certificate.

use std::sync::Arc;

use ring::digest;

use liststore_contract::permission::{Permission, Resource};

use super::held::HeldBytes;
use super::limits::Limiter;
use crate::domain::{ApiKey, Author, Role, Scope};

/// Roles, for the features that some scopes include. Without a scope it permits nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub roles: Vec<Role>,
    pub scopes: Vec<Scope>,
}

impl Grant {
    fn has(&self, permission: Permission) -> bool {
        self.roles.iter().any(|role| permission.is_of(*role))
    }

    fn takes_in(&self, resource: Resource<'_>) -> bool {
        match resource {
            Resource::Feature { entity_type, feature } => {
                self.scopes.iter().any(|scope| scope.matches(entity_type, feature))
            }
            Resource::EntityType(entity_type) => self.scopes.iter().any(|scope| scope.takes_in_all_of(entity_type)),
            Resource::SomeFeatures => true,
            // A caller with access to only some features cannot use operations on all of them.
            Resource::Whole => self.scopes.iter().any(Scope::is_all),
        }
    }
}

/// The extent of a caller's grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Granted,
    /// They have it, and not there.
    Elsewhere,
    Nowhere,
}

/// Whether the server accepts the name of the person that a caller claims to act for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActsFor {
    Themselves,
    /// Accepts other persons, as services need.
    Others,
}

/// An identified caller. Made once for many requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    name: Author,
    /// The union of all grants. The roles of a grant apply only within its scopes.
    grants: Vec<Grant>,
    acts_for: ActsFor,
    /// Whether the key, token or certificate expires.
    expires: bool,
    /// None where nothing is limited.
    limiter: Option<Arc<Limiter>>,
    held: HeldBytes,
}

impl Identity {
    /// A service with a key. It may name the person that it acts for.
    pub fn of_key(key: &ApiKey) -> Self {
        let grant = Grant { roles: key.roles.clone(), scopes: key.scopes.clone() };
        Self { expires: key.expires_at.is_some(), ..Self::new("key:", key.name.as_str(), vec![grant], ActsFor::Others) }
    }

    /// An identity of this name, as the audit trail can store it. `kind` names the source: tokens and certificates,
    /// which always expire.
    pub fn new(kind: &str, name: &str, grants: Vec<Grant>, acts_for: ActsFor) -> Self {
        let name = Author::new(noted(&format!("{kind}{name}"))).unwrap_or_else(|_| Author::anonymous());
        Self { name, grants, acts_for, expires: true, limiter: None, held: HeldBytes::default() }
    }

    /// The same, with limits.
    pub(super) fn limited(self, limiter: Option<Arc<Limiter>>) -> Self {
        Self { limiter, ..self }
    }

    /// The caller's limits, if it has any.
    pub fn limiter(&self) -> Option<&Arc<Limiter>> {
        self.limiter.as_ref()
    }

    /// The count of its bytes in the budget.
    pub(super) fn held(&self) -> &HeldBytes {
        &self.held
    }

    /// As logs and the audit trail call them: `key:feed`.
    pub fn name(&self) -> &Author {
        &self.name
    }

    /// Whether the key, token or certificate expires.
    pub fn expires(&self) -> bool {
        self.expires
    }

    /// Whether the server accepts the person that it claims to act for.
    pub fn acts_for_others(&self) -> bool {
        self.acts_for == ActsFor::Others
    }

    /// The features of a permission, each named once. None if it has no features.
    pub(super) fn scopes_of(&self, permission: Permission) -> Vec<Scope> {
        let granted = self.grants.iter().filter(|grant| grant.has(permission));
        let effective = granted.filter(|grant| !permission.is_about_all() || grant.takes_in(Resource::Whole));
        let mut scopes: Vec<Scope> = Vec::new();
        for scope in effective.flat_map(|grant| &grant.scopes) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        scopes
    }

    pub(super) fn reach(&self, permission: Permission, resource: Resource<'_>) -> Reach {
        let mut reach = Reach::Nowhere;
        for grant in self.grants.iter().filter(|grant| grant.has(permission)) {
            if grant.takes_in(resource) {
                return Reach::Granted;
            }
            reach = Reach::Elsewhere;
        }
        reach
    }
}

/// A name without characters that would break a line or hide a part of it, and cut if it is long. A changed name ends
/// with a hash of the original, so that no caller gets the name, and the limits, of another.
fn noted(whole: &str) -> String {
    const HASH_BYTES: usize = 8;
    let is_plain = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    if whole.chars().all(is_plain) && whole.chars().count() <= Author::CHARS_MAX {
        return whole.to_owned();
    }
    let hash = digest::digest(&digest::SHA256, whole.as_bytes());
    let hash: String = hash.as_ref().iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let plain = whole.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' });
    let kept: String = plain.take(Author::CHARS_MAX - 1 - hash.len()).collect();
    format!("{kept}…{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(role: Role, scope: &str) -> Grant {
        Grant { roles: vec![role], scopes: vec![Scope::parse(scope).unwrap()] }
    }

    /// Otherwise a reader of everything who may write one feature could write everything.
    #[test]
    fn roles_apply_within_the_scopes_of_their_grant() {
        let both = vec![grant(Role::Reader, "*"), grant(Role::Writer, "user.seen")];
        let identity = Identity::new("jwt:", "alice", both, ActsFor::Themselves);
        let of = |feature| Resource::Feature { entity_type: "user", feature };
        assert_eq!(identity.reach(Permission::ListsWrite, of("seen")), Reach::Granted);
        assert_eq!(identity.reach(Permission::ListsWrite, of("other")), Reach::Elsewhere);
        assert_eq!(identity.reach(Permission::ListsRead, of("other")), Reach::Granted);
        assert_eq!(identity.reach(Permission::KeysWrite, Resource::Whole), Reach::Nowhere);
    }

    #[test]
    fn an_entity_type_is_in_scope_if_all_its_features_are() {
        for (scope, taken) in [
            ("*", true),
            ("user.*", true),
            ("us*.*", true),
            ("user.s*", false),
            ("*.seen", false),
            ("customer.*", false),
        ] {
            let identity = Identity::new("key:", "a", vec![grant(Role::Writer, scope)], ActsFor::Others);
            let reach = identity.reach(Permission::ListsWrite, Resource::EntityType("user"));
            assert_eq!(reach == Reach::Granted, taken, "{scope}");
        }
    }

    #[test]
    fn a_name_of_any_length_can_be_stored() {
        let long = Identity::new("cert:", &"é".repeat(500), vec![], ActsFor::Themselves);
        assert_eq!(long.name().as_str().chars().count(), Author::CHARS_MAX);
        let plain = Identity::new("jwt:", "Ångström <a@example.org>", vec![], ActsFor::Themselves);
        assert_eq!(plain.name().as_str(), "jwt:Ångström <a@example.org>");
        for hostile in ["a\0b", "a\nWARN b", "a\u{1b}[2J", "a\u{202e}nimda", "a\u{200b}"] {
            let identity = Identity::new("jwt:", hostile, vec![], ActsFor::Themselves);
            let name = identity.name().as_str();
            assert!(name.starts_with("jwt:a\u{fffd}") && !name.chars().any(char::is_control), "{name:?}");
        }
    }

    /// A client that can choose a subject must not be able to choose another caller's subject.
    #[test]
    fn different_names_stay_different() {
        let names =
            ["x".repeat(300) + "a", "x".repeat(300) + "b", "a\0".to_owned(), "a\n".to_owned(), "a\u{fffd}".to_owned()];
        let mut noted: Vec<_> =
            names.iter().map(|name| Identity::new("jwt:", name, vec![], ActsFor::Themselves).name().clone()).collect();
        noted.dedup();
        assert_eq!(noted.len(), names.len(), "{noted:?}");
    }
}
