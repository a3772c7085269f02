//! Real servers on a Postgres. Callers of lists notice nothing when it becomes unavailable, even before a server
//! starts.

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::callers::{Load, Reported, ask};
use crate::ports::free_port;
use crate::postgres;
use crate::program::{Server, liststore};

const CALLERS: usize = 4;
const RECOVERY: Duration = Duration::from_secs(60);

fn path(number: usize) -> String {
    format!("/v1/lists/customer/seen/c-{number}/items")
}

fn create(address: &str, name: &str) -> (u16, Value) {
    let body = format!(r#"{{"entity_type":"customer","name":"{name}","value_type":"string","ttl":"7300d"}}"#);
    let answer = ask(address, "POST", "/v1/features", &body);
    (answer.status, answer.body)
}

fn until(what: &str, at_most: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + at_most;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {at_most:?}");
    }
}

#[test]
fn lists_work_while_postgres_is_unavailable() {
    let postgres = postgres::Server::start();
    let environment =
        [("LISTSTORE__METADATA__STORE", "postgres"), ("LISTSTORE__METADATA__POSTGRES__URL", postgres.url.as_str())];
    let migrated = liststore(&["migrate"]).envs(environment).output().unwrap();
    assert!(migrated.status.success(), "{migrated:?}");
    let servers = [Server::start_with(&environment), Server::start_with(&environment)];
    let [one, other] = [servers[0].address(), servers[1].address()];

    // Each server uses the definitions of the other.
    assert_eq!(create(one, "seen").0, 201);
    // It asks Postgres about unknown definitions, which may take longer than a call waits.
    until("the other one knows it", RECOVERY, || {
        let reported = ask(other, "GET", &path(0), "");
        assert!(matches!(reported.status, 200 | 503 | 504), "{}", reported.body);
        reported.status == 200
    });
    assert_eq!(create(other, "seen").0, 409);

    let loads = [Load::start(one, path, CALLERS), Load::start(other, path, CALLERS)];
    let items = |address: &str| ask(address, "GET", &path(0), "").expect(200)["items"].as_array().unwrap().len();
    until("the load gets going", Duration::from_secs(60), || items(one) > 10 && items(other) > 10);

    postgres.kill();
    for address in [one, other] {
        let began = Instant::now();
        let refused = ask(
            address,
            "POST",
            "/v1/features",
            r#"{"entity_type":"customer","name":"new","value_type":"string","ttl":"1d"}"#,
        );
        assert_eq!((refused.status, &refused.body["code"]), (503, &"metadata_unavailable".into()), "{}", refused.body);
        assert!(refused.header("retry-after").is_some());
        assert!(began.elapsed() < Duration::from_secs(20), "refused after {:?}", began.elapsed());
        let unknown = ask(address, "GET", "/v1/lists/customer/elsewhere/c/items", "");
        assert_eq!((unknown.status, &unknown.body["code"]), (503, &"metadata_unavailable".into()));
        assert_eq!(ask(address, "GET", "/livez", "").status, 200);
        let ready = ask(address, "GET", "/readyz", "").expect(200);
        assert_eq!(ready["checks"]["metadata_store"], "warn", "{ready}");
    }

    postgres.start_again();
    // The report of a completed change may come too late.
    for (address, name) in [(one, "back-1"), (other, "back-2")] {
        until("changes are taken again", RECOVERY, || matches!(create(address, name).0, 201 | 409));
    }
    until("both servers know everything", RECOVERY, || {
        let known =
            |address, name| ask(address, "GET", &format!("/v1/lists/customer/{name}/c/items"), "").status == 200;
        known(one, "back-2") && known(other, "back-1")
    });
    for Reported { added, gets, wrong, cut_at, .. } in loads.into_iter().flat_map(Load::end) {
        assert!(wrong.is_empty() && cut_at.is_none(), "{wrong:?}");
        assert!(added.len() > 10 && gets > 10);
    }
    for server in servers {
        let (status, log, _) = server.end(Signal::SIGTERM);
        assert_eq!(status, Some(0), "{log}");
    }
}

fn metric(address: &str, name: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned()
}

/// A pod that moves while Postgres is unavailable: its volume has the definitions, and its items.
#[test]
fn a_server_that_starts_without_postgres_serves_lists_by_its_copy_of_the_definitions() {
    let postgres = postgres::Server::start();
    let copies = tempfile::tempdir().unwrap();
    let environment = [
        ("LISTSTORE__METADATA__STORE", "postgres"),
        ("LISTSTORE__METADATA__POSTGRES__URL", postgres.url.as_str()),
        ("LISTSTORE__METADATA__SNAPSHOT_DIR", copies.path().to_str().unwrap()),
    ];
    let migrated = liststore(&["migrate"]).envs(environment).output().unwrap();
    assert!(migrated.status.success(), "{migrated:?}");
    let server = Server::start_with(&environment);
    assert_eq!(create(server.address(), "seen").0, 201);
    let item = r#"{"items":[{"timestamp":1767225600000000000,"value":"kept"}]}"#;
    ask(server.address(), "POST", &path(0), item).expect(200);
    let copy = copies.path().join("catalog.snapshot");
    until("the copy has it", RECOVERY, || std::fs::read_to_string(&copy).is_ok_and(|text| text.contains("seen")));
    let (status, log, dir) = server.end(Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");

    postgres.stop();
    let server = Server::start_in(dir, "127.0.0.1:0", &environment);
    let address = server.address();
    let page = ask(address, "GET", &path(0), "").expect(200);
    assert_eq!(page["items"][0]["value"], "kept", "{page}");
    ask(address, "POST", &path(1), item).expect(200);
    let ready = ask(address, "GET", "/readyz", "").expect(200);
    assert_eq!((&ready["status"], &ready["checks"]["catalog"]), (&"warn".into(), &"warn".into()), "{ready}");
    assert!(ready["reasons"]["catalog"].as_str().unwrap().contains("snapshot on disk"), "{ready}");
    until("it says why", RECOVERY, || {
        let ready = ask(address, "GET", "/readyz", "").expect(200);
        ready["reasons"]["metadata_store"].as_str().is_some_and(|reason| reason.contains("connection refused"))
    });
    assert_eq!(metric(address, "liststore_catalog_stored"), "1");
    let unknown = ask(address, "GET", "/v1/lists/customer/elsewhere/c/items", "");
    assert_eq!((unknown.status, &unknown.body["code"]), (503, &"metadata_unavailable".into()), "{}", unknown.body);
    let (refused, why) = create(address, "new");
    assert_eq!((refused, &why["code"]), (503, &"metadata_unavailable".into()), "{why}");
    // A new pod with the volume that all pods share.
    let other = Server::start_with(&environment);
    assert!(ask(other.address(), "GET", &path(0), "").expect(200)["items"].as_array().unwrap().is_empty());
    let (status, log, _) = other.end(Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");

    postgres.start_again();
    until("all is well", RECOVERY, || ask(address, "GET", "/readyz", "").expect(200)["status"] == "pass");
    assert_eq!(metric(address, "liststore_catalog_stored"), "0");
    until("changes are taken again", RECOVERY, || matches!(create(address, "new").0, 201 | 409));
    ask(address, "GET", &path(1), "").expect(200);
    let (status, log, dir) = server.end(Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("definitions snapshot on disk"), "the log says what it serves by: {log}");

    // An incomplete copy is refused: the server runs, and is not ready.
    postgres.stop();
    let text = std::fs::read_to_string(&copy).unwrap();
    std::fs::write(&copy, text.replacen("seen", "sean", 1)).unwrap();
    let listen = format!("127.0.0.1:{}", free_port(Ipv4Addr::LOCALHOST));
    let mut command = liststore(&["serve", "--listen", &listen, "--data-dir", "data"]);
    command.envs(environment).current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    until("it listens", RECOVERY, || std::net::TcpStream::connect(&listen).is_ok());
    until("it says why it is not ready", RECOVERY, || {
        let ready = ask(&listen, "GET", "/readyz", "");
        assert_eq!(ready.status, 503, "{}", ready.body);
        ready.body["reasons"]["metadata_store"].as_str().is_some_and(|reason| reason.contains("connection refused"))
    });
    let lists = ask(&listen, "GET", &path(0), "");
    assert_eq!((lists.status, &lists.body["code"]), (503, &"metadata_unavailable".into()), "{}", lists.body);
    postgres.start_again();
    until("it is ready", RECOVERY, || ask(&listen, "GET", "/readyz", "").status == 200);
    assert_eq!(ask(&listen, "GET", &path(0), "").expect(200)["items"][0]["value"], "kept");
    process.kill().unwrap();
    process.wait().unwrap();
}
