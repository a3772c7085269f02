//! Definitions as a YAML file, which can be stored next to the code that uses them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::entity_types::{self, EntityTypeText, EntityTypes};
use crate::client::Failure;
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{Description, EntityType, FeatureId, FeatureName, Invalid, Labels, Owner, ValueType, VersionLabel};
use crate::wire::{self, Problem};

/// The file, in the order of entity types and names. Kinds that it does not mention are not compared.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entity_types: Option<Vec<EntityTypeText>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    features: Option<Vec<FeatureText>>,
}

/// The declarations of a file.
pub(super) struct Declarations {
    pub entity_types: Option<EntityTypes>,
    pub features: Option<Definitions>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FeatureText {
    entity_type: String,
    name: String,
    value_type: String,
    /// Any other member of the file.
    #[serde(flatten)]
    properties: Map<String, Json>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    owner: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// All but the default one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    versions: Vec<VersionText>,
}

#[derive(Debug, Serialize, Deserialize)]
struct VersionText {
    version: String,
    /// Properties that differ from the feature's, and any other member of the file.
    #[serde(flatten)]
    properties: Map<String, Json>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
}

/// A feature as a file, or a server, has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub value_type: ValueType,
    pub properties: VersionProperties,
    pub description: Description,
    pub owner: Owner,
    pub labels: Labels,
    /// All but the default one.
    pub versions: BTreeMap<VersionLabel, DeclaredVersion>,
}

/// A version other than the default one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeclaredVersion {
    pub properties: VersionProperties,
    pub description: Description,
}

/// Features by their identity.
pub(super) type Definitions = BTreeMap<FeatureId, Declared>;

impl FeatureText {
    fn of(feature: &wire::Feature) -> Self {
        let versions = feature.versions.iter().filter(|version| !version.version.is_empty());
        let version = |version: &wire::FeatureVersion| VersionText {
            version: version.version.clone(),
            properties: GivenProperties::overriding(&version.properties, &feature.properties).members(),
            description: version.description.clone(),
        };
        let given = GivenProperties::overriding(&feature.properties, &VersionProperties::default());
        Self {
            entity_type: feature.entity_type.clone(),
            name: feature.name.clone(),
            value_type: feature.value_type.to_string(),
            properties: given.members(),
            description: feature.description.clone(),
            owner: feature.owner.clone(),
            labels: feature.labels.clone(),
            versions: versions.map(version).collect(),
        }
    }

    fn parse(self) -> Result<(FeatureId, Declared), Problem> {
        let id = FeatureId { entity_type: EntityType::new(&self.entity_type)?, name: FeatureName::new(&self.name)? };
        let given = GivenProperties::of_members(&self.properties)?;
        if given.ttl.is_none() {
            return Err(Invalid::argument("ttl is missing").into());
        }
        let value_type = ValueType::parse(&self.value_type)?;
        let properties = given.inheriting(&VersionProperties::default())?.of_values(value_type)?;
        let mut versions = BTreeMap::new();
        for text in self.versions {
            let label = VersionLabel::new(&text.version)?;
            let declared = DeclaredVersion {
                properties: GivenProperties::of_members(&text.properties)?
                    .inheriting(&properties)?
                    .of_values(value_type)?,
                description: Description::new(text.description)?,
            };
            if label.is_default() || versions.insert(label, declared).is_some() {
                return Err(Problem::from(Invalid::argument(format!(
                    "the version {:?} is a duplicate, or the default version, whose ttl is the feature's",
                    text.version
                ))));
            }
        }
        let declared = Declared {
            value_type,
            properties,
            description: Description::new(self.description)?,
            owner: Owner::new(self.owner)?,
            labels: Labels::new(self.labels)?,
            versions,
        };
        Ok((id, declared))
    }
}

/// The text of a file with these definitions.
pub(super) fn write(entity_types: Vec<EntityTypeText>, features: &[wire::Feature]) -> Result<String, Failure> {
    let entity_types = Some(entity_types).filter(|types| !types.is_empty());
    let file = File { entity_types, features: Some(features.iter().map(FeatureText::of).collect()) };
    serde_saphyr::to_string(&file).map_err(|error| Failure::failed(format!("cannot write YAML: {error}")))
}

/// The definitions of a file, or why it makes no sense.
pub(super) fn read(text: &str) -> Result<Declarations, Failure> {
    let file: File = serde_saphyr::from_str_with_options(text, options(text.len()))
        .map_err(|error| Failure::failed(format!("cannot read the file: {}", without_advice(&error.to_string()))))?;
    if file.entity_types.is_none() && file.features.is_none() {
        return Err(Failure::failed("the file has neither features nor entity_types"));
    }
    Ok(Declarations {
        entity_types: file.entity_types.map(entity_types::parse).transpose()?,
        features: file.features.map(parse).transpose()?,
    })
}

/// The reader's error without its advice, which is for programmers.
fn without_advice(error: &str) -> &str {
    let error = error.strip_prefix("error: ").unwrap_or(error);
    let advice = [", set DuplicateKeyPolicy", "; use Option<", "; use from_str_multiple", ", use from_str_multiple"];
    advice.iter().filter_map(|advice| error.split_once(advice)).map(|(error, _)| error).next().unwrap_or(error)
}

/// A file has as many features as its server. Its bounds grow with its length, and not with the expansion of its
/// aliases.
fn options(bytes: usize) -> serde_saphyr::Options {
    let usual = serde_saphyr::Budget::default();
    let (max_events, max_nodes) = (usual.max_events.max(bytes), usual.max_nodes.max(bytes));
    serde_saphyr::options! { budget: serde_saphyr::budget! { max_events: max_events, max_nodes: max_nodes } }
}

/// The features that a server has.
pub(super) fn of_server(features: &[wire::Feature]) -> Result<Definitions, Failure> {
    parse(features.iter().map(FeatureText::of).collect())
}

/// With the name of an unknown member, which its detail leaves out.
fn words_of(problem: &Problem) -> String {
    match &problem.field {
        Some(field) if !problem.detail.contains(&**field) => format!("{field}: {}", problem.detail),
        _ => problem.detail.to_string(),
    }
}

fn parse(features: Vec<FeatureText>) -> Result<Definitions, Failure> {
    let mut definitions = Definitions::new();
    for feature in features {
        let name = format!("{}.{}", feature.entity_type, feature.name);
        let (id, declared) =
            feature.parse().map_err(|problem| Failure::failed(format!("{name}: {}", words_of(&problem))))?;
        if definitions.insert(id, declared).is_some() {
            return Err(Failure::failed(format!("duplicate feature {name}")));
        }
    }
    Ok(definitions)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn a_file_may_have_as_many_features_as_there_are() {
        const FEATURES: usize = 15_000;
        let mut text = "features:\n".to_owned();
        for n in 0..FEATURES {
            let labels = "{team: feed, tier: '1', on: call}";
            let feature = format!("{{entity_type: user, name: f{n}, value_type: string, ttl: 30d, labels: {labels}}}");
            writeln!(text, "- {feature}").unwrap();
        }
        assert_eq!(read(&text).unwrap().features.unwrap().len(), FEATURES);
    }

    #[test]
    fn definitions_that_no_server_accepts_are_refused_with_the_whole_file() {
        let good = "features:\n- {entity_type: aaa, name: good, value_type: string, ttl: 30d}\n";
        let indexes = |indexes: &str| format!("entity_types:\n- {{entity_type: user, indexes: [{indexes}]}}\n");
        let many: Vec<_> = (0..65).map(|n| format!("{{name: i{n}, properties: [/p{n}]}}")).collect();
        for (text, why) in [
            (
                format!("{good}- {{entity_type: b, name: b, value_type: string, ttl: 30d, int64_as: string}}"),
                "int64_as",
            ),
            (indexes("{name: a, properties: []}"), "1 to 8 properties"),
            (indexes("{name: a, properties: [/a, /a]}"), "duplicate property"),
            (indexes(&many.join(", ")), "at most 64 indexes"),
            (format!("{good}  ttl: 1d\n  ttl: 2d\n"), "cannot read the file"),
            ("features:\n- {entity_type: a, entity_type: b}".to_owned(), "duplicate mapping key: entity_type"),
            (
                "features:\n- {entity_type: a, name: b, value_type: string, ttl: 1d, description: null}".to_owned(),
                "null",
            ),
        ] {
            let refused = read(&text).err().unwrap().to_string();
            assert!(refused.contains(why), "{refused}");
            for advice in ["Option", "from_str", "error: "] {
                assert!(!refused.contains(advice), "{refused}");
            }
        }
    }

    #[test]
    fn a_file_with_exploding_aliases_is_refused() {
        let mut text = "a0: &a0 {version: v, ttl: 1d}\n".to_owned();
        for n in 1..9 {
            let ten = vec![format!("*a{}", n - 1); 10].join(", ");
            writeln!(text, "a{n}: &a{n} [{ten}]").unwrap();
        }
        text.push_str("features: *a8\n");
        assert!(read(&text).is_err());
    }
}
