//! Certificates and keys in PEM files, which are read again when they have changed.
//!
//! If files cannot be used, their previous contents stay in use. That is logged once for each problem.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

/// The shortest interval between two checks of the files. A check happens only on a request.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the TLS file {}: {problem}", path.display())]
pub struct FileProblem {
    pub path: PathBuf,
    pub problem: &'static str,
}

impl FileProblem {
    pub fn of(path: &Path, problem: &'static str) -> Self {
        Self { path: path.to_owned(), problem }
    }
}

/// The parsed content of files.
pub struct TlsFiles<T> {
    paths: Vec<PathBuf>,
    make: Make<T>,
    state: Mutex<State<T>>,
}

/// Makes the value from the files' contents, which come in the order of their paths.
type Make<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, FileProblem> + Send + Sync>;

struct State<T> {
    texts: Vec<Vec<u8>>,
    made: T,
    checked_at: Instant,
    /// The last check without an error.
    good_at: Instant,
    /// The problem of the last check.
    problem: Option<FileProblem>,
}

impl<T: Clone> TlsFiles<T> {
    /// Reads the files for the first time.
    pub fn open(
        paths: Vec<PathBuf>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, FileProblem> + Send + Sync + 'static,
    ) -> Result<Self, FileProblem> {
        let texts = read(&paths)?;
        let (made, now) = (make(&texts)?, Instant::now());
        let state = Mutex::new(State { made, texts, checked_at: now, good_at: now, problem: None });
        Ok(Self { paths, make: Box::new(make), state })
    }

    /// The present contents of the files, or the last usable ones, and their problem.
    pub fn current(&self) -> (T, Option<FileProblem>) {
        self.check(Instant::now())
    }

    /// As [`Self::current`], and nothing once the files have been unusable for longer than `age_max`.
    pub fn current_within(&self, age_max: Duration) -> (Option<T>, Option<FileProblem>) {
        self.check_within(Instant::now(), age_max)
    }

    fn check_within(&self, now: Instant, age_max: Duration) -> (Option<T>, Option<FileProblem>) {
        let (made, problem) = self.check(now);
        let good_at = self.state.lock().unwrap_or_else(PoisonError::into_inner).good_at;
        let is_too_old = problem.is_some() && now.saturating_duration_since(good_at) > age_max;
        ((!is_too_old).then_some(made), problem)
    }

    fn check(&self, now: Instant) -> (T, Option<FileProblem>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.checked_at) >= CHECK_INTERVAL {
            state.checked_at = now;
            let changed = read(&self.paths).and_then(|texts| match texts == state.texts {
                true => Ok(None),
                false => (self.make)(&texts).map(|made| Some((texts, made))),
            });
            match changed {
                Ok(changed) => {
                    if let Some((texts, made)) = changed {
                        tracing::info!(files = ?self.paths, "TLS files changed: new connections use them");
                        (state.texts, state.made) = (texts, made);
                    }
                    state.problem = None;
                    state.good_at = now;
                }
                Err(problem) => {
                    if state.problem.as_ref() != Some(&problem) {
                        tracing::error!(
                            %problem,
                            "changed TLS files are unusable: their previous contents stay in use"
                        );
                    }
                    state.problem = Some(problem);
                }
            }
        }
        (state.made.clone(), state.problem.clone())
    }
}

impl<T> std::fmt::Debug for TlsFiles<T> {
    /// Without the contents: a key may be among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsFiles").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The files' contents, in the order of their paths.
fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, FileProblem> {
    paths.iter().map(|path| read_one(path)).collect()
}

/// The content of a file, for a single use.
pub fn read_one(path: &Path) -> Result<Vec<u8>, FileProblem> {
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> FileProblem {
    let problem = match error.kind() {
        io::ErrorKind::NotFound => "it does not exist",
        io::ErrorKind::PermissionDenied => "permission denied",
        _ => "it cannot be read",
    };
    FileProblem::of(path, problem)
}

/// The certificates in a file: at least one.
pub fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    let malformed = || FileProblem::of(path, "it must be a readable PEM file with certificates");
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(|_| malformed())?;
    if found.is_empty() { Err(malformed()) } else { Ok(found) }
}

/// The authorities whose certificates are in a file.
pub fn authorities(path: &Path, text: &[u8]) -> Result<RootCertStore, FileProblem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, text)? {
        roots.add(certificate).map_err(|_| FileProblem::of(path, "a certificate in it is malformed"))?;
    }
    Ok(roots)
}

/// The authorities that a file names now, possibly none. A malformed certificate is left out. The other certificates
/// are valid, and a withdrawn authority does not stay because of it.
pub fn believed_authorities(path: &Path, text: &[u8]) -> Result<RootCertStore, FileProblem> {
    let malformed = || FileProblem::of(path, "it must be a readable PEM file with certificates");
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(|_| malformed())?;
    if found.is_empty() && !text.trim_ascii().is_empty() && !text.windows(BEGIN.len()).any(|part| part == BEGIN) {
        return Err(malformed());
    }
    let mut roots = RootCertStore::empty();
    let (_, left_out) = roots.add_parsable_certificates(found);
    if left_out > 0 {
        tracing::warn!(file = %path.display(), left_out, "malformed CA certificates skipped");
    }
    Ok(roots)
}

/// How each part of a PEM file begins.
const BEGIN: &[u8] = b"-----BEGIN ";

/// The certificate revocation lists in a file: at least one.
pub fn revocations(path: &Path, text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, FileProblem> {
    let malformed = || FileProblem::of(path, "it must be a readable PEM file with certificate revocation lists");
    let lists = CertificateRevocationListDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let found = lists.map_err(|_| malformed())?;
    if found.is_empty() { Err(malformed()) } else { Ok(found) }
}

/// The private key in a file.
pub fn private_key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, FileProblem> {
    PrivateKeyDer::from_pem_slice(text)
        .map_err(|_| FileProblem::of(path, "it must be a readable PEM file with one private key"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn files(paths: &[&Path]) -> Result<TlsFiles<Vec<Vec<u8>>>, FileProblem> {
        let paths: Vec<_> = paths.iter().map(|path| path.to_path_buf()).collect();
        let first = paths[0].clone();
        TlsFiles::open(paths, move |texts| match texts[0].starts_with(b"good") {
            true => Ok(texts.to_vec()),
            false => Err(FileProblem::of(&first, "it is bad")),
        })
    }

    #[test]
    fn the_last_good_file_stays_in_use_until_a_good_one_appears() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::write(&one, "bad").unwrap();
        let problem = files(&[&one, &other]).unwrap_err();
        assert_eq!(problem, FileProblem::of(&other, "it does not exist"));
        fs::write(&other, "x").unwrap();
        assert_eq!(files(&[&one, &other]).unwrap_err().problem, "it is bad");
        fs::write(&one, "good 1").unwrap();
        let files = files(&[&one, &other]).unwrap();
        let first = vec![b"good 1".to_vec(), b"x".to_vec()];
        let mut now = Instant::now();
        fs::write(&one, "bad").unwrap();
        assert_eq!(files.check(now), (first.clone(), None), "it was checked just now");
        now += CHECK_INTERVAL;
        assert_eq!(files.check(now), (first.clone(), Some(FileProblem::of(&one, "it is bad"))));
        assert_eq!(files.check(now), (first, Some(FileProblem::of(&one, "it is bad"))));
        fs::write(&one, "good 2").unwrap();
        now += CHECK_INTERVAL;
        assert_eq!(files.check(now), (vec![b"good 2".to_vec(), b"x".to_vec()], None));
    }

    #[test]
    fn unusable_files_leave_the_last_good_ones_in_use_for_a_bounded_time() {
        let dir = tempfile::tempdir().unwrap();
        let one = dir.path().join("one");
        fs::write(&one, "good 1").unwrap();
        let files = files(&[&one]).unwrap();
        let (start, age_max) = (Instant::now(), Duration::from_secs(100));
        fs::write(&one, "bad").unwrap();
        let held = |secs| files.check_within(start + Duration::from_secs(secs), age_max).0.is_some();
        assert!(held(50) && held(99));
        assert!(!held(102));
        fs::write(&one, "good 2").unwrap();
        assert!(held(104));
        fs::write(&one, "bad").unwrap();
        assert!(held(203) && !held(206));
    }

    #[test]
    fn a_file_of_authorities_must_be_pem() {
        let read = |text: &str| believed_authorities(Path::new("ca.pem"), text.as_bytes()).map(|roots| roots.len());
        assert_eq!((read(""), read(" \n")), (Ok(0), Ok(0)));
        assert_eq!(read("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), Ok(0));
        assert_eq!(read("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), Ok(0));
        assert!(read("<html>").is_err() && read("-----BEGIN CERTIFICATE-----\n").is_err());
        assert!(revocations(Path::new("crl.pem"), b"").is_err());
    }
}
