//! Two real servers on one Postgres, and what callers of lists notice when that goes away: nothing.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::callers::{Load, Told, ask};
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
fn lists_go_on_while_postgres_is_away() {
    let postgres = postgres::Server::start();
    let environment =
        [("LISTSTORE__METADATA__STORE", "postgres"), ("LISTSTORE__METADATA__POSTGRES__URL", postgres.url.as_str())];
    let migrated = liststore(&["migrate"]).envs(environment).output().unwrap();
    assert!(migrated.status.success(), "{migrated:?}");
    let servers = [Server::start_with(&environment), Server::start_with(&environment)];
    let [one, other] = [servers[0].address(), servers[1].address()];

    // What one server creates, the other one knows.
    assert_eq!(create(one, "seen").0, 201);
    ask(other, "GET", &path(0), "").expect(200);
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
    for (address, name) in [(one, "back-1"), (other, "back-2")] {
        until("changes are taken again", RECOVERY, || create(address, name).0 == 201);
    }
    until("both servers know everything", RECOVERY, || {
        let known =
            |address, name| ask(address, "GET", &format!("/v1/lists/customer/{name}/c/items"), "").status == 200;
        known(one, "back-2") && known(other, "back-1")
    });
    for Told { added, gets, wrong, cut_at, .. } in loads.into_iter().flat_map(Load::end) {
        assert!(wrong.is_empty() && cut_at.is_none(), "{wrong:?}");
        assert!(added.len() > 10 && gets > 10);
    }
    for server in servers {
        let (status, log, _) = server.end(Signal::SIGTERM);
        assert_eq!(status, Some(0), "{log}");
    }
}
