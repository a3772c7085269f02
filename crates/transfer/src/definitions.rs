//! Creates the missing definitions of one server on another.

use liststore_contract::operations::create_feature::FeatureInput;
use liststore_contract::operations::create_version::VersionInput;
use liststore_contract::operations::{create_feature, create_version, get_feature, list_features};

use crate::client::{Client, ClientError, Failure, RawPage, Request, read};
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{
    Description, EntityType, FeatureId, FeatureName, Invalid, Labels, Limit, MaxItems, Owner, Ttl, VersionLabel,
};
use crate::wire::parameters::{ENTITY_TYPE, PAGE_SIZE, PAGE_TOKEN};
use crate::wire::{Annotations, ErrorCode, Feature, FeatureVersion};

/// A feature version, and how long its items live.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub feature: FeatureId,
    pub label: VersionLabel,
    /// Where they go there.
    pub to_label: VersionLabel,
    pub ttl: Ttl,
}

/// The selected features of a server: one, those of an entity type, or all.
pub(super) async fn features(
    client: &Client,
    entity_type: Option<&EntityType>,
    name: Option<&FeatureName>,
) -> Result<Vec<Feature>, Failure> {
    if let (Some(entity_type), Some(name)) = (entity_type, name) {
        let id = FeatureId { entity_type: entity_type.clone(), name: name.clone() };
        return Ok(vec![client.ask(&Request::of_feature(&get_feature::ROW, &id)).await?]);
    }
    let (mut features, mut page_token) = (Vec::new(), None);
    loop {
        let request = Request::new(&list_features::ROW, &[])
            .query(&ENTITY_TYPE, entity_type)
            .query(&PAGE_SIZE, Some(Limit::PAGE_SIZE_MAX))
            .query(&PAGE_TOKEN, page_token);
        let page: RawPage = client.ask(&request).await?;
        for raw in page.entries {
            features.push(read(raw.get().as_bytes())?);
        }
        page_token = page.next_page_token;
        if page_token.is_none() {
            return Ok(features);
        }
    }
}

/// Creates the missing parts of a feature. Existing parts must be equal: otherwise items would be read, or expire,
/// differently there.
pub(super) async fn bring(client: &Client, feature: &Feature) -> Result<Vec<Version>, Failure> {
    let id = FeatureId {
        entity_type: EntityType::new(&feature.entity_type).map_err(unreadable)?,
        name: FeatureName::new(&feature.name).map_err(unreadable)?,
    };
    let wanted = Request::of_feature(&get_feature::ROW, &id);
    let there: Feature = match client.ask(&wanted).await {
        Err(ClientError::Problem(problem)) if problem.details.code == ErrorCode::FeatureNotFound.name() => {
            let input = FeatureInput {
                entity_type: id.entity_type.clone(),
                name: id.name.clone(),
                value_type: feature.value_type,
                properties: GivenProperties::overriding(&feature.properties, &VersionProperties::default()),
                annotations: Annotations::all(
                    Description::new(feature.description.clone()).map_err(unreadable)?,
                    Owner::new(feature.owner.clone()).map_err(unreadable)?,
                    Labels::new(feature.labels.clone()).map_err(unreadable)?,
                ),
            };
            let creation = Request::new(&create_feature::ROW, &[]).body(&input)?;
            create(client, creation, ErrorCode::FeatureExists).await?;
            client.ask(&wanted).await?
        }
        answer => answer?,
    };
    if there.value_type != feature.value_type {
        return Err(Failure::failed(format!(
            "{id} has the value type {} in the source but {} in the target: copy it to a server without it",
            feature.value_type, there.value_type
        )));
    }
    let mut versions = Vec::with_capacity(feature.versions.len());
    for version in &feature.versions {
        let label = VersionLabel::new(&version.version).map_err(unreadable)?;
        let ttl = version.properties.ttl;
        if let Some(known) = known(&there, version) {
            is_alike(&id, version, known)?;
        } else if !create(client, creation_of(&id, version, label.clone(), &there)?, ErrorCode::VersionExists).await? {
            let there: Feature = client.ask(&wanted).await?;
            known(&there, version).map_or(Ok(()), |known| is_alike(&id, version, known))?;
        }
        versions.push(Version { feature: id.clone(), to_label: label.clone(), label, ttl });
    }
    Ok(versions)
}

/// Creates a missing definition, and returns whether it did. The server refuses an existing one: the answer to an
/// earlier attempt was lost, or another client was faster. Then the caller must compare the two.
pub(super) async fn create(client: &Client, creation: Request, exists: ErrorCode) -> Result<bool, Failure> {
    match client.send(&creation.repeatable()).await {
        Ok(_) => Ok(true),
        Err(ClientError::Problem(problem)) if problem.details.code == exists.name() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn known<'f>(feature: &'f Feature, version: &FeatureVersion) -> Option<&'f FeatureVersion> {
    feature.versions.iter().find(|known| known.version == version.version)
}

fn creation_of(
    id: &FeatureId,
    version: &FeatureVersion,
    label: VersionLabel,
    there: &Feature,
) -> Result<Request, Failure> {
    let input = VersionInput {
        version: label,
        properties: GivenProperties::overriding(&version.properties, &there.properties),
        description: Some(Description::new(version.description.clone()).map_err(unreadable)?),
    };
    Ok(Request::of_feature(&create_version::ROW, id).body(&input)?)
}

/// Whether a version shows the same items in the target as in the source.
fn is_alike(id: &FeatureId, source: &FeatureVersion, target: &FeatureVersion) -> Result<(), Failure> {
    let label = &source.version;
    let (source, target) = (&source.properties, &target.properties);
    if target.ttl != source.ttl {
        return Err(Failure::failed(format!(
            "{id}, version {label:?}, has the ttl {} in the source but {} in the target: change one of them first",
            source.ttl, target.ttl
        )));
    }
    if target.max_items != source.max_items {
        let shown =
            |items: Option<MaxItems>| items.map_or_else(|| "no max_items".to_owned(), |n| format!("max_items {n}"));
        return Err(Failure::failed(format!(
            "{id}, version {label:?}, has {} in the source but {} in the target: change one of them first",
            shown(source.max_items),
            shown(target.max_items)
        )));
    }
    if target.identity() != source.identity() {
        return Err(Failure::failed(format!(
            "{id}, version {label:?}, has different identities in source and target: use liststore export and import"
        )));
    }
    Ok(())
}

/// A version of a feature, and the target version of its items. Both exist, and show the same part of the same items.
/// Their storage may differ.
pub(super) async fn pair(
    client: &Client,
    feature: &Feature,
    label: &VersionLabel,
    to_label: &VersionLabel,
) -> Result<Version, Failure> {
    let id = FeatureId {
        entity_type: EntityType::new(&feature.entity_type).map_err(unreadable)?,
        name: FeatureName::new(&feature.name).map_err(unreadable)?,
    };
    let there: Feature = client.ask(&Request::of_feature(&get_feature::ROW, &id)).await?;
    let find = |feature: &Feature, label: &VersionLabel, role: &str| {
        let found = feature.versions.iter().find(|version| version.version == label.as_str()).cloned();
        found.ok_or_else(|| Failure::failed(format!("{id} has no version \"{label}\" in the {role}: create it first")))
    };
    let (from, to) = (find(feature, label, "source")?, find(&there, to_label, "target")?);
    let shown = |feature: &Feature, version: &FeatureVersion| {
        (feature.value_type, version.properties.retention(), version.properties.identity())
    };
    if shown(feature, &from) != shown(&there, &to) {
        return Err(Failure::failed(format!(
            "{id}: the versions \"{label}\" and \"{to_label}\" must have the same value type, ttl, max_items and \
             identity"
        )));
    }
    Ok(Version { feature: id, label: label.clone(), to_label: to_label.clone(), ttl: from.properties.ttl })
}

fn unreadable(error: Invalid) -> Failure {
    Failure::failed(format!("this version of liststore cannot read a definition: {error}"))
}
