//! What has to be done so that a server has the definitions of a file: `liststore feature import`.

use std::fmt;

use liststore_contract::operations::{
    create_feature, create_version, delete_feature, delete_version, get_feature, get_version, update_feature,
    update_version,
};
use serde::Serialize;

use super::definition_file::{self, Declared, DeclaredVersion, Definitions};
use super::definitions;
use crate::client::{Client, ClientError, Failure, Request, Response, read};
use crate::domain::{AheadMax, AheadMaxInput, Bucket, FeatureId, Identity, MaxItems, MaxItemsInput, VersionLabel};
use crate::wire::{FeatureInput, FeaturePatch, FeatureVersion, VersionInput, VersionPatch};

/// What is to be done, one thing after the other, and what is only on the server.
#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// What is left alone, in words.
    pub left: Vec<String>,
}

/// One change. As a text it is a line for people.
#[derive(Debug)]
pub struct Step {
    action: Action,
    subject: Subject,
    /// What it makes or changes, in words; nothing of what it deletes.
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

/// A change as programs are told of it.
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
    /// What a server lacks of a file. What is on the server alone is deleted only if it is to be `pruned`.
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
        let Declared { value_type, ttl, max_items, timestamp_ahead_max, identity, bucket, .. } = wanted;
        let input = FeatureInput {
            entity_type: id.entity_type.clone(),
            name: id.name.clone(),
            value_type: *value_type,
            ttl: *ttl,
            max_items: (*max_items).into(),
            timestamp_ahead_max: (*timestamp_ahead_max).into(),
            identity: Some(identity.kind()),
            keep: identity.keep(),
            bucket: (*bucket).into(),
            description: Some(wanted.description.clone()),
            owner: Some(wanted.owner.clone()),
            labels: Some(wanted.labels.clone()),
        };
        let request = Request::new(&create_feature::ROW, &[]).body(&input)?;
        let (bounds, identity) = (told_bounds(*max_items, *timestamp_ahead_max), told(*identity));
        let details = format!("{value_type}, ttl {ttl}{bounds}{identity}{}", told_bucket(*bucket));
        self.push(Action::Create, Subject::Feature(id.clone()), details, request);
        wanted.versions.iter().try_for_each(|(label, version)| self.create_version(id, label, version))
    }

    fn create_version(
        &mut self,
        id: &FeatureId,
        label: &VersionLabel,
        DeclaredVersion { ttl, max_items, timestamp_ahead_max, identity, bucket, description }: &DeclaredVersion,
    ) -> Result<(), ClientError> {
        let input = VersionInput {
            version: label.clone(),
            ttl: Some(*ttl),
            max_items: (*max_items).into(),
            timestamp_ahead_max: (*timestamp_ahead_max).into(),
            identity: Some(identity.kind()),
            keep: identity.keep(),
            bucket: (*bucket).into(),
            description: Some(description.clone()),
        };
        let request = Request::of_feature(&create_version::ROW, id).body(&input)?;
        let (bounds, identity) = (told_bounds(*max_items, *timestamp_ahead_max), told(*identity));
        let subject = Subject::Version(id.clone(), label.clone());
        let details = format!("ttl {ttl}{bounds}{identity}{}", told_bucket(*bucket));
        self.push(Action::Create, subject, details, request);
        Ok(())
    }

    fn change(&mut self, id: &FeatureId, wanted: &Declared, present: &Declared, pruned: bool) -> Result<(), Failure> {
        if wanted.value_type != present.value_type {
            return Err(Failure::failed(format!(
                "{id} has the value type {} instead of {}, which cannot be changed: nothing was done",
                present.value_type, wanted.value_type
            )));
        }
        same_identity(&id.to_string(), wanted.identity, present.identity)?;
        same_bucket(&id.to_string(), wanted.bucket, present.bucket)?;
        let mut differences = Vec::new();
        let patch = FeaturePatch {
            ttl: differs("ttl", &wanted.ttl, &present.ttl, &mut differences),
            max_items: bound_differs(wanted.max_items, present.max_items, &mut differences),
            timestamp_ahead_max: ahead_differs(
                wanted.timestamp_ahead_max,
                present.timestamp_ahead_max,
                &mut differences,
            ),
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
                self.create_version(id, label, version)?;
                continue;
            };
            same_identity(&format!("{id}, version {label},"), version.identity, known.identity)?;
            same_bucket(&format!("{id}, version {label},"), version.bucket, known.bucket)?;
            let mut differences = Vec::new();
            let patch = VersionPatch {
                ttl: differs("ttl", &version.ttl, &known.ttl, &mut differences),
                max_items: bound_differs(version.max_items, known.max_items, &mut differences),
                timestamp_ahead_max: ahead_differs(
                    version.timestamp_ahead_max,
                    known.timestamp_ahead_max,
                    &mut differences,
                ),
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
    /// Has it done only to what the plan was made for: an entity tag is read, and what comes with it compared.
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
    let DeclaredVersion { ttl, max_items, timestamp_ahead_max, identity, bucket, description } = known;
    ttl.to_string() == present.ttl
        && max_items.map(MaxItems::as_u64) == present.max_items
        && *timestamp_ahead_max == present.timestamp_ahead_max
        && (identity.kind(), identity.keep()) == (present.identity, present.keep)
        && *bucket == present.bucket
        && description.as_str() == present.description
}

fn told_bounds(max_items: Option<MaxItems>, ahead_max: Option<AheadMax>) -> String {
    let max_items = max_items.map(|items| format!(", max_items {items}")).unwrap_or_default();
    let ahead_max = ahead_max.map(|ahead_max| format!(", timestamp_ahead_max {ahead_max}")).unwrap_or_default();
    max_items + &ahead_max
}

/// How far ahead timestamps may be, if the server has it otherwise; then it is told.
fn ahead_differs(wanted: Option<AheadMax>, present: Option<AheadMax>, differences: &mut Vec<String>) -> AheadMaxInput {
    if wanted == present {
        return AheadMaxInput::Absent;
    }
    let shown = |ahead: Option<AheadMax>| ahead.map_or_else(|| "the server's".to_owned(), |ahead| ahead.to_string());
    differences.push(format!("timestamp_ahead_max {} -> {}", shown(present), shown(wanted)));
    wanted.into()
}

/// The bound that is wanted, if it is not the one that is there; then it is told.
fn bound_differs(wanted: Option<MaxItems>, present: Option<MaxItems>, differences: &mut Vec<String>) -> MaxItemsInput {
    if wanted == present {
        return MaxItemsInput::Absent;
    }
    let shown = |items: Option<MaxItems>| items.map_or_else(|| "none".to_owned(), |items| items.to_string());
    differences.push(format!("max_items {} -> {}", shown(present), shown(wanted)));
    wanted.into()
}

/// What is told of an identity that is not that of items.
fn told(identity: Identity) -> String {
    if identity.is_set() { format!(", identity {identity}") } else { String::new() }
}

fn same_identity(what: &str, wanted: Identity, present: Identity) -> Result<(), Failure> {
    if wanted == present {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{what} has the identity {present} instead of {wanted}, which cannot be changed: nothing was done; create \
         another version with that identity, and move the items with liststore export and import"
    )))
}

fn told_bucket(bucket: Option<Bucket>) -> String {
    bucket.map(|bucket| format!(", bucket {bucket}")).unwrap_or_default()
}

fn same_bucket(what: &str, wanted: Option<Bucket>, present: Option<Bucket>) -> Result<(), Failure> {
    if wanted == present {
        return Ok(());
    }
    let shown = |bucket: Option<Bucket>| bucket.map_or("none", Bucket::as_str);
    Err(Failure::failed(format!(
        "{what} has the bucket {} instead of {}, which cannot be changed: nothing was done; create another version \
         with that bucket, and move the items with liststore copy --version and --to-version",
        shown(present),
        shown(wanted)
    )))
}

/// What is wanted, if it is not what is there; then it is told.
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
