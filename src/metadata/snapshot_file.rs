//! The last catalog on disk, from which a server that starts without its metadata store serves lists.
//!
//! It is a text file. The first line is the format's number, and the second describes the rest. One line follows for
//! each version and each API key (with the hash of its secret). The last line is the CRC32C of all previous lines. The
//! file is written whole next to its place and moved there. It is read strictly: any deviation refuses the whole file.
//!
//! Servers of one metadata store can share the file: one of them writes at a time (where files can be locked), and
//! never replaces a later state.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::Lines;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::catalog::{CatalogVersion, Snapshot};
use super::keys::{Keys, record};
use super::table::Table;
use crate::definition::{FORMATS, VersionProperties};
use crate::domain::{FeatureId, FeatureKey, Index, Revision, Timestamp, ValueType, VersionLabel};

/// A file with the current state is written again after this time, to renew its age.
pub const AGE_INTERVAL: Duration = Duration::from_secs(300);
const FILE_NAME: &str = "catalog.snapshot";
/// The format of the documents whose parts it contains. The next copy replaces one in an older format.
const FORMAT: u64 = FORMATS.present();
const MAGIC: &str = "liststore-catalog ";
const CHECKSUM: &str = "crc32c ";
/// How the names of files begin that are being written.
const NEW_PREFIX: &str = "catalog.new";
/// A file that is still being written after this time has no writer any more.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// Why a file is unusable.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("it does not exist")]
    None,
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("it was written by a newer liststore (format {0}, this version supports {FORMAT})")]
    Newer(u64),
    #[error("it is for {found}, but this server uses {wanted}")]
    OfAnother { found: String, wanted: String },
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// The place of the catalog's copy, and its metadata store.
#[derive(Debug, Clone)]
pub struct SnapshotFile {
    path: PathBuf,
    source: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    source: String,
    revision: u64,
    synced_at_nanos: u64,
    versions: usize,
    keys_revision: u64,
    keys: usize,
}

/// Distinguishes two states of one store. The times are of different servers' clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    definitions: Revision,
    /// The latest change of a key, and the revision up to which all changes are included. A server's own change comes
    /// before the ones that it has not read yet.
    keys: (Revision, Revision),
    synced_at_nanos: u64,
}

impl State {
    /// By how much it is later than another.
    fn ahead_of(&self, other: &Self) -> Duration {
        Duration::from_nanos(self.synced_at_nanos.saturating_sub(other.synced_at_nanos))
    }

    /// Whether a file with this state can stay in place of another state. It cannot if its clock was far ahead: it
    /// would then outlive all changes.
    fn can_stay_instead_of(&self, other: &Self) -> bool {
        let age = other.ahead_of(self);
        let is_later = self.definitions >= other.definitions && self.keys >= other.keys && age.is_zero();
        let is_similar = self.definitions == other.definitions && self.keys >= other.keys && age < AGE_INTERVAL;
        (is_later || is_similar) && !self.is_far_ahead_of(other)
    }

    fn is_far_ahead_of(&self, other: &Self) -> bool {
        self.ahead_of(other) > AGE_INTERVAL
    }
}

/// A version.
#[derive(Serialize, Deserialize)]
struct Line {
    feature_key: String,
    value_type: ValueType,
    #[serde(flatten)]
    properties: VersionProperties,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<Index>,
}

impl SnapshotFile {
    /// `source` distinguishes metadata stores, and is written into the file. It is no secret.
    pub fn new(dir: &Path, source: String) -> Self {
        Self { path: dir.join(FILE_NAME), source }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file in one atomic step, unless another server has written the same state recently, or a later one.
    /// Returns when the state in the file last matched the store; `None` while another server writes. Blocks on the
    /// disk.
    pub fn write(&self, snapshot: &Snapshot, keys: &Keys) -> io::Result<Option<Timestamp>> {
        let _lock = match self.lock() {
            Ok(lock) => lock,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        };
        if let Some(synced_at) = self.synced_at_instead(&state_of(snapshot.revision(), snapshot.synced_at(), keys)) {
            return Ok(Some(synced_at));
        }
        let text = text(&self.head(snapshot, keys), snapshot, keys).map_err(io::Error::other)?;
        // Without locks, several servers can write at once: each writes a separate file.
        let name = format!("{NEW_PREFIX}.{}.{:016x}", std::process::id(), fastrand::u64(..));
        let fresh = self.path.with_file_name(name);
        let written = self.replace_by(&fresh, &text);
        if written.is_err() {
            // It may not exist. What stays is removed once it is old.
            let _ = fs::remove_file(&fresh);
        }
        written.map(|()| Some(snapshot.synced_at()))
    }

    /// Writes a new file, and moves it to its place.
    fn replace_by(&self, fresh: &Path, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        let now = file.metadata()?.modified()?;
        fs::rename(fresh, &self.path)?;
        if let Some(dir) = self.path.parent() {
            File::open(dir)?.sync_all()?;
            remove_abandoned(dir, now);
        }
        Ok(())
    }

    /// Keeps other servers from writing until it is dropped. `None` where there are no locks.
    fn lock(&self) -> Result<Option<File>, TryLockError> {
        let path = self.path.with_extension("lock");
        locked(OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path))
    }

    /// The time of the state in the file, if the file can stay in place of this state.
    fn synced_at_instead(&self, state: &State) -> Option<Timestamp> {
        let text = fs::read_to_string(&self.path).ok()?;
        let (head, lines) = checked(&text).ok().filter(|(head, _)| head.source == self.source)?;
        let synced_at = Timestamp::from_nanos(head.synced_at_nanos).ok()?;
        let keys: Result<Vec<_>, _> = lines.skip(head.versions).map(|line| record::read(line.as_bytes())).collect();
        let keys = Keys { revision: Revision(head.keys_revision), keys: keys.ok()? };
        let found = state_of(Revision(head.revision), synced_at, &keys);
        if found.is_far_ahead_of(state) {
            let (path, ahead_secs) = (self.path.display(), found.ahead_of(state).as_secs());
            tracing::warn!(
                %path,
                ahead_secs,
                "replaces the definitions snapshot on disk, whose time is ahead: check the clocks of the servers"
            );
        }
        found.can_stay_instead_of(state).then_some(synced_at)
    }

    fn head(&self, snapshot: &Snapshot, keys: &Keys) -> Head {
        Head {
            source: self.source.clone(),
            revision: snapshot.revision().0,
            synced_at_nanos: snapshot.synced_at().as_nanos(),
            versions: snapshot.table().versions().count(),
            keys_revision: keys.revision.0,
            keys: keys.keys.len(),
        }
    }

    /// Reads the last copy. Blocks on the disk.
    pub fn read(&self) -> Result<(Snapshot, Keys), SnapshotError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => self.parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SnapshotError::None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(SnapshotError::Damaged("it is not UTF-8")),
            Err(error) => Err(error.into()),
        }
    }

    fn parse(&self, text: &str) -> Result<(Snapshot, Keys), SnapshotError> {
        use SnapshotError::Damaged;
        let (head, mut lines) = checked(text)?;
        if head.source != self.source {
            return Err(SnapshotError::OfAnother { found: head.source, wanted: self.source.clone() });
        }
        let versions: Option<Vec<_>> = lines.by_ref().take(head.versions).map(version_of).collect();
        let versions =
            versions.filter(|versions| versions.len() == head.versions).ok_or(Damaged("malformed version"))?;
        let synced_at = Timestamp::from_nanos(head.synced_at_nanos).map_err(|_| Damaged("malformed time"))?;
        let keys: Result<Vec<_>, _> = lines.map(|line| record::read(line.as_bytes())).collect();
        let keys = keys.ok().filter(|keys| keys.len() == head.keys).ok_or(Damaged("malformed key"))?;
        let keys = Keys { revision: Revision(head.keys_revision), keys };
        Ok((Snapshot::stored(Revision(head.revision), synced_at, Table::of_versions(versions)), keys))
    }
}

fn state_of(definitions: Revision, synced_at: Timestamp, keys: &Keys) -> State {
    State { definitions, keys: (keys.last_change(), keys.revision), synced_at_nanos: synced_at.as_nanos() }
}

/// Locks a file that could be opened. `None` where there are no locks: servers then replace each other's files whole.
fn locked(opened: io::Result<File>) -> Result<Option<File>, TryLockError> {
    let file = match opened {
        Ok(file) => file,
        // It is the file of another user.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(TryLockError::Error(error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        // A file system without locks.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Removes what writers left that ended before they moved their file. A failure leaves it to the next write.
fn remove_abandoned(dir: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let is_new = entry.file_name().to_str().is_some_and(|name| name.starts_with(NEW_PREFIX));
        let written_at = || entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = || now.duration_since(written_at()?).ok();
        if is_new && age().is_some_and(|age| age > ABANDONED_AFTER) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn text(head: &Head, snapshot: &Snapshot, keys: &Keys) -> Result<String, serde_json::Error> {
    let mut text = format!("{MAGIC}{FORMAT}\n{}\n", serde_json::to_string(head)?);
    for version in snapshot.table().versions() {
        let CatalogVersion { feature_key, value_type, properties, index } = version.clone();
        let line = Line { feature_key: feature_key.to_string(), value_type, properties, index };
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
    }
    for key in &keys.keys {
        text.push_str(&record::write(key)?);
        text.push('\n');
    }
    let checksum = crc32c::crc32c(text.as_bytes());
    // Writing into a text does not fail.
    let _ = writeln!(text, "{CHECKSUM}{checksum:08x}");
    Ok(text)
}

/// The head of a whole file, and the lines after it.
fn checked(text: &str) -> Result<(Head, Lines<'_>), SnapshotError> {
    use SnapshotError::Damaged;
    let format = text.strip_prefix(MAGIC).and_then(|rest| rest.split('\n').next());
    let format: u64 = format.and_then(|number| number.parse().ok()).ok_or(Damaged("wrong first line"))?;
    if format != FORMAT {
        return Err(if format > FORMAT { SnapshotError::Newer(format) } else { Damaged("unknown format") });
    }
    let (body, checksum) = text.rfind(CHECKSUM).map(|at| text.split_at(at)).ok_or(Damaged("truncated"))?;
    if checksum != format!("{CHECKSUM}{:08x}\n", crc32c::crc32c(body.as_bytes())) {
        return Err(Damaged("checksum mismatch"));
    }
    let mut lines = body.lines();
    // The format.
    lines.next();
    let head = lines.next().and_then(|line| serde_json::from_str(line).ok()).ok_or(Damaged("malformed second line"))?;
    Ok((head, lines))
}

/// Uses the domain's constructors, as for all external data.
fn version_of(line: &str) -> Option<(FeatureId, VersionLabel, CatalogVersion)> {
    let Line { feature_key, value_type, properties, index } = serde_json::from_str(line).ok()?;
    let properties = properties.checked().ok()?;
    let (id, label, generation) = FeatureKey::parse(&feature_key)?;
    let feature_key = FeatureKey::new(&id, &label, generation);
    let feature_key = feature_key.with_identity(properties.identity()).with_bucket(properties.bucket);
    Some((id, label, CatalogVersion { feature_key, value_type, properties, index }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{AheadMax, Bucket, Identity, Keep, MaxItems};
    use crate::metadata::Catalog;
    use crate::metadata::catalog::Missing;

    const TEXT: &str = "{\"source\":\"here\",\"revision\":7,\"synced_at_nanos\":9,\"versions\":3,\"keys_revision\":6,\"keys\":1}\n\
                        {\"feature_key\":\"user#seen|\",\"value_type\":\"json\",\"ttl\":\"1m\"}\n\
                        {\"feature_key\":\"user#seen|v2~3\",\"value_type\":\"json\",\"ttl\":\"5s\",\"max_items\":9,\
                        \"timestamp_ahead_max\":\"2h\",\"identity\":\"key\",\"keep\":\"oldest\"}\n\
                        {\"feature_key\":\"post#likes|~2\",\"value_type\":\"int64\",\"ttl\":\"1s\",\
                        \"timestamp_ahead_max\":\"none\",\"bucket\":\"month\"}\n\
                        {\"id\":\"0123456789ab\",\"name\":\"feed\",\"roles\":[\"reader\"],\"scopes\":[\"*\"],\
                        \"hash\":\"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\",\"previous\":null,\
                        \"created_at_nanos\":1,\"created_by\":\"local\",\"expires_at_nanos\":null,\
                        \"rotated_at_nanos\":null,\"revoked_at_nanos\":null,\"revision\":6}\n";

    fn checked(body: &str) -> String {
        let text = format!("{MAGIC}{FORMAT}\n{body}");
        format!("{text}{CHECKSUM}{:08x}\n", crc32c::crc32c(text.as_bytes()))
    }

    fn file(dir: &Path) -> SnapshotFile {
        SnapshotFile::new(dir, "here".to_owned())
    }

    fn read(text: &str) -> Result<(Snapshot, Keys), SnapshotError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE_NAME), text).unwrap();
        file(dir.path()).read()
    }

    #[test]
    fn a_written_snapshot_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(file(dir.path()).read(), Err(SnapshotError::None)));
        let (snapshot, keys) = read(&checked(TEXT)).unwrap();
        for _ in 0..2 {
            assert_eq!(file(dir.path()).write(&snapshot, &keys).unwrap(), Some(snapshot.synced_at()));
        }
        let (again, keys_again) = file(dir.path()).read().unwrap();
        assert_eq!((keys_again.revision, &keys_again.keys), (Revision(6), &keys.keys));
        assert_eq!(keys.keys[0].name.as_str(), "feed");
        assert_eq!((again.revision(), again.synced_at().as_nanos(), again.is_stored()), (Revision(7), 9, true));
        for (name, label, expected) in [("seen", "", "user#seen|"), ("seen", "v2", "user#seen|v2~3")] {
            assert_eq!(again.version("user", name, label).unwrap().feature_key.as_str(), expected);
        }
        assert_eq!(again.version("post", "likes", "").unwrap().properties.ttl.as_secs(), 1);
        assert_eq!(again.version("user", "seen", "v2").unwrap().properties.max_items.map(MaxItems::get), Some(9));
        let ahead_max = |type_, name, label| again.version(type_, name, label).unwrap().properties.timestamp_ahead_max;
        assert_eq!(ahead_max("user", "seen", ""), None);
        assert_eq!(ahead_max("user", "seen", "v2"), AheadMax::parse("2h").ok());
        assert_eq!(ahead_max("post", "likes", ""), Some(AheadMax::Unbounded));
        let identity = |label| again.version("user", "seen", label).unwrap().feature_key.identity();
        assert_eq!((identity(""), identity("v2")), (Identity::Item, Identity::Key(Keep::Oldest)));
        assert_eq!(again.version("post", "likes", "").unwrap().feature_key.bucket(), Some(Bucket::Month));
        assert_eq!(again.version("post", "seen", ""), Err(Missing::Feature));
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["catalog.lock", FILE_NAME]);
    }

    /// The state of TEXT with other revisions and another time.
    fn state(revision: u64, keys_revision: u64, synced_at_nanos: u64) -> (Snapshot, Keys) {
        let text = TEXT.replacen("\"revision\":7", &format!("\"revision\":{revision}"), 1);
        let text = text.replacen("\"keys_revision\":6", &format!("\"keys_revision\":{keys_revision}"), 1);
        let time = format!("\"synced_at_nanos\":{synced_at_nanos}");
        read(&checked(&text.replacen("\"synced_at_nanos\":9", &time, 1))).unwrap()
    }

    #[test]
    fn servers_that_share_a_file_keep_the_latest_state() {
        let long = AGE_INTERVAL.as_nanos() as u64;
        let first = (7, 6, 1_000);
        for (second, is_written) in [
            // The same state: the age is renewed once it matters.
            ((7, 6, 1_001), false),
            ((7, 6, 999), false),
            ((7, 6, 1_000 + long - 1), false),
            ((7, 6, 1_000 + long), true),
            // A change.
            ((8, 6, 1_001), true),
            ((7, 7, 1_001), true),
            // The clock of the server that made it is behind.
            ((8, 7, 900), true),
            ((7, 7, 900), true),
            // A server that has not reached the store since.
            ((6, 6, 900), false),
            ((6, 5, 1_000), false),
            // A server that has not read the last change of a key.
            ((7, 5, 1_001), false),
            ((7, 5, 1_000 + long), true),
            // The store was restored from a backup.
            ((3, 3, 1_001), true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for (revision, keys_revision, time) in [first, second] {
                let (snapshot, keys) = state(revision, keys_revision, time);
                file(dir.path()).write(&snapshot, &keys).unwrap();
            }
            let (snapshot, keys) = file(dir.path()).read().unwrap();
            let kept = (snapshot.revision().0, keys.revision.0, snapshot.synced_at().as_nanos());
            assert_eq!(kept, if is_written { second } else { first }, "{second:?}");
        }
    }

    #[test]
    fn a_file_of_a_clock_far_ahead_is_replaced() {
        let long = AGE_INTERVAL.as_nanos() as u64;
        for (ahead_nanos, later, is_written) in [
            (long, (7, 6), false),
            (long + 1, (7, 6), true),
            // The store was restored from a backup.
            (long, (3, 3), false),
            (long + 1, (3, 3), true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (snapshot, keys) = state(7, 6, 1_000 + ahead_nanos);
            file(dir.path()).write(&snapshot, &keys).unwrap();
            let (snapshot, keys) = state(later.0, later.1, 1_000);
            file(dir.path()).write(&snapshot, &keys).unwrap();
            let kept = file(dir.path()).read().unwrap().0.synced_at().as_nanos();
            assert_eq!(kept == 1_000, is_written, "{ahead_nanos} {later:?}");
        }
    }

    /// A server publishes its own change of a key before it has read all changes up to it.
    #[test]
    fn an_own_change_of_a_key_is_a_later_state() {
        let dir = tempfile::tempdir().unwrap();
        let (snapshot, keys) = state(7, 6, 1_000);
        file(dir.path()).write(&snapshot, &keys).unwrap();
        let mut changed = keys.clone();
        changed.keys[0].revision = Revision(9);
        changed.keys[0].revoked_at = Some(Timestamp::MIN);
        assert_eq!((changed.revision, changed.last_change()), (Revision(6), Revision(9)));
        // The state without the change does not replace it.
        for written in [&changed, &keys] {
            file(dir.path()).write(&snapshot, written).unwrap();
            let (_, kept) = file(dir.path()).read().unwrap();
            assert_eq!((kept.revision, &kept.keys), (Revision(6), &changed.keys));
        }
        // With the changes of other servers before it.
        file(dir.path()).write(&snapshot, &Keys { revision: Revision(9), ..changed }).unwrap();
        assert_eq!(file(dir.path()).read().unwrap().1.revision, Revision(9));
    }

    #[test]
    fn each_writer_has_a_separate_file_and_old_ones_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (snapshot, keys) = state(7, 6, 9);
        let path = |name: &str| dir.path().join(name);
        for (name, secs) in [("catalog.new", 1), ("catalog.new.1.00", 1), ("catalog.other", 1)] {
            let left = File::create(path(name)).unwrap();
            left.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(secs)).unwrap();
        }
        fs::write(path("catalog.new.2.00"), "another server writes it").unwrap();
        file(dir.path()).write(&snapshot, &keys).unwrap();
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let expected = ["catalog.lock", "catalog.new.2.00", "catalog.other", FILE_NAME];
        assert_eq!(names(), expected);
        assert_eq!(fs::read_to_string(path("catalog.new.2.00")).unwrap(), "another server writes it");
        // The move fails.
        fs::remove_file(path(FILE_NAME)).unwrap();
        fs::create_dir(path(FILE_NAME)).unwrap();
        assert!(file(dir.path()).write(&snapshot, &keys).is_err());
        assert_eq!(names(), expected, "nothing is left");
    }

    #[test]
    fn a_lock_of_another_user_does_not_prevent_writes() {
        let denied = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(locked(denied()), Ok(None)));
        let full = Err(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(locked(full), Err(TryLockError::Error(_))));
    }

    #[test]
    fn a_file_that_is_of_no_use_is_replaced() {
        for useless in [checked(&TEXT.replace("here", "there")), checked(TEXT) + "x", String::new()] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(FILE_NAME), useless).unwrap();
            let (snapshot, keys) = state(1, 1, 1);
            assert_eq!(file(dir.path()).write(&snapshot, &keys).unwrap(), Some(snapshot.synced_at()));
            assert_eq!(file(dir.path()).read().unwrap().0.revision(), Revision(1));
        }
    }

    #[test]
    fn one_server_writes_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let (snapshot, keys) = state(7, 6, 9);
        let writes = file(dir.path()).lock().unwrap();
        assert!(writes.is_some());
        assert_eq!(file(dir.path()).write(&snapshot, &keys).unwrap(), None);
        assert!(matches!(file(dir.path()).read(), Err(SnapshotError::None)));
        drop(writes);
        assert_eq!(file(dir.path()).write(&snapshot, &keys).unwrap(), Some(snapshot.synced_at()));
    }

    #[test]
    fn damage_anywhere_is_refused() {
        let whole = checked(TEXT);
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1;
            let damaged = String::from_utf8(bytes).unwrap();
            assert!(read(&damaged).is_err(), "byte {at}");
            assert!(read(&whole[..at]).is_err(), "cut at {at}");
        }
        assert!(read(&(whole + "x")).is_err());
    }

    #[test]
    fn an_invalid_snapshot_is_refused_despite_a_valid_checksum() {
        for (good, bad) in [
            ("user#seen|\"", "user#se en|\""),
            ("v2~3", "v2~1"),
            ("v2~3", "v2~x"),
            ("\"int64\"", "\"blob\""),
            ("\"1m\"", "\"0s\""),
            ("\"ttl\":\"1m\"", "\"ttl\":\"1m\",\"keep\":\"newest\""),
            ("\"max_items\":9", "\"max_items\":0"),
            ("\"2h\"", "\"7301d\""),
            ("\"oldest\"", "\"older\""),
            ("\"month\"", "\"hour\""),
            ("\"oldest\"", "\"oldest\",\"bucket\":\"day\""),
            ("\"versions\":3", "\"versions\":4"),
            ("\"versions\":3", "\"versions\":2"),
            ("\"keys\":1", "\"keys\":2"),
            ("\"keys\":1", "\"keys\":0"),
            ("0123456789ab", "0123456789"),
            ("\"revision\":7", "\"revision\":7,\"more\":1"),
        ] {
            let text = TEXT.replacen(good, bad, 1);
            assert_ne!(text, TEXT);
            assert!(matches!(read(&checked(&text)), Err(SnapshotError::Damaged(_))), "{bad}");
        }
        let other = read(&checked(&TEXT.replace("here", "there"))).unwrap_err().to_string();
        assert_eq!(other, "it is for there, but this server uses here");
        assert!(matches!(read(&checked(TEXT).replacen(" 1\n", " 2\n", 1)), Err(SnapshotError::Newer(2))));
        assert!(matches!(read(&checked(TEXT).replacen(" 1\n", " 0\n", 1)), Err(SnapshotError::Damaged(_))));
    }

    #[test]
    fn a_snapshot_is_used_only_before_the_first_read() {
        let catalog = Catalog::default();
        assert!(catalog.publish_stored(read(&checked(TEXT)).unwrap().0));
        assert!(catalog.version("user", "seen", "").is_ok());
        assert_eq!(catalog.begin_reading(), None, "everything is to be read");
        catalog.publish(&Default::default(), Timestamp::MIN);
        assert!(!catalog.publish_stored(read(&checked(TEXT)).unwrap().0));
        assert_eq!(catalog.version("user", "seen", ""), Err(Missing::Feature));
    }
}
