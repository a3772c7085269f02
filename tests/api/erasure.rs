//! Erasing an entity: all of its lists, with any present features, and a receipt.

use std::sync::atomic::Ordering::SeqCst;

use liststore::domain::Timestamp;
use liststore::items::StoreError;
use liststore::metadata::MetadataError;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, ago, api, items};
use super::faults::faulty;

/// Each list of a receipt: feature, version, generation, whether it was deleted, whether it was cleared.
fn lists(receipt: &Value) -> Vec<(String, String, u64, bool, bool)> {
    let list = |list: &Value| {
        let text = |name: &str| list[name].as_str().unwrap().to_owned();
        let flag = |name: &str| list[name].as_bool().unwrap();
        (text("feature"), text("version"), list["generation"].as_u64().unwrap(), flag("deleted"), flag("cleared"))
    };
    receipt["lists"].as_array().unwrap().iter().map(list).collect()
}

fn named(lists: &[(&str, &str, u64, bool, bool)]) -> Vec<(String, String, u64, bool, bool)> {
    let own = |(feature, version, generation, deleted, cleared): &(&str, &str, u64, bool, bool)| {
        ((*feature).to_owned(), (*version).to_owned(), *generation, *deleted, *cleared)
    };
    lists.iter().map(own).collect()
}

async fn erased(api: &Api) -> Vec<Value> {
    let audit = api.get("/v1/audit?action=erase_entity").await.expect(200);
    audit["changes"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_list_of_the_entity_is_removed_and_no_other() {
    let api = api().await;
    for feature in ["seen", "bought"] {
        api.feature(feature, "string", "30d").await;
    }
    api.post("/v1/features/user/seen/versions", json!({"version": "v2"})).await.expect(201);
    let odd = "u/1 é";
    let kept = [items("seen", "other"), items("bought", "u")];
    let gone = [items("seen", odd), items("bought", odd), format!("{}?version=v2", items("seen", odd))];
    for list in kept.iter().chain(&gone) {
        api.add(list, &[(ago(1), "a".into())]).await;
    }
    let path = "/v1/entities/user/u%2F1%20%C3%A9";
    let receipt = api.delete(path).await.expect(200);
    assert_eq!((&receipt["entity_id"], &receipt["erased_by"]), (&json!(odd), &json!("anonymous")));
    assert_eq!(receipt["complete"], true);
    let expected = [("bought", "", 1, false, true), ("seen", "", 1, false, true), ("seen", "v2", 1, false, true)];
    assert_eq!(lists(&receipt), named(&expected));
    for list in &gone {
        assert!(api.values(list).await.is_empty(), "{list}");
    }
    for list in &kept {
        assert_eq!(api.values(list).await, ["a"], "{list}");
    }
    // Safe to send again, and noted each time.
    let again = api.delete(path).await.expect(200);
    assert_eq!((lists(&again), &again["complete"]), (named(&[]), &json!(true)));
    let entries = erased(&api).await;
    assert_eq!(entries.len(), 4);
    assert_eq!((&entries[2]["at"], &entries[2]["target"]), (&receipt["erased_at"], &json!("entity:user/u/1 é")));
    for (entry, lists) in [(0, 0), (2, 3)] {
        let done = json!({"state": "done", "lists_cleared": lists, "lists_not_cleared": 0, "not_cleared": []});
        let begun = json!({"state": "begun", "lists": lists, "conditional": false});
        assert_eq!((&entries[entry]["after"], &entries[entry + 1]["after"]), (&done, &begun));
        assert_eq!(entries[entry + 1]["target"], entries[entry]["target"]);
    }
    // A type without a feature has nothing, and the receipt shows that.
    assert_eq!(api.delete("/v1/entities/customer/u").await.expect(200)["lists"], json!([]));
    api.delete("/v1/entities/user/..%00").await.refused("invalid_argument", "entity_id");
    api.delete("/v1/entities/us%23er/u").await.refused("invalid_argument", "entity_type");
}

/// The item store names them, with any versions.
#[tokio::test]
async fn only_lists_that_exist_are_cleared() {
    let (api, faults) = faulty(&[]).await;
    for feature in ["bought", "liked", "seen"] {
        api.feature(feature, "string", "30d").await;
    }
    for version in 0..20 {
        api.post("/v1/features/user/seen/versions", json!({"version": format!("v{version}")})).await.expect(201);
    }
    let held = ["user#liked| u".to_owned(), "user#seen|v7 u".to_owned()];
    *faults.held.lock().unwrap() = Some(held.to_vec());
    let receipt = api.delete("/v1/entities/user/u").await.expect(200);
    assert_eq!(lists(&receipt), named(&[("liked", "", 1, false, true), ("seen", "v7", 1, false, true)]));
    let mut cleared = faults.cleared.lock().unwrap().clone();
    cleared.sort();
    assert_eq!(cleared, held);
    let reported = json!({"state": "done", "lists_cleared": 2, "lists_not_cleared": 0, "not_cleared": []});
    assert_eq!(erased(&api).await[0]["after"], reported);
}

#[tokio::test]
async fn items_of_deleted_features_are_removed_too() {
    let (api, faults) = faulty(&[]).await;
    for _ in 0..2 {
        api.feature("seen", "string", "30d").await;
        api.delete("/v1/features/user/seen").await.expect(200);
    }
    api.feature("seen", "string", "30d").await;
    let receipt = api.delete("/v1/entities/user/u").await.expect(200);
    let expected = [("seen", "", 1, true, true), ("seen", "", 2, true, true), ("seen", "", 3, false, true)];
    assert_eq!(lists(&receipt), named(&expected));
    let mut cleared = faults.cleared.lock().unwrap().clone();
    cleared.sort();
    assert_eq!(cleared, ["user#seen| u", "user#seen|~2 u", "user#seen|~3 u"]);
}

#[tokio::test]
async fn lists_that_could_not_be_cleared_are_reported() {
    let (api, faults) = faulty(&[]).await;
    for feature in ["bought", "seen"] {
        api.feature(feature, "string", "30d").await;
        api.add(&items(feature, "u"), &[(ago(1), "a".into())]).await;
    }
    faults.uncleared.lock().unwrap().push("user#seen| u".to_owned());
    let receipt = api.delete("/v1/entities/user/u").await.expect(200);
    assert_eq!(receipt["complete"], false);
    assert_eq!(lists(&receipt), named(&[("bought", "", 1, false, true), ("seen", "", 1, false, false)]));
    let problem = &receipt["lists"][1]["problem"];
    assert_eq!((&problem["code"], &problem["retryable"]), (&json!("store_unavailable"), &json!(true)));
    assert!(!receipt.to_string().contains("SECRET"), "{receipt}");
    let noted = &erased(&api).await[0]["after"];
    let reported = json!({"state": "done", "lists_cleared": 1, "lists_not_cleared": 1, "not_cleared": ["user#seen|"]});
    assert_eq!(noted, &reported);
    assert!(api.values(&items("bought", "u")).await.is_empty());
    assert_eq!(api.values(&items("seen", "u")).await, ["a"]);

    faults.uncleared.lock().unwrap().clear();
    assert_eq!(api.delete("/v1/entities/user/u").await.expect(200)["complete"], true);
    assert!(api.values(&items("seen", "u")).await.is_empty());
}

/// Only the metadata store has all existing lists.
#[tokio::test]
async fn without_the_metadata_store_nothing_is_erased() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    api.add(&items("seen", "u"), &[(ago(1), "a".into())]).await;
    let away = MetadataError::Unavailable { reason: "away".to_owned(), outcome_unknown: false };
    *faults.metadata.lock().unwrap() = Some(away);
    let refused = api.delete("/v1/entities/user/u").await;
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("metadata_unavailable")));
    assert_eq!(api.values(&items("seen", "u")).await, ["a"]);
}

/// A caller that reads "nothing was done" although lists are gone does not request a receipt.
#[tokio::test]
async fn a_receipt_that_cannot_be_stored_leaves_the_outcome_unknown() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    api.add(&items("seen", "u"), &[(ago(1), "a".into())]).await;
    let away = MetadataError::Unavailable { reason: "away".to_owned(), outcome_unknown: false };
    for (notes, is_unknown, left) in [(0, false, 1), (1, true, 0)] {
        *faults.notes_left.lock().unwrap() = Some((notes, away.clone()));
        let refused = api.delete("/v1/entities/user/u").await;
        assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("metadata_unavailable")));
        assert_eq!(refused.json()["outcome_unknown"].as_bool().unwrap_or_default(), is_unknown, "{}", refused.text());
        assert_eq!(api.values(&items("seen", "u")).await.len(), left);
        *faults.notes_left.lock().unwrap() = None;
        assert_eq!(erased(&api).await.len(), notes, "what was begun is in the trail");
    }
    assert_eq!(api.delete("/v1/entities/user/u").await.expect(200)["complete"], true);
}

/// A caller without a date sends the call again, and then has the store's promise.
#[tokio::test]
async fn a_receipt_has_no_date_if_the_store_cannot_promise_one() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    api.add(&items("seen", "u"), &[(ago(1), "a".into())]).await;
    let away = StoreError::Unavailable { reason: "SECRET".to_owned(), outcome_unknown: false };
    *faults.erased_by.lock().unwrap() = Some(Err(away));
    let receipt = api.delete("/v1/entities/user/u").await.expect(200);
    assert_eq!((&receipt["complete"], &receipt["bytes_erased_by"]), (&json!(true), &Value::Null));
    assert!(api.values(&items("seen", "u")).await.is_empty());

    let by = Timestamp::parse("2030-01-02T03:04:05.000000006Z").unwrap();
    *faults.erased_by.lock().unwrap() = Some(Ok(by));
    let receipt = api.delete("/v1/entities/user/u").await.expect(200);
    assert_eq!(receipt["bytes_erased_by"], "2030-01-02T03:04:05.000000006Z");
    // A list that is not removed is not erased.
    faults.uncleared.lock().unwrap().push("user#seen| u".to_owned());
    let receipt = api.delete("/v1/entities/user/u").await.expect(200);
    assert_eq!((&receipt["complete"], &receipt["bytes_erased_by"]), (&json!(false), &Value::Null));
}

/// The next start may undo a recent removal, although nothing exists now.
#[tokio::test]
async fn a_receipt_without_an_fsync_is_not_complete() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    *faults.erased_by.lock().unwrap() = Some(Ok(Timestamp::MAX));
    let away = StoreError::Unavailable { reason: "SECRET".to_owned(), outcome_unknown: false };
    *faults.sync_fails.lock().unwrap() = Some(away);
    for held in [vec![], vec!["user#seen| u".to_owned()]] {
        let expected: &[_] = if held.is_empty() { &[] } else { &[("seen", "", 1, false, false)] };
        *faults.held.lock().unwrap() = Some(held);
        let receipt = api.delete("/v1/entities/user/u").await.expect(200);
        assert_eq!((&receipt["complete"], &receipt["bytes_erased_by"]), (&json!(false), &Value::Null));
        assert_eq!(lists(&receipt), named(expected));
        assert_eq!(erased(&api).await[0]["after"]["durable"], json!(false));
    }
    *faults.sync_fails.lock().unwrap() = None;
    assert_eq!(api.delete("/v1/entities/user/u").await.expect(200)["complete"], true);
    assert_eq!(erased(&api).await[0]["after"]["durable"], Value::Null);
}

/// A bag goes with its entries in indexes, or stays: they have its values, and without it only a cleaning finds them.
#[tokio::test]
async fn a_bag_that_cannot_be_removed_with_its_entries_stays() {
    let (api, faults) = faulty(&[]).await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    let bag = "/v1/entities/user/u";
    api.send(Method::PUT, bag, &[], b"{}").await.expect(201);
    faults.swaps_fail.store(true, SeqCst);
    let receipt = api.delete(bag).await.expect(200);
    assert_eq!((&receipt["complete"], &receipt["bags"][0]["cleared"]), (&json!(false), &json!(false)));
    assert_eq!(receipt["bags"][0]["problem"]["code"], "store_unavailable");
    api.get(bag).await.expect(200);
    faults.swaps_fail.store(false, SeqCst);
    assert_eq!(api.delete(bag).await.expect(200)["complete"], true);
    api.get(bag).await.refused("bag_not_found", "");
}

/// A purge whose answer is lost is a job and an entry of the audit trail, or neither.
#[tokio::test]
async fn a_purge_that_cannot_be_audited_has_no_job() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    let away = |outcome_unknown| MetadataError::Unavailable { reason: "away".to_owned(), outcome_unknown };
    let jobs = async || api.get("/v1/jobs").await.expect(200)["jobs"].as_array().unwrap().len();
    let noted = async || api.get("/v1/audit?action=purge").await.expect(200)["changes"].as_array().unwrap().len();
    let purge = async || api.post("/v1/features/user/seen/purge", json!({})).await;
    *faults.notes_left.lock().unwrap() = Some((0, away(false)));
    let refused = purge().await;
    assert_eq!((refused.status, refused.json()["outcome_unknown"].as_bool().unwrap_or_default()), (503, false));
    assert_eq!((jobs().await, noted().await), (0, 0));
    *faults.notes_left.lock().unwrap() = None;
    *faults.noted_unheard.lock().unwrap() = Some(away(true));
    let unheard = purge().await;
    assert_eq!((unheard.status, &unheard.json()["outcome_unknown"]), (503, &json!(true)));
    assert_eq!((jobs().await, noted().await), (1, 1));
}
