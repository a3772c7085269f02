//! The requirements on the type of a property, and the forms of the words in documents.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::index::Pointer;
use crate::domain::{
    AccessLog, AheadMax, Bucket, Description, EntityId, EntityType, FeatureName, Generation, IdentityKind, Int64As,
    Keep, KeyName, Labels, MaxItems, Owner, Role, Scope, Timestamp, Ttl, ValueType, VersionLabel,
};
use crate::wire::members::{parsed_or_null, raw, whole_number};
use crate::wire::refused::{refuse, want};

/// A property of a version, next to its form in documents.
pub(crate) trait VersionProperty: Sized {
    /// Reads it from the body of a request.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// As a number, for definitions in memory.
    fn pack(&self) -> Option<u64>;

    fn unpack(number: Option<u64>) -> Option<Self>;
}

impl VersionProperty for Ttl {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }

    fn pack(&self) -> Option<u64> {
        Some(self.as_secs())
    }

    fn unpack(number: Option<u64>) -> Option<Self> {
        Self::from_secs(number?).ok()
    }
}

impl VersionProperty for Option<MaxItems> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = raw(deserializer)?;
        if raw == "null" {
            return Ok(None);
        }
        let wanted =
            || want::<D::Error>(&format!("a whole number from {} to {}, or null", MaxItems::MIN, MaxItems::MAX));
        MaxItems::new(whole_number(raw).ok_or_else(wanted)?).map(Some).map_err(refuse)
    }

    fn pack(&self) -> Option<u64> {
        self.map(MaxItems::as_u64)
    }

    fn unpack(number: Option<u64>) -> Option<Self> {
        number.map(MaxItems::new).transpose().ok()
    }
}

impl VersionProperty for Option<AheadMax> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed_or_null(deserializer, AheadMax::parse)
    }

    fn pack(&self) -> Option<u64> {
        self.map(AheadMax::as_secs)
    }

    fn unpack(number: Option<u64>) -> Option<Self> {
        number.map(AheadMax::from_secs).transpose().ok()
    }
}

impl VersionProperty for Int64As {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }

    /// Most versions have the default, which takes no memory.
    fn pack(&self) -> Option<u64> {
        place(&Self::ALL, self).filter(|_| !self.is_number())
    }

    fn unpack(number: Option<u64>) -> Option<Self> {
        number.map_or(Some(Self::Number), |number| at_place(&Self::ALL, number))
    }
}

impl VersionProperty for IdentityKind {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }

    fn pack(&self) -> Option<u64> {
        place(&Self::ALL, self)
    }

    fn unpack(number: Option<u64>) -> Option<Self> {
        at_place(&Self::ALL, number?)
    }
}

impl VersionProperty for Option<Keep> {
    /// Whether there is one follows from the identity, so `null` is refused.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Keep::deserialize(deserializer).map(Some)
    }

    fn pack(&self) -> Option<u64> {
        place(&Keep::ALL, self.as_ref()?)
    }

    fn unpack(number: Option<u64>) -> Option<Self> {
        number.map_or(Some(None), |number| at_place(&Keep::ALL, number).map(Some))
    }
}

impl VersionProperty for Option<Bucket> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed_or_null(deserializer, Bucket::parse)
    }

    fn pack(&self) -> Option<u64> {
        place(&Bucket::ALL, self.as_ref()?)
    }

    fn unpack(number: Option<u64>) -> Option<Self> {
        number.map_or(Some(None), |number| at_place(&Bucket::ALL, number).map(Some))
    }
}

fn place<T: PartialEq>(all: &[T], value: &T) -> Option<u64> {
    all.iter().position(|other| other == value).and_then(|place| u64::try_from(place).ok())
}

fn at_place<T: Copy>(all: &[T], place: u64) -> Option<T> {
    all.get(usize::try_from(place).ok()?).copied()
}

/// Words that are texts in documents, each with the function that reads it.
macro_rules! texts {
    ($($word:ty: $parse:expr,)+) => {$(
        impl Serialize for $word {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $word {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                $parse(text.as_str()).map_err(refuse)
            }
        }
    )+};
}

texts! {
    EntityType: EntityType::new,
    // The name of bags is empty.
    FeatureName: FeatureName::stored,
    VersionLabel: VersionLabel::new,
    ValueType: ValueType::parse,
    Ttl: Ttl::parse,
    AheadMax: AheadMax::parse,
    Int64As: Int64As::parse,
    IdentityKind: IdentityKind::parse,
    Keep: Keep::parse,
    Bucket: Bucket::parse,
    Description: Description::new,
    Owner: Owner::new,
    Timestamp: Timestamp::parse,
    Pointer: Pointer::new,
    EntityId: EntityId::new,
    KeyName: KeyName::new,
    Role: Role::parse,
    Scope: Scope::parse,
    AccessLog: AccessLog::parse,
}

/// Words that are numbers in documents, with the functions that lead there and back.
macro_rules! numbers {
    ($($word:ty: $write:expr, $read:expr;)+) => {$(
        impl Serialize for $word {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64($write(*self))
            }
        }

        impl<'de> Deserialize<'de> for $word {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $read(u64::deserialize(deserializer)?).map_err(refuse)
            }
        }
    )+};
}

numbers! {
    MaxItems: MaxItems::as_u64, MaxItems::new;
    Generation: Generation::as_u64, Generation::new;
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_map().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(BTreeMap::deserialize(deserializer)?).map_err(refuse)
    }
}
