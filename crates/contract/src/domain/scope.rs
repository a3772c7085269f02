//! Roles, and the scopes that limit them to some entity types and features.

use std::fmt;

use super::Invalid;

/// A named bundle of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Reader,
    Writer,
    Editor,
    Scaler,
    Operator,
    Admin,
}

impl Role {
    pub const ALL: [Self; 6] = [Self::Reader, Self::Writer, Self::Editor, Self::Scaler, Self::Operator, Self::Admin];

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Invalid::argument(format!("unknown role: expected one of {known}"))
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Editor => "editor",
            Self::Scaler => "scaler",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A part of a scope: names that begin so, or the one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Pattern {
    text: String,
    /// Whether a `*` follows.
    open: bool,
}

impl Pattern {
    const NAME_CHARS_MAX: usize = 128;

    fn parse(text: &str) -> Option<Self> {
        let (text, open) = text.strip_suffix('*').map_or((text, false), |start| (start, true));
        let well_formed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let fits = text.len() <= Self::NAME_CHARS_MAX && text.chars().all(well_formed) && (open || !text.is_empty());
        fits.then(|| Self { text: text.to_owned(), open })
    }

    fn matches(&self, name: &str) -> bool {
        if self.open { name.starts_with(&self.text) } else { name == self.text }
    }

    fn is_any(&self) -> bool {
        self.open && self.text.is_empty()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.open { "*" } else { "" })
    }
}

/// Features that a role is limited to: `user.*`, `customer.purchase`, `user.story_*`, or `*` for all.
///
/// An entity type and a feature's name may contain dots. If one does, a slash must separate the two (`a.b/c`), so that
/// a pattern never matches more than its writer intended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    entity_type: Pattern,
    feature: Pattern,
}

impl Scope {
    /// Every feature, and operations on no feature.
    pub fn all() -> Self {
        let any = Pattern { text: String::new(), open: true };
        Self { entity_type: any.clone(), feature: any }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text == "*" {
            return Ok(Self::all());
        }
        let parts = text.split_once('/').or_else(|| match text.matches('.').count() {
            1 => text.split_once('.'),
            _ => None,
        });
        let parsed = parts.and_then(|(entity_type, feature)| {
            Some(Self { entity_type: Pattern::parse(entity_type)?, feature: Pattern::parse(feature)? })
        });
        parsed.ok_or_else(|| {
            Invalid::argument(
                "a scope must be *, or an entity type and a feature such as user.*, customer.purchase or user.story_*; \
                 separate names that contain dots by a slash: a.b/c",
            )
        })
    }

    pub fn matches(&self, entity_type: &str, feature: &str) -> bool {
        self.entity_type.matches(entity_type) && self.feature.matches(feature)
    }

    /// Whether it includes all features of an entity type, including future ones.
    pub fn takes_in_all_of(&self, entity_type: &str) -> bool {
        self.entity_type.matches(entity_type) && self.feature.is_any()
    }

    /// Whether it is not a limit.
    pub fn is_all(&self) -> bool {
        self.entity_type.is_any() && self.feature.is_any()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("*");
        }
        let dotted = self.entity_type.text.contains('.') || self.feature.text.contains('.');
        write!(f, "{}{}{}", self.entity_type, if dotted { '/' } else { '.' }, self.feature)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_scope_includes_exactly_its_features() {
        for (scope, inside, outside) in [
            ("*", &["user.seen", "a.b"][..], &[][..]),
            ("user.*", &["user.seen", "user.x"], &["users.seen", "use.r", "customer.user"]),
            ("user.story_*", &["user.story_", "user.story_seen"], &["user.stor", "user.seen"]),
            ("customer.purchase", &["customer.purchase"], &["customer.purchases", "customer.purchas"]),
            ("*.seen", &["user.seen", "a.seen"], &["user.seen2"]),
            ("us*.*", &["user.a", "us.b"], &["u.a"]),
        ] {
            let parsed = Scope::parse(scope).unwrap();
            assert_eq!(parsed.to_string(), scope);
            let matches = |name: &&str| name.split_once('.').is_some_and(|(e, f)| parsed.matches(e, f));
            assert!(inside.iter().all(matches), "{scope}");
            assert!(!outside.iter().any(matches), "{scope}");
        }
    }

    #[test]
    fn an_ambiguous_scope_is_refused() {
        for bad in
            ["", "user", ".", "user.", ".seen", "a.b.c", "a.*.c", "user.*x", "us*er.x", "a/b/c", "a b.c", "**", "a#.b"]
        {
            assert!(Scope::parse(bad).is_err(), "{bad}");
        }
        let parted = Scope::parse("a.b/c").unwrap();
        assert!(parted.matches("a.b", "c") && !parted.matches("a", "b.c"));
        assert_eq!(parted.to_string(), "a.b/c");
    }

    proptest! {
        #[test]
        fn written_scopes_read_back_the_same(text in "[a-c.*/]{0,6}") {
            if let Ok(scope) = Scope::parse(&text) {
                prop_assert_eq!(Scope::parse(&scope.to_string()), Ok(scope));
            }
        }
    }
}
