//! Random changes of bags and indexes: every answer of an index equals a scan of all bags.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::Api;
use super::indexes::{in_files, in_memory};

#[derive(Debug, Clone)]
enum Step {
    Put { entity: u8, a: Vec<u8>, score: u8 },
    Patch { entity: u8, a: Option<u8> },
    Delete(u8),
    Create(u8),
    Drop(u8),
}

fn step() -> impl Strategy<Value = Step> {
    use proptest::prelude::*;
    prop_oneof![
        4 => (0..4_u8, prop::collection::vec(0..3_u8, 0..3), 0..3_u8)
            .prop_map(|(entity, a, score)| Step::Put { entity, a, score }),
        2 => (0..4_u8, prop::option::of(0..3_u8)).prop_map(|(entity, a)| Step::Patch { entity, a }),
        1 => (0..4_u8).prop_map(Step::Delete),
        1 => (0..2_u8).prop_map(Step::Create),
        1 => (0..2_u8).prop_map(Step::Drop),
    ]
}

/// Every answer to every value equals a scan of all bags.
#[tokio::test]
async fn an_index_finds_the_same_as_a_scan_of_all_bags() {
    let dir = tempfile::tempdir().unwrap();
    for api in [in_memory().await, in_files(dir.path()).await] {
        agree_at_random(&api).await;
    }
}

async fn agree_at_random(api: &Api) {
    let mut runner = TestRunner::new(Config::default());
    for case in 0..24 {
        let steps = proptest::collection::vec(step(), 1..30).new_tree(&mut runner).unwrap().current();
        let entity_type = format!("t{case}");
        api.post("/v1/entity-types", json!({"entity_type": entity_type})).await.expect(201);
        agree(api, &entity_type, &steps).await;
    }
}

async fn agree(api: &Api, entity_type: &str, steps: &[Step]) {
    let mut model: BTreeMap<u8, Value> = BTreeMap::new();
    let mut indexes: [bool; 2] = [false; 2];
    let base = format!("/v1/entity-types/{entity_type}/indexes");
    for (number, step) in steps.iter().enumerate() {
        let path = |entity: &u8| format!("/v1/entities/{entity_type}/e-{entity}");
        match step {
            Step::Put { entity, a, score } => {
                let bag = json!({"a": a, "score": score});
                api.send(Method::PUT, &path(entity), &[], bag.to_string().as_bytes()).await;
                model.insert(*entity, bag);
            }
            Step::Patch { entity, a } => {
                let merge = [("content-type", "application/merge-patch+json")];
                let body = json!({"a": a}).to_string();
                let answer = api.send(Method::PATCH, &path(entity), &merge, body.as_bytes()).await;
                assert_eq!(answer.status == 200, model.contains_key(entity), "step {number} of {steps:?}");
                if let Some(bag) = model.get_mut(entity).and_then(Value::as_object_mut) {
                    match a {
                        Some(a) => bag.insert("a".to_owned(), json!(a)),
                        None => bag.remove("a"),
                    };
                }
            }
            Step::Delete(entity) => {
                api.delete(&format!("{}/bag", path(entity))).await;
                model.remove(entity);
            }
            Step::Create(index) => {
                let mut body = json!({"name": index.to_string(), "properties": ["/a"]});
                if *index == 1 {
                    body["order_by"] = json!("/score");
                }
                let status = api.post(&base, body).await.status;
                assert_eq!(status, if indexes[usize::from(*index)] { 409 } else { 201 });
                indexes[usize::from(*index)] = true;
            }
            Step::Drop(index) => {
                let status = api.delete(&format!("{base}/{index}")).await.status;
                assert_eq!(status, if indexes[usize::from(*index)] { 204 } else { 404 });
                indexes[usize::from(*index)] = false;
            }
        }
        for (index, _) in indexes.iter().enumerate().filter(|(_, exists)| **exists) {
            api.until_state(&format!("{base}/{index}"), "ready").await;
            for value in 0..3_u8 {
                let holds =
                    |bag: &Value| bag["a"] == value || bag["a"].as_array().is_some_and(|a| a.contains(&json!(value)));
                let expected: Vec<_> =
                    model.iter().filter(|(_, bag)| holds(bag)).map(|(entity, _)| format!("e-{entity}")).collect();
                let (mut ids, mut scores, mut token) = (Vec::new(), Vec::new(), String::new());
                loop {
                    let page =
                        api.get(&format!("{base}/{index}/entities?value={value}&limit=2{token}")).await.expect(200);
                    for bag in page["entities"].as_array().unwrap() {
                        ids.push(bag["entity_id"].as_str().unwrap().to_owned());
                        scores.push(bag["properties"]["score"].as_u64());
                    }
                    match page["next_page_token"].as_str() {
                        Some(next) => token = format!("&page_token={next}"),
                        None => break,
                    }
                }
                assert!(index == 0 || scores.is_sorted_by(|a, b| a >= b), "step {number} of {steps:?}");
                ids.sort();
                assert_eq!(ids, expected, "index {index}, value {value}, step {number} of {steps:?}");
            }
        }
    }
}
