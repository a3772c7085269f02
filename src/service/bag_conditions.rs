//! The conditions of bag writes, and the errors of bags.

use crate::domain::Timestamp;
use crate::domain::document::DOCUMENT_BYTES_MAX;

/// The entity tags that a caller names, as stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BagTags {
    /// Any present bag.
    Any,
    OneOf(Vec<Timestamp>),
}

impl BagTags {
    fn has(&self, present: Option<Timestamp>) -> bool {
        match (self, present) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::OneOf(stamps), Some(present)) => stamps.contains(&present),
        }
    }
}

/// The conditions of a write of a bag (RFC 9110, sections 13.1.1 and 13.1.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BagConditions {
    /// Replace only one of these bags.
    pub matching: Option<BagTags>,
    /// Replace none of these bags.
    pub none_matching: Option<BagTags>,
}

impl BagConditions {
    pub fn is_none(&self) -> bool {
        self.matching.is_none() && self.none_matching.is_none()
    }

    /// Decides by the stamp of the present bag, if there is one.
    pub(super) fn check(&self, present: Option<Timestamp>) -> Result<(), BagError> {
        if self.matching.as_ref().is_some_and(|tags| !tags.has(present)) {
            return Err(BagError::Changed);
        }
        if self.none_matching.as_ref().is_some_and(|tags| tags.has(present)) {
            return Err(BagError::IsThere);
        }
        Ok(())
    }
}

/// Why a bag was not read or not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BagError {
    #[error("the entity has no bag")]
    NotFound,
    #[error("the bag does not match the given entity tag, or no longer exists")]
    Changed,
    #[error("the entity already has a bag, which the given condition excludes")]
    IsThere,
    #[error(
        "a bag must have at most {DOCUMENT_BYTES_MAX} bytes as JSON without white space: this change would exceed it"
    )]
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_follow_http() {
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let of = |stamps: &[u64]| Some(BagTags::OneOf(stamps.iter().map(|nanos| at(*nanos)).collect()));
        let check = |matching: &Option<BagTags>, none_matching: &Option<BagTags>, present: Option<u64>| {
            let conditions = BagConditions { matching: matching.clone(), none_matching: none_matching.clone() };
            conditions.check(present.map(at))
        };
        for (matching, none_matching, present, expected) in [
            (None, None, None, Ok(())),
            (None, None, Some(1), Ok(())),
            (Some(BagTags::Any), None, Some(1), Ok(())),
            (Some(BagTags::Any), None, None, Err(BagError::Changed)),
            (of(&[1, 2]), None, Some(2), Ok(())),
            (of(&[1, 2]), None, Some(3), Err(BagError::Changed)),
            (of(&[]), None, Some(3), Err(BagError::Changed)),
            (of(&[1]), None, None, Err(BagError::Changed)),
            (None, Some(BagTags::Any), None, Ok(())),
            (None, Some(BagTags::Any), Some(1), Err(BagError::IsThere)),
            (None, of(&[1]), Some(1), Err(BagError::IsThere)),
            (None, of(&[1]), Some(2), Ok(())),
            (of(&[2]), of(&[1]), Some(2), Ok(())),
        ] {
            assert_eq!(
                check(&matching, &none_matching, present),
                expected,
                "{matching:?} {none_matching:?} {present:?}"
            );
        }
    }
}
