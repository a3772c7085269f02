//! Shared arguments of the commands for definitions: features and their versions, entity types, indexes.

use clap::Args;
use liststore_contract::operations::list_indexes::IndexList;
use liststore_contract::operations::{get_feature, list_entity_types, list_indexes};
use liststore_contract::row::Row;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::output::Format;
use super::pages::entries;
use super::parse::{self, Author, ServerOptions};
use crate::client::{Client, Request, read};
use crate::domain::{Description, EntityType, FeatureId, Labels, Owner, VersionLabel};
use crate::wire::parameters::PAGE_SIZE;
use crate::wire::{self, Annotations, Feature};

/// An entity type.
#[derive(Debug, Clone, Args)]
pub(super) struct EntityTypeArgument {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    pub entity_type: EntityType,
}

impl EntityTypeArgument {
    pub(super) fn request(&self, operation: &'static Row) -> Request {
        Request::new(operation, &[self.entity_type.as_str()])
    }
}

/// The labels of a feature's versions.
pub(super) async fn labels(client: &Client, id: &FeatureId) -> Result<Vec<VersionLabel>, Failure> {
    let found: Feature = client.ask(&Request::of_feature(&get_feature::ROW, id)).await?;
    Ok(found.versions.iter().filter_map(|version| VersionLabel::new(&version.version).ok()).collect())
}

/// The names of all entity types.
pub(super) async fn entity_type_names(client: &Client) -> Result<Vec<String>, Failure> {
    let request = |page_size| Request::new(&list_entity_types::ROW, &[]).query(&PAGE_SIZE, Some(page_size));
    let name = |raw: &RawValue| Ok(read::<wire::EntityType>(raw.get().as_bytes())?.entity_type);
    entries(client, usize::MAX, request).await?.all.iter().map(|raw| name(raw)).collect()
}

/// The names of the indexes of an entity type.
pub(super) async fn index_names(client: &Client, of: &EntityTypeArgument) -> Result<Vec<String>, Failure> {
    let found: IndexList = client.ask(&of.request(&list_indexes::ROW)).await?;
    Ok(found.indexes.into_iter().map(|index| index.name).collect())
}

/// The descriptive fields of a definition.
#[derive(Debug, Args)]
pub(super) struct AnnotationOptions {
    /// A description
    #[arg(long, value_parser = parse::description)]
    description: Option<Description>,
    /// The team or person responsible
    #[arg(long, value_parser = parse::owner)]
    owner: Option<Owner>,
    /// A label; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
}

impl AnnotationOptions {
    /// All labels. If a key occurs several times, the last value counts.
    pub(super) fn labels(&self) -> Result<Labels, Failure> {
        Labels::new(self.labels.iter().cloned().collect()).map_err(|e| Failure::Usage(e.to_string()))
    }

    /// The annotations, with these labels.
    pub(super) fn with(self, labels: Option<Labels>) -> Annotations {
        Annotations { description: self.description, owner: self.owner, labels }
    }
}

/// Changes of a definition's descriptive fields.
#[derive(Debug, Args)]
pub(super) struct AnnotationChanges {
    #[command(flatten)]
    pub annotations: AnnotationOptions,
    /// Remove all labels
    #[arg(long, conflicts_with = "labels")]
    no_labels: bool,
}

impl AnnotationChanges {
    /// The named ones. The labels replace the existing ones together.
    pub(super) fn annotations(self) -> Result<Annotations, Failure> {
        let is_named = self.no_labels || !self.annotations.labels.is_empty();
        let labels = is_named.then(|| self.annotations.labels()).transpose()?;
        Ok(self.annotations.with(labels))
    }
}

/// The condition of a change of a definition.
#[derive(Debug, Args)]
pub(super) struct Condition {
    /// Only if it still has this ETag
    #[arg(long, value_name = "ETAG")]
    pub if_match: Option<String>,
}

/// The author of a change, its server, and the output format.
#[derive(Debug, Args)]
pub(super) struct ChangeOptions {
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

impl ChangeOptions {
    pub(super) fn client(&self) -> Result<Client, Failure> {
        self.options.server.client(self.author.user.clone())
    }

    pub(super) fn output(&self) -> Format {
        self.options.output
    }
}

/// One `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
