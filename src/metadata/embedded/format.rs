//! The format of the file: one number for all of its tables.

use redb::WriteTransaction;

use super::JournalError;
use crate::domain::Formats;

/// Where the number stands in the table `meta`.
pub(super) const NAME: &str = "format";

/// Upgrades run in one transaction, which notes the present format too.
pub(super) const FORMATS: Formats<Upgrade> = Formats::new(&[]);

/// Brings the tables to the next format.
pub(super) type Upgrade = fn(&WriteTransaction) -> Result<(), JournalError>;
