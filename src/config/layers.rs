//! The sources of settings and their order: file < environment < flags.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;

use config::{Config, File, FileFormat, Map, Source, Value, ValueKind};

use super::SettingError;

/// Two underscores: `LISTSTORE_URL` is a variable of the command line's, and no setting.
const PREFIX: &str = "LISTSTORE__";
pub(super) const ORIGIN_ENVIRONMENT: &str = "environment variable ";

/// The environment variable of a key: `LISTSTORE__HTTP__LISTEN` of `http.listen`.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

/// A setting given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Such as `--listen`.
    pub flag: &'static str,
    /// Such as `http.listen`.
    pub key: &'static str,
    pub value: String,
}

/// Where settings are read from.
#[derive(Debug)]
pub struct Layers<'a> {
    pub config_file: Option<&'a Path>,
    /// Names and values. Names without the prefix `LISTSTORE__` are ignored.
    pub environment: Vec<(OsString, OsString)>,
    pub flags: &'a [Flag],
}

pub(super) fn process_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Values with the names of their variables. The crate's environment source drops the names, which error messages need.
#[derive(Debug, Clone)]
struct Named(Vec<(String, String, String)>);

impl Source for Named {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        let value = |origin: &String, text: &String| Value::new(Some(origin), ValueKind::String(text.clone()));
        Ok(self.0.iter().map(|(key, text, origin)| (key.clone(), value(origin, text))).collect())
    }
}

/// The values of all layers. The last layer with a value wins.
pub(super) struct Merged {
    pub values: Map<String, Value>,
    /// The origin of values that name none.
    pub file_name: String,
}

/// Merges the layers. Fails only if a layer is unreadable.
pub(super) fn merge(layers: &Layers<'_>) -> Result<Merged, Vec<SettingError>> {
    let mut builder = Config::builder();
    let mut file_name = String::new();
    if let Some(path) = layers.config_file {
        file_name = path.display().to_string();
        builder = builder.add_source(File::from_str(&read_file(path, &file_name)?, FileFormat::Toml));
    }
    let flags = layers.flags.iter().map(|f| (f.key.to_owned(), f.value.clone(), format!("flag {}", f.flag)));
    let values = builder
        .add_source(environment(&layers.environment)?)
        .add_source(Named(flags.collect()))
        .build()
        .and_then(|config| config.collect())
        .map_err(|e| vec![unreadable(&file_name, &e)])?;
    Ok(Merged { values, file_name })
}

fn read_file(path: &Path, name: &str) -> Result<String, Vec<SettingError>> {
    std::fs::read_to_string(path).map_err(|e| {
        let cure = match e.kind() {
            ErrorKind::InvalidData => "save it as TOML in UTF-8",
            _ => "correct its path or its rights",
        };
        let problem = format!("cannot read the configuration file: {e}; {cure}");
        vec![SettingError { key: "--config".into(), origin: name.into(), problem }]
    })
}

fn environment(variables: &[(OsString, OsString)]) -> Result<Named, Vec<SettingError>> {
    let (mut named, mut errors) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let name = name.to_string_lossy();
        let Some(key) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let key = key.to_lowercase().replace("__", ".");
        let origin = format!("{ORIGIN_ENVIRONMENT}{name}");
        match value.to_str() {
            Some(value) => named.push((key, value.to_owned(), origin)),
            None => errors.push(SettingError { key, origin, problem: "is not UTF-8".into() }),
        }
    }
    // Two spellings of one key, in upper and lower case: the order of the environment must not matter.
    named.sort();
    if errors.is_empty() { Ok(Named(named)) } else { Err(errors) }
}

/// The parser's message spans lines and draws the place; one line is enough.
fn unreadable(file_name: &str, error: &config::ConfigError) -> SettingError {
    let text = match error {
        config::ConfigError::FileParse { cause, .. } => cause.to_string(),
        other => other.to_string(),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let problem = match lines.as_slice() {
        [place, .., reason] if place.starts_with("TOML parse error at ") => {
            format!("{}: {reason}; correct that line", place.replace("TOML parse error at ", "invalid TOML at "))
        }
        _ => lines.join("; "),
    };
    SettingError { key: "--config".into(), origin: file_name.into(), problem }
}
