//! Sets and bounded lists: unique members, look-ups, and the reasons of missing items.

use std::rc::Rc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, ago_text};
use crate::page::Page;

/// Suspended users: each is unique, with a reason.
pub async fn a_keyed_set_is_kept_by_hand(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/console/features/new")).await;
    page.fill("Entity type", "user").await;
    page.fill("Name", "seen").await;
    page.choose("Identity", "Key").await;
    page.sees("each key occurs once, with a value").await;
    page.choose("Kept item", "the newest item is kept").await;
    page.fill("Maximum items per list", "50").await;
    page.fill("Timestamps ahead, at most", "12h").await;
    page.is_accessible().await;
    page.click("button", "Create feature").await;
    page.the("heading", "user.seen").await;
    page.sees("the newest item is kept").await;
    page.is_accessible().await;
    let made = api.get("/v1/features/user/seen").await;
    assert_eq!((&made["identity"], &made["keep"], &made["max_items"]), (&json!("key"), &json!("newest"), &json!(50)));
    assert_eq!(made["timestamp_ahead_max"], "12h");
    page.sees("12 hours at most").await;

    page.open(&api.url("/console/lists?type=user&feature=seen&id=spam")).await;
    page.sees("each key once").await;
    for (key, value, time) in [("u-17", "sent 400 mails", "-2h"), ("u-18", "reported", "-1h"), ("u-17", "again", "")] {
        page.click("button", "Add an item").await;
        page.the("dialog", "Add an item").await;
        page.holds("[...document.querySelectorAll('dialog button')].find((b) => b.innerText === 'Add').disabled").await;
        page.fill("Key", key).await;
        page.fill("Value", value).await;
        page.fill("Time", time).await;
        page.click("button", "Add").await;
        page.no("dialog", "Add an item").await;
    }
    page.sees("2 items over").await;
    page.is_accessible().await;
    let items = "/v1/lists/user/seen/spam/items";
    assert_eq!(keys_and_values(&api.get(items).await), ["u-17 again", "u-18 reported"]);

    page.fill("Key to look up", "u-18").await;
    page.click("button", "Look up").await;
    page.sees("It is in the list.").await;
    page.is_accessible().await;
    page.fill("Key to look up", "u-404").await;
    page.click("button", "Look up").await;
    page.sees("It is not in the list.").await;

    // The item of the key is removed, with any value.
    page.click("button", "Remove this value").await;
    page.the("dialog", "Remove this value?").await;
    page.sees("This removes the item with the key u-17 from the list of spam").await;
    page.is_accessible().await;
    page.click("button", "Remove").await;
    page.sees("1 item was removed").await;
    assert_eq!(keys_and_values(&api.get(items).await), ["u-18 reported"]);
}

fn keys_and_values(list: &Value) -> Vec<String> {
    let text = |item: &Value| format!("{} {}", item["key"].as_str().unwrap(), item["value"].as_str().unwrap());
    list["items"].as_array().unwrap().iter().map(text).collect()
}

/// A version may have another identity than its feature.
pub async fn a_version_is_a_set_of_values(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/features/user/seen")).await;
    page.click("button", "Add a version").await;
    page.fill("Version", "first").await;
    page.choose("Identity", "Value").await;
    page.choose("Kept item", "the oldest item is kept").await;
    page.is_accessible().await;
    page.click("button", "Add").await;
    page.sees("Version first was added").await;
    page.sees("the oldest item is kept").await;
    let version = api.get("/v1/features/user/seen/versions/first").await;
    assert_eq!((&version["identity"], &version["keep"]), (&json!("value"), &json!("oldest")));
    page.open(&api.url("/console/lists?type=user&feature=seen&version=first&id=u-1")).await;
    page.sees("each value once").await;
    for time in ["-2h", "-1h"] {
        page.click("button", "Add an item").await;
        page.fill("Value", "story-1").await;
        page.fill("Time", time).await;
        page.click("button", "Add").await;
        page.no("dialog", "Add an item").await;
    }
    page.sees("1 item at").await;
    page.fill("Value to look up", "story-1").await;
    page.click("button", "Look up").await;
    page.sees("It is in the list.").await;
    page.run("document.querySelector('.missing').open = true").await;
    page.fill("Time of the item", "-1h").await;
    page.fill("Its value, if you know it", "story-1").await;
    page.click("button", "Find out").await;
    page.sees("An older item with its value has replaced it.").await;
    page.is_accessible().await;
}

pub async fn replaced_and_evicted_items_are_explained(page: Rc<Page>) {
    let api = Api::start().await;
    let body = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "30d", "identity": "key", "max_items": 3});
    api.send(Method::POST, "/v1/features", body).await;
    let item = |ago: u64, key: &str| json!({"timestamp": ago_text(ago), "key": key, "value": format!("at {ago}")});
    let items =
        [item(7_200, "a"), item(7_000, "b"), item(6_000, "c"), item(5_000, "d"), item(3_600, "e"), item(60, "d")];
    for items in items.chunks(1) {
        api.send(Method::POST, "/v1/lists/user/seen/u-1/items", json!({ "items": items })).await;
    }
    page.open(&api.url("/console/lists?type=user&feature=seen&id=u-1")).await;
    page.sees("3 items over").await;
    page.sees("the newest 3 of them").await;
    page.run("document.querySelector('.missing').open = true").await;
    for (ago, key, verdict) in [
        (5_000, "d", "A newer item with its key has replaced it."),
        (7_200, "a", "It is beyond the newest 3 items."),
        (3_600, "e", "It exists"),
        (30, "e", "It is not stored, although it would not have expired yet."),
    ] {
        page.fill("Time of the item", &ago_text(ago)).await;
        page.fill("Its key, if you know it", key).await;
        page.click("button", "Find out").await;
        page.sees(verdict).await;
    }
    page.is_accessible().await;
}
