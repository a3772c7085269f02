//! Keeps the keys of identity providers up to date, with one background task for each.
//!
//! A task accepts a key set as it is, even one without a usable key. The last key set stays in use for a bounded time
//! while an issuer is unavailable, slow or returns something else. The server never fetches a URL that a caller names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus::{IntGauge, IntGaugeVec, Opts, Registry};
use reqwest::header::{ACCEPT, AUTHORIZATION};
use reqwest::redirect::Policy;
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::access::jwt::{Issuers, KeySet};
use crate::tls_files::authorities;

/// The longest time for one reading, regardless of the issuer's speed.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// Room for a hundred RSA keys with their certificates.
const BYTES_MAX: usize = 1 << 20;
/// The interval between checks of a file, which cost almost nothing.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The delays between failed readings. Each delay is twice the previous one.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The place of an issuer's keys.
#[derive(Debug, Clone)]
pub enum KeySource {
    File(PathBuf),
    Url { url: String, ca_file: Option<PathBuf>, token_file: Option<PathBuf> },
}

/// How long keys are used.
#[derive(Debug, Clone, Copy)]
pub struct KeyTimes {
    /// The time between two readings.
    pub refresh: Duration,
    /// How long the keys of a reading stay valid without a newer reading.
    pub age_max: Duration,
}

/// Starts to read the keys of all issuers. Each issuer's source has the issuer's number. The tasks end with their actix
/// system.
///
/// Returns after each key file has been read, so that a new server accepts tokens from its first caller on. It does not
/// wait for issuers at a URL, which may be unavailable.
pub async fn start_reading(
    issuers: &Arc<Issuers>,
    sources: Vec<(String, KeySource)>,
    times: KeyTimes,
    registry: &Registry,
) -> prometheus::Result<()> {
    let gauges = |name, help| {
        let gauges = IntGaugeVec::new(Opts::new(name, help), &["issuer"])?;
        registry.register(Box::new(gauges.clone())).map(|()| gauges)
    };
    let unavailable = gauges(
        "liststore_access_issuer_keys_unavailable",
        "1 while the signing keys of an issuer cannot be fetched and the cached keys are used.",
    )?;
    let too_old = gauges(
        "liststore_access_issuer_keys_too_old",
        "1 while the tokens of an issuer are refused because its cached keys are too old.",
    )?;
    let usable = gauges("liststore_access_issuer_keys_usable", "Signing keys of an issuer in use.")?;
    let mut of_files = Vec::new();
    for (number, (name, source)) in sources.into_iter().enumerate() {
        let first_read = Arc::new(Notify::new());
        if matches!(source, KeySource::File(_)) {
            of_files.push(Arc::clone(&first_read));
        }
        let [unavailable, too_old, usable] =
            [&unavailable, &too_old, &usable].map(|gauges| gauges.with_label_values(&[&name]));
        let gauges = KeyGauges { unavailable, too_old, usable };
        let reader = KeyReader { issuers: Arc::clone(issuers), number, name, source, times, gauges };
        actix::spawn(reader.run(first_read));
    }
    for first_read in of_files {
        first_read.notified().await;
    }
    Ok(())
}

struct KeyReader {
    issuers: Arc<Issuers>,
    number: usize,
    name: String,
    source: KeySource,
    times: KeyTimes,
    gauges: KeyGauges,
}

struct KeyGauges {
    unavailable: IntGauge,
    too_old: IntGauge,
    usable: IntGauge,
}

impl KeyReader {
    /// Reads the keys repeatedly, and notifies the start after the first reading.
    async fn run(self, first_read: Arc<Notify>) {
        let (mut retry_delay, mut problem) = (RETRY_DELAYS.0, None);
        // When the keys of the last reading expire.
        let mut holds_until = None;
        loop {
            let began = Instant::now();
            let read = match timeout(READ_TIME_MAX, self.source.read()).await {
                Ok(read) => read,
                Err(_) => Err(format!("timed out after {} s", READ_TIME_MAX.as_secs())),
            };
            let outcome = read.and_then(|text| KeySet::read(&text).map_err(|error| error.to_string()));
            let is_file = matches!(self.source, KeySource::File(_));
            let mut delay = match outcome {
                Ok(keys) => {
                    self.publish(keys);
                    (retry_delay, problem) = (RETRY_DELAYS.0, None);
                    holds_until = Some(began + self.times.age_max);
                    if is_file { FILE_CHECK_INTERVAL } else { self.times.refresh }
                }
                Err(reason) => {
                    if problem.as_ref() != Some(&reason) {
                        tracing::warn!(issuer = self.name, reason, "cannot fetch the signing keys of a token issuer");
                        problem = Some(reason);
                    }
                    self.gauges.unavailable.set(1);
                    let delay = retry_delay;
                    retry_delay = (retry_delay * 2).min(if is_file { FILE_CHECK_INTERVAL } else { RETRY_DELAYS.1 });
                    delay
                }
            };
            if let Some(until) = holds_until {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    self.expire();
                    holds_until = None;
                } else {
                    delay = delay.min(left);
                }
            }
            self.issuers.note_read(self.number);
            first_read.notify_one();
            tokio::select! {
                () = sleep(delay) => {}
                () = self.issuers.wait_for_request(self.number) => {}
            }
        }
    }

    fn publish(&self, keys: KeySet) {
        let (issuer, usable, passed_over) = (&self.name, keys.usable(), keys.passed_over());
        if self.issuers.publish(self.number, keys) {
            tracing::info!(issuer, usable, passed_over, "fetched the signing keys of a token issuer");
            if usable == 0 {
                tracing::warn!(issuer, passed_over, "a token issuer has no usable signing key: its tokens are refused");
            }
        }
        self.gauges.usable.set(i64::try_from(usable).unwrap_or(i64::MAX));
        self.gauges.unavailable.set(0);
        self.gauges.too_old.set(0);
    }

    fn expire(&self) {
        let age_max_secs = self.times.age_max.as_secs();
        tracing::error!(
            issuer = self.name,
            age_max_secs,
            "the cached signing keys of a token issuer are too old: its tokens are refused"
        );
        self.issuers.expire(self.number);
        self.gauges.usable.set(0);
        self.gauges.too_old.set(1);
    }
}

impl KeySource {
    /// Reads the text of a JWK set. An error never contains the text.
    async fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::File(path) => read_file(path).await,
            Self::Url { url, ca_file, token_file } => {
                let client = client(url, ca_file.as_deref()).await?;
                let mut request = client.get(url).header(ACCEPT, "application/jwk-set+json, application/json");
                if let Some(path) = token_file {
                    let token = read_file(path).await?;
                    let header = [b"Bearer ", token.trim_ascii()].concat();
                    request = request.header(AUTHORIZATION, header);
                }
                let mut response = request.send().await.map_err(|error| causes(&error.without_url()))?;
                if response.status() != reqwest::StatusCode::OK {
                    return Err(format!("HTTP status {}", response.status().as_u16()));
                }
                let mut text = Vec::new();
                while let Some(chunk) = response.chunk().await.map_err(|error| causes(&error.without_url()))? {
                    if text.len() + chunk.len() > BYTES_MAX {
                        return Err(format!("it is larger than {BYTES_MAX} bytes"));
                    }
                    text.extend_from_slice(&chunk);
                }
                Ok(text)
            }
        }
    }
}

async fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // Opening a pipe would wait for its writer, and a device may have no end.
    if !tokio::fs::metadata(path).await.map_err(failed)?.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut text = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut text).await.map_err(failed)?;
    if text.len() > BYTES_MAX {
        return Err(format!("{} is larger than {BYTES_MAX} bytes", path.display()));
    }
    Ok(text)
}

/// Builds a client for each reading, so that a changed authority file takes effect.
async fn client(url: &str, ca_file: Option<&Path>) -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder()
        // Only the configured issuer is trusted, not the target of its redirect.
        .redirect(Policy::none())
        .user_agent(concat!("liststore/", env!("CARGO_PKG_VERSION")));
    let ring = rustls::crypto::ring::default_provider();
    let builder = match ca_file {
        None if url.starts_with("https:") => {
            // An error means that a provider is installed already: this one, or another chosen on purpose.
            let _ = ring.install_default();
            builder
        }
        _ => {
            let roots = match ca_file {
                Some(path) => authorities(path, &read_file(path).await?).map_err(|problem| problem.to_string())?,
                None => rustls::RootCertStore::empty(),
            };
            let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(roots)
                .with_no_client_auth();
            builder.tls_backend_preconfigured(config)
        }
    };
    // Plain HTTP is only for this machine, without a proxy.
    let builder = if url.starts_with("http:") { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| causes(&error))
}

/// An error with its causes in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let first = error.to_string();
    std::iter::successors(error.source(), |error| error.source()).fold(first, |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::LimitOptions;

    #[tokio::test]
    async fn keys_in_a_file_are_read_at_the_start() {
        // RFC 8037, appendix A.2.
        const KEYS: &str =
            r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| (name.to_owned(), KeySource::File(dir.path().join(name)));
        std::fs::write(dir.path().join("there"), KEYS).unwrap();
        let (issuers, registry) = (Arc::new(Issuers::new(vec![], LimitOptions::default())), Registry::new());
        let times = KeyTimes { refresh: Duration::from_secs(300), age_max: Duration::from_secs(86_400) };
        let starting = start_reading(&issuers, vec![file("there"), file("missing")], times, &registry);
        tokio::task::LocalSet::new().run_until(starting).await.unwrap();
        let reported = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "liststore_access_issuer_keys_usable{issuer=\"there\"} 1\n",
            "liststore_access_issuer_keys_unavailable{issuer=\"missing\"} 1\n",
        ] {
            assert!(reported.contains(line), "{reported}");
        }
    }

    #[tokio::test]
    async fn files_are_read_completely_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        for (bytes, fits) in [(0, true), (BYTES_MAX, true), (BYTES_MAX + 1, false)] {
            std::fs::write(&path, vec![b' '; bytes]).unwrap();
            let read = read_file(&path).await;
            assert_eq!(read.as_ref().is_ok_and(|text| text.len() == bytes), fits, "{bytes}");
        }
        let read = read_file(&dir.path().join("none")).await.unwrap_err();
        assert!(read.contains("No such file"), "{read}");
    }

    /// A device without an end would fill the memory. A pipe without a writer would block a thread for each check.
    #[tokio::test]
    async fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for path in [&pipe, &link, dir.path()] {
            let read = timeout(READ_TIME_MAX, read_file(path)).await.expect("it is not waited for");
            assert!(read.unwrap_err().ends_with("is not a file"), "{}", path.display());
        }
    }
}
