//! Entries that a server could not write are repaired, so that queries find the contents of bags.

use std::time::{Duration, Instant};

use liststore::domain::{EntityId, EntityType, FeatureId, FeatureKey, Generation, ListKey, Ttl, VersionLabel};
use nix::sys::signal::Signal;
use scylla::errors::DbError;
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule};
use serde_json::{Value, json};

use crate::bag_checker;
use crate::cassandra::shared_options;
use crate::forger::{Forger, Sent, of};
use crate::permits::feedback;
use crate::probe::{self, EVERYTHING};
use crate::program::Server;
use crate::servers::{call, environment, ok, ok_soon, text};

/// A server that reaches the cluster through these contact points.
pub fn server(contact_points: &[String]) -> Server {
    server_with(contact_points, &[])
}

/// The same with further settings.
pub fn server_with(contact_points: &[String], others: &[(&'static str, String)]) -> Server {
    let mut environment = environment();
    for (key, value) in &mut environment {
        if *key == "LISTSTORE__ITEMS__CQL__CONTACT_POINTS" {
            *value = contact_points.join(",");
        }
    }
    environment.retain(|(key, _)| *key != "LISTSTORE__LOG__FILTER" && others.iter().all(|(other, _)| other != key));
    environment.extend_from_slice(others);
    let environment: Vec<_> = environment.iter().map(|(key, value)| (*key, value.as_str())).collect();
    Server::start_with(&environment)
}

/// An entity type with an index on each of these servers, which know nothing of each other's definitions.
async fn entity_type_on(servers: &[&Server]) -> String {
    let name = format!("t{}", uuid::Uuid::new_v4().simple());
    for server in servers {
        ok(server, "POST", "/v1/entity-types", &json!({"entity_type": name}));
        let path = format!("/v1/entity-types/{name}/indexes");
        ok(server, "POST", &path, &json!({"name": "by", "properties": ["/a"]}));
        until(async || ok_soon(server, "GET", &format!("{path}/by"), &Value::Null)["state"] == "ready").await;
    }
    name
}

fn found(server: &Server, entity_type: &str, value: u32) -> Vec<String> {
    let path = format!("/v1/entity-types/{entity_type}/indexes/by/entities?value={value}");
    let page = ok_soon(server, "GET", &path, &Value::Null);
    page["entities"].as_array().unwrap().iter().map(|bag| bag["entity_id"].as_str().unwrap().to_owned()).collect()
}

/// The entries of a value.
fn entries(entity_type: &str, value: u32) -> ListKey {
    let id = FeatureId::of_bags(EntityType::new(entity_type).unwrap());
    let key = FeatureKey::new(&id, &VersionLabel::new("by").unwrap(), Generation::FIRST);
    ListKey::new(key, EntityId::new(&format!("[{value}]")).unwrap())
}

/// How many of them are stored.
async fn stored(probe: &probe::Server, entity_type: &str, value: u32) -> usize {
    let list = entries(entity_type, value);
    probe.session.get(&probe.op_with(Ttl::ENDLESS), &list, &EVERYTHING).await.unwrap().items.len()
}

/// Far beyond the promise, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn until(mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "not after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

fn lag(server: &Server) -> f64 {
    let metrics = text(server, "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix("liststore_cleaner_lag_seconds "));
    line.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_could_not_be_written_are_written_soon() {
    let mut forger = Forger::start().await;
    let (one, two) = (server(&forger.options.contact_points), server(&shared_options().contact_points));
    let probe = probe::Server::open(shared_options()).await;
    let entity_type = entity_type_on(&[&one, &two]).await;
    let bag = format!("/v1/entities/{entity_type}/e-1");
    ok(&one, "PUT", &bag, &json!({"a": 1}));
    assert_eq!((found(&two, &entity_type, 1), stored(&probe, &entity_type, 1).await), (vec!["e-1".to_owned()], 1));
    // Removals of entries succeed, and additions fail.
    forger.on_requests(vec![RequestRule(of(Sent::Add), RequestReaction::forge_with_error(DbError::Unauthorized))]);
    let (status, answer) = call(&one, "PUT", &bag, &json!({"a": 2}));
    assert!(status >= 500 && answer["outcome_unknown"] == true, "{status} {answer}");
    assert_eq!(ok(&two, "GET", &bag, &Value::Null)["properties"], json!({"a": 2}), "the bag stands");
    assert!(found(&two, &entity_type, 1).is_empty());
    until(async || lag(&one) > 0.0).await;
    forger.heal();
    let took = until(async || found(&two, &entity_type, 2) == ["e-1"]).await;
    until(async || stored(&probe, &entity_type, 1).await == 0).await;
    assert_eq!(stored(&probe, &entity_type, 2).await, 1);
    until(async || lag(&one) == 0.0).await;
    eprintln!("found {took:.1?} after entries were taken again");
}

/// A server that dies between a bag and its entries leaves a note of it, which another server finds.
#[tokio::test(flavor = "multi_thread")]
async fn bags_of_a_dead_server_are_repaired_by_another() {
    let mut forger = Forger::start().await;
    let patient = [("LISTSTORE__ITEMS__OPERATION_TIMEOUT_MS", "30000".to_owned())];
    let dies = server_with(&forger.options.contact_points, &patient);
    let stays = server(&shared_options().contact_points);
    let probe = probe::Server::open(shared_options()).await;
    let entity_type = entity_type_on(&[&dies, &stays]).await;
    let bag = format!("/v1/entities/{entity_type}/e-1");
    ok(&dies, "PUT", &bag, &json!({"a": 1}));
    // Additions of entries get no answer.
    let (met, mut meetings) = feedback();
    let lost = RequestReaction::drop_frame().with_feedback_when_performed(met);
    forger.on_requests(vec![RequestRule(of(Sent::Add), lost)]);
    let (address, path) = (dies.address().to_owned(), bag.clone());
    let writing = std::thread::spawn(move || bag_checker::call(&address, "PUT", &path, &json!({"a": 2})));
    until(async || ok_soon(&stays, "GET", &bag, &Value::Null)["properties"] == json!({"a": 2})).await;
    tokio::time::timeout(PATIENCE, meetings.recv()).await.expect("its entry is never sent");
    dies.end(Signal::SIGKILL);
    assert!(writing.join().unwrap().is_none(), "it died before it could answer");
    let took = until(async || found(&stays, &entity_type, 2) == ["e-1"]).await;
    eprintln!("found {took:.1?} after its server has died");
    until(async || stored(&probe, &entity_type, 1).await == 0).await;
    assert_eq!(stored(&probe, &entity_type, 2).await, 1);
}

/// A noted swap may be made after the note is found. The note must not be deleted before.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_swap_of_a_dead_server_is_repaired() {
    let mut forger = Forger::start().await;
    let patient = [("LISTSTORE__ITEMS__OPERATION_TIMEOUT_MS", "30000".to_owned())];
    let dies = server_with(&forger.options.contact_points, &patient);
    let stays = server(&shared_options().contact_points);
    let probe = probe::Server::open(shared_options()).await;
    let entity_type = entity_type_on(&[&dies, &stays]).await;
    let bag = format!("/v1/entities/{entity_type}/e-1");
    let late = Condition::BodyContainsCaseSensitive(b"a-late-one"[..].into());
    forger.on_requests(vec![
        RequestRule(late, RequestReaction::delay(Duration::from_secs(5))),
        RequestRule(of(Sent::Add), RequestReaction::drop_frame()),
    ]);
    let (address, path) = (dies.address().to_owned(), bag.clone());
    let late = json!({"a": 2, "b": "a-late-one"});
    let writing = std::thread::spawn(move || bag_checker::call(&address, "PUT", &path, &late));
    until(async || call(&stays, "GET", &bag, &Value::Null).0 == 200).await;
    dies.end(Signal::SIGKILL);
    assert!(writing.join().unwrap().is_none(), "it died before it could answer");
    let took = until(async || found(&stays, &entity_type, 2) == ["e-1"]).await;
    eprintln!("found {took:.1?} after its server has died");
    assert_eq!(stored(&probe, &entity_type, 2).await, 1);
}

/// A cleaning job once checked no entry on a cluster, because it mistook their lists for lists in buckets.
#[tokio::test(flavor = "multi_thread")]
async fn a_cleaning_removes_stale_entries_and_counts_the_rest() {
    let server = server(&shared_options().contact_points);
    let probe = probe::Server::open(shared_options()).await;
    let entity_type = entity_type_on(&[&server]).await;
    for n in 0..5 {
        ok(&server, "PUT", &format!("/v1/entities/{entity_type}/e-{n}"), &json!({"a": n % 2}));
    }
    probe.add(&entries(&entity_type, 1), &[(probe::now(), b"nobody")]).await;
    assert_eq!(stored(&probe, &entity_type, 1).await, 3);
    let asked = ok(&server, "POST", &format!("/v1/entity-types/{entity_type}/clean"), &json!({}));
    let job = format!("/v1/jobs/{}", asked["id"].as_str().unwrap());
    until(async || ok_soon(&server, "GET", &job, &Value::Null)["state"] == "done").await;
    let done = ok(&server, "GET", &job, &Value::Null);
    assert_eq!((&done["entries"], &done["entries_removed"], &done["entries_added"]), (&json!(5), &json!(1), &json!(0)));
    assert_eq!(stored(&probe, &entity_type, 1).await, 2);
}
