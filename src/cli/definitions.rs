//! Arguments that the commands of definitions share: features and their versions, entity types, indexes.

use clap::Args;
use liststore_contract::row::Row;

use super::failure::Failure;
use super::output::Format;
use super::parse::{self, Author, ServerOptions};
use crate::client::{Client, Request};
use crate::domain::{Description, EntityType, Labels, Owner};

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

/// What a definition tells people.
#[derive(Debug, Args)]
pub(super) struct Told {
    /// A description
    #[arg(long, value_parser = parse::description)]
    pub description: Option<Description>,
    /// The team or person responsible
    #[arg(long, value_parser = parse::owner)]
    pub owner: Option<Owner>,
    /// A label; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
}

impl Told {
    /// All labels that were given. Of a key that was given twice, the last value counts.
    pub(super) fn labels(&self) -> Result<Labels, Failure> {
        Labels::new(self.labels.iter().cloned().collect()).map_err(|e| Failure::Usage(e.to_string()))
    }
}

/// What a definition is to tell people from now on.
#[derive(Debug, Args)]
pub(super) struct Retold {
    #[command(flatten)]
    pub told: Told,
    /// Remove all labels
    #[arg(long, conflicts_with = "labels")]
    no_labels: bool,
}

impl Retold {
    /// The labels in place of those that are there; `None` leaves these.
    pub(super) fn labels(&self) -> Result<Option<Labels>, Failure> {
        let is_named = self.no_labels || !self.told.labels.is_empty();
        is_named.then(|| self.told.labels()).transpose()
    }
}

/// On which state of a definition a change may be made.
#[derive(Debug, Args)]
pub(super) struct Condition {
    /// Only if it still has this ETag
    #[arg(long, value_name = "ETAG")]
    pub if_match: Option<String>,
}

/// Who asks which server for a change, and how its answer is printed.
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
