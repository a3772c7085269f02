//! Finds secrets in the logs of servers. The support code that starts servers checks their logs when they end, so that
//! no suite needs to do it.

use std::io::{self, Write};
use std::sync::{LazyLock, Mutex, Once, PoisonError};

use regex::Regex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The forms of secrets that no test has named. Masked ones have asterisks instead.
static FORMS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let forms = [
        ("an API key", r"\bls_[0-9a-z]{12}_[0-9A-Za-z]{49}\b"),
        ("a token", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        ("a password in a URL", r#"://[^\s/:@"]*:[^\s/@"*]+@"#),
        ("a password", r#"(?i)password=[^\s&"*]+"#),
        ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
        ("credentials", r"(?i)\bbearer [A-Za-z0-9._~+/-]{8,}"),
    ];
    forms.map(|(name, form)| (name, Regex::new(form).unwrap())).into()
});

/// The secrets in a server's settings: passwords, including those in URLs. Short ones would match anywhere.
pub fn in_settings<'s>(settings: impl IntoIterator<Item = (&'s str, &'s str)>) -> Vec<String> {
    let secret = |(key, value): (&str, &str)| {
        let is_password = key.to_ascii_lowercase().ends_with("password");
        let in_url = || value.split_once("://")?.1.split_once('@')?.0.split_once(':').map(|(_, password)| password);
        is_password.then_some(value).or_else(in_url).filter(|secret| secret.len() >= 8).map(str::to_owned)
    };
    settings.into_iter().filter_map(secret).collect()
}

/// The first line of a log with a secret, and the secret.
pub fn leak(log: &str, known: &[String]) -> Option<String> {
    log.lines().find_map(|line| {
        let form = FORMS.iter().find(|(_, form)| form.is_match(line)).map(|(name, _)| *name);
        let found =
            form.or_else(|| known.iter().any(|secret| line.contains(secret)).then_some("a secret of its settings"));
        found.map(|name| format!("{name} in the log: {line}"))
    })
}

/// Fails a test whose server has logged a secret. A test that has failed already is left alone.
#[track_caller]
pub fn check(log: &str, known: &[String]) {
    if let Some(leak) = leak(log, known).filter(|_| !std::thread::panicking()) {
        panic!("{leak}");
    }
}

/// Receives the log of servers in this process, and no other output.
#[derive(Clone, Copy)]
struct Watched;

static LEAKED: Mutex<Option<String>> = Mutex::new(None);
static KNOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Write for Watched {
    /// A line each time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leak) = leak(&String::from_utf8_lossy(line), &known) {
            LEAKED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(leak);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Watched {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

/// Watches everything that this process logs, with all details of this project's modules.
pub fn watch(known: Vec<String>) {
    static ONCE: Once = Once::new();
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).extend(known);
    ONCE.call_once(|| {
        let filter = EnvFilter::new("debug,liststore=trace");
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(Watched).with_env_filter(filter);
        // A test with a separate log checks it itself.
        let _ = lines.try_init();
    });
}

/// Fails if a secret was logged since the last call.
#[track_caller]
pub fn check_watched() {
    let leak = LEAKED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(leak) = leak.filter(|_| !std::thread::panicking()) {
        panic!("{leak}");
    }
}
