//! Add List Items: atomic, idempotent, and exact in its refusals.

use serde_json::{Value, json};

use super::client::{ago, api, api_with, items, one};

#[tokio::test]
async fn adding_again_changes_nothing() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let (list, now) = (items("seen", "u"), ago(5));
    for _ in 0..2 {
        api.add(&list, &[(now, "a".into()), (now, "b".into())]).await;
    }
    assert_eq!(api.values(&list).await.len(), 2);
}

#[tokio::test]
async fn expired_items_are_counted_and_not_stored() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let list = items("seen", "u");
    let body = json!({"items": [
        {"timestamp": ago(7200), "value": "old"},
        {"timestamp": ago(1), "value": "new"},
        {"timestamp": 0, "value": "ancient"},
    ]});
    assert_eq!(api.post(&list, body).await.expect(200), json!({"added": 1, "already_expired": 2}));
    assert_eq!(api.values(&list).await, ["new"]);
    let all_expired = api.post(&list, one(0, "x")).await;
    assert_eq!(all_expired.expect(200), json!({"added": 0, "already_expired": 1}));
}

/// Otherwise they would vanish with success.
#[tokio::test]
async fn timestamps_of_another_unit_cause_a_warning() {
    let api = api().await;
    api.feature("seen", "string", "7300d").await;
    let list = items("seen", "u");
    for (divisor, unit) in [(1_000, "microseconds"), (1_000_000, "milliseconds"), (1_000_000_000, "seconds")] {
        let answer = api.post(&list, one(ago(1) / divisor, "x")).await.expect(200);
        assert_eq!((&answer["added"], &answer["already_expired"]), (&json!(0), &json!(1)));
        let warning = answer["warnings"][0].as_str().unwrap();
        assert!(warning.contains(&format!("look like {unit}:")), "{warning}");
        let body = json!({"requests": [
            {"entity_type": "user", "feature": "seen", "entity_id": "u", "items": [
                {"timestamp": ago(1) / divisor, "value": "x"},
            ]},
        ]});
        let answer = api.post("/v1/lists:batchAdd", body).await.expect(200);
        assert_eq!(answer["results"][0]["warnings"][0], warning);
    }
}

#[tokio::test]
async fn one_bad_item_refuses_the_whole_add() {
    let api = api().await;
    api.feature("seen", "int64", "30d").await;
    let list = items("seen", "u");
    let good = json!({"timestamp": ago(1), "value": 1});
    for (bad, code, field) in [
        (json!({"timestamp": ago(1), "value": "x"}), "value_type_mismatch", "items[2].value"),
        (json!({"timestamp": ago(1), "value": null}), "value_type_mismatch", "items[2].value"),
        (json!({"timestamp": "soon", "value": 1}), "invalid_timestamp", "items[2].timestamp"),
        (json!({"timestamp": 1.5, "value": 1}), "invalid_timestamp", "items[2].timestamp"),
        (json!({"timestamp": -1, "value": 1}), "invalid_timestamp", "items[2].timestamp"),
        (json!({"timestamp": 10_000_000_000_000_000_000_u64, "value": 1}), "invalid_timestamp", "items[2].timestamp"),
        (json!({"timestamp": "99999999999999999999", "value": 1}), "invalid_timestamp", "items[2].timestamp"),
        (json!({"timestamp": null, "value": 1}), "invalid_argument", "items[2].timestamp"),
        (
            json!({"timestamp": 9_999_999_999_999_999_999_u64, "value": 1}),
            "timestamp_too_far_ahead",
            "items[2].timestamp",
        ),
        (json!({"timestamp": ago(1)}), "invalid_argument", "items[2].value"),
        (json!({"value": 1}), "invalid_argument", "items[2].timestamp"),
        (json!({"timestamp": ago(1), "value": 1, "ttl": 1}), "invalid_argument", "items[2].ttl"),
        (json!([ago(1), 1]), "invalid_argument", "items[2]"),
        (json!(null), "invalid_argument", "items[2]"),
    ] {
        let body = json!({"items": [good, good, bad, good]});
        api.post(&list, body).await.refused(code, field);
        assert!(api.values(&list).await.is_empty(), "stored next to {bad}");
    }
}

/// A timestamp far in the future would hide all other items of a bounded list.
#[tokio::test]
async fn timestamps_may_be_ahead_of_the_server_by_a_setting() {
    const HOUR: u64 = 3_600_000_000_000;
    let list = items("seen", "u");
    for (setting, taken, refused) in
        [("1d", 23 * HOUR, Some(25 * HOUR)), ("2h", HOUR, Some(3 * HOUR)), ("none", 90_000 * HOUR, None)]
    {
        let api = api_with(&[("items.timestamp_ahead_max", setting)]).await;
        api.feature("seen", "string", "30d").await;
        api.post(&list, one(ago(0) + taken, "taken")).await.expect(200);
        if let Some(refused) = refused {
            let answer = api.post(&list, one(ago(0) + refused, "refused")).await;
            answer.refused("timestamp_too_far_ahead", "items[0].timestamp");
        }
        assert_eq!(api.values(&list).await, ["taken"], "{setting}");
        // Items that are far ahead can be found and removed by their time.
        let removed = api.post(&format!("{list}:remove"), json!({"min_timestamp": ago(0) + HOUR / 2})).await;
        assert_eq!(removed.expect(200), json!({"removed": 1}), "{setting}");
        assert!(api.values(&list).await.is_empty(), "{setting}");
    }
}

/// A version's own bound replaces the server's, in either direction, and at once.
#[tokio::test]
async fn timestamps_may_be_ahead_up_to_the_bound_of_the_version() {
    const HOUR: u64 = 3_600_000_000_000;
    const SEEN: &str = "/v1/features/user/seen";
    let api = api_with(&[("items.timestamp_ahead_max", "3h")]).await;
    let definition = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "30d",
                            "timestamp_ahead_max": "60m"});
    api.post("/v1/features", definition).await.expect(201);
    let feature = api.get(SEEN).await.expect(200);
    assert_eq!(
        (&feature["timestamp_ahead_max"], &feature["versions"][0]["timestamp_ahead_max"]),
        (&json!("1h"), &json!("1h"))
    );
    let list = items("seen", "u");
    let takes = async |list: &str, ahead: u64| {
        let answer = api.post(list, one(ago(0) + ahead, "ahead")).await;
        if answer.status == 200 {
            return None;
        }
        let problem = answer.refused("timestamp_too_far_ahead", "items[0].timestamp");
        Some(problem["detail"].as_str().unwrap().to_owned())
    };
    assert_eq!(takes(&list, HOUR / 2).await, None);
    let refused = takes(&list, 2 * HOUR).await.unwrap();
    assert!(refused.contains("1h ahead") && refused.contains("of the feature version"), "{refused}");
    for (bound, ahead, is_taken) in [
        (json!("5h"), 4, true),
        (json!("5h"), 6, false),
        (json!("none"), 90_000, true),
        (json!(null), 2, true),
        (json!(null), 4, false),
    ] {
        let feature = api.patch(SEEN, json!({"timestamp_ahead_max": bound})).await.expect(200);
        assert_eq!(feature.get("timestamp_ahead_max").cloned().unwrap_or_default(), bound);
        assert_eq!(takes(&list, ahead * HOUR).await.is_none(), is_taken, "{bound} {ahead}");
    }
    let refused = takes(&list, 4 * HOUR).await.unwrap();
    assert!(refused.contains("3h ahead") && refused.contains("(items.timestamp_ahead_max)"), "{refused}");

    // Of other versions, of sets, and of many lists in one call.
    api.patch(SEEN, json!({"timestamp_ahead_max": "1h"})).await.expect(200);
    let versions = format!("{SEEN}/versions");
    let version = async |body: Value| api.post(&versions, body).await.expect(201).get("timestamp_ahead_max").cloned();
    assert_eq!(version(json!({"version": "copied"})).await, Some(json!("1h")));
    assert_eq!(version(json!({"version": "server", "timestamp_ahead_max": null})).await, None);
    assert_eq!(
        version(json!({"version": "set", "identity": "value", "timestamp_ahead_max": "2h"})).await,
        Some(json!("2h"))
    );
    for (version, ahead, is_taken) in
        [("copied", 2, false), ("server", 2, true), ("server", 4, false), ("set", 1, true), ("set", 3, false)]
    {
        // A minute less, for the time that the call takes.
        let nanos = ahead * HOUR - HOUR / 60;
        let taken = takes(&format!("{list}?version={version}"), nanos).await;
        assert_eq!(taken.is_none(), is_taken, "{version} {ahead}");
        let request = json!({"entity_type": "user", "feature": "seen", "version": version, "entity_id": "b",
                             "items": [{"timestamp": ago(0) + nanos, "value": "b"}]});
        let results = api.post("/v1/lists:batchAdd", json!({"requests": [request]})).await.expect(200);
        assert_eq!(results["results"][0].get("added").is_some(), is_taken, "{results}");
    }
    let at = format!("{versions}/set");
    let patched = api.patch(&at, json!({"timestamp_ahead_max": "none"})).await.expect(200);
    assert_eq!(patched["timestamp_ahead_max"], "none");
    let last = &api.get(&format!("{SEEN}/history")).await.expect(200)["history"][0];
    let of = |side: &str| last[side]["timestamp_ahead_max"].clone();
    assert_eq!((of("before"), of("after")), (json!("2h"), json!("none")));
    for bad in [json!("0s"), json!("1 day"), json!(86_400), json!("")] {
        api.patch(&at, json!({"timestamp_ahead_max": bad})).await.refused("invalid_argument", "timestamp_ahead_max");
    }
    let too_long = json!({"timestamp_ahead_max": "7301d"});
    api.patch(&at, too_long).await.refused("ttl_too_long", "timestamp_ahead_max");
}

/// The clock of a client is ahead of the server's, and no store holds an item for longer than the longest TTL.
#[tokio::test]
async fn the_longest_ttl_has_room_for_clocks_that_differ() {
    let api = api().await;
    api.feature("seen", "string", "7300d").await;
    let list = items("seen", "u");
    api.post(&list, one(ago(0) + 60_000_000_000, "ahead")).await.expect(200);
    assert_eq!(api.values(&list).await, ["ahead"]);
}

#[tokio::test]
async fn one_to_a_thousand_items_are_accepted() {
    let api = api().await;
    api.feature("seen", "int64", "30d").await;
    let (list, now) = (items("seen", "u"), ago(60));
    let many = |count: u64| -> Value {
        let items: Vec<_> = (0..count).map(|n| json!({"timestamp": now, "value": n})).collect();
        json!({ "items": items })
    };
    api.post(&list, many(0)).await.refused("invalid_argument", "items");
    api.post(&list, many(1_001)).await.refused("invalid_argument", "items");
    assert!(api.values(&list).await.is_empty());
    assert_eq!(api.post(&list, many(1_000)).await.expect(200), json!({"added": 1_000, "already_expired": 0}));
    assert_eq!(api.values(&format!("{list}?limit=10000")).await.len(), 1_000);
}

#[tokio::test]
async fn a_request_is_validated_before_any_look_up() {
    let api = api().await;
    let list = items("unknown", "u");
    api.post(&list, json!({"items": []})).await.refused("invalid_argument", "items");
    api.post(&list, one("soon", 1)).await.refused("invalid_timestamp", "items[0].timestamp");
    api.post(&format!("{list}?foo=1"), one(1, 1)).await.refused("invalid_argument", "foo");
    api.get(&format!("{list}?limit=0")).await.refused("invalid_argument", "limit");
    // Checks that depend on the feature follow the look-up.
    api.post(&list, one(1, "x".repeat(64_001))).await.refused("feature_not_found", "");
    api.get(&format!("{list}?page_token=forged")).await.refused("feature_not_found", "");
}

#[tokio::test]
async fn items_dated_in_the_future_are_visible_at_once() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    api.add(&list, &[(ago(0) + 86_400_000_000_000, "tomorrow".into()), (ago(1), "now".into())]).await;
    assert_eq!(api.values(&list).await, ["tomorrow", "now"]);
}
