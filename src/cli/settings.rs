//! The flags that override the settings of file and environment.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use crate::config::{Flag, Loaded, LogFormat, Settings};
use crate::telemetry;

#[derive(Debug, Clone, Args)]
pub(super) struct SettingsArguments {
    /// The configuration file (TOML); the environment (LISTSTORE__SECTION__KEY) and flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address to listen on, such as 0.0.0.0:8080; port 0 picks a free one [setting: http.listen]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Where the embedded stores keep their data [setting: items.embedded.dir]
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<String>,
    /// Listen beyond loopback although anyone has full access [setting: access.insecure]
    #[arg(long)]
    insecure: bool,
}

impl SettingsArguments {
    pub(super) fn load(&self) -> Result<Loaded, Failure> {
        Settings::load(self.config.as_deref(), &self.flags()).map_err(Failure::Settings)
    }

    /// Loads settings for a command with a log, which reports mistakes in the form of the log.
    pub(super) fn load_logged(&self) -> Result<Loaded, Failure> {
        let flags = self.flags();
        Settings::load(self.config.as_deref(), &flags).map_err(|errors| {
            let format = Settings::log_format(self.config.as_deref(), &flags);
            let in_json = log_format(format).is_json();
            errors.iter().for_each(|error| telemetry::last_words(&error.to_string(), in_json));
            Failure::ReportedSettings
        })
    }

    fn flags(&self) -> Vec<Flag> {
        let flag = |flag, key, value: &Option<String>| value.clone().map(|value| Flag { flag, key, value });
        [
            flag("--listen", "http.listen", &self.listen),
            flag("--data-dir", "items.embedded.dir", &self.data_dir),
            flag("--insecure", "access.insecure", &self.insecure.then(|| "true".to_owned())),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

pub(super) fn log_format(format: LogFormat) -> telemetry::LogFormat {
    match format {
        LogFormat::Auto => telemetry::LogFormat::Auto,
        LogFormat::Text => telemetry::LogFormat::Text,
        LogFormat::Json => telemetry::LogFormat::Json,
    }
}
