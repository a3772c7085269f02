//! The steps that give a server the definitions of a file: `liststore feature import`.

use std::fmt;

use liststore_contract::operations::create_entity_type::EntityTypeInput;
use liststore_contract::operations::create_feature::FeatureInput;
use liststore_contract::operations::create_version::VersionInput;
use liststore_contract::operations::update_entity_type::EntityTypePatch;
use liststore_contract::operations::update_feature::FeaturePatch;
use liststore_contract::operations::update_version::VersionPatch;
use liststore_contract::operations::{
    create_entity_type, create_feature, create_index, create_version, delete_entity_type, delete_feature, delete_index,
    delete_version, get_entity_type, get_feature, get_version, update_entity_type, update_feature, update_version,
};
use serde::Serialize;
use serde_json::Value as Json;

use super::definition_file::{self, Declared, DeclaredVersion, Definitions};
use super::definitions;
use super::entity_types::{self, DeclaredType, EntityTypes};
use crate::client::{Client, ClientError, Failure, Request, Response, read};
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{Description, EntityType, FeatureId, Labels, Owner, VersionLabel};
use crate::wire::{self, Annotations, FeatureVersion};

/// The steps in their order, and the definitions that only the server has.
#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// The unchanged definitions, in words.
    pub left: Vec<String>,
}

/// One change. As a text it is a line for people.
#[derive(Debug)]
pub struct Step {
    action: Action,
    subject: Subject,
    /// The created or changed parts, in words; nothing of the deleted ones.
    details: String,
    request: Request,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Create,
    Update,
    Delete,
}

/// A change, as reported to programs.
#[derive(Debug, Serialize)]
pub struct Change<'a> {
    action: Action,
    entity_type: &'a str,
    /// A feature's.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    details: &'a str,
}

#[derive(Debug)]
enum Subject {
    Feature(FeatureId),
    Version(FeatureId, VersionLabel),
    EntityType(EntityType),
    Index(EntityType, VersionLabel),
}

impl Subject {
    fn entity_type(&self) -> &EntityType {
        match self {
            Self::Feature(id) | Self::Version(id, _) => &id.entity_type,
            Self::EntityType(entity_type) | Self::Index(entity_type, _) => entity_type,
        }
    }

    fn feature(&self) -> Option<&FeatureId> {
        match self {
            Self::Feature(id) | Self::Version(id, _) => Some(id),
            Self::EntityType(_) | Self::Index(..) => None,
        }
    }

    fn version(&self) -> Option<&VersionLabel> {
        match self {
            Self::Version(_, label) => Some(label),
            Self::Feature(_) | Self::EntityType(_) | Self::Index(..) => None,
        }
    }

    fn index(&self) -> Option<&VersionLabel> {
        match self {
            Self::Index(_, name) => Some(name),
            Self::Feature(_) | Self::Version(..) | Self::EntityType(_) => None,
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            Self::Feature(_) => "feature",
            Self::Version(..) => "version",
            Self::EntityType(_) => "entity type",
            Self::Index(..) => "index",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(id) => write!(f, "{id}"),
            Self::Version(id, label) => write!(f, "{id}, version {label}"),
            Self::EntityType(entity_type) => write!(f, "entity type {entity_type}"),
            Self::Index(entity_type, name) => write!(f, "entity type {entity_type}, index {name}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, subject, details, .. } = self;
        let sign = match action {
            Action::Create => '+',
            Action::Update => '~',
            Action::Delete => '-',
        };
        let between = if details.is_empty() { "" } else { ": " };
        write!(f, "{sign} {subject}{between}{details}")
    }
}

/// The definitions of a server as a file.
pub async fn export(client: &Client) -> Result<String, Failure> {
    let entity_types = entity_types::of_server(client).await?;
    definition_file::write(entity_types, &definitions::features(client, None, None).await?)
}

impl Plan {
    /// The differences of a server from a file. Surplus definitions of the server are deleted only with `pruned`.
    pub async fn make(client: &Client, file: &str, pruned: bool) -> Result<Self, Failure> {
        let wanted = definition_file::read(file)?;
        let mut plan = Self::default();
        let types = match &wanted.entity_types {
            Some(_) => entity_types::parse(entity_types::of_server(client).await?)?,
            None => EntityTypes::default(),
        };
        if let Some(wanted) = &wanted.entity_types {
            plan.between_types(wanted, &types, pruned)?;
        }
        let present = match &wanted.features {
            Some(_) => definition_file::of_server(&definitions::features(client, None, None).await?)?,
            None => Definitions::default(),
        };
        if let Some(wanted) = &wanted.features {
            plan.between(wanted, &present, pruned)?;
        }
        for step in &mut plan.steps {
            step.guard(client, &types, &present).await?;
        }
        Ok(plan)
    }

    fn between_types(&mut self, wanted: &EntityTypes, present: &EntityTypes, pruned: bool) -> Result<(), Failure> {
        for (name, wanted) in wanted {
            let known = present.get(name);
            match known {
                None => self.create_type(name, wanted)?,
                Some(present) => self.change_type(name, wanted, present)?,
            }
            for (index, declared) in &wanted.indexes {
                match known.and_then(|known| known.indexes.get(index)) {
                    None => {
                        let request = Request::new(&create_index::ROW, &[name.as_str()]);
                        let request = request.body(&declared.input(index))?;
                        self.push(
                            Action::Create,
                            Subject::Index(name.clone(), index.clone()),
                            declared.words(),
                            request,
                        );
                    }
                    Some(present) if present == declared => {}
                    Some(present) => {
                        return Err(Failure::failed(format!(
                            "the index {index} of {name} has {} instead of {}, which cannot be changed: nothing was \
                             done; drop it first, or use another name",
                            present.words(),
                            declared.words()
                        )));
                    }
                }
            }
            let surplus = known.into_iter().flat_map(|known| known.indexes.keys());
            for index in surplus.filter(|index| !wanted.indexes.contains_key(*index)) {
                let request = Request::new(&delete_index::ROW, &[name.as_str(), index.as_str()]);
                self.remove(Subject::Index(name.clone(), index.clone()), request, pruned);
            }
        }
        for name in present.keys().filter(|name| !wanted.contains_key(*name)) {
            let request = Request::new(&delete_entity_type::ROW, &[name.as_str()]);
            self.remove(Subject::EntityType(name.clone()), request, pruned);
        }
        Ok(())
    }

    fn create_type(&mut self, name: &EntityType, wanted: &DeclaredType) -> Result<(), ClientError> {
        let input = EntityTypeInput {
            entity_type: name.clone(),
            ttl: Some(wanted.ttl),
            annotations: Annotations::all(wanted.description.clone(), wanted.owner.clone(), wanted.labels.clone()),
        };
        let request = Request::new(&create_entity_type::ROW, &[]).body(&input)?;
        self.push(Action::Create, Subject::EntityType(name.clone()), format!("ttl {}", wanted.ttl), request);
        Ok(())
    }

    fn change_type(&mut self, name: &EntityType, wanted: &DeclaredType, present: &DeclaredType) -> Result<(), Failure> {
        let mut differences = Vec::new();
        let patch = EntityTypePatch {
            ttl: differs("ttl", &wanted.ttl, &present.ttl, &mut differences),
            annotations: reannotated(
                (&wanted.description, &wanted.owner, &wanted.labels),
                (&present.description, &present.owner, &present.labels),
                &mut differences,
            ),
        };
        if !differences.is_empty() {
            let request = Request::new(&update_entity_type::ROW, &[name.as_str()]).body(&patch)?;
            self.push(Action::Update, Subject::EntityType(name.clone()), differences.join(", "), request);
        }
        Ok(())
    }

    fn between(&mut self, wanted: &Definitions, present: &Definitions, pruned: bool) -> Result<(), Failure> {
        for (id, wanted) in wanted {
            match present.get(id) {
                None => self.create(id, wanted)?,
                Some(present) => self.change(id, wanted, present, pruned)?,
            }
        }
        for id in present.keys().filter(|id| !wanted.contains_key(id)) {
            let request = Request::of_feature(&delete_feature::ROW, id);
            self.remove(Subject::Feature(id.clone()), request, pruned);
        }
        Ok(())
    }

    /// Does it all.
    pub async fn carry_out(&self, client: &Client) -> Result<(), Failure> {
        for step in &self.steps {
            client.send(&step.request).await.map_err(|error| Failure::failed(format!("{step}: {error}")))?;
        }
        Ok(())
    }

    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.steps.iter().map(|Step { action, subject, details, .. }| Change {
            action: *action,
            entity_type: subject.entity_type().as_str(),
            name: subject.feature().map(|id| id.name.as_str()),
            version: subject.version().map(VersionLabel::as_str),
            index: subject.index().map(VersionLabel::as_str),
            details,
        })
    }

    /// The kinds of the deleted definitions, with the number of each.
    pub fn deletions(&self) -> Vec<(&'static str, u64)> {
        let mut deletions: Vec<(&'static str, u64)> = Vec::new();
        for step in self.steps.iter().filter(|step| step.action == Action::Delete) {
            let noun = step.subject.noun();
            match deletions.iter_mut().find(|(kind, _)| *kind == noun) {
                Some((_, count)) => *count += 1,
                None => deletions.push((noun, 1)),
            }
        }
        deletions
    }

    fn push(&mut self, action: Action, subject: Subject, details: String, request: Request) {
        self.steps.push(Step { action, subject, details, request });
    }

    fn remove(&mut self, subject: Subject, request: Request, pruned: bool) {
        if pruned {
            self.push(Action::Delete, subject, String::new(), request);
        } else {
            self.left.push(subject.to_string());
        }
    }

    fn create(&mut self, id: &FeatureId, wanted: &Declared) -> Result<(), ClientError> {
        let given = GivenProperties::overriding(&wanted.properties, &VersionProperties::default());
        let details = format!("{}, {}", wanted.value_type, describe_properties(&given));
        let input = FeatureInput {
            entity_type: id.entity_type.clone(),
            name: id.name.clone(),
            value_type: wanted.value_type,
            properties: given,
            annotations: Annotations::all(wanted.description.clone(), wanted.owner.clone(), wanted.labels.clone()),
        };
        let request = Request::new(&create_feature::ROW, &[]).body(&input)?;
        self.push(Action::Create, Subject::Feature(id.clone()), details, request);
        let versions = &mut wanted.versions.iter();
        versions.try_for_each(|(label, version)| self.create_version(id, label, version, wanted))
    }

    fn create_version(
        &mut self,
        id: &FeatureId,
        label: &VersionLabel,
        version: &DeclaredVersion,
        feature: &Declared,
    ) -> Result<(), ClientError> {
        let given = GivenProperties::overriding(&version.properties, &feature.properties);
        let details = describe_properties(&given);
        let description = Some(version.description.clone());
        let input = VersionInput { version: label.clone(), properties: given, description };
        let request = Request::of_feature(&create_version::ROW, id).body(&input)?;
        self.push(Action::Create, Subject::Version(id.clone(), label.clone()), details, request);
        Ok(())
    }

    fn change(&mut self, id: &FeatureId, wanted: &Declared, present: &Declared, pruned: bool) -> Result<(), Failure> {
        if wanted.value_type != present.value_type {
            return Err(Failure::failed(format!(
                "{id} has the value type {} instead of {}, which cannot be changed: nothing was done",
                present.value_type, wanted.value_type
            )));
        }
        let mut differences = Vec::new();
        let patch = FeaturePatch {
            properties: changed(&id.to_string(), &wanted.properties, &present.properties, &mut differences)?,
            annotations: reannotated(
                (&wanted.description, &wanted.owner, &wanted.labels),
                (&present.description, &present.owner, &present.labels),
                &mut differences,
            ),
        };
        if !differences.is_empty() {
            let request = Request::of_feature(&update_feature::ROW, id).body(&patch)?;
            self.push(Action::Update, Subject::Feature(id.clone()), differences.join(", "), request);
        }
        for (label, version) in &wanted.versions {
            let Some(known) = present.versions.get(label) else {
                self.create_version(id, label, version, wanted)?;
                continue;
            };
            let (what, mut differences) = (format!("{id}, version {label},"), Vec::new());
            let patch = VersionPatch {
                properties: changed(&what, &version.properties, &known.properties, &mut differences)?,
                description: differs("description", &version.description, &known.description, &mut differences),
            };
            if !differences.is_empty() {
                let request = Request::of_version(&update_version::ROW, id, label).body(&patch)?;
                let subject = Subject::Version(id.clone(), label.clone());
                self.push(Action::Update, subject, differences.join(", "), request);
            }
        }
        for label in present.versions.keys().filter(|label| !wanted.versions.contains_key(label)) {
            let request = Request::of_version(&delete_version::ROW, id, label);
            self.remove(Subject::Version(id.clone(), label.clone()), request, pruned);
        }
        Ok(())
    }
}

impl Step {
    /// Limits the step to the state for which the plan was made: reads an entity tag, and compares the definition that
    /// comes with it.
    async fn guard(&mut self, client: &Client, types: &EntityTypes, planned: &Definitions) -> Result<(), Failure> {
        if self.action == Action::Create {
            return Ok(());
        }
        let (etag, unchanged) = match &self.subject {
            Subject::Feature(id) => {
                let Response { body, etag } = client.send(&Request::of_feature(&get_feature::ROW, id)).await?;
                let present = definition_file::of_server(&[read(&body)?])?;
                (etag, present.get(id) == planned.get(id))
            }
            Subject::Version(id, label) => {
                let request = Request::of_version(&get_version::ROW, id, label);
                let Response { body, etag } = client.send(&request).await?;
                let present: FeatureVersion = read(&body)?;
                let known = planned.get(id).and_then(|feature| feature.versions.get(label));
                (etag, known.is_some_and(|known| is_known(known, &present)))
            }
            Subject::EntityType(name) => {
                let request = Request::new(&get_entity_type::ROW, &[name.as_str()]);
                let Response { body, etag } = client.send(&request).await?;
                let present: wire::EntityType = read(&body)?;
                (etag, types.get(name).is_some_and(|known| known.is(&present)))
            }
            // Nothing of an index but its state changes.
            Subject::Index(..) => (None, true),
        };
        if !unchanged {
            return Err(Failure::failed(format!("{self}: changed by another client at the same time: run again")));
        }
        self.request.if_match = etag;
        Ok(())
    }
}

/// Whether a version is as it was declared.
fn is_known(known: &DeclaredVersion, present: &FeatureVersion) -> bool {
    known.properties == present.properties && known.description.as_str() == present.description
}

/// A property for people.
fn shown(value: Option<&Json>) -> String {
    match value {
        Some(Json::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "null".to_owned(),
    }
}

/// Given properties in words.
fn describe_properties(given: &GivenProperties) -> String {
    let members = given.members();
    let in_order = VersionProperties::NAMES.iter().filter(|name| members.contains_key(**name));
    in_order.map(|name| format!("{name} {}", shown(members.get(*name)))).collect::<Vec<_>>().join(", ")
}

/// The differing properties, with their text.
fn changed(
    what: &str,
    wanted: &VersionProperties,
    present: &VersionProperties,
    differences: &mut Vec<String>,
) -> Result<GivenProperties, Failure> {
    let changes = GivenProperties::differences(wanted, present);
    let (wanted, present) = (wanted.members(), present.members());
    if let Some((name, reason)) = changes.fixed() {
        return Err(Failure::failed(format!(
            "{what} has the {name} {} instead of {}: nothing was done; {reason}",
            shown(present.get(name)),
            shown(wanted.get(name))
        )));
    }
    let names = changes.members();
    let in_order = VersionProperties::NAMES.iter().filter(|name| names.contains_key(**name));
    differences
        .extend(in_order.map(|name| format!("{name} {} -> {}", shown(present.get(*name)), shown(wanted.get(*name)))));
    Ok(changes)
}

type AnnotationRefs<'a> = (&'a Description, &'a Owner, &'a Labels);

/// The wanted annotations of which the server has others.
fn reannotated(
    (description, owner, labels): AnnotationRefs<'_>,
    present: AnnotationRefs<'_>,
    differences: &mut Vec<String>,
) -> Annotations {
    Annotations {
        description: differs("description", description, present.0, differences),
        owner: differs("owner", owner, present.1, differences),
        labels: (labels != present.2).then(|| {
            differences.push(format!("labels {:?} -> {:?}", present.2.as_map(), labels.as_map()));
            labels.clone()
        }),
    }
}

/// The wanted value, if the server has another one; the plan then reports it.
fn differs<T: PartialEq + Clone + ToString>(
    name: &str,
    wanted: &T,
    present: &T,
    differences: &mut Vec<String>,
) -> Option<T> {
    if wanted == present {
        return None;
    }
    let shown = |value: &T| {
        let text = value.to_string();
        if text.is_empty() { "\"\"".to_owned() } else { text }
    };
    differences.push(format!("{name} {} -> {}", shown(present), shown(wanted)));
    Some(wanted.clone())
}
