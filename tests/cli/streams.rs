//! Backups that leave the machine as tar archives, and their restore.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backup::{data_in, run_command, text};
use crate::callers::ask;
use crate::program::{Server, run};

/// A server with an item, whose data directory is in its directory.
fn server() -> Server {
    let server = Server::start();
    server.feature("seen", "string");
    server.ok(&["list", "add", "customer", "seen", "c-1", "--value", "story-9"]);
    server
}

fn stream(server: &Server, arguments: &[&str]) -> std::process::Output {
    let dir = data_in(&server.dir);
    server.command(&[&["backup", "--stream", "--data-dir", text(&dir)], arguments].concat()).output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn backup_age(server: &Server) -> f64 {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let age = metrics.lines().find_map(|line| line.strip_prefix("liststore_backup_age_seconds "));
    age.unwrap_or_else(|| panic!("no age in {metrics}")).parse().unwrap()
}

#[test]
fn a_server_starts_on_a_streamed_backup() {
    let server = server();
    let sent = stream(&server, &[]);
    assert!(sent.status.success(), "{sent:?}");
    assert!(String::from_utf8_lossy(&sent.stderr).contains("metadata  included"), "{:?}", sent.stderr);
    assert_eq!(names(&data_in(&server.dir).join("outgoing")), [] as [String; 0], "nothing is left on the volume");
    let place = TempDir::new().unwrap();
    let archive = place.path().join("monday.tar");
    std::fs::write(&archive, &sent.stdout).unwrap();
    drop(server);

    // An archive that is cut becomes no store, and the next attempt needs no help.
    let dir = TempDir::new().unwrap();
    let (data, cut) = (data_in(&dir), place.path().join("cut.tar"));
    std::fs::write(&cut, &sent.stdout[..sent.stdout.len() / 2]).unwrap();
    run(&["restore", text(&cut), "--data-dir", text(&data)]).failed(1);
    assert_eq!(names(&data), ["LOCK"]);
    std::fs::create_dir_all(data.join("restoring/items")).unwrap();
    std::fs::create_dir_all(data.join("items")).unwrap();
    let reported = run(&["restore", text(&archive), "--data-dir", text(&data)]).ok();
    assert!(reported.contains("the backup is whole\nrestored "), "{reported}");
    let reported = run(&["restore", text(&archive), "--data-dir", text(&data)]).failed(1);
    assert!(reported.contains("is not empty"), "{reported}");
    // A store stays in its place until there is a backup to take it.
    let notes = place.path().join("notes.tar");
    std::fs::write(&notes, "x").unwrap();
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (from, problem) in [
        (place.path().join("missing.tar"), "cannot open"),
        (notes, "is no backup"),
        (empty, "is no backup"),
        (data.clone(), "is in the data directory"),
    ] {
        let reported = run(&["restore", text(&from), "--data-dir", text(&data), "--set-aside"]).failed(1);
        assert!(reported.contains(problem), "{reported}");
    }
    assert_eq!(names(dir.path()), ["data"]);
    let finished = run(&["restore", text(&archive), "--data-dir", text(&data), "--set-aside"]);
    assert!(finished.status == 0 && finished.err.contains("the former store is in"), "{finished:?}");
    let aside = names(dir.path()).into_iter().find(|name| name.starts_with("data.replaced-")).unwrap();
    run(&["check", "--dir", text(&dir.path().join(aside))]).ok();
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    assert_eq!(server.items("seen", "c-1").len(), 1);
    let reported = run(&["restore", text(&archive), "--data-dir", text(&data_in(&server.dir))]).failed(1);
    assert!(reported.contains("is in use"), "{reported}");
}

#[test]
fn a_folder_keeps_the_newest_backups_and_the_newest_of_them_is_restored() {
    let server = server();
    let place = TempDir::new().unwrap();
    let folder = place.path().join("backups");
    std::fs::create_dir(&folder).unwrap();
    for old in ["liststore-20260102T030405Z.tar", "liststore-20260102T030406Z.tar", "liststore-notes"] {
        std::fs::write(folder.join(old), "old").unwrap();
    }
    let made = stream(&server, &[text(&folder), "--keep", "2", "-o", "json"]);
    let reported: Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{made:?}"));
    assert_eq!(reported["definitions"], json!(true));
    let kept = names(&folder);
    assert_eq!((kept.len(), kept[0].as_str()), (3, "liststore-20260102T030406Z.tar"), "{kept:?}");
    assert!(backup_age(&server) < 60.0);

    let dir = TempDir::new().unwrap();
    // A key that was created since is revoked by the former trail, and an entity is erased.
    let trail = place.path().join("trail.ndjson");
    ask(server.address(), "DELETE", "/v1/entities/customer/c-1", "").expect(200);
    std::fs::write(&trail, server.ok(&["audit", "-o", "ndjson"])).unwrap();
    drop(server);
    let ahead = folder.join("liststore-29991231T000000Z.tar");
    std::fs::copy(folder.join(&kept[1]), &ahead).unwrap();
    let reported = run(&["restore", text(&folder), "--data-dir", text(&data_in(&dir))]).failed(1);
    assert!(reported.contains("liststore-29991231T000000Z.tar has a time ahead of the clock"), "{reported}");
    std::fs::remove_file(ahead).unwrap();
    let data = data_in(&dir);
    let restore = ["restore", text(&folder), "--data-dir", text(&data), "--replay"];
    // A trail that repeats nothing would bring the entity back.
    for (content, expected) in [("", "has no entries"), ("{}", "line 1: missing field"), ("liststore", "line 1:")] {
        let other = place.path().join("other.ndjson");
        std::fs::write(&other, content).unwrap();
        let reported = run(&[&restore[..], &[text(&other)]].concat()).failed(1);
        assert!(reported.contains(expected) && reported.contains("audit -o ndjson"), "{reported}");
    }
    run(&[&restore[..], &[text(&trail)]].concat()).ok();
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    assert_eq!(server.items("seen", "c-1").len(), 0, "the erasure is repeated");
}

#[test]
fn directories_in_a_folder_are_kept_by_number_too() {
    let server = server();
    let place = TempDir::new().unwrap();
    let folder = place.path().join("new/backups");
    let data = data_in(&server.dir);
    let keep = ["backup", text(&folder), "--keep", "1", "--data-dir", text(&data)];
    // Backups of one second have different names, and each is newer than the one before.
    let mut before = String::new();
    for _ in 0..4 {
        run_command(&mut server.command(&keep)).ok();
        let [name] = <[String; 1]>::try_from(names(&folder)).unwrap();
        assert!(name > before, "{name} after {before}");
        before = name;
    }
    for _ in 0..2 {
        let made = stream(&server, &[text(&folder), "--keep", "3"]);
        assert!(made.status.success(), "{made:?}");
    }
    let kept = names(&folder);
    assert!(kept.len() == 3 && kept.is_sorted() && kept[0] == before, "{kept:?}");
    assert!(kept[1..].iter().all(|name| name.ends_with(".tar")), "{kept:?}");
    run_command(&mut server.command(&keep)).ok();
    let checked = run(&["check", "--dir", text(&folder.join(&names(&folder)[0]))]).ok();
    assert!(checked.ends_with(" is whole\n"), "{checked}");
}

#[test]
fn a_folder_with_one_backup_of_another_name_is_restored_and_several_are_named() {
    let server = server();
    let place = TempDir::new().unwrap();
    let folder = place.path().join("backups");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("notes"), "x").unwrap();
    let data = data_in(&server.dir);
    let restored = |to: &str| {
        let to = place.path().join(to);
        run(&["restore", text(&folder), "--data-dir", text(&to)])
    };
    assert!(restored("none").failed(1).contains("is no backup, and has none"));
    run_command(&mut server.command(&["backup", text(&folder.join("monday")), "--data-dir", text(&data)])).ok();
    let reported = restored("one").ok();
    assert!(reported.contains("restored ") && reported.contains("backups/monday: start liststore serve"), "{reported}");
    // Data directories in the folder are no backups.
    for _ in 0..3 {
        let finished = run(&["restore", text(&folder), "--data-dir", text(&folder.join("data")), "--set-aside"]);
        assert!(finished.status == 0 && finished.out.contains("backups/monday: start"), "{finished:?}");
    }
    std::fs::remove_dir_all(folder.join("data")).unwrap();
    std::fs::write(folder.join("tuesday.tar"), stream(&server, &[]).stdout).unwrap();
    let reported = restored("several").failed(1);
    assert!(reported.contains("name one of") && reported.contains("backups/monday, "), "{reported}");
    assert!(reported.contains("backups/tuesday.tar"), "{reported}");
}

#[test]
fn a_backup_into_a_closed_pipe_fails() {
    let server = server();
    let data = data_in(&server.dir);
    let mut command = server.command(&["backup", "--stream", "--data-dir", text(&data)]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = command.stdout(writer).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot write the archive"), "{ended:?}");
}
