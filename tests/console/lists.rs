//! The list explorer: items shown, added, removed, and missed.

use std::rc::Rc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, ago_text};
use crate::page::Page;

const LIST: &str = "/console/lists?type=user&feature=seen&id=u-1";

pub async fn items_are_added_viewed_and_removed(page: Rc<Page>) {
    let api = Api::start().await;
    page.may_use_the_clipboard().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/lists")).await;
    page.sees("Which list?").await;
    page.is_accessible().await;
    page.fill_the("combobox", "Feature", "user.seen").await;
    page.fill("Entity ID", "u-1").await;
    page.click("button", "Show items").await;
    page.sees("This list is empty").await;
    for (value, time) in [("story-1", ""), ("story-2", "-2h"), ("story-1", "-3h")] {
        page.click("button", "Add an item").await;
        page.fill("Value", value).await;
        page.fill("Time", time).await;
        page.click("button", "Add").await;
        page.sees("The item was added").await;
        page.no("dialog", "Add an item").await;
    }
    page.sees("3 items over").await;
    page.is_accessible().await;
    let items = api.get("/v1/lists/user/seen/u-1/items").await["items"].clone();
    let values: Vec<_> = items.as_array().unwrap().iter().map(|item| item["value"].as_str().unwrap()).collect();
    assert_eq!(values, ["story-1", "story-2", "story-1"]);

    page.click("button", "Copy as curl").await;
    page.holds("document.body.innerText.includes('Copy as curl: copied')").await;
    let copied = page.copied().await;
    assert!(copied.starts_with("curl -s ") && copied.contains("/v1/lists/user/seen/u-1/items?limit="), "{copied}");
    page.click("button", "Copy as command").await;
    page.holds("document.body.innerText.includes('Copy as command: copied')").await;
    let copied = page.copied().await;
    assert!(copied.starts_with("liststore list get ") && copied.ends_with(" user seen u-1"), "{copied}");

    // One item alone, and then every one with its value.
    page.click("button", "Remove this value").await;
    page.the("dialog", "Remove this value?").await;
    page.is_accessible().await;
    page.choose("What to remove", "only this item").await;
    page.sees("Others with").await;
    page.click("button", "Remove").await;
    page.sees("1 item was removed").await;
    let items = api.get("/v1/lists/user/seen/u-1/items").await["items"].clone();
    let values: Vec<_> = items.as_array().unwrap().iter().map(|item| item["value"].as_str().unwrap()).collect();
    assert_eq!(values, ["story-2", "story-1"]);
    api.add("seen", &[(60, json!("story-1"))]).await;
    page.reload().await;
    page.sees("3 items over").await;
    page.click("button", "Remove this value").await;
    page.click("button", "Remove").await;
    page.sees("2 items were removed").await;
    page.click("button", "Remove all").await;
    page.fill("Type u-1 to remove them", "u-1").await;
    page.the("dialog", "Remove all items?").await;
    page.run("document.querySelector('dialog .danger.solid').focus()").await;
    page.press("\u{E007}").await;
    page.sees("This list is empty").await;
    assert_eq!(api.get("/v1/lists/user/seen/u-1/items").await["items"], json!([]));
}

/// For people who do not have an ID: page by page, and from there into a list.
pub async fn entities_are_walked_in_pages(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/lists?type=user&feature=seen")).await;
    page.sees("No entity has a list here").await;
    page.is_accessible().await;
    let item = json!([{"timestamp": ago_text(60), "value": "x"}]);
    let request = |n| json!({"entity_type": "user", "feature": "seen", "entity_id": format!("u-{n}"), "items": item});
    let requests: Vec<_> = (0..120).map(request).collect();
    api.send(Method::POST, "/v1/lists:batchAdd", json!({ "requests": requests })).await;
    page.reload().await;
    let shown = "new Set([...document.querySelectorAll('.entities a')].map((a) => a.innerText))";
    page.holds(&format!("{shown}.size === 100")).await;
    page.is_accessible().await;
    page.run(&format!("window.first = {shown}")).await;
    page.click("button", "More").await;
    page.holds(&format!("{shown}.size === 20 && [...{shown}].every((id) => !window.first.has(id))")).await;
    let id = page.run("return document.querySelector('.entities a').innerText").await;
    page.click("button", "Back").await;
    page.holds(&format!("{shown}.size === 100")).await;
    page.click("button", "More").await;
    page.holds(&format!("{shown}.size === 20")).await;
    page.click("link", id.as_str().unwrap()).await;
    page.sees("1 item at").await;
    page.the("heading", id.as_str().unwrap()).await;
}

pub async fn pages_go_both_ways_and_outlive_a_reload(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "int64", "30d").await;
    let items: Vec<_> = (0..130_u64).map(|number| (number * 600 + 5, json!(number))).collect();
    api.add("seen", &items).await;
    page.open(&api.url(LIST)).await;
    page.sees("130 items over").await;
    let first = "document.querySelector('.items .value')?.innerText";
    page.holds(&format!("{first} === '0'")).await;
    page.click("button", "Older").await;
    page.holds(&format!("{first} === '50'")).await;
    page.click("button", "Older").await;
    page.holds(&format!("{first} === '100'")).await;
    page.reload().await;
    page.holds(&format!("{first} === '100'")).await;
    page.click("button", "Newer").await;
    page.holds(&format!("{first} === '50'")).await;
    page.back().await;
    page.holds(&format!("{first} === '100'")).await;
    page.open(&api.url(LIST)).await;
    page.choose("Order", "oldest first").await;
    page.holds(&format!("{first} === '129'")).await;
    page.click("button", "Newer").await;
    page.holds(&format!("{first} === '79'")).await;
    page.click("button", "Older").await;
    page.holds(&format!("{first} === '129'")).await;
    // Between two times, by hand and by the picture.
    page.open(&api.url(LIST)).await;
    page.sees("130 items over").await;
    page.run("document.querySelector('.bounds').open = true").await;
    page.fill("From", "-1h").await;
    page.click("button", "Show items").await;
    page.sees("Only from").await;
    page.sees("6 items over").await;
    page.is_accessible().await;
    page.click("link", "Show all times").await;
    page.sees("130 items over").await;
    page.run("document.querySelectorAll('.bar')[20].focus()").await;
    page.press("\u{E014}").await;
    page.press("\u{E007}").await;
    page.sees("Only from").await;
}

pub async fn why_an_item_is_missing_is_shown(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "2h").await;
    api.send(Method::POST, "/v1/features/user/seen/versions", json!({"version": "v2", "ttl": "2h"})).await;
    api.add("seen", &[(60, json!("here"))]).await;
    let at = ago_text(600);
    let body = json!({"items": [{"timestamp": at, "value": "there"}]});
    api.send(Method::POST, "/v1/lists/user/seen/u-1/items?version=v2", body).await;
    page.open(&api.url(LIST)).await;
    page.sees("here").await;
    page.run("document.querySelector('.missing').open = true").await;
    for (time, value, verdict) in [
        ("-3h", "", "It has expired"),
        ("-30m", "", "It is not stored, although it would not have expired yet."),
        (at.as_str(), "there", "It is in another version: v2."),
        ("-1m", "here", "It exists"),
    ] {
        page.fill("Time of the item", time).await;
        page.fill("Its value, if you know it", value).await;
        page.click("button", "Find out").await;
        page.sees(verdict).await;
    }
    page.is_accessible().await;
}

/// The history and the audit trail explain a missing item.
pub async fn causes_of_a_missing_item_are_shown(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "1h").await;
    api.send(Method::PATCH, "/v1/features/user/seen", json!({"ttl": "30d"})).await;
    api.add("seen", &[(60, json!("here"))]).await;
    api.send(Method::DELETE, "/v1/entities/user/u-1", Value::Null).await;
    page.open(&api.url(LIST)).await;
    page.sees("This list is empty").await;
    page.run("document.querySelector('.missing').open = true").await;
    page.fill("Time of the item", "-2h").await;
    page.click("button", "Find out").await;
    page.sees("the time to live was 1 hour: the item had expired by then").await;
    page.sees("ada erased the entity on").await;
    page.fill("Time of the item", "-1m").await;
    page.click("button", "Find out").await;
    page.sees_no("the item had expired by then").await;
    page.sees("ada erased the entity on").await;
    // At any scroll position: here the list's buttons are half above the edge.
    page.run(
        "const { top } = document.querySelector('.list .actions').getBoundingClientRect();
         document.getElementById('below').scrollBy(0, top - 34)",
    )
    .await;
    page.is_accessible().await;
    api.send(Method::DELETE, "/v1/features/user/seen", Value::Null).await;
    api.feature("seen", "string", "30d").await;
    page.click("button", "Find out").await;
    page.sees("ada deleted the feature on").await;
}

/// A page of the audit trail that has searched much may be empty, and not be the last.
pub async fn causes_of_long_ago_are_shown(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    api.send(Method::DELETE, "/v1/entities/user/u-1", Value::Null).await;
    page.open(&api.url(LIST)).await;
    page.sees("This list is empty").await;
    page.run(
        "const really = fetch;
         window.emptyPages = 3;
         window.fetch = (path, options) => {
           const asked = new URL(path, location);
           const page = Number(asked.searchParams.get('page_token') ?? 0);
           if (asked.pathname !== '/v1/audit') return really(path, options);
           asked.searchParams.delete('page_token');
           if (page === emptyPages) return really(asked.pathname + asked.search, options);
           const body = JSON.stringify({ changes: [], next_page_token: String(page + 1) });
           return Promise.resolve(new Response(body, { headers: { 'Content-Type': 'application/json' } }));
         };",
    )
    .await;
    page.run("document.querySelector('.missing').open = true").await;
    page.fill("Time of the item", "-1m").await;
    page.click("button", "Find out").await;
    page.sees("ada erased the entity on").await;
    page.run("window.emptyPages = Infinity").await;
    page.click("button", "Find out").await;
    page.sees("The audit trail is too long to search completely").await;
    page.sees_no("ada erased the entity on").await;
}

pub async fn values_of_each_type_are_shown(page: Rc<Page>) {
    let api = Api::start().await;
    let large: Value = serde_json::from_str(&format!("[{}]", "{\"a\":[1,2,3]},".repeat(2_000) + "1")).unwrap();
    let cases = [
        ("int64", json!(9_007_199_254_740_993_i64), "9007199254740993"),
        ("double", json!(0.1), "0.1"),
        ("bool", json!(true), "true"),
        ("bytes", json!("3q2+7w=="), "de ad be ef"),
        ("json", json!({"id": 7, "names": ["a", null, {"deep": false}]}), "\"id\": 7"),
        ("string", json!("é \u{1F600}"), "é \u{1F600}"),
    ];
    for (kind, value, shown) in &cases {
        api.feature(kind, kind, "30d").await;
        api.add(kind, &[(5, value.clone())]).await;
        page.open(&api.url(&format!("/console/lists?type=user&feature={kind}&id=u-1"))).await;
        page.sees(shown).await;
        page.is_accessible().await;
    }
    api.add("json", &[(1, large)]).await;
    page.open(&api.url("/console/lists?type=user&feature=json&id=u-1")).await;
    page.holds("document.querySelectorAll('details.fold').length === 2").await;
    page.run("document.querySelector('details.fold > summary').click()").await;
    page.sees("Show more of 2,001 members").await;
    page.is_accessible().await;
}

pub async fn a_list_is_aggregated_in_windows(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("paid", "int64", "1d").await;
    api.add("paid", &[(30, json!(5)), (1_800, json!(7)), (7_200, json!(30))]).await;
    page.open(&api.url("/console/lists?type=user&feature=paid&id=u-1")).await;
    page.sees("Aggregate").await;
    page.run("document.querySelector('.aggregate').open = true").await;
    page.fill("Windows", "10m, 1h, 7d").await;
    page.choose("Function", "sum").await;
    page.click("button", "Aggregate").await;
    page.sees("3 items read").await;
    page.is_accessible().await;
    let rows = "[...document.querySelectorAll('.aggregates tbody tr')]";
    let sums = page.run(&format!("return {rows}.map((row) => row.children[1].innerText.trim())")).await;
    assert_eq!(sums, json!(["5", "12", "42"]));
    // The bars are to scale.
    let widths = page.run(&format!("return {rows}.map((row) => row.querySelector('.window-bar').style.width)")).await;
    assert_eq!(widths[2], json!("100%"));
    // No window shows more than the list has.
    page.sees("Not complete: older items have expired.").await;
    page.fill("Windows", "1 hour").await;
    page.sees("is no duration such as 10m, 1h or 7d.").await;

    // A null that an item has differs from no items, and from items without the property.
    api.feature("visit", "json", "1d").await;
    api.add("visit", &[(30, json!({"page": null})), (7_200, json!({"page": "home"})), (14_400, json!({}))]).await;
    page.open(&api.url("/console/lists?type=user&feature=visit&id=u-1")).await;
    page.sees("Aggregate").await;
    page.run("document.querySelector('.aggregate').open = true").await;
    let results = async |ends: &str, shown: [&str; 2]| {
        page.fill("End", ends).await;
        page.click("button", "Aggregate").await;
        let shown = json!(shown).to_string();
        let are = format!("JSON.stringify({rows}.map((row) => row.children[1].innerText.trim())) === '{shown}'");
        page.holds(&are).await;
    };
    page.fill("Windows", "1s, 10m").await;
    page.choose("Function", "newest value").await;
    page.fill("Property", "/page").await;
    results("", ["no items", "null"]).await;
    results("-3h55m", ["no items", "no such value"]).await;
    page.is_accessible().await;
}
