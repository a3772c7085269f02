//! The properties that each version of a feature has. Each is declared once, in the table at the end of this page.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value as Json};
use utoipa::ToSchema;

use super::property::VersionProperty;
use crate::domain::{
    AheadMax, Bucket, Identity, IdentityKind, Int64As, Invalid, JsonForm, Keep, MaxItems, Retention, Ttl, ValueType,
};
use crate::wire::body;
use crate::wire::refused::Others;
use crate::wire::{Problem, texts};

/// Makes the types of properties from one row for each: the shown value, the requested value, the name and type, and
/// whether an update changes it.
macro_rules! properties {
    ($({
        shown: $(#[$shown:meta])*
        given: $(#[$given:meta])*
        $name:ident: $type:ty, $change:ident $(($reason:literal))?
    })+) => {
        /// The properties of each version of a feature.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub struct VersionProperties {
            $($(#[$shown])* pub $name: $type,)+
        }

        /// The properties that a request names: all where a version is created, some where it is changed.
        // They stand next to other members, which are ignored here.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub struct GivenProperties {
            $(
                $(#[$given])*
                #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )+
        }

        impl VersionProperties {
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// As numbers, for definitions in memory.
            pub fn pack(&self) -> [Option<u64>; COUNT] {
                [$(self.$name.pack()),+]
            }

            pub fn unpack(numbers: [Option<u64>; COUNT]) -> Option<Self> {
                let [$($name),+] = numbers;
                Some(Self { $($name: VersionProperty::unpack($name)?),+ })
            }

            /// The properties after an update.
            pub fn changed_by(&self, given: GivenProperties) -> Self {
                Self { $($name: properties!(@changed $change given.$name, self.$name)),+ }
            }
        }

        impl GivenProperties {
            /// The properties that an update cannot change, with the reason.
            pub const FIXED: &[(&str, &str)] = &[$($((stringify!($name), $reason),)?)+];

            pub fn is_empty(&self) -> bool {
                $(self.$name.is_none())&&+
            }

            /// The properties of `wanted` that differ from the current ones.
            pub fn differences(wanted: &VersionProperties, present: &VersionProperties) -> Self {
                Self { $($name: (wanted.$name != present.$name).then(|| wanted.$name.clone())),+ }
            }

            /// The given properties, and the inherited ones for the rest.
            fn over(self, inherited: &VersionProperties) -> VersionProperties {
                VersionProperties { $($name: self.$name.unwrap_or_else(|| inherited.$name.clone())),+ }
            }
        }

        const COUNT: usize = [$(stringify!($name)),+].len();
    };
    (@changed changeable $given:expr, $present:expr) => { $given.unwrap_or_else(|| $present.clone()) };
    (@changed fixed $given:expr, $present:expr) => { $present.clone() };
}

fn given<'de, T: VersionProperty, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::read(deserializer).map(Some)
}

/// A body without own members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOthers {}

/// A property that does not go together with the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{invalid}")]
pub struct InvalidProperty {
    pub name: &'static str,
    pub invalid: Invalid,
}

impl InvalidProperty {
    fn of(name: &'static str) -> impl FnOnce(Invalid) -> Self {
        move |invalid| Self { name, invalid }
    }
}

impl From<InvalidProperty> for Problem {
    fn from(InvalidProperty { name, invalid }: InvalidProperty) -> Self {
        Self::from(invalid).at(name)
    }
}

impl VersionProperties {
    /// How many properties there are.
    pub const COUNT: usize = COUNT;

    /// Refuses properties that no version can have.
    pub fn checked(self) -> Result<Self, InvalidProperty> {
        let identity = Identity::of(Some(self.identity), self.keep, Identity::Item);
        let identity = identity.map_err(InvalidProperty::of("keep"))?;
        Bucket::of(self.bucket, identity).map_err(InvalidProperty::of("bucket"))?;
        Ok(Self { keep: identity.keep(), ..self })
    }

    /// Refuses properties that no version with such values can have.
    pub fn of_values(self, value_type: ValueType) -> Result<Self, InvalidProperty> {
        if value_type != ValueType::Int64 && !self.int64_as.is_number() {
            let detail =
                format!("int64_as is for the value type int64, and this feature has {value_type}: leave it out");
            return Err(InvalidProperty::of("int64_as")(Invalid::argument(detail)));
        }
        Ok(self)
    }

    /// How replies write values: as the caller asks, or as the version is defined.
    pub fn json_form(&self, value_type: ValueType, asked: Option<Int64As>) -> JsonForm {
        JsonForm { value_type, int64_as: asked.unwrap_or(self.int64_as) }
    }

    /// The property that distinguishes the version's items.
    pub fn identity(&self) -> Identity {
        match self.identity {
            IdentityKind::Item => Identity::Item,
            IdentityKind::Value => Identity::Value(self.keep.unwrap_or_default()),
            IdentityKind::Key => Identity::Key(self.keep.unwrap_or_default()),
        }
    }

    /// As the members of a JSON object. Properties that the version does not have are absent.
    pub fn members(&self) -> Map<String, Json> {
        members_of(self)
    }

    /// Which items its lists show.
    pub fn retention(&self) -> Retention {
        Retention { ttl: self.ttl, max_items: self.max_items }
    }
}

impl GivenProperties {
    /// The differences from the inherited properties that produce these, always with the `ttl`.
    pub fn overriding(properties: &VersionProperties, inherited: &VersionProperties) -> Self {
        let differences = Self::differences(properties, inherited);
        // The identity implies the absence of `keep`.
        Self { ttl: Some(properties.ttl), keep: differences.keep.filter(Option::is_some), ..differences }
    }

    /// Reads the members of a JSON object.
    pub fn of_members(members: &Map<String, Json>) -> Result<Self, Problem> {
        // Members with texts for names always have a form in JSON.
        let body = serde_json::to_vec(members).unwrap_or_default();
        let NoOthers {} = body::read_among(&body, Others { passed: VersionProperties::NAMES, ..Others::default() })?;
        body::read(&body)
    }

    /// As the members of a JSON object.
    pub fn members(&self) -> Map<String, Json> {
        members_of(self)
    }

    /// The first property that an update cannot change, with the reason.
    pub fn fixed(&self) -> Option<(&'static str, &'static str)> {
        let members = self.members();
        Self::FIXED.iter().copied().find(|(name, _)| members.contains_key(*name))
    }

    /// The properties of a new version. It inherits the missing ones.
    pub fn inheriting(self, inherited: &VersionProperties) -> Result<VersionProperties, InvalidProperty> {
        let identity = Identity::of(self.identity, self.keep.flatten(), inherited.identity());
        let identity = identity.map_err(InvalidProperty::of("keep"))?;
        VersionProperties { identity: identity.kind(), keep: identity.keep(), ..self.over(inherited) }.checked()
    }
}

fn members_of(properties: &impl Serialize) -> Map<String, Json> {
    match serde_json::to_value(properties) {
        Ok(Json::Object(members)) => members,
        // Structs are objects.
        _ => Map::new(),
    }
}

properties! {
    {
        shown:
            #[schema(value_type = texts::Ttl, inline)]
        given:
            #[schema(value_type = texts::Ttl, inline, required = false)]
        ttl: Ttl, changeable
    }
    {
        shown:
            /// Maximum number of newest items that a list shows; all if absent.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = u32, minimum = 1, maximum = 100_000, required = false)]
        given:
            /// Maximum number of newest items that a list shows; `null` for all.
            #[schema(value_type = Option<u32>, minimum = 1, maximum = 100_000, required = false)]
        max_items: Option<MaxItems>, changeable
    }
    {
        shown:
            /// Maximum lead of an added item's timestamp over the server's clock, or `none`. If absent, the server's
            /// setting applies.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = texts::AheadMax, required = false)]
        given:
            #[schema(value_type = texts::AheadMaxOrNull, inline, required = false)]
        timestamp_ahead_max: Option<AheadMax>, changeable
    }
    {
        shown:
            #[serde(default, skip_serializing_if = "Int64As::is_number")]
            #[schema(value_type = texts::Int64As, inline, required = false)]
        given:
            #[schema(value_type = texts::Int64As, inline, required = false)]
        int64_as: Int64As, changeable
    }
    {
        shown:
            /// Absent in histories if it is `item`.
            #[serde(default)]
            #[schema(value_type = texts::Identity, required = false)]
        given:
            /// What identifies an item; default `item`, and for a further version the feature's.
            #[schema(value_type = texts::Identity, required = false)]
        identity: IdentityKind, fixed(
            "the identity of a version cannot be changed: create another version with the new identity, and move the \
             items with liststore export and import"
        )
    }
    {
        shown:
            /// Present if the identity is `value` or `key`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = texts::Keep, required = false)]
        given:
            /// Which item of a value or key is kept; default `newest`, and for a further version the feature's.
            #[schema(value_type = texts::Keep, required = false)]
        keep: Option<Keep>, fixed(
            "keep cannot be changed: create another version with the new keep, and move the items with liststore \
             export and import"
        )
    }
    {
        shown:
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = texts::Bucket, required = false)]
        given:
            #[schema(value_type = texts::BucketOrNull, inline, required = false)]
        bucket: Option<Bucket>, fixed(
            "the bucket of a version cannot be changed: create another version with the new bucket, and move the items \
             with liststore copy --version and --to-version"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> VersionProperties {
        let text = r#"{"ttl":"7d","max_items":9,"timestamp_ahead_max":"none","int64_as":"string","identity":"key","keep":"oldest"}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn properties_have_one_text_and_one_packed_form() {
        for properties in [VersionProperties::default(), full()] {
            let text = serde_json::to_string(&properties).unwrap();
            assert_eq!(serde_json::from_str::<VersionProperties>(&text).unwrap(), properties, "{text}");
            assert_eq!(VersionProperties::unpack(properties.pack()), Some(properties));
        }
        for (name, number) in VersionProperties::NAMES.iter().zip(0..) {
            let mut numbers = full().pack();
            numbers[number] = Some(u64::MAX);
            assert_eq!(VersionProperties::unpack(numbers), None, "{name}");
        }
    }

    #[test]
    fn contradictory_properties_are_refused() {
        for bad in [
            r#"{"ttl":"0s"}"#,
            r#"{"max_items":9}"#,
            r#"{"ttl":"1d","max_items":0}"#,
            r#"{"ttl":"1d","timestamp_ahead_max":"7301d"}"#,
            r#"{"ttl":"1d","int64_as":"text"}"#,
            r#"{"ttl":"1d","identity":"keys"}"#,
            r#"{"ttl":"1d","keep":"older"}"#,
            r#"{"ttl":"1d","bucket":"hour"}"#,
        ] {
            assert!(serde_json::from_str::<VersionProperties>(bad).is_err(), "{bad}");
        }
        for bad in [
            VersionProperties { keep: Some(Keep::Newest), ..VersionProperties::default() },
            VersionProperties { bucket: Some(Bucket::Day), ..full() },
        ] {
            assert!(bad.clone().checked().is_err(), "{bad:?}");
        }
        for value_type in ValueType::ALL {
            assert_eq!(full().of_values(value_type).is_ok(), value_type == ValueType::Int64, "{value_type}");
            assert!(VersionProperties::default().of_values(value_type).is_ok());
        }
        let set = VersionProperties { identity: IdentityKind::Value, ..VersionProperties::default() };
        assert_eq!(set.checked().unwrap().keep, Some(Keep::Newest));
    }

    #[test]
    fn a_new_version_inherits_omitted_properties() {
        assert_eq!(GivenProperties::default().inheriting(&full()), Ok(full()));
        let given = GivenProperties {
            ttl: Some(Ttl::MIN),
            max_items: Some(None),
            identity: Some(IdentityKind::Item),
            ..GivenProperties::default()
        };
        let made = given.inheriting(&full()).unwrap();
        assert_eq!((made.ttl, made.max_items, made.identity()), (Ttl::MIN, None, Identity::Item));
        assert_eq!((made.keep, made.timestamp_ahead_max), (None, Some(AheadMax::Unbounded)));
        let kept = GivenProperties { keep: Some(Some(Keep::Newest)), ..GivenProperties::default() };
        assert!(kept.inheriting(&VersionProperties::default()).is_err());
    }

    #[test]
    fn overrides_reproduce_the_version_from_inherited_properties() {
        for (properties, inherited) in
            [(full(), VersionProperties::default()), (VersionProperties::default(), full()), (full(), full())]
        {
            let given = GivenProperties::overriding(&properties, &inherited);
            assert_eq!(GivenProperties::of_members(&given.members()).unwrap(), given);
            assert_eq!(given.inheriting(&inherited), Ok(properties));
        }
        let unknown = serde_json::json!({"ttl": "1d", "tll": "1d"});
        assert!(GivenProperties::of_members(unknown.as_object().unwrap()).is_err());
    }

    #[test]
    fn an_update_changes_changeable_properties() {
        let wanted = VersionProperties { ttl: Ttl::MIN, max_items: None, bucket: Some(Bucket::Day), ..full() };
        let differences = GivenProperties::differences(&wanted, &full());
        let expected = GivenProperties {
            ttl: Some(Ttl::MIN),
            max_items: Some(None),
            bucket: Some(Some(Bucket::Day)),
            ..GivenProperties::default()
        };
        assert_eq!(differences, expected);
        assert_eq!(differences.fixed().map(|(name, _)| name), Some("bucket"));
        assert_eq!(full().changed_by(differences), VersionProperties { bucket: None, ..wanted });
        assert_eq!(GivenProperties::differences(&full(), &full()).fixed(), None);
        let fixed: Vec<_> = GivenProperties::FIXED.iter().map(|(name, _)| *name).collect();
        assert_eq!(fixed, ["identity", "keep", "bucket"]);
    }
}
