//! Concurrent definitions by several callers, on a server that is killed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::callers::{Caller, ask};
use crate::program::Server;

const CALLERS: usize = 8;
const ROUNDS: usize = 3;
/// Definitions that are acknowledged before the server is killed.
const BEFORE_THE_KILL: usize = 60;

/// Creates features until the server closes the connection. Returns the acknowledged ones.
fn create(address: &str, prefix: &str, count: &AtomicUsize) -> Vec<String> {
    let mut caller = Caller::connect(address);
    let mut made = Vec::new();
    loop {
        let name = format!("{prefix}_{}", made.len());
        let body = json!({"entity_type": "customer", "name": name, "value_type": "string", "ttl": "1d"}).to_string();
        let Some(answer) = caller.ask("POST", "/v1/features", &body) else { return made };
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        made.push(name);
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// All names in a listing, page by page.
fn names(server: &Server, path: &str, field: &str, name: impl Fn(&serde_json::Value) -> String) -> Vec<String> {
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = ask(server.address(), "GET", &format!("{path}page_size=1000{token}"), "").expect(200);
        found.extend(page[field].as_array().unwrap().iter().map(&name));
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => return found,
        }
    }
}

#[test]
fn changes_acknowledged_to_several_callers_survive_a_kill() {
    let mut server = Server::start();
    let mut acknowledged = BTreeSet::new();
    for round in 0..ROUNDS {
        let (count, address) = (AtomicUsize::new(0), server.address().to_owned());
        std::thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let (count, address) = (&count, &address);
                    scope.spawn(move || create(address, &format!("r{round}_c{caller}"), count))
                })
                .collect();
            while count.load(Ordering::SeqCst) < BEFORE_THE_KILL {
                std::thread::yield_now();
            }
            server.signal(Signal::SIGKILL);
            acknowledged.extend(callers.into_iter().flat_map(|caller| caller.join().unwrap()));
        });
        let (.., dir) = server.end(Signal::SIGKILL);
        server = Server::start_in(dir, "127.0.0.1:0", &[]);
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let there = names(&server, "/v1/features?", "features", |feature| text(&feature["name"]));
        let there: BTreeSet<_> = there.into_iter().collect();
        assert!(acknowledged.is_subset(&there), "lost: {:?}", acknowledged.difference(&there).collect::<Vec<_>>());
        // Each caller had at most one more in flight.
        assert!(there.len() <= acknowledged.len() + (round + 1) * CALLERS, "{}", there.len());
        let audited = names(&server, "/v1/audit?", "changes", |change| text(&change["target"]));
        assert_eq!(audited.len(), there.len(), "each has its entry in the audit trail");
    }
}
