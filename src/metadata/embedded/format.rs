//! The format of the file: one number for all of its tables.

use redb::WriteTransaction;

use super::JournalError;
use crate::domain::Formats;

/// The key of the number in the table `meta`.
pub(super) const NAME: &str = "format";

/// Upgrades run in one transaction, which also notes the current format.
pub(super) const FORMATS: Formats<Upgrade> = Formats::new(&[]);

/// Upgrades the tables to the next format.
pub(super) type Upgrade = fn(&WriteTransaction) -> Result<(), JournalError>;
