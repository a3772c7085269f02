//! Entity tags of pages, and gets that are answered only if there is something new.

use std::collections::HashMap;
use std::sync::Arc;

use liststore::app::Stores;
use liststore::domain::{ManualClock, Timestamp};
use liststore::items::ItemStore;
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore};
use liststore::items::memory::MemoryStore;
use liststore::metadata::memory::memory_store;
use prometheus::Registry;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Api, ago, api, items};
use super::support::{settings, spawn_with};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_724_949_845 * SECOND;

async fn get_if_new(api: &Api, path: &str, tag: &str) -> Answer {
    api.send(Method::GET, path, &[("if-none-match", tag)], b"").await
}

/// A server whose clock is the test's.
async fn with_clock(store: Arc<dyn ItemStore>, clock: &Arc<ManualClock>) -> Api {
    let stores = Stores { items: store, metadata: Arc::new(memory_store()), registry: Registry::new(), data_dir: None };
    let mut server = spawn_with(settings(&[]), Arc::clone(clock) as _, stores).await;
    server.ready().await;
    Api::of(server).await
}

/// The queries of callers, in turn.
const QUERIES: [&str; 5] =
    ["", "?limit=2", "?limit=3", "?min_timestamp=1724949845000000000", "?max_timestamp=1724949900000000000&limit=2"];

/// Performs a step that may change the result of gets.
async fn step(api: &Api, random: &mut fastrand::Rng, clock: &ManualClock, now: &mut u64) {
    let list = items("seen", "u");
    match random.u8(..12) {
        0..5 => {
            let timestamp = *now - random.u64(..20) * SECOND;
            let body = json!({"items": [{"timestamp": timestamp, "value": format!("v{}", random.u8(..6))}]});
            api.post(&list, body).await.expect(200);
        }
        5 => {
            api.post(&format!("{list}:remove"), json!({"value": format!("v{}", random.u8(..6))})).await.expect(200);
        }
        6 if random.bool() => {
            api.delete(&list).await.expect(204);
        }
        7 => {
            let ttl = ["10s", "20s", "1h"][random.usize(..3)];
            api.patch("/v1/features/user/seen", json!({"ttl": ttl})).await.expect(200);
        }
        8..10 => {
            *now += random.u64(..6) * SECOND / 2;
            clock.set(Timestamp::from_nanos(*now).unwrap());
        }
        // Another list changes, or nothing does.
        10 => {
            let body = json!({"items": [{"timestamp": *now, "value": "other"}]});
            api.post(&items("seen", "other"), body).await.expect(200);
        }
        _ => {}
    }
}

/// A body is omitted exactly if the page is the same byte for byte, with any changes in between, including time.
async fn assert_tags_are_exact(store: Arc<dyn ItemStore>, seed: u64) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(START).unwrap()));
    let api = with_clock(store, &clock).await;
    api.feature("seen", "string", "20s").await;
    let (mut random, mut now) = (fastrand::Rng::with_seed(seed), START);
    // By query: every tag with its text.
    let mut pages: HashMap<&str, HashMap<String, Vec<u8>>> = HashMap::new();
    let (mut last, mut same, mut new) = (HashMap::new(), 0, 0);
    for turn in 0..250 {
        step(&api, &mut random, &clock, &mut now).await;
        let query = QUERIES[random.usize(..QUERIES.len())];
        let path = format!("{}{query}", items("seen", "u"));
        let known = pages.entry(query).or_default();
        // The one of the last get, or any.
        let any = known.keys().nth(random.usize(..known.len().max(1))).cloned();
        let tag = last.get(query).cloned().filter(|_| random.bool()).or(any).unwrap_or_else(|| "\"x\"".to_owned());
        let before = api.get(&path).await;
        let answer = get_if_new(&api, &path, &tag).await;
        let about = format!("seed {seed}, turn {turn}: {path} with {tag}: {}", before.text());
        assert_eq!(answer.etag(), before.etag(), "{about}");
        match answer.status {
            304 => {
                same += 1;
                assert!(answer.body.is_empty(), "{about}");
                assert_eq!(known[&tag], before.body, "{about}");
            }
            _ => {
                new += 1;
                assert_eq!((answer.status, &answer.body), (200, &before.body), "{about}");
                assert_ne!(known.get(&tag), Some(&before.body), "{about}");
            }
        }
        last.insert(query, before.etag().to_owned());
        let of_tag = known.entry(before.etag().to_owned()).or_insert_with(|| before.body.clone());
        assert_eq!(*of_tag, before.body, "two pages with one tag: {about}");
    }
    assert!(same > 10 && new > 10, "{same} {new}");
}

#[tokio::test]
async fn a_304_is_sent_exactly_if_the_page_is_unchanged() {
    for seed in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(liststore::domain::SystemClock);
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path()), clock, &Registry::new()).unwrap();
        assert_tags_are_exact(Arc::new(store), seed).await;
        assert_tags_are_exact(Arc::new(MemoryStore::default()), seed).await;
    }
}

#[tokio::test]
async fn entity_tags_follow_http() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    api.add(&list, &[(ago(1), "a".into())]).await;
    let tag = api.get(&list).await.etag().to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    let strong = tag.trim_start_matches("W/").to_owned();
    for has in [tag.clone(), strong, format!("\"x\", {tag}"), "*".to_owned()] {
        let answer = get_if_new(&api, &list, &has).await;
        assert_eq!((answer.status, answer.etag()), (304, &*tag), "{has}");
        assert_eq!((answer.header("content-length"), answer.content_type()), (None, None));
    }
    get_if_new(&api, &list, "\"x\", \"y\"").await.expect(200);
    get_if_new(&api, &list, "no tag").await.refused("invalid_argument", "If-None-Match");
    let head = api.send(Method::HEAD, &list, &[("if-none-match", &tag)], b"").await;
    assert_eq!((head.status, head.etag()), (304, &*tag));
    // A list that cannot be read gets its usual problem.
    get_if_new(&api, &items("none", "u"), "*").await.refused("feature_not_found", "");
    let text = api.get("/metrics").await.text();
    assert!(text.contains("code=\"ok\",operation=\"get_items\",status=\"304\"} 5"), "{text}");
    assert!(text.contains("liststore_items_read_total 2"), "{text}");
}

#[tokio::test]
async fn an_entity_tag_is_valid_after_a_restart() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(START).unwrap()));
    let mut tags = Vec::new();
    for _ in 0..2 {
        let api = with_clock(Arc::new(MemoryStore::default()), &clock).await;
        api.feature("seen", "string", "1h").await;
        let value = Value::from("a");
        api.add(&items("seen", "u"), &[(START, value)]).await;
        tags.push(api.get(&items("seen", "u")).await.etag().to_owned());
    }
    assert_eq!(tags[0], tags[1]);
}
