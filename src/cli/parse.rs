//! Shared arguments of several commands, parsed by the domain's own rules.

use std::path::PathBuf;
use std::sync::Once;

use clap::Args;

use super::failure::Failure;
use super::output::{Format, FormatParser};
use crate::client::{Client, Retries, ServerUrl, Tls, Token, printable};
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{
    AheadMax, Bucket, Clock, Description, EntityType, FeatureId, FeatureName, IdentityKind, Int64As, Keep, MaxItems,
    Owner, SystemClock, Timestamp, Ttl, VersionLabel,
};
use crate::typed_times::TimeReader;

/// The heading of the options that select and authenticate a server.
pub(super) const CONNECTION: &str = "Connection";

/// The selected server.
#[derive(Debug, Clone, Args)]
pub(super) struct Server {
    /// The server's URL
    // Help shows no value of the environment: it may hold a password.
    #[arg(
        long,
        help_heading = CONNECTION,
        env = "LISTSTORE_URL",
        hide_env_values = true,
        default_value = ServerUrl::DEFAULT,
        value_parser = ServerUrl::parse
    )]
    pub url: ServerUrl,
    /// A file with the API key or token to send [default: the content of LISTSTORE_TOKEN]
    #[arg(long, env = "LISTSTORE_TOKEN_FILE", value_name = "FILE", help_heading = CONNECTION)]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub tls: TlsArguments,
}

/// Certificates for `https`.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct TlsArguments {
    /// PEM file: trusted certificate authorities for https URLs [default: the system's]
    #[arg(long, env = "LISTSTORE_CA_FILE", value_name = "FILE", help_heading = CONNECTION)]
    ca_file: Option<PathBuf>,
    /// PEM file: a client certificate and its private key; requires --ca-file
    #[arg(long, env = "LISTSTORE_CERTIFICATE_FILE", value_name = "FILE", help_heading = CONNECTION)]
    certificate_file: Option<PathBuf>,
}

impl TlsArguments {
    pub(super) fn tls(&self) -> Tls {
        Tls { ca_file: self.ca_file.clone(), certificate_file: self.certificate_file.clone() }
    }
}

impl Server {
    /// The server's URL, with the key to present there.
    pub(super) fn url(&self) -> Result<ServerUrl, String> {
        Ok(self.url.clone().with_token(self.token()?).with_tls(self.tls.tls()))
    }

    /// A client of the server. `author` is the author of a change.
    pub(super) fn client(&self, author: Option<crate::domain::Author>) -> Result<Client, Failure> {
        Ok(Client::new(self.url().map_err(Failure::Usage)?, author, Retries::PATIENT)?.for_people())
    }

    /// Never an argument, which others on the machine could read.
    fn token(&self) -> Result<Option<Token>, String> {
        let (text, place) = match &self.token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                (text, path.display().to_string())
            }
            None => match std::env::var("LISTSTORE_TOKEN") {
                Ok(text) if !text.trim().is_empty() => (text, "LISTSTORE_TOKEN".to_owned()),
                _ => return Ok(None),
            },
        };
        match Token::parse(text.trim()) {
            Some(token) => Ok(Some(token)),
            None => Err(format!("{place} has no valid API key or token: check that it is complete")),
        }
    }
}

/// The selected server, and the output format.
#[derive(Debug, Clone, Args)]
pub(super) struct ServerOptions {
    #[command(flatten)]
    pub server: Server,
    /// How to print data
    #[arg(short, long, value_enum, default_value_t, value_parser = FormatParser)]
    pub output: Format,
}

/// The author of a change.
#[derive(Debug, Clone, Args)]
pub(super) struct Author {
    /// Your name, for the audit trail
    #[arg(long, env = "LISTSTORE_USER", value_name = "NAME", value_parser = author)]
    pub user: Option<crate::domain::Author>,
}

fn author(text: &str) -> Result<crate::domain::Author, String> {
    // It is sent in a header, whose bytes must be plain.
    if !text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Err("must have printable ASCII characters only".to_owned());
    }
    crate::domain::Author::new(text).map_err(|e| e.to_string())
}

/// A list feature.
#[derive(Debug, Clone, Args)]
pub(super) struct FeatureArguments {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    pub entity_type: EntityType,
    /// The feature's name, such as story_presented
    #[arg(value_parser = FeatureName::new)]
    pub feature: FeatureName,
}

impl FeatureArguments {
    pub(super) fn id(&self) -> FeatureId {
        FeatureId { entity_type: self.entity_type.clone(), name: self.feature.clone() }
    }
}

/// A feature version; the default version if omitted.
#[derive(Debug, Clone, Args)]
pub(super) struct VersionOption {
    /// The feature version; the default version has the label ""
    #[arg(long, default_value = "", hide_default_value = true, value_parser = VersionLabel::new)]
    pub version: VersionLabel,
}

/// A time in a person's notation. A text without a time zone is UTC, which is noted once.
pub(super) fn time(text: &str) -> Result<Timestamp, String> {
    let read = TimeReader::at(SystemClock.now()).text(text)?;
    note_utc(text, read.is_utc_assumed);
    Ok(read.at)
}

/// The same for the bound of an index, which may be a time of any year. Returns RFC 3339.
pub(super) fn time_of_any_year(text: &str) -> Result<String, String> {
    let (at, is_utc_assumed) = TimeReader::at(SystemClock.now()).of_any_year(text)?;
    note_utc(text, is_utc_assumed);
    Ok(at)
}

fn note_utc(text: &str, is_utc_assumed: bool) {
    static NOTED: Once = Once::new();
    if is_utc_assumed {
        NOTED.call_once(|| eprintln!("note: {} has no time zone and is read as UTC", printable(text.trim())));
    }
}

pub(super) fn index_name(text: &str) -> Result<VersionLabel, String> {
    VersionLabel::of_index(text).map_err(|invalid| invalid.to_string())
}

pub(super) fn ttl(text: &str) -> Result<Ttl, String> {
    Ttl::parse(text).map_err(|e| e.to_string())
}

/// A value, or `none`.
#[derive(Debug, Clone, Copy)]
struct OrNone<T>(Option<T>);

fn max_items(text: &str) -> Result<MaxItems, String> {
    // A text that is not a number is out of bounds too.
    MaxItems::new(text.parse().unwrap_or(0)).map_err(|e| e.to_string())
}

/// A period, or `none`.
fn bucket(text: &str) -> Result<OrNone<Bucket>, String> {
    if text == "none" {
        return Ok(OrNone(None));
    }
    let refused = "must be day, week, month, year or none";
    Bucket::parse(text).map(|bucket| OrNone(Some(bucket))).map_err(|_| refused.to_owned())
}

/// A duration, `none` or `server`.
fn ahead_max(text: &str) -> Result<OrNone<AheadMax>, String> {
    if text == "server" {
        return Ok(OrNone(None));
    }
    let refused = "it must be none, server, or whole numbers with units from 1s to 7300d, such as 1d or 12h";
    AheadMax::parse(text).map(|ahead_max| OrNone(Some(ahead_max))).map_err(|_| refused.to_owned())
}

/// The options of [`ChangeableProperties`], and of the `ttl`.
pub(super) const CHANGEABLE: &str = "--ttl, --max-items, --no-max-items, --timestamp-ahead-max, --int64-as";

/// The changeable properties of a version, in addition to its `ttl`.
#[derive(Debug, Args)]
pub(super) struct ChangeableProperties {
    /// Maximum number of newest items that a list shows, 1 to 100000
    #[arg(long, value_name = "ITEMS", value_parser = max_items)]
    max_items: Option<MaxItems>,
    /// Set no limit: show all items of a list
    #[arg(long, conflicts_with = "max_items")]
    no_max_items: bool,
    /// Maximum lead of an added item's timestamp over the server's clock, such as 12h; none for no limit, server for
    /// the server's setting
    #[arg(long, value_name = "DURATION", value_parser = ahead_max)]
    timestamp_ahead_max: Option<OrNone<AheadMax>>,
    /// How replies write values of the type int64: number, or string (decimal digits) for clients that read numbers as
    /// doubles
    #[arg(long, value_name = "FORM", value_parser = Int64As::parse)]
    int64_as: Option<Int64As>,
}

impl ChangeableProperties {
    pub(super) fn given(&self, ttl: Option<Ttl>) -> GivenProperties {
        let max_items = self.max_items.map(Some).or(self.no_max_items.then_some(None));
        let timestamp_ahead_max = self.timestamp_ahead_max.map(|OrNone(ahead_max)| ahead_max);
        GivenProperties { ttl, max_items, timestamp_ahead_max, int64_as: self.int64_as, ..GivenProperties::default() }
    }
}

/// The properties of a version that are fixed at its creation. A further version has the feature's by default.
#[derive(Debug, Args)]
pub(super) struct FixedProperties {
    /// What identifies an item: item (timestamp and value), value or key; cannot be changed
    #[arg(long, value_parser = IdentityKind::parse)]
    identity: Option<IdentityKind>,
    /// Which item of a value or key is kept: newest or oldest; cannot be changed
    #[arg(long, value_name = "WHICH", value_parser = Keep::parse)]
    keep: Option<Keep>,
    /// The period of one partition of a list (ScyllaDB and Cassandra): day, week, month, year or none; cannot be
    /// changed
    #[arg(long, value_name = "PERIOD", value_parser = bucket)]
    bucket: Option<OrNone<Bucket>>,
}

impl FixedProperties {
    pub(super) fn with(&self, given: GivenProperties) -> GivenProperties {
        let bucket = self.bucket.map(|OrNone(bucket)| bucket);
        GivenProperties { identity: self.identity, keep: self.keep.map(Some), bucket, ..given }
    }
}

/// Properties for people, in their order: the name, and the value.
pub(super) fn shown_properties(properties: &VersionProperties) -> Vec<(String, String)> {
    let members = properties.members();
    let shown = |name: &&str| {
        let value = match members.get(*name) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => "-".to_owned(),
        };
        (name.trim_start_matches("timestamp_").replace('_', " "), value)
    };
    VersionProperties::NAMES.iter().map(shown).collect()
}

pub(super) fn description(text: &str) -> Result<Description, String> {
    Description::new(text).map_err(|e| e.to_string())
}

pub(super) fn owner(text: &str) -> Result<Owner, String> {
    Owner::new(text).map_err(|e| e.to_string())
}

/// How to reach the server, even without any key.
#[derive(Debug, Args)]
pub(super) struct Way {
    /// Connect over the socket in the server's data directory, as the server's user; needs no key
    #[arg(long, help_heading = CONNECTION)]
    pub local: bool,
    /// The server's data directory; requires --local
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "LISTSTORE__ITEMS__EMBEDDED__DIR",
        default_value = "liststore-data",
        help_heading = CONNECTION
    )]
    pub data_dir: PathBuf,
    #[command(flatten)]
    pub options: ServerOptions,
}

impl Way {
    pub(super) fn client(&self, author: Option<crate::domain::Author>) -> Result<Client, Failure> {
        if self.local {
            return Ok(Client::local(&self.data_dir, Retries::PATIENT)?.with_author(author).for_people());
        }
        self.options.server.client(author)
    }
}
