//! Two servers on one cluster and one Postgres. The server that works on a job is killed. The other one continues it,
//! with a correct result.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::cassandra::shared_options;
use crate::cleaning::server_with;
use crate::postgres::Database;
use crate::probe::now;
use crate::program::Server;
use crate::servers::{call, ok, ok_soon};

const ENTITIES: usize = 160;
/// Such that the job is in its middle when its server dies.
const RATE: u32 = 5;
/// Promised within 10 s, on an otherwise idle machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server that has its definitions, and its jobs, in a database.
pub fn server_on(database: &Database, contact_points: &[String]) -> Server {
    server_with(contact_points, &on_postgres(&database.url))
}

/// The settings of a server that reaches its database by this URL.
pub fn on_postgres(url: &str) -> [(&'static str, String); 4] {
    [
        ("LISTSTORE__METADATA__STORE", "postgres".to_owned()),
        ("LISTSTORE__METADATA__POSTGRES__URL", url.to_owned()),
        ("LISTSTORE__METADATA__POLL_INTERVAL_SECS", "1".to_owned()),
        // A build waits for the same time, before it begins, for the running work of other servers.
        ("LISTSTORE__ITEMS__OPERATION_TIMEOUT_MS", "2000".to_owned()),
    ]
}

async fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn job(server: &Server, id: &str) -> Value {
    ok(server, "GET", &format!("/v1/jobs/{id}"), &Value::Null)
}

/// Slows a job down, kills its server in the middle, and lets the other server continue it at full speed. The other
/// server starts only then, which makes certain which one has the job.
async fn taken_over(id: &str, dies: Server, stays: impl FnOnce() -> Server) -> Server {
    ok(&dies, "PATCH", &format!("/v1/jobs/{id}"), &json!({"lists_per_second": RATE}));
    let is_in_its_middle = || job(&dies, id)["lists_cleared"].as_u64().filter(|done| (20..80).contains(done));
    until("it is in its middle", is_in_its_middle).await;
    let stays = stays();
    // It sees that another one has it.
    assert_eq!(job(&stays, id)["state"], "running");
    dies.end(Signal::SIGKILL);
    let (left, killed) = (job(&stays, id), Instant::now());
    until("the other one goes on", || Some(()).filter(|()| job(&stays, id)["updated_at"] != left["updated_at"])).await;
    eprintln!("the other one went on after {:.1?}", killed.elapsed());
    assert!(left["lists_cleared"].as_u64() < Some(ENTITIES as u64), "it was in its middle: {left}");
    ok(&stays, "PATCH", &format!("/v1/jobs/{id}"), &json!({"lists_per_second": null}));
    until("it is done", || Some(()).filter(|()| job(&stays, id)["state"] == "done")).await;
    stays
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_completes_the_build_of_an_index() {
    let database = Database::migrated().await;
    let start = || server_on(&database, &shared_options().contact_points);
    let dies = start();
    let entity_type = format!("t{}", uuid::Uuid::new_v4().simple());
    ok(&dies, "POST", "/v1/entity-types", &json!({"entity_type": entity_type}));
    let bag = |n: usize| format!("/v1/entities/{entity_type}/e-{n}");
    for n in 0..ENTITIES {
        ok_soon(&dies, "PUT", &bag(n), &json!({"a": n % 3, "b": n}));
    }
    let indexes = format!("/v1/entity-types/{entity_type}/indexes");
    ok(&dies, "POST", &indexes, &json!({"name": "by", "properties": ["/a"], "order_by": "/b"}));
    let by = format!("{indexes}/by");
    let id = || ok(&dies, "GET", &by, &Value::Null)["job_id"].as_str().map(str::to_owned);
    let id = until("it has a job", id).await;
    let stays = taken_over(&id, dies, || {
        let stays = start();
        // Writes during the build, through a server that does not build.
        for n in (0..ENTITIES).step_by(10) {
            ok_soon(&stays, "PUT", &bag(n), &json!({"a": 3, "b": n}));
        }
        for n in (5..ENTITIES).step_by(10) {
            let (path, began) = (format!("{}/bag", bag(n)), Instant::now());
            // The notification of a created one may come too late.
            while !matches!(call(&stays, "DELETE", &path, &Value::Null).0, 200..=299 | 404) {
                assert!(began.elapsed() < PATIENCE, "{path} is not deleted");
            }
        }
        stays
    })
    .await;
    assert_eq!(ok(&stays, "GET", &by, &Value::Null)["state"], "ready");
    for value in 0..4 {
        let page = ok(&stays, "GET", &format!("{by}/entities?value={value}&limit=1000"), &Value::Null);
        let ids: Vec<_> = page["entities"].as_array().unwrap().iter().map(|bag| bag["entity_id"].clone()).collect();
        let held = |n: &usize| match n % 10 {
            0 => value == 3,
            5 => false,
            _ => n % 3 == value,
        };
        let expected: Vec<_> = (0..ENTITIES).rev().filter(held).map(|n| json!(format!("e-{n}"))).collect();
        assert_eq!(ids, expected, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_completes_a_purge() {
    let database = Database::migrated().await;
    let start = || server_on(&database, &shared_options().contact_points);
    let dies = start();
    let name = format!("f{}", uuid::Uuid::new_v4().simple());
    for (feature, bucket) in [(name.clone(), json!("day")), (format!("{name}-kept"), Value::Null)] {
        let mut body = json!({"entity_type": "user", "name": feature, "value_type": "string", "ttl": "30d"});
        if !bucket.is_null() {
            body["bucket"] = bucket;
        }
        ok(&dies, "POST", "/v1/features", &body);
    }
    let items = |feature: &str, n: usize| format!("/v1/lists/user/{feature}/u-{n}/items");
    let at = now().as_nanos();
    for n in 0..ENTITIES {
        for feature in [&name, &format!("{name}-kept")] {
            let add = json!({"items": [{"timestamp": at, "value": "v"}, {"timestamp": at - 172_800_000_000_000, "value": "w"}]});
            ok_soon(&dies, "POST", &items(feature, n), &add);
        }
    }
    let asked = ok(&dies, "POST", &format!("/v1/features/user/{name}/purge"), &json!({"lists_per_second": RATE}));
    let stays = taken_over(asked["id"].as_str().unwrap(), dies, start).await;
    let left = |feature: &str| -> BTreeSet<usize> {
        let count = |n: &usize| ok(&stays, "GET", &items(feature, *n), &Value::Null)["items"].as_array().unwrap().len();
        (0..ENTITIES).filter(|n| count(n) > 0).collect()
    };
    assert_eq!(left(&name), BTreeSet::new());
    assert_eq!(left(&format!("{name}-kept")).len(), ENTITIES, "the lists of another feature stay");
}
