//! The steps that give a server the definitions of a file: `liststore feature import`.

use std::fmt;

use liststore_contract::operations::{
    create_feature, create_version, delete_feature, delete_version, get_feature, get_version, update_feature,
    update_version,
};
use serde::Serialize;
use serde_json::Value as Json;

use super::definition_file::{self, Declared, DeclaredVersion, Definitions};
use super::definitions;
use crate::client::{Client, ClientError, Failure, Request, Response, read};
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{FeatureId, VersionLabel};
use crate::wire::{FeatureInput, FeaturePatch, FeatureVersion, VersionInput, VersionPatch};

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
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    details: &'a str,
}

#[derive(Debug)]
enum Subject {
    Feature(FeatureId),
    Version(FeatureId, VersionLabel),
}

impl Subject {
    fn feature(&self) -> &FeatureId {
        match self {
            Self::Feature(id) | Self::Version(id, _) => id,
        }
    }

    fn version(&self) -> Option<&VersionLabel> {
        match self {
            Self::Feature(_) => None,
            Self::Version(_, label) => Some(label),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(id) => write!(f, "{id}"),
            Self::Version(id, label) => write!(f, "{id}, version {label}"),
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
    definition_file::write(&definitions::features(client, None, None).await?)
}

impl Plan {
    /// The differences of a server from a file. Definitions that only the server has are deleted only if they are to
    /// be `pruned`.
    pub async fn make(client: &Client, file: &str, pruned: bool) -> Result<Self, Failure> {
        let wanted = definition_file::read(file)?;
        let present = definition_file::of_server(&definitions::features(client, None, None).await?)?;
        let mut plan = Self::between(&wanted, &present, pruned)?;
        for step in &mut plan.steps {
            step.guard(client, &present).await?;
        }
        Ok(plan)
    }

    fn between(wanted: &Definitions, present: &Definitions, pruned: bool) -> Result<Self, Failure> {
        let mut plan = Self::default();
        for (id, wanted) in wanted {
            match present.get(id) {
                None => plan.create(id, wanted)?,
                Some(present) => plan.change(id, wanted, present, pruned)?,
            }
        }
        for id in present.keys().filter(|id| !wanted.contains_key(id)) {
            let request = Request::of_feature(&delete_feature::ROW, id);
            plan.remove(Subject::Feature(id.clone()), request, pruned);
        }
        Ok(plan)
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
            entity_type: subject.feature().entity_type.as_str(),
            name: subject.feature().name.as_str(),
            version: subject.version().map(VersionLabel::as_str),
            details,
        })
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
        let details = format!("{}, {}", wanted.value_type, told(&given));
        let input = FeatureInput {
            entity_type: id.entity_type.clone(),
            name: id.name.clone(),
            value_type: wanted.value_type,
            properties: given,
            description: Some(wanted.description.clone()),
            owner: Some(wanted.owner.clone()),
            labels: Some(wanted.labels.clone()),
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
        let details = told(&given);
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
            description: differs("description", &wanted.description, &present.description, &mut differences),
            owner: differs("owner", &wanted.owner, &present.owner, &mut differences),
            labels: (wanted.labels != present.labels).then(|| {
                differences.push(format!("labels {:?} -> {:?}", present.labels.as_map(), wanted.labels.as_map()));
                wanted.labels.clone()
            }),
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
    async fn guard(&mut self, client: &Client, planned: &Definitions) -> Result<(), Failure> {
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
fn told(given: &GivenProperties) -> String {
    let members = given.members();
    let in_order = VersionProperties::NAMES.iter().filter(|name| members.contains_key(**name));
    in_order.map(|name| format!("{name} {}", shown(members.get(*name)))).collect::<Vec<_>>().join(", ")
}

/// The properties that are not as they are wanted, which are told.
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
