//! Settings: their keys and defaults, and reading them from the configuration file, the environment and the command
//! line.
//!
//! Every bound of the product is a key here, with its unit in the name, and is checked once at the start. Only `app`
//! and `cli` read settings: a store takes a separate options struct. This module must never open, create or connect to
//! anything that a setting names.

mod access;
mod choices;
mod cql;
mod forms;
mod http;
mod items;
mod layers;
mod log;
mod machine;
mod metadata;
mod reader;
mod rules;
mod section;
mod texts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use reader::{Reader, choice};
use section::section;

pub use access::{
    AccessSettings, CertificateSettings, ConsoleToken, IssuerSettings, JwtSettings, KeySettings, RateLimitSettings,
    RuleSettings,
};
pub use choices::{
    AccessMode, ClientAuth, Compression, Consistency, Dialect, Fsync, ItemStoreKind, LogFormat, MetadataStoreKind,
    MetricsAccess, Tablets,
};
pub use cql::{CqlSettings, CqlTlsSettings};
pub use http::{AdminSettings, HttpSettings, HttpTlsSettings};
pub use items::{EmbeddedSettings, ItemsSettings};
pub use layers::{Flag, Layers};
pub use log::LogSettings;
pub use machine::OTHER_FILES;
pub use metadata::{MetadataSettings, PostgresSettings};
pub use texts::{AddressTranslation, HostPort, NodeName, Replicas, Secret};

section! {
    /// All settings, valid together. Serialised as the TOML that loads back to the same, with secrets
    /// masked.
    Settings ""
    {
        http: HttpSettings,
        admin: AdminSettings,
        items: ItemsSettings,
        metadata: MetadataSettings,
        access: AccessSettings,
        log: LogSettings,
    }
}

/// Valid settings, and the sources of changed ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub settings: Settings,
    /// Key to source, for the keys that were set: `http.listen` to `flag --listen`.
    pub origins: BTreeMap<String, String>,
}

/// One mistake in the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} ({origin}): {problem}")]
pub struct SettingError {
    pub key: String,
    /// The file, environment variable or flag to blame; or `not set`.
    pub origin: String,
    pub problem: String,
}

impl Settings {
    /// Reads the settings of this process: defaults < file < environment < flags.
    ///
    /// Answers with all mistakes at once, in the order of the keys.
    pub fn load(config_file: Option<&Path>, flags: &[Flag]) -> Result<Loaded, Vec<SettingError>> {
        let layers = Layers { config_file, environment: layers::process_environment(), flags };
        Self::load_from(&layers)
    }

    /// [`Self::load`] with the environment given.
    pub fn load_from(layers: &Layers<'_>) -> Result<Loaded, Vec<SettingError>> {
        let mut reader = Reader::new(layers::merge(layers)?);
        let mut settings = Self::default();
        settings.read(&mut reader);
        rules::check(&settings, &mut reader);
        let origins = reader.finish()?;
        Ok(Loaded { settings, origins })
    }

    /// The log format of these layers, if it can be determined, for reporting their mistakes.
    pub fn log_format(config_file: Option<&Path>, flags: &[Flag]) -> LogFormat {
        let merged = |config_file| {
            layers::merge(&Layers { config_file, environment: layers::process_environment(), flags }).ok()
        };
        let mut format = LogFormat::Auto;
        // The other layers may have it although the file cannot be read.
        if let Some(merged) = merged(config_file).or_else(|| merged(None)) {
            Reader::new(merged).read("log.format", &mut format, choice);
        }
        format
    }

    /// The settings as TOML that loads back to the same, with secrets masked.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Settings that are allowed but rarely intended: one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        rules::warnings(self)
    }
}
