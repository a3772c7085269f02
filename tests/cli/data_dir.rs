//! A data directory is one unit. Without one of its parts, or with a part of another directory, either a server refuses
//! to start and names the part, or no data is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use liststore::definition::VersionProperties;
use liststore::domain::{
    Author, Description, EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Labels, ListKey,
    NewItem, Owner, SystemClock, Timestamp, Ttl, ValueType, VersionLabel,
};
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore};
use liststore::items::{ItemStore, OpContext};
use liststore::metadata::{Calls, ChangeContext, NewFeature};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::program::{Server, run};

const LISTS: [&str; 3] = ["c-1", "c-2", "c-3"];
/// A small cache, so that there are data files.
const SMALL: [(&str, &str); 1] = [("LISTSTORE__ITEMS__EMBEDDED__CACHE_BYTES", "4 MiB")];
const ELSEWHERE: [(&str, &str); 2] = [SMALL[0], ("LISTSTORE__METADATA__STORE", "memory")];

/// Fills a new data directory with values that begin with a letter, and ends its server.
fn filled(letter: &str, by: Signal) -> TempDir {
    let server = Server::start_with(&SMALL);
    server.feature("seen", "string");
    for list in LISTS {
        for n in 0..4 {
            let value = format!("{letter}{n}{}", "x".repeat(60_000));
            let timestamp = format!("2026-01-01T00:00:0{n}Z");
            server.ok(&["list", "add", "customer", "seen", list, "--value", &value, "--timestamp", &timestamp]);
        }
    }
    let data_files = || names(&server.dir.path().join("data/items")).iter().any(|name| name.ends_with(".items"));
    while !data_files() {
        server.ok(&["list", "add", "customer", "seen", "other", "--value", &"y".repeat(60_000)]);
    }
    server.ok(&["list", "add", "customer", "seen", "c-1", "--value", letter, "--timestamp", "2026-01-02T00:00:00Z"]);
    server.end(by).2
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The relevant entries of a data directory, including the directory itself.
fn entries(data: &Path) -> Vec<PathBuf> {
    let top = names(data).into_iter().map(PathBuf::from);
    let below = names(&data.join("items")).into_iter().map(|name| Path::new("items").join(name));
    let mut entries: Vec<_> = top.chain(below).filter(|entry| !is_socket(&data.join(entry))).collect();
    entries.sort();
    entries
}

fn is_socket(path: &Path) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&fs::symlink_metadata(path).unwrap().file_type())
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        names(from).iter().filter(|name| !is_socket(&from.join(name))).for_each(|n| copy(&from.join(n), &to.join(n)));
    } else {
        fs::copy(from, to).unwrap();
    }
}

fn copy_of(dir: &TempDir) -> TempDir {
    let other = TempDir::new().unwrap();
    copy(&dir.path().join("data"), &other.path().join("data"));
    other
}

fn remove(path: &Path) {
    if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
}

/// The lists of a server on this directory, or why it does not start or answer.
fn read_lists(dir: TempDir) -> Result<Vec<Vec<String>>, String> {
    let server = Server::try_start_in(dir, &SMALL)?;
    let mut lists = Vec::new();
    for list in LISTS {
        let finished = server.run(&["list", "get", "customer", "seen", list, "--all", "-o", "ndjson"]);
        if finished.status != 0 {
            return Err(finished.err);
        }
        lists.push(finished.out.lines().map(str::to_owned).collect());
    }
    Ok(lists)
}

/// Whether a refusal names a file, or its directory.
fn names_it(refusal: &str, entry: &Path) -> bool {
    let file = entry.file_name().unwrap().to_str().unwrap();
    refusal.contains(file) || (entry.starts_with("items") && refusal.contains("data/items"))
}

#[test]
fn a_directory_without_one_of_its_parts_is_refused_by_name_or_has_lost_nothing() {
    for by in [Signal::SIGTERM, Signal::SIGKILL] {
        let dir = filled("a", by);
        let truth = read_lists(copy_of(&dir)).unwrap();
        assert!(truth.iter().all(|list| list.len() >= 4));
        let mut refused = Vec::new();
        for entry in entries(&dir.path().join("data")) {
            let broken = copy_of(&dir);
            remove(&broken.path().join("data").join(&entry));
            match read_lists(broken) {
                Ok(reported) => assert!(reported == truth, "{} is missing, and so are items", entry.display()),
                Err(refusal) => {
                    assert!(names_it(&refusal, &entry), "{}: {refusal}", entry.display());
                    refused.push(entry);
                }
            }
        }
        for part in ["items", "metadata.redb", "items/FORMAT", "items/MANIFEST"] {
            assert!(refused.contains(&PathBuf::from(part)), "{part} is not missed: {refused:?}");
        }
    }
}

#[test]
fn a_part_of_another_directory_is_refused_by_name() {
    let (ours, theirs) = (filled("a", Signal::SIGTERM), filled("b", Signal::SIGTERM));
    let truth = read_lists(copy_of(&ours)).unwrap();
    let (data, other) = (ours.path().join("data"), theirs.path().join("data"));
    let mut refused = 0;
    for entry in entries(&data).iter().filter(|entry| other.join(entry).exists()) {
        let mixed = copy_of(&ours);
        let place = mixed.path().join("data").join(entry);
        remove(&place);
        copy(&other.join(entry), &place);
        let checked = run(&["check", "--dir", mixed.path().join("data").to_str().unwrap()]);
        match read_lists(mixed) {
            Ok(reported) => {
                assert!(reported == truth, "{} of another directory changes what is reported", entry.display())
            }
            Err(refusal) => {
                let by_name = names_it(&refusal, entry) || refusal.contains("belongs to");
                assert!(by_name, "{}: {refusal}", entry.display());
                assert_eq!(checked.status, 1, "{}: {checked:?}", entry.display());
                refused += 1;
            }
        }
    }
    // Both planes, the directory's own file, the manifest, segments and data files.
    assert!(refused >= 6, "{refused}");
}

#[test]
fn a_check_creates_nothing_and_reports_the_parts_a_start_would_miss() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("deep/data");
    let check = |data: &Path| run(&["check", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    let finished = check(&data).ok();
    assert!(finished.contains(": empty"), "{finished}");
    assert!(!dir.path().join("deep").exists());
    let dir = filled("a", Signal::SIGTERM);
    let data = dir.path().join("data");
    let before = entries(&data);
    check(&data).ok();
    assert_eq!(entries(&data), before);
    for part in ["metadata.redb", "items"] {
        let broken = copy_of(&dir);
        let data = broken.path().join("data");
        remove(&data.join(part));
        for finished in [check(&data), run(&["check", "--dir", data.to_str().unwrap()])] {
            assert_eq!(finished.status, 1, "{part}: {finished:?}");
            assert!(finished.out.contains(part), "{part}: {finished:?}");
        }
        assert!(!data.join(part).exists());
    }
}

#[test]
fn with_definitions_elsewhere_only_missing_items_are_reported() {
    let server = Server::start_with(&ELSEWHERE);
    server.feature("seen", "string");
    server.ok(&["list", "add", "customer", "seen", "c-1", "--value", "x"]);
    let dir = server.end(Signal::SIGTERM).2;
    let data = dir.path().join("data");
    assert!(!data.join("metadata.redb").exists());
    run(&["check", "--dir", data.to_str().unwrap()]).ok();
    let broken = copy_of(&dir);
    remove(&broken.path().join("data/items"));
    let refusal = Server::try_start_in(broken, &ELSEWHERE).err().unwrap();
    assert!(refusal.contains("data/items is missing"), "{refusal}");
    // Definitions may be added here later.
    let (_, _, dir) = Server::try_start_in(dir, &SMALL).unwrap().end(Signal::SIGTERM);
    remove(&dir.path().join("data/metadata.redb"));
    let refusal = Server::try_start_in(dir, &SMALL).err().unwrap();
    assert!(refusal.contains("metadata.redb is missing"), "{refusal}");
}

/// As with items in a cluster.
#[test]
fn with_items_elsewhere_only_missing_definitions_are_reported() {
    let elsewhere = [("LISTSTORE__ITEMS__STORE", "memory")];
    let server = Server::start_with(&elsewhere);
    server.feature("seen", "string");
    let dir = server.end(Signal::SIGKILL).2;
    assert!(!dir.path().join("data/items").exists());
    let (_, _, dir) = Server::try_start_in(dir, &elsewhere).unwrap().end(Signal::SIGTERM);
    remove(&dir.path().join("data/metadata.redb"));
    let refusal = Server::try_start_in(dir, &elsewhere).err().unwrap();
    assert!(refusal.contains("metadata.redb is missing"), "{refusal}");
}

#[test]
fn a_backup_is_a_directory_of_its_store() {
    let server = Server::start_with(&SMALL);
    server.feature("seen", "string");
    server.ok(&["list", "add", "customer", "seen", "c-1", "--value", "x"]);
    let backup = TempDir::new().unwrap();
    server.ok(&["backup", "--data-dir", "data", backup.path().join("data").to_str().unwrap()]);
    let dir = server.end(Signal::SIGTERM).2;
    let id = |dir: &TempDir| fs::read_to_string(dir.path().join("data/STORE")).unwrap();
    assert_eq!(id(&backup), id(&dir));
    let broken = copy_of(&backup);
    remove(&broken.path().join("data/metadata.redb"));
    let finished = run(&["check", "--dir", broken.path().join("data").to_str().unwrap()]);
    assert!(finished.status == 1 && finished.out.contains("metadata.redb is missing"), "{finished:?}");
    let refusal = Server::try_start_in(broken, &SMALL).err().unwrap();
    assert!(refusal.contains("metadata.redb is missing"), "{refusal}");
    assert_eq!(Server::try_start_in(backup, &SMALL).unwrap().items("seen", "c-1").len(), 1);
}

/// A directory from the last release without store IDs.
fn of_an_earlier_release() -> TempDir {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let id = FeatureId { entity_type: EntityType::new("customer").unwrap(), name: FeatureName::new("seen").unwrap() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let new = NewFeature {
            id: id.clone(),
            value_type: ValueType::String,
            properties: VersionProperties {
                ttl: Ttl::from_secs(86_400 * 7_300).unwrap(),
                ..VersionProperties::default()
            },
            description: Description::default(),
            owner: Owner::default(),
            labels: Labels::new(std::collections::BTreeMap::new()).unwrap(),
        };
        let context = ChangeContext { by: Author::anonymous(), at: Timestamp::MIN };
        liststore::metadata::embedded::open(&data).unwrap().create_feature(new, context).await.unwrap();
        let options = EmbeddedOptions { cache_bytes: 4 << 20, ..EmbeddedOptions::new(&data) };
        let registry = prometheus::Registry::new();
        let store = EmbeddedStore::open(options, std::sync::Arc::new(SystemClock), &registry).unwrap();
        let session = store.open_session().await.unwrap();
        for round in 0..3 {
            for list in LISTS {
                let feature = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
                let key = ListKey::new(feature, EntityId::new(list).unwrap());
                let timestamp = Timestamp::from_nanos(1_760_000_000_000_000_000 + round).unwrap();
                let ttl = Ttl::from_secs(86_400 * 7_300).unwrap();
                let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
                let op = OpContext::new(timestamp, ttl, deadline);
                let item = NewItem {
                    timestamp,
                    value: bytes::Bytes::from_static(b"old"),
                    expires_at: ttl.expiry_of(timestamp),
                };
                session.add(&op, &key, vec![item]).await.unwrap();
            }
            if round == 0 {
                store.flush().unwrap();
            }
        }
        drop(session);
        store.close().await.unwrap();
    });
    fs::write(data.join("items/FORMAT"), "liststore items 1\n").unwrap();
    fs::remove_file(data.join("items/DURABLE")).unwrap();
    dir
}

#[test]
fn a_directory_of_an_earlier_release_becomes_a_store_and_keeps_everything() {
    let dir = of_an_earlier_release();
    let read = |dir: TempDir| {
        let server = Server::try_start_in(dir, &SMALL).unwrap();
        let items = LISTS.map(|list| server.items("seen", list).len());
        (items, server.end(Signal::SIGTERM).2)
    };
    run(&["check", "--dir", dir.path().join("data").to_str().unwrap()]).ok();
    // The next release accepts them as a store with a missing part.
    for part in ["metadata.redb", "items"] {
        let broken = copy_of(&dir);
        remove(&broken.path().join("data").join(part));
        let refusal = Server::try_start_in(broken, &SMALL).err().unwrap();
        assert!(refusal.contains(part) && refusal.contains("is missing"), "{refusal}");
    }
    let (items, dir) = read(dir);
    assert_eq!(items, [3; 3]);
    assert_eq!(fs::read_to_string(dir.path().join("data/items/FORMAT")).unwrap(), "liststore items 1\n");
    let before = fs::read_to_string(dir.path().join("data/STORE")).unwrap();
    let (items, dir) = read(dir);
    assert_eq!(items, [3; 3]);
    assert_eq!(fs::read_to_string(dir.path().join("data/STORE")).unwrap(), before);
    for part in ["metadata.redb", "items"] {
        // A part that never belonged to it stays foreign.
        let mixed = copy_of(&dir);
        let (place, other) = (mixed.path().join("data").join(part), of_an_earlier_release());
        remove(&place);
        copy(&other.path().join("data").join(part), &place);
        let refusal = Server::try_start_in(mixed, &SMALL).err().unwrap();
        assert!(refusal.contains(part) && refusal.contains("belongs to no store yet"), "{refusal}");
    }
}

/// The mode of each directory and file below a directory, and of the directory itself.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let found = fs::symlink_metadata(path).unwrap();
    let mut modes = vec![(path.to_owned(), found.permissions().mode() & 0o777)];
    if found.is_dir() {
        names(path).iter().for_each(|name| modes.extend(self::modes(&path.join(name))));
    }
    modes
}

#[track_caller]
fn is_private(dir: &Path) {
    for (path, mode) in modes(dir) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{} has mode {mode:o}", path.display());
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_data_directory_and_its_backups_are_closed_to_other_users() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    chmod(&data, 0o2775);
    let server = Server::start_in(dir, "127.0.0.1:0", &SMALL);
    server.feature("seen", "string");
    for n in 0..40 {
        let timestamp = format!("2026-01-01T00:00:{n:02}Z");
        let value = format!("{n}{}", "x".repeat(60_000));
        server.ok(&["list", "add", "customer", "seen", "c", "--value", &value, "--timestamp", &timestamp]);
    }
    is_private(&data);
    let backup = server.dir.path().join("backup");
    server.ok(&["backup", backup.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
    is_private(&backup);
    let (_, _, dir) = server.end(Signal::SIGKILL);
    for (path, _) in modes(&data).into_iter().filter(|(path, _)| !is_socket(path)) {
        chmod(&path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    let server = Server::start_in(dir, "127.0.0.1:0", &SMALL);
    is_private(&data);
    assert_eq!(server.items("seen", "c").len(), 40);
}

#[test]
fn an_open_directory_with_other_files_is_refused_unchanged() {
    for (mode, file, why) in [(0o1777, None, "shared by them"), (0o755, Some("notes.txt"), "files of another program")]
    {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        file.iter().for_each(|name| fs::write(data.join(name), "mine").unwrap());
        chmod(&data, mode);
        let refusal = Server::try_start_in(dir, &[]).map(|_| ()).unwrap_err();
        assert!(refusal.contains(why) && refusal.contains(&format!("{mode:o}")), "{refusal}");
    }
    // The root of a new file system.
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    fs::create_dir_all(data.join("lost+found")).unwrap();
    chmod(&data, 0o755);
    let server = Server::try_start_in(dir, &[]).unwrap();
    assert_eq!(fs::metadata(server.dir.path().join("data")).unwrap().permissions().mode() & 0o777, 0o700);
}
