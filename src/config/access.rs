//! Settings of access: the required credentials, and the identities of tokens and certificates.

use std::path::PathBuf;

use reqwest::Url;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::choices::{AccessMode, MetricsAccess};
use super::forms::TTL_SECS_MAX;
use super::reader::{Reader, boolean, choice, number, path, some, tables};
use super::section::section;
use crate::domain::{Rate, Role, Scope};

const LEEWAY_SECS_MAX: u64 = 300;
const LABEL_CHARS_MAX: usize = 32;

section! {
    AccessSettings "access."
    mode: AccessMode = AccessMode::Auto, choice;
    metrics: MetricsAccess = MetricsAccess::Key, choice;
    /// Whether a server with full access for every caller may listen beyond loopback.
    insecure: bool = false, boolean;
    /// A file with the secret of the first key, which the server creates if no key was ever created.
    bootstrap_key_file: Option<PathBuf> = None, some(path);
    /// The rules for client certificates.
    certificates: Vec<CertificateSettings> = Vec::new(), tables(CertificateSettings::check);
    { rate_limits: RateLimitSettings, keys: KeySettings, jwt: JwtSettings, }
}

const RATE_MAX: u64 = Rate::MAX as u64;

section! {
    /// The limits of each known caller, unless its key has others.
    RateLimitSettings "access.rate_limits."
    requests_per_second: Option<u32> = None, some(number(1..=RATE_MAX));
    requests_burst: Option<u32> = None, some(number(1..=RATE_MAX));
    items_per_second: Option<u32> = None, some(number(1..=RATE_MAX));
    items_burst: Option<u32> = None, some(number(1..=RATE_MAX));
    /// The percentage of `items.permits_per_actor` that list operations of one caller may use at once.
    operations_percent: Option<u32> = None, some(number(1..=100));
}

section! {
    KeySettings "access.keys."
    /// The longest lifetime of keys from callers whose own key, token or certificate expires.
    lifetime_max_secs: u64 = 90 * 86_400, number(1..=TTL_SECS_MAX);
}

section! {
    JwtSettings "access.jwt."
    /// The interval between readings of keys.
    refresh_secs: u64 = 300, number(10..=86_400);
    /// How long keys are used that cannot be read again.
    keys_age_max_secs: u64 = 86_400, number(11..=31_536_000);
    issuers: Vec<IssuerSettings> = Vec::new(), tables(IssuerSettings::check);
}

/// An accepted identity provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSettings {
    pub issuer: String,
    /// In the names of its people; needed where there are several issuers.
    pub label: Option<String>,
    #[serde(deserialize_with = "one_or_many")]
    pub audience: Vec<String>,
    /// `https`, or `http` on loopback.
    pub jwks_url: Option<String>,
    pub jwks_file: Option<PathBuf>,
    /// The authorities of the certificate of `jwks_url`, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A token for the request to `jwks_url`: in Kubernetes, the token of the pod's service account.
    pub token_file: Option<PathBuf>,
    #[serde(default = "leeway_secs")]
    pub leeway_secs: u64,
    /// The ID of the console at the issuer, as a public client. Without it, no one can sign in to the console with
    /// this issuer.
    pub client_id: Option<String>,
    /// The scopes that the console requests.
    #[serde(default = "openid", deserialize_with = "one_or_many")]
    pub console_scopes: Vec<String>,
    #[serde(default)]
    pub console_token: ConsoleToken,
    #[serde(default)]
    pub rules: Vec<RuleSettings>,
}

/// Which of an issuer's tokens the console shows to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleToken {
    #[default]
    AccessToken,
    /// For issuers whose access tokens only they can read. Its audience is the client.
    IdToken,
}

/// The grant of callers whose claim has a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSettings {
    pub claim: String,
    pub value: String,
    #[serde(deserialize_with = "roles", serialize_with = "texts")]
    pub roles: Vec<Role>,
    #[serde(default = "all", deserialize_with = "scopes", serialize_with = "texts")]
    pub scopes: Vec<Scope>,
    #[serde(default)]
    pub acts_for_others: bool,
}

/// The grant of callers whose certificate has a name: one of the three.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateSettings {
    pub uri: Option<String>,
    pub dns_name: Option<String>,
    pub common_name: Option<String>,
    #[serde(deserialize_with = "roles", serialize_with = "texts")]
    pub roles: Vec<Role>,
    #[serde(default = "all", deserialize_with = "scopes", serialize_with = "texts")]
    pub scopes: Vec<Scope>,
}

impl AccessSettings {
    /// Whether callers can be identified before a command has created a key.
    pub fn can_identify_callers(&self) -> bool {
        !self.jwt.issuers.is_empty() || !self.certificates.is_empty() || self.bootstrap_key_file.is_some()
    }
}

impl IssuerSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        let label_fits = |label: &String| {
            let well_formed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
            !label.is_empty() && label.len() <= LABEL_CHARS_MAX && label.chars().all(well_formed)
        };
        if self.issuer.is_empty() {
            return Err("issuer must be the value of iss in its tokens".to_owned());
        }
        if !self.label.as_ref().is_none_or(label_fits) {
            return Err(format!("label must be 1 to {LABEL_CHARS_MAX} characters of A-Z a-z 0-9 _ . -"));
        }
        if self.audience.is_empty() || self.audience.iter().any(String::is_empty) {
            return Err("audience must be the value of aud in its tokens for this server".to_owned());
        }
        if self.leeway_secs > LEEWAY_SECS_MAX {
            return Err(format!("leeway_secs must be at most {LEEWAY_SECS_MAX}"));
        }
        match (&self.jwks_url, &self.jwks_file) {
            (Some(url), None) => check_url(url)?,
            (None, Some(_)) if self.ca_file.is_some() || self.token_file.is_some() => {
                return Err("ca_file and token_file need jwks_url".to_owned());
            }
            (None, Some(_)) => {}
            _ => return Err("set one of jwks_url and jwks_file".to_owned()),
        }
        if self.client_id.is_some() {
            self.check_sign_in()?;
        }
        self.rules.iter().try_for_each(RuleSettings::check)
    }

    /// A browser sends people to the issuer for sign-in, and gets their tokens there.
    fn check_sign_in(&self) -> Result<(), String> {
        if self.client_id.as_ref().is_some_and(String::is_empty) {
            return Err("client_id must not be empty".to_owned());
        }
        let is_word = |scope: &String| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
        if self.console_scopes.is_empty() || !self.console_scopes.iter().all(is_word) {
            return Err("console_scopes must be scope names such as openid".to_owned());
        }
        let url = Url::parse(&self.issuer).map_err(|e| format!("issuer must be a URL if client_id is set: {e}"))?;
        match url.scheme() {
            _ if url.query().is_some() || url.fragment().is_some() => {
                Err("issuer must be a URL without a query or fragment if client_id is set".to_owned())
            }
            "https" => Ok(()),
            "http" if is_loopback(&url) => Ok(()),
            _ => {
                Err("issuer must begin with https:// if client_id is set; http:// is allowed only on loopback"
                    .to_owned())
            }
        }
    }

    /// Where the console may fetch tokens from, as browsers write it; nowhere without a client.
    pub fn sign_in_origin(&self) -> Option<String> {
        self.client_id.as_ref()?;
        Some(Url::parse(&self.issuer).ok()?.origin().ascii_serialization())
    }
}

/// Keys that came over a wire that others can write to would be theirs.
fn check_url(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|e| format!("jwks_url: {e}"))?;
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        _ => Err("jwks_url must begin with https://; http:// is allowed only on loopback".to_owned()),
    }
}

/// Whether a URL is one of this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl RuleSettings {
    fn check(&self) -> Result<(), String> {
        if self.claim.is_empty() || self.value.is_empty() {
            return Err("a rule needs a claim and a value; * matches any value".to_owned());
        }
        check_grant(&self.roles, &self.scopes)
    }
}

impl CertificateSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        let names = [&self.uri, &self.dns_name, &self.common_name];
        let given: Vec<_> = names.into_iter().flatten().collect();
        let [name] = given[..] else { return Err("set one of uri, dns_name and common_name".to_owned()) };
        let stars = name.matches('*').count();
        if name.is_empty() || stars > 1 || stars == 1 && (self.uri.is_none() || !name.ends_with("/*")) {
            return Err("a name must not have wildcards; only a uri may end with /*".to_owned());
        }
        check_grant(&self.roles, &self.scopes)
    }
}

fn check_grant(roles: &[Role], scopes: &[Scope]) -> Result<(), String> {
    if roles.is_empty() || scopes.is_empty() {
        return Err("roles and scopes must not be empty".to_owned());
    }
    Ok(())
}

fn openid() -> Vec<String> {
    vec!["openid".to_owned()]
}

fn leeway_secs() -> u64 {
    30
}

fn all() -> Vec<Scope> {
    vec![Scope::all()]
}

fn texts<S: Serializer>(values: &[impl ToString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}

fn roles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Role>, D::Error> {
    parsed(deserializer, |text| Role::parse(text).map_err(|invalid| invalid.detail))
}

fn scopes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Scope>, D::Error> {
    parsed(deserializer, |text| Scope::parse(text).map_err(|invalid| invalid.detail))
}

fn parsed<'de, D: Deserializer<'de>, T, E: std::fmt::Display>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, D::Error> {
    let texts = one_or_many(deserializer)?;
    texts.iter().map(|text| parse(text).map_err(serde::de::Error::custom)).collect()
}

/// A text, or a list of texts.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "must be a string or a list of strings")]
    enum Texts {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Texts::deserialize(deserializer)? {
        Texts::One(text) => vec![text],
        Texts::Many(texts) => texts,
    })
}
