//! Swaps of bags that stay noted, because their server lacks an index or dies in between. Other servers find them,
//! regardless of their number.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use bytes::Bytes;
use liststore::domain::{EntityType, FeatureId, FeatureKey, Generation, Ttl, VersionLabel};
use liststore::items::cql::CqlOptions;
use liststore::items::{OpContext, OwnPermits, SwapPage, SwapScan, UnfinishedSwap};
use nix::sys::signal::Signal;
use scylla::errors::DbError;
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule};
use serde_json::{Value, json};

use crate::bag_checker::{Promise, Writer, begin, settle_soon, write_during};
use crate::cassandra::shared_options;
use crate::cleaning::server_with;
use crate::forger::{Forger, Sent, of};
use crate::permits::feedback;
use crate::postgres::{Database, address_of};
use crate::probe;
use crate::program::{Server, liststore};
use crate::proxy::Proxy;
use crate::servers::{call, environment, ok, ok_soon, text};
use crate::takeover::on_postgres;

/// Far beyond the promise, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A separate keyspace, one test after the other: servers of other tests do not know the bags of noted swaps, and
/// would delete the notes.
const KEYSPACE: &str = "liststore_swaps";
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn options() -> CqlOptions {
    static MIGRATED: Once = Once::new();
    MIGRATED.call_once(|| {
        let mut environment = environment();
        environment.retain(|(key, _)| *key != "LISTSTORE__LOG__FILTER");
        environment.extend([keyspace()]);
        assert!(liststore(&["migrate"]).envs(environment).output().unwrap().status.success());
    });
    CqlOptions { keyspace: KEYSPACE.to_owned(), ..shared_options() }
}

fn keyspace() -> (&'static str, String) {
    ("LISTSTORE__ITEMS__CQL__KEYSPACE", KEYSPACE.to_owned())
}

fn server(settings: &[(&'static str, String)]) -> Server {
    server_at(&options().contact_points, settings)
}

fn server_at(contact_points: &[String], settings: &[(&'static str, String)]) -> Server {
    server_with(contact_points, &[settings, &[keyspace()]].concat())
}

fn new_type(server: &Server) -> String {
    let name = format!("t{}", uuid::Uuid::new_v4().simple());
    ok(server, "POST", "/v1/entity-types", &json!({"entity_type": name}));
    name
}

fn bags_of(entity_type: &str) -> FeatureKey {
    let id = FeatureId::of_bags(EntityType::new(entity_type).unwrap());
    FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST)
}

async fn create_index(server: &Server, entity_type: &str, name: &str, property: &str) {
    let path = format!("/v1/entity-types/{entity_type}/indexes");
    ok(server, "POST", &path, &json!({"name": name, "properties": [property]}));
    until(name, async || ok_soon(server, "GET", &format!("{path}/{name}"), &Value::Null)["state"] == "ready").await;
}

fn found(server: &Server, entity_type: &str, index: &str, value: u32) -> Vec<String> {
    let path = format!("/v1/entity-types/{entity_type}/indexes/{index}/entities?value={value}");
    let page = ok_soon(server, "GET", &path, &Value::Null);
    page["entities"].as_array().unwrap().iter().map(|bag| bag["entity_id"].as_str().unwrap().to_owned()).collect()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The time since a server last read the definitions.
fn catalog_age_secs(server: &Server) -> f64 {
    let metrics = text(server, "/metrics");
    let age = metrics.lines().find_map(|line| line.strip_prefix("liststore_catalog_age_seconds "));
    age.unwrap().parse().unwrap()
}

/// How many swaps of bags of a type are noted lately.
async fn noted(probe: &probe::Server, entity_type: &str) -> usize {
    let (mut scan, mut noted) = (SwapScan::default(), 0);
    loop {
        let page =
            probe.session.swap_journal().unwrap().unfinished_swaps(&probe.op_with(Ttl::ENDLESS), scan).await.unwrap();
        noted += page.swaps.iter().filter(|swap| swap.bag.feature_key == bags_of(entity_type)).count();
        scan = page.scan;
        if scan.is_over() {
            return noted;
        }
    }
}

/// It continues with its definitions, and cannot be notified of an index. Other servers enter its writes while it is
/// cut off, and after it was killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_bag_of_a_partitioned_server_is_found_by_an_index_unknown_to_it() {
    let _alone = ALONE.lock().await;
    let database = Database::migrated().await;
    let address = address_of(&database.url);
    let proxy = Proxy::start(address.clone()).await;
    let stays = server(&on_postgres(&database.url));
    let apart = server(&on_postgres(&database.url.replace(&address, &proxy.address.to_string())));
    let probe = probe::Server::open(options()).await;
    let (entity_type, bare) = (new_type(&stays), new_type(&stays));
    create_index(&stays, &entity_type, "known", "/b").await;
    let known = format!("/v1/entity-types/{entity_type}/indexes/known/entities?value=0");
    until("it knows the index", async || call(&apart, "GET", &known, &Value::Null).0 == 200).await;
    let put = |entity_type: &str, entity: &str, value: u32| {
        let bag = json!({"a": value, "b": value});
        ok_soon(&apart, "PUT", &format!("/v1/entities/{entity_type}/{entity}"), &bag);
    };
    put(&entity_type, "e-0", 0);
    put(&bare, "e-0", 0);
    until("what is known is ended", async || noted(&probe, &entity_type).await == 0).await;

    proxy.hang();
    until("it is cut off", async || catalog_age_secs(&apart) > 3.0).await;
    create_index(&stays, &entity_type, "by", "/a").await;
    put(&entity_type, "e-1", 1);
    until("it is found", async || found(&stays, &entity_type, "by", 1) == ["e-1"]).await;
    assert_eq!(found(&stays, &entity_type, "known", 1), ["e-1"]);
    until("it is noted no more", async || noted(&probe, &entity_type).await == 0).await;
    // Of a type without an index, too, and of one whose only server that knew of it is gone.
    create_index(&stays, &bare, "by", "/a").await;
    put(&bare, "e-2", 2);
    put(&entity_type, "e-2", 2);
    assert!(catalog_age_secs(&apart) > 3.0, "it was cut off all the while");
    apart.end(Signal::SIGKILL);
    for entity_type in [&entity_type, &bare] {
        until("it is found", async || found(&stays, entity_type, "by", 2) == ["e-2"]).await;
        assert_eq!(found(&stays, entity_type, "by", 0), ["e-0"]);
    }
}

/// Otherwise an hour without Postgres would lead to a repair of every bag that was written in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_bag_of_a_partitioned_server_that_knew_all_indexes_is_not_repaired() {
    let _alone = ALONE.lock().await;
    let database = Database::migrated().await;
    let address = address_of(&database.url);
    let proxy = Proxy::start(address.clone()).await;
    let by_proxy = on_postgres(&database.url.replace(&address, &proxy.address.to_string()));
    // A swap that is tried again is noted again. A build waits for as long, too.
    let patient = ("LISTSTORE__ITEMS__OPERATION_TIMEOUT_MS", "8000".to_owned());
    let server = server(&[&by_proxy[..], &[patient]].concat());
    let probe = probe::Server::open(options()).await;
    let entity_type = new_type(&server);
    create_index(&server, &entity_type, "by", "/a").await;
    proxy.hang();
    until("it is cut off", async || catalog_age_secs(&server) > 3.0).await;
    for value in 0..20 {
        ok(&server, "PUT", &format!("/v1/entities/{entity_type}/e-{value}"), &json!({"a": value}));
    }
    until("who does not know all leaves them", async || noted(&probe, &entity_type).await == 20).await;
    proxy.go_on_with_new();
    until("they are noted no more", async || noted(&probe, &entity_type).await == 0).await;
    let metrics = text(&server, "/metrics");
    assert!(metrics.contains("liststore_cleaner_repairs_total{kind=\"bag\"} 0\n"), "{metrics}");
    assert!((0..20).all(|value| found(&server, &entity_type, "by", value) == [format!("e-{value}")]));
}

/// A crash under load leaves thousands of them in one minute: they are read part by part, and not the first ones again
/// and again.
#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_left_swaps_is_repaired_in_one_pass() {
    const LEFT: usize = 2_500;
    let _alone = ALONE.lock().await;
    let server = server(&[]);
    let entity_type = new_type(&server);
    let bare = probe::bare(&options()).await;
    let minute = probe::now_micros() / 60_000_000 - 5;
    let insert = "INSERT INTO list_bag_swaps (minute, shard, id, feature_key, entity_id, removed, written) VALUES (?, 0, ?, \
                  ?, ?, 0x, 1) USING TIMESTAMP 1";
    let insert = bare.prepare(insert).await.unwrap();
    for n in 0..LEFT {
        let values = (minute, uuid::Uuid::new_v4(), bags_of(&entity_type).as_str().to_owned(), format!("e-{n}"));
        bare.execute_unpaged(&insert, values).await.unwrap();
    }
    let left = async || {
        let count = format!("SELECT COUNT(*) FROM list_bag_swaps WHERE minute = {minute} AND shard = 0");
        let rows = bare.query_unpaged(count, &[]).await.unwrap().into_rows_result().unwrap();
        rows.single_row::<(i64,)>().unwrap().0
    };
    assert_eq!(left().await, LEFT as i64, "without indexes there is no scan");
    create_index(&server, &entity_type, "by", "/a").await;
    // A part whose first read fails is passed over for some 180 scans.
    let mut give_up = Instant::now() + 20 * PATIENCE;
    let mut is_begun = false;
    loop {
        let left = left().await;
        if left == 0 {
            break;
        }
        assert!(Instant::now() < give_up, "{left} of {LEFT} are left");
        if !is_begun && left < LEFT as i64 {
            // All others follow in the same pass. The next ones are at least 90 s apart.
            (is_begun, give_up) = (true, Instant::now() + 5 * PATIENCE);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A swap in each of two shards of a long past minute, which no other check reads.
async fn noted_long_ago() -> i64 {
    let bare = probe::bare(&options()).await;
    let entity_type = format!("t{}", uuid::Uuid::new_v4().simple());
    let (minute, bags) = (fastrand::i64(0..1_000_000), bags_of(&entity_type));
    let insert = "INSERT INTO list_bag_swaps (minute, shard, id, feature_key, entity_id, removed, written) VALUES (?, ?, ?, \
                  ?, 'e', 0x, 1) USING TIMESTAMP 1";
    for shard in 0..2 {
        bare.query_unpaged(insert, (minute, shard, uuid::Uuid::new_v4(), bags.as_str())).await.unwrap();
    }
    minute
}

/// A read of a shard. Bound values have their length before them: the minute and the shard.
fn read_of(minute: i64, shard: i32) -> Condition {
    let bound = [&8_i32.to_be_bytes()[..], &minute.to_be_bytes(), &4_i32.to_be_bytes(), &shard.to_be_bytes()].concat();
    Condition::BodyContainsCaseSensitive(bound.into())
}

/// The part of a scan that is a shard of a minute, from its first row on.
pub fn part(minute: i64, shard: i32) -> Bytes {
    [&minute.to_be_bytes()[..], &shard.to_be_bytes(), uuid::Uuid::nil().as_bytes()].concat().into()
}

fn shards(swaps: &[UnfinishedSwap]) -> Vec<i32> {
    swaps.iter().map(|swap| i32::from_be_bytes(swap.id.as_bytes()[8..12].try_into().unwrap())).collect()
}

/// A part that a check had no time for was once skipped until its minute returned, and a check that used all of its
/// time lost its findings.
#[tokio::test(flavor = "multi_thread")]
async fn swaps_beyond_the_time_of_a_scan_come_first_in_the_next() {
    let _alone = ALONE.lock().await;
    let mut forger = Forger::before(options()).await;
    let probe = probe::Server::open(forger.options.clone()).await;
    let minute = noted_long_ago().await;
    forger.on_requests(vec![RequestRule(read_of(minute, 0), RequestReaction::drop_frame())]);
    let left = |shard| part(minute, shard);
    let scan = SwapScan { number: 1, left: vec![left(0), left(1)] };
    let op =
        OpContext { deadline: tokio::time::Instant::now() + Duration::from_secs(20), ..probe.op_with(Ttl::ENDLESS) };
    let page =
        tokio::time::timeout_at(op.deadline, probe.session.swap_journal().unwrap().unfinished_swaps(&op, scan)).await;
    let SwapPage { swaps, scan } = page.expect("the result is passed on").unwrap();
    assert_eq!((shards(&swaps), &scan.left), (vec![1], &vec![left(0)]));
    forger.heal();
    until_the_rest_is_found(&probe, &scan).await;
}

async fn until_the_rest_is_found(probe: &probe::Server, scan: &SwapScan) {
    until("it is found", async || {
        let found =
            probe.session.swap_journal().unwrap().unfinished_swaps(&probe.op_with(Ttl::ENDLESS), scan.clone()).await;
        found.is_ok_and(|page| shards(&page.swaps) == [0] && page.scan.is_over())
    })
    .await;
}

/// A check that was refused a permit once lost its earlier findings.
#[tokio::test(flavor = "multi_thread")]
async fn swaps_without_a_permit_come_first_in_the_next_scan() {
    let _alone = ALONE.lock().await;
    let mut forger = Forger::before(options()).await;
    let options = CqlOptions { permits: 1, permit_wait: Duration::from_secs(6), ..forger.options.clone() };
    let probe = probe::Server::open(options).await;
    let minute = noted_long_ago().await;
    // During its read of one shard, another caller waits for its permit, and then holds it for longer.
    let (met, mut meetings) = feedback();
    let held = |secs| RequestReaction::delay(Duration::from_secs(secs));
    forger.on_requests(vec![
        RequestRule(read_of(minute, 1), held(1).with_feedback_when_performed(met)),
        RequestRule(of(Sent::Read), held(14)),
    ]);
    let left = |shard| part(minute, shard);
    let (op, scan) = (probe.op_with(Ttl::ENDLESS), SwapScan { number: 1, left: vec![left(0), left(1)] });
    let list = probe::fresh_list();
    let waits = async {
        meetings.recv().await.unwrap();
        probe.session.get(&probe.op(), &list, &probe::EVERYTHING).await
    };
    let (page, got) = tokio::join!(probe.session.swap_journal().unwrap().unfinished_swaps(&op, scan), waits);
    assert!(got.is_ok(), "{got:?}");
    let SwapPage { swaps, scan } = page.expect("the result is passed on");
    assert_eq!((shards(&swaps), &scan.left), (vec![1], &vec![left(0)]));
    assert!(probe.store.permits().1 > 0, "it was refused none");
    forger.heal();
    until_the_rest_is_found(&probe, &scan).await;
}

/// One of two servers is cut off from Postgres, before or while bags are written, and sometimes killed then; entries
/// are refused, and an index comes and goes under one name. All acknowledged bags are found soon, also by an index
/// that the server did not know.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "a thread of its own waits, and no arbiter")]
async fn no_bag_of_a_partitioned_refused_and_killed_server_is_missed_for_long() {
    const STEPS: usize = 12;
    let _alone = ALONE.lock().await;
    let database = Database::migrated().await;
    let address = address_of(&database.url);
    let proxy = Proxy::start(address.clone()).await;
    let mut forger = Forger::before(options()).await;
    let forged = forger.options.contact_points.clone();
    let by_proxy = on_postgres(&database.url.replace(&address, &proxy.address.to_string()));
    let impatient = [&by_proxy[..], &[("LISTSTORE__METADATA__CALL_TIMEOUT_MS", "500".to_owned())]].concat();
    let stays = server(&on_postgres(&database.url));
    let mut apart = Some(server_at(&forged, &impatient));
    let seeds = std::env::var("LISTSTORE_TEST_BAG_SEEDS").map_or(4, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        let (is_cut_before, is_killed) = (seed % 2 == 1, seed % 4 >= 2);
        let entity_type = format!("t{}", uuid::Uuid::new_v4().simple());
        begin(stays.address(), &entity_type);
        let cut = apart.take().unwrap();
        ok_soon(&cut, "PUT", &format!("/v1/entities/{entity_type}/it-knows-the-type"), &json!({"a": [0], "b": 0}));
        if is_cut_before {
            proxy.hang();
            until("it is cut off", async || catalog_age_secs(&cut) > 3.0).await;
        }
        let refused = of(Sent::Add).and(Condition::RandomWithProbability(0.3));
        forger.on_requests(vec![RequestRule(refused, RequestReaction::forge_with_error(DbError::Unauthorized))]);
        let addresses = Mutex::new([stays.address().to_owned(), cut.address().to_owned()]);
        let calls = AtomicUsize::new(0);
        let address = || {
            let addresses = addresses.lock().unwrap();
            addresses[calls.fetch_add(1, Ordering::Relaxed) % addresses.len()].clone()
        };
        let write = |writer: &mut Writer<'_>| {
            if writer.name == 0 {
                writer.run_with_indexes(STEPS / 4)
            } else {
                (0..4).for_each(|_| {
                    writer.run(STEPS / 2);
                    std::thread::sleep(Duration::from_millis(500));
                });
            }
        };
        let cut_off = || {
            std::thread::sleep(Duration::from_millis(fastrand::Rng::with_seed(seed).u64(20..1_000)));
            proxy.hang();
            std::thread::sleep(Duration::from_millis(fastrand::Rng::with_seed(seed).u64(20..1_500)));
            if is_killed {
                cut.end(Signal::SIGKILL);
                *addresses.lock().unwrap() = [stays.address().to_owned(), stays.address().to_owned()];
            } else {
                apart = Some(cut);
            }
        };
        tokio::task::block_in_place(|| {
            let writers = write_during(&address, &entity_type, (Promise::Soon, seed), write, cut_off);
            forger.heal();
            *addresses.lock().unwrap() = [stays.address().to_owned(), stays.address().to_owned()];
            settle_soon(stays.address(), &entity_type, &writers);
        });
        proxy.go_on_with_new();
        let cut = apart.take().unwrap_or_else(|| server_at(&forged, &impatient));
        until("it is back", async || catalog_age_secs(&cut) < 2.0).await;
        apart = Some(cut);
    }
}
