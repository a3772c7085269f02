//! The caller, and the decision whether it may act: a pure function.
//!
//! Everything that is not allowed is refused. A refusal depends on the caller's permissions and on the names in its
//! request, never on stored data. So it does not reveal whether a feature exists.

use std::sync::Arc;

use liststore_contract::permission::{Permission, Resource};

use super::identity::{Identity, Reach};
use super::limits::Limiter;
use crate::domain::{Author, Scope};

/// The caller.
#[derive(Debug, Clone, Default)]
pub enum Principal {
    /// Unknown: every caller, if the server is open.
    #[default]
    Anonymous,
    /// Any caller on the socket in the server's data directory.
    Local,
    /// A caller whose credentials were verified when the request came.
    Known(Arc<Identity>),
}

/// Why a caller is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error(
        "this operation is available only over the socket in the server's data directory: run `liststore backup` on \
         the server's machine"
    )]
    LocalOnly,
    #[error("{who} has no role with the permission {}", .permission.name())]
    NoRole { who: String, permission: Permission },
    #[error("{who} has the permission {} only within its scopes", .permission.name())]
    OutOfScope { who: String, permission: Permission },
}

/// Whether a caller may do something.
pub fn decide(principal: &Principal, permission: Permission, resource: Resource<'_>) -> Result<(), Denied> {
    let identity = match (permission, principal) {
        (Permission::Open | Permission::Known, _) | (_, Principal::Local) => return Ok(()),
        (Permission::LocalAdministration, _) => return Err(Denied::LocalOnly),
        (_, Principal::Anonymous) => return Ok(()),
        (_, Principal::Known(identity)) => identity,
    };
    let who = || identity.name().as_str().to_owned();
    match identity.reach(permission, resource) {
        Reach::Granted => Ok(()),
        Reach::Elsewhere => Err(Denied::OutOfScope { who: who(), permission }),
        Reach::Nowhere => Err(Denied::NoRole { who: who(), permission }),
    }
}

impl Principal {
    /// Which permissions it has, in the order of [`Permission::GRANTED`], with the features of each.
    pub fn permissions(&self) -> Vec<(Permission, Vec<Scope>)> {
        let scopes_of = |permission| match self {
            Self::Anonymous | Self::Local => vec![Scope::all()],
            Self::Known(identity) => identity.scopes_of(permission),
        };
        let with_scopes = Permission::GRANTED.into_iter().map(|permission| (permission, scopes_of(permission)));
        with_scopes.filter(|(_, scopes)| !scopes.is_empty()).collect()
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Local => "local",
            Self::Known(identity) => identity.name().as_str(),
        }
    }

    /// The caller's limits, if it has any.
    pub fn limiter(&self) -> Option<&Arc<Limiter>> {
        match self {
            Self::Anonymous | Self::Local => None,
            Self::Known(identity) => identity.limiter(),
        }
    }

    /// Whether the caller shows a key, token or certificate that expires.
    pub fn expires(&self) -> bool {
        match self {
            Self::Anonymous | Self::Local => false,
            Self::Known(identity) => identity.expires(),
        }
    }

    /// The name in the audit trail. `claimed` is the name that the caller gave and that is not verified. For a known
    /// caller it is only the person that the caller claims to act for.
    pub fn author(&self, claimed: Option<&Author>) -> Author {
        match self {
            // A name in the form of known callers would be mistaken for theirs later.
            Self::Anonymous => match claimed.filter(|claimed| has_form_of_known_caller(claimed)) {
                Some(claimed) => Author::anonymous().on_behalf_of(Some(claimed)),
                None => claimed.cloned().unwrap_or_else(Author::anonymous),
            },
            Self::Local => Author::new("local").unwrap_or_else(|_| Author::anonymous()).on_behalf_of(claimed),
            Self::Known(identity) => {
                let claimed = claimed.filter(|_| identity.acts_for_others());
                identity.name().clone().on_behalf_of(claimed)
            }
        }
    }
}

/// Whether a name has the form of an identified caller's name.
fn has_form_of_known_caller(name: &Author) -> bool {
    let name = name.as_str();
    name == "local" || ["key:", "jwt:", "cert:"].iter().any(|kind| name.starts_with(kind))
}

impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::ActsFor;
    use crate::access::test_keys::key;
    use crate::domain::Role;

    const PERMISSIONS: [Permission; 11] = [
        Permission::Open,
        Permission::Known,
        Permission::ListsRead,
        Permission::ListsWrite,
        Permission::FeaturesRead,
        Permission::FeaturesWrite,
        Permission::PoolsWrite,
        Permission::KeysWrite,
        Permission::ServerRead,
        Permission::ServerWrite,
        Permission::LocalAdministration,
    ];
    const SEEN: Resource<'static> = Resource::Feature { entity_type: "user", feature: "seen" };

    fn principal(roles: &[Role], scopes: &[&str]) -> Principal {
        Principal::Known(Arc::new(Identity::of_key(&key("feed", roles, scopes))))
    }

    fn allowed(principal: &Principal, resource: Resource<'_>) -> Vec<&'static str> {
        let may = |permission: &Permission| decide(principal, *permission, resource).is_ok();
        PERMISSIONS.into_iter().filter(may).map(Permission::name).collect()
    }

    #[test]
    fn each_role_has_exactly_its_permissions() {
        for (role, expected) in [
            (Role::Reader, &["open", "known", "lists:read", "features:read"][..]),
            (Role::Writer, &["open", "known", "lists:read", "lists:write", "features:read"]),
            (Role::Editor, &["open", "known", "features:read", "features:write"]),
            (Role::Scaler, &["open", "known", "pools:write"]),
            (Role::Operator, &["open", "known", "features:read", "pools:write", "server:read", "server:write"]),
            (
                Role::Admin,
                &[
                    "open",
                    "known",
                    "lists:read",
                    "lists:write",
                    "features:read",
                    "features:write",
                    "pools:write",
                    "keys:write",
                    "server:read",
                    "server:write",
                ],
            ),
        ] {
            for resource in [SEEN, Resource::SomeFeatures, Resource::Whole] {
                assert_eq!(allowed(&principal(&[role], &["*"]), resource), expected, "{role}");
            }
        }
        assert_eq!(allowed(&principal(&[Role::Reader, Role::Editor], &["*"]), SEEN).len(), 5);
        assert_eq!(allowed(&principal(&[], &["*"]), SEEN), ["open", "known"]);
        assert_eq!(allowed(&principal(&[Role::Admin], &[]), SEEN), ["open", "known"]);
    }

    #[test]
    fn a_limited_key_has_its_features_and_no_global_permissions() {
        let limited = principal(&[Role::Admin], &["user.*", "customer.purchase"]);
        assert_eq!(allowed(&limited, SEEN).len(), PERMISSIONS.len() - 1);
        let other = Resource::Feature { entity_type: "customer", feature: "seen" };
        assert_eq!(allowed(&limited, other), ["open", "known"]);
        assert_eq!(allowed(&limited, Resource::Whole), ["open", "known"]);
        assert!(decide(&limited, Permission::FeaturesRead, Resource::SomeFeatures).is_ok());
    }

    #[test]
    fn listed_permissions_equal_the_decided_ones() {
        for scopes in [&["*"][..], &["user.*", "customer.seen"]] {
            for role in Role::ALL {
                let principal = principal(&[role], scopes);
                let reported = principal.permissions();
                for permission in Permission::GRANTED {
                    let resource = if permission.is_about_all() { Resource::Whole } else { SEEN };
                    let decided = decide(&principal, permission, resource).is_ok();
                    let found = reported.iter().find(|(known, _)| *known == permission);
                    assert_eq!(found.is_some(), decided, "{role} {scopes:?} {}", permission.name());
                    let found: Vec<_> = found.iter().flat_map(|(_, of)| of).map(ToString::to_string).collect();
                    assert!(!decided || found == scopes, "{role} {found:?}");
                }
            }
        }
        for principal in [Principal::Anonymous, Principal::Local] {
            assert_eq!(principal.permissions().len(), Permission::GRANTED.len());
        }
    }

    #[test]
    fn no_role_grants_local_administration() {
        assert_eq!(allowed(&Principal::Local, Resource::Whole).len(), PERMISSIONS.len());
        for principal in [Principal::Anonymous, principal(&[Role::Admin], &["*"])] {
            let decided = decide(&principal, Permission::LocalAdministration, Resource::Whole);
            assert_eq!(decided, Err(Denied::LocalOnly));
        }
    }

    #[test]
    fn a_claimed_name_counts_only_without_a_credential() {
        let alice = Author::new("alice").unwrap();
        let named = |principal: &Principal, claimed: Option<&Author>| {
            let author = principal.author(claimed);
            (author.as_str().to_owned(), author.behalf().map(str::to_owned))
        };
        assert_eq!(named(&Principal::Anonymous, None), ("anonymous".to_owned(), None));
        assert_eq!(named(&Principal::Anonymous, Some(&alice)), ("alice".to_owned(), None));
        for theirs in ["key:feed", "jwt:bob", "cert:feeds", "local"] {
            let theirs = Author::new(theirs).unwrap();
            let found = named(&Principal::Anonymous, Some(&theirs));
            assert_eq!(found, ("anonymous".to_owned(), Some(theirs.as_str().to_owned())));
        }
        let key = principal(&[Role::Editor], &["*"]);
        assert_eq!(named(&key, None), ("key:feed".to_owned(), None));
        assert_eq!(named(&key, Some(&alice)), ("key:feed".to_owned(), Some("alice".to_owned())));
        // A caller without this right acts for itself.
        let person = Principal::Known(Arc::new(Identity::new("jwt:", "bob", vec![], ActsFor::Themselves)));
        assert_eq!(named(&person, Some(&alice)), ("jwt:bob".to_owned(), None));
    }
}
