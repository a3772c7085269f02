//! What strangers write into names and values is shown, and does nothing.

use std::rc::Rc;

use reqwest::Method;
use serde_json::json;

use crate::api::Api;
use crate::page::Page;

const SCRIPT: &str = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">";

pub async fn names_and_values_do_no_harm(page: Rc<Page>) {
    let api = Api::start().await;
    let rtl = "\u{202E}gnorw si siht \u{2066}\u{0000}".trim_end_matches('\0').to_owned();
    let (long, wide) = ("x".repeat(2_000), "W".repeat(128));
    for (name, description, owner) in [
        ("markup", SCRIPT.to_owned(), SCRIPT.to_owned()),
        ("turned", rtl.clone(), rtl.clone()),
        (&*wide, long, "y".repeat(200)),
    ] {
        let body = json!({"entity_type": "user", "name": name, "value_type": "json", "ttl": "30d", "description": description,
            "owner": owner, "labels": {"k": SCRIPT, "z".repeat(63): "v".repeat(255)}});
        api.send(Method::POST, "/v1/features", body).await;
    }
    let hostile_id = "..%2F%3Cb%3E%20%E2%80%AE%22'%26%23";
    let deep = (0..45).fold(json!(SCRIPT), |inner, _| json!({"deeper <b>": [inner]}));
    let items =
        [json!(SCRIPT), json!({"__proto__": {"polluted": true}, "<b>key</b>": rtl}), deep, json!("z".repeat(60_000))];
    let mut stored = Vec::new();
    for (number, value) in items.into_iter().enumerate() {
        stored.push(json!({"timestamp": crate::api::ago_text(number as u64 + 1), "value": value}));
    }
    api.send(Method::POST, &format!("/v1/lists/user/markup/{hostile_id}/items"), json!({"items": stored})).await;
    let views = [
        "/console/features".to_owned(),
        "/console/features/user/markup".to_owned(),
        "/console/features/user/turned".to_owned(),
        format!("/console/features/user/{wide}"),
        format!("/console/features/user/{wide}/edit"),
        "/console/features/user/markup/history".to_owned(),
        format!("/console/lists?type=user&feature=markup&id={hostile_id}"),
        "/console/access/audit".to_owned(),
    ];
    for view in views {
        page.open(&api.url(&view)).await;
        page.holds("document.querySelector('h1') && !document.querySelector('.loading')").await;
        page.is_accessible().await;
        page.holds("!document.title.includes('taken')").await;
        page.holds("!document.querySelector('main script, main img, main b')").await;
        page.holds("({}).polluted === undefined").await;
    }
    page.open(&api.url(&format!("/console/lists?type=user&feature=markup&id={hostile_id}"))).await;
    page.sees("<script>document.title=").await;
    page.holds("document.body.innerText.includes('⟨U+202E⟩')").await;
    // An address that no feature can have.
    page.open(&api.url("/console/features/user/a%252F%3Cb%3E")).await;
    page.sees("An argument is not valid").await;
    page.expects_refusals(400).await;
}
