//! A purge of two servers that share a cluster and their definitions: one dies during it, and the other continues;
//! both follow the same commands.

use std::sync::Once;
use std::time::{Duration, Instant};

use liststore::domain::{EntityId, ListKey};
use liststore::items::cql::CqlOptions;
use nix::sys::signal::Signal;
use scylla::errors::DbError;
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule};
use serde_json::{Value, json};

use crate::cassandra::shared_options;
use crate::forger::Forger;
use crate::postgres::Database;
use crate::probe;
use crate::program::{Server, liststore};
use crate::servers::{call, environment, ok};

const LISTS: usize = 240;
/// So slow that it cannot end before the check.
const LISTS_PER_SECOND: usize = 8;
const KEPT: usize = 5;
/// Another server continues within 10 s, but only on an otherwise idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A separate keyspace: a purge walks over the lists of all features, and other tests create many.
const KEYSPACE: &str = "liststore_purges";

fn environment_in_keyspace() -> Vec<(&'static str, String)> {
    let mut environment = environment();
    environment.retain(|(key, _)| *key != "LISTSTORE__LOG__FILTER");
    for (_, value) in environment.iter_mut().filter(|(key, _)| *key == "LISTSTORE__ITEMS__CQL__KEYSPACE") {
        *value = KEYSPACE.to_owned();
    }
    static MIGRATED: Once = Once::new();
    MIGRATED.call_once(|| {
        let migrated = liststore(&["migrate"]).envs(environment.iter().map(|(key, value)| (*key, value))).output();
        let migrated = migrated.unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
    });
    environment
}

fn start(database: &Database) -> Server {
    let mut environment = environment_in_keyspace();
    environment.retain(|(key, _)| *key != "LISTSTORE__METADATA__STORE");
    environment.push(("LISTSTORE__METADATA__STORE", "postgres".to_owned()));
    environment.push(("LISTSTORE__METADATA__POSTGRES__URL", database.url.clone()));
    let environment: Vec<_> = environment.iter().map(|(key, value)| (*key, value.as_str())).collect();
    Server::start_with(&environment)
}

fn items(feature: &str, entity: usize, version: &str) -> String {
    format!("/v1/lists/user/{feature}/u{entity}/items?version={version}")
}

fn fill(server: &Server, feature: &str, lists: usize, version: &str) {
    let now = crate::probe::now().as_nanos();
    for entity in 0..lists {
        let body = json!({"items": [{"timestamp": now - 1, "value": "older"}, {"timestamp": now, "value": "newer"}]});
        assert_eq!(ok(server, "POST", &items(feature, entity, version), &body)["added"], 2);
    }
}

/// How many items the lists of a version show.
fn shown(server: &Server, feature: &str, lists: usize, version: &str) -> usize {
    let of = |entity| ok(server, "GET", &items(feature, entity, version), &Value::Null);
    (0..lists).map(|entity| of(entity)["items"].as_array().unwrap().len()).sum()
}

/// Which entities have lists of a feature's default version.
fn left(server: &Server, feature: &str) -> usize {
    let path = format!("/v1/features/user/{feature}/entities?page_size=1000");
    let (mut found, mut token) = (0, String::new());
    loop {
        let page = ok(server, "GET", &format!("{path}{token}"), &Value::Null);
        found += page["entities"].as_array().unwrap().len();
        let Some(next) = page["next_page_token"].as_str() else { return found };
        token = format!("&page_token={next}");
    }
}

fn job(server: &Server, id: &str) -> Value {
    ok(server, "GET", &format!("/v1/jobs/{id}"), &Value::Null)
}

/// Two features, of which one is being purged on a server: its default version alone.
fn begin(server: &Server) -> (String, String, String) {
    let names = ["purged", "kept"].map(|name| format!("{name}-{}", uuid::Uuid::new_v4().simple()));
    for name in &names {
        let feature = json!({"entity_type": "user", "name": name, "value_type": "string", "ttl": "30d"});
        ok(server, "POST", "/v1/features", &feature);
        ok(server, "POST", &format!("/v1/features/user/{name}/versions"), &json!({"version": "v2"}));
    }
    let [purged, kept] = names;
    fill(server, &purged, LISTS, "");
    fill(server, &purged, KEPT, "v2");
    fill(server, &kept, KEPT, "");
    let body = json!({"version": "", "lists_per_second": LISTS_PER_SECOND});
    let job = ok(server, "POST", &format!("/v1/features/user/{purged}/purge"), &body);
    (purged, kept, job["id"].as_str().unwrap().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own waits, and no arbiter")]
fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until nothing was cleared for longer than a server needs to notice that it has lost a job.
fn wait_until_progress_stops(server: &Server, feature: &str) -> usize {
    let mut seen = (left(server, feature), Instant::now());
    until("it goes on", || {
        let now = left(server, feature);
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        (seen.1.elapsed() > Duration::from_secs(4)).then_some(now)
    })
}

fn assert_only_purged_lists_are_gone(server: &Server, purged: &str, kept: &str) {
    assert_eq!((left(server, purged), shown(server, purged, LISTS, "")), (0, 0), "what should go is there");
    assert_eq!((shown(server, purged, KEPT, "v2"), shown(server, kept, KEPT, "")), (2 * KEPT, 2 * KEPT));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_whose_server_is_killed_is_finished_by_another() {
    let database = Database::migrated().await;
    let one = start(&database);
    let (purged, kept, id) = begin(&one);
    until("it does not begin", || (job(&one, &id)["lists_cleared"].as_u64()? > 0).then_some(()));
    // It finds the job adopted, by a live server.
    let two = start(&database);
    let before = job(&two, &id)["lists_cleared"].as_u64().unwrap();
    until("it stands still", || (job(&two, &id)["lists_cleared"].as_u64()? > before).then_some(()));
    let (_, log, _) = one.end(Signal::SIGKILL);
    let killed = Instant::now();
    assert!(log.contains("job resumed"), "it was not the one that died which was at it: {log}");
    let last = job(&two, &id);
    assert_eq!(last["state"], "running", "{last}");
    let remaining = left(&two, &purged);
    assert!((1..LISTS).contains(&remaining), "{remaining} lists were left when it was killed");
    until("another server adopts it", || (job(&two, &id)["updated_at"] != last["updated_at"]).then_some(()));
    eprintln!("taken over after {:.1?}", killed.elapsed());
    let done = until("it is not finished", || Some(job(&two, &id)).filter(|job| job["state"] == "done"));
    assert_eq!((&done["generations_cleared"], &done["bytes_erased"]), (&json!(1), &json!(false)), "{done}");
    // Lists that were cleared after the last stored state are not counted.
    assert!(done["lists_cleared"].as_u64().unwrap() >= (LISTS - 3 * LISTS_PER_SECOND) as u64, "{done}");
    assert_only_purged_lists_are_gone(&two, &purged, &kept);
    // Later adds stay, on both servers.
    fill(&two, &purged, 1, "");
    let again = start(&database);
    assert_eq!(shown(&again, &purged, LISTS, ""), 2);
    let (_, log, _) = two.end(Signal::SIGTERM);
    assert_eq!(log.matches("job resumed").count(), 1, "{log}");
    assert_eq!(job(&again, &id)["state"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_for_a_purge_apply_on_every_server() {
    let database = Database::migrated().await;
    let (one, two) = (start(&database), start(&database));
    let (purged, kept, id) = begin(&one);
    until("it does not begin", || (left(&two, &purged) < LISTS).then_some(()));
    let command = |server: &Server, command: &str| ok(server, "POST", &format!("/v1/jobs/{id}/{command}"), &json!({}));
    assert_eq!(command(&two, "pause")["state"], "paused");
    let paused_at = wait_until_progress_stops(&two, &purged);
    assert!(paused_at > 0 && job(&one, &id)["state"] == "paused", "{}", job(&one, &id));
    command(&two, "resume");
    until("it does not go on", || (left(&one, &purged) < paused_at).then_some(()));
    assert_eq!(command(&two, "cancel")["state"], "cancelled");
    let cancelled_at = wait_until_progress_stops(&one, &purged);
    assert!(cancelled_at > 0 && job(&one, &id)["state"] == "cancelled", "{}", job(&one, &id));
    let (status, reported) = call(&one, "POST", &format!("/v1/jobs/{id}/resume"), &json!({}));
    assert_eq!((status, &reported["code"]), (409, &json!("job_is_over")), "{reported}");
    // The remaining lists are whole, and another purge removes them.
    assert_eq!(shown(&one, &purged, LISTS, ""), 2 * cancelled_at);
    let job_after = ok(&two, "POST", &format!("/v1/features/user/{purged}/purge"), &json!({"version": ""}));
    let id = job_after["id"].as_str().unwrap();
    until("it is not finished", || (job(&one, id)["state"] == "done").then_some(()));
    assert_only_purged_lists_are_gone(&one, &purged, &kept);
}

/// Deleted partitions are skipped until they are compacted. If too many of them were between two existing ones, a walk
/// once repeated the same request without end.
#[tokio::test(flavor = "multi_thread")]
async fn a_walk_continues_past_too_many_tombstones() {
    environment_in_keyspace();
    let mut forger = Forger::before(CqlOptions { keyspace: KEYSPACE.to_owned(), ..shared_options() }).await;
    let server = probe::Server::open(forger.options.clone()).await;
    let ListKey { feature_key, .. } = probe::fresh_list();
    let mut expected: Vec<_> = (0..20).map(|n| EntityId::new(&format!("u-{n}")).unwrap()).collect();
    for entity in &expected {
        server.add(&ListKey::new(feature_key.clone(), entity.clone()), &[(probe::now(), b"here")]).await;
    }
    // From the first token to the last, each with its length: nothing that is narrower.
    let token = |token: i64| [&8_i32.to_be_bytes()[..], &token.to_be_bytes()].concat();
    let everything = Condition::BodyContainsCaseSensitive([token(i64::MIN), token(i64::MAX)].concat().into());
    let consistency = scylla::statement::Consistency::One;
    let in_vain = DbError::ReadTimeout { consistency, received: 0, required: 1, data_present: false };
    let (met, mut meetings) = crate::permits::feedback();
    let in_vain = RequestReaction::forge_with_error(in_vain).with_feedback_when_performed(met);
    forger.on_requests(vec![RequestRule(everything, in_vain)]);
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let page = server.session.entities(&server.op(), &feature_key, from.as_ref(), 100).await.unwrap();
        found.extend(page.entities);
        assert!(page.next.is_none() || page.next != from, "it does not go on");
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert!(meetings.try_recv().is_ok(), "it never asked for too much");
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}
