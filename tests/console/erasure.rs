//! Erasure: purges in the background, and an entity with its receipt.

use std::rc::Rc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, ago_text};
use crate::page::Page;

pub async fn a_feature_is_purged(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    api.add("seen", &[(5, json!("a")), (6, json!("b"))]).await;
    page.open(&api.url("/console/erasure")).await;
    page.sees("No purge yet").await;
    page.is_accessible().await;
    page.fill_the("combobox", "Feature", "user.seen").await;
    page.click("button", "Purge").await;
    page.the("dialog", "Purge its items?").await;
    page.sees("1 list with 2 items").await;
    page.is_accessible().await;
    page.holds("document.querySelector('dialog .danger.solid').disabled").await;
    page.fill("Type user.seen to purge it", "user.seen").await;
    page.click("button", "Purge permanently").await;
    page.sees("1 of 1 versions finished").await;
    page.sees("bytes erased").await;
    page.is_accessible().await;
    let job = api.get("/v1/jobs").await["jobs"][0].clone();
    assert_eq!((&job["state"], &job["lists_cleared"]), (&json!("done"), &json!(1)));
    assert_eq!(api.get("/v1/lists/user/seen/u-1/items").await["items"], json!([]));
    // The rest of a deletion is erased in the same way.
    api.send(Method::DELETE, "/v1/features/user/seen", Value::Null).await;
    page.open(&api.url("/console/features/user/seen")).await;
    page.click("link", "Erase remaining items").await;
    page.sees("its remaining items are purged").await;
    page.expects_refusals(404).await;
    page.open("about:blank").await;
}

/// The question also names the removed items of a feature that the page has not read yet.
pub async fn a_purge_of_a_feature_that_is_not_loaded_shows_its_consequences(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    api.add("seen", &[(5, json!("a")), (6, json!("b"))]).await;
    page.open(&api.url("/console/erasure/entity")).await;
    page.sees("Which entity should be erased?").await;
    // The page of all features never arrives.
    page.run(
        "window.really = fetch;
         window.fetch = (url, options) => (String(url).startsWith('/v1/features?') ? new Promise(() => {}) : really(url, options));",
    )
    .await;
    // The navigation has a link of the same name.
    page.run("document.querySelector('nav.tabs a').click()").await;
    page.sees("No purge yet").await;
    page.fill_the("combobox", "Feature", "user.seen").await;
    page.click("button", "Purge").await;
    page.the("dialog", "Purge its items?").await;
    page.sees("All items of user.seen are removed.").await;
    page.sees("1 list with 2 items").await;
    page.is_accessible().await;
    page.open("about:blank").await;
}

pub async fn a_purge_is_paused_resumed_and_cancelled(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    let item = json!([{"timestamp": ago_text(60), "value": "x"}]);
    let request = |n| json!({"entity_type": "user", "feature": "seen", "entity_id": format!("u-{n}"), "items": item});
    let requests: Vec<_> = (0..300).map(request).collect();
    api.send(Method::POST, "/v1/lists:batchAdd", json!({ "requests": requests })).await;
    page.open(&api.url("/console/erasure?type=user&feature=seen")).await;
    page.fill("Maximum lists per second", "1").await;
    page.click("button", "Purge").await;
    page.fill("Type user.seen to purge it", "user.seen").await;
    page.click("button", "Purge permanently").await;
    page.click("button", "Pause the purge of user.seen").await;
    page.sees("paused").await;
    page.is_accessible().await;
    page.reload().await;
    page.click("button", "Resume the purge of user.seen").await;
    page.the("button", "Pause the purge of user.seen").await;
    page.click("button", "Cancel the purge of user.seen").await;
    page.the("dialog", "Cancel this purge?").await;
    page.is_accessible().await;
    page.click("button", "Cancel permanently").await;
    page.sees("cancelled").await;
    page.no("button", "Pause the purge of user.seen").await;
    let job = api.get("/v1/jobs").await["jobs"][0].clone();
    assert_eq!((&job["state"], &job["lists_per_second"]), (&json!("cancelled"), &json!(1)));
    page.open("about:blank").await;
}

pub async fn an_entity_is_erased_with_a_receipt(page: Rc<Page>) {
    let api = Api::start().await;
    page.may_use_the_clipboard().await;
    api.feature("seen", "string", "30d").await;
    api.feature("opened", "int64", "30d").await;
    api.feature("unused", "int64", "30d").await;
    api.add("seen", &[(5, json!("a"))]).await;
    api.add("opened", &[(5, json!(1))]).await;
    page.open(&api.url("/console/erasure")).await;
    page.click("link", "An entity").await;
    page.sees("Which entity should be erased?").await;
    page.is_accessible().await;
    page.fill_the("combobox", "Entity type", "user").await;
    page.fill("Entity ID", "u-1").await;
    page.click("button", "Look").await;
    page.sees("It has items in 2 lists.").await;
    page.is_accessible().await;
    page.reload().await;
    page.the("link", "opened").await;
    page.click("button", "Erase").await;
    page.fill("Type u-1 to erase it", "u-1").await;
    page.is_accessible().await;
    page.click("button", "Erase permanently").await;
    page.sees("The erasure is complete.").await;
    page.sees("3 lists were cleared.").await;
    page.is_accessible().await;
    // A receipt is not lost with the page.
    page.reload().await;
    page.sees("The erasure is complete.").await;
    page.click("button", "Copy the receipt").await;
    page.holds("document.body.innerText.includes('Copy the receipt: copied')").await;
    let receipt: Value = serde_json::from_str(&page.copied().await).unwrap();
    assert_eq!((&receipt["entity_id"], &receipt["complete"]), (&json!("u-1"), &json!(true)));
    for feature in ["seen", "opened"] {
        assert_eq!(api.get(&format!("/v1/lists/user/{feature}/u-1/items")).await["items"], json!([]));
    }
    page.open(&api.url("/console/access/audit?action=erase_entity")).await;
    page.sees("entity:user/u-1").await;
}
