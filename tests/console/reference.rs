//! The API's reference, and a call that is tried.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::api::Api;
use crate::page::Page;

pub async fn a_call_is_read_about_and_tried(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    api.add("seen", &[(5, json!("a-value"))]).await;
    page.open(&api.url("/docs")).await;
    page.the("heading", "API reference").await;
    page.is_accessible().await;
    page.open(&api.url("/docs/get_items")).await;
    page.the("heading", "Get list items").await;
    page.sees("feature_not_found").await;
    page.fill("feature", "seen").await;
    page.fill("entity_id", "u-1").await;
    page.click("button", "Send").await;
    page.sees("\"a-value\"").await;
    page.is_accessible().await;
    page.open(&api.url("/docs/create_feature")).await;
    page.the("heading", "Create a feature").await;
    page.sees("value_type").await;
    page.is_accessible().await;
}

/// The `type` of a problem is the path of the page that explains it.
pub async fn a_problem_leads_to_its_explanation(page: Rc<Page>) {
    let api = Api::start().await;
    let answer = reqwest::get(api.url("/v1/features/user/absent")).await.unwrap().text().await.unwrap();
    let problem: Value = serde_json::from_str(&answer).unwrap();
    page.open(&api.url(problem["type"].as_str().unwrap())).await;
    page.the("heading", problem["title"].as_str().unwrap()).await;
    page.sees("there is no such feature").await;
    page.sees("liststore feature list").await;
    page.is_accessible().await;
    page.click("link", "etag_mismatch").await;
    page.the("heading", "The resource changed after the entity tag was read").await;
    page.open(&api.url("/docs/errors/of_another_release")).await;
    page.sees("This server has no error code of_another_release").await;
}

pub async fn calls_are_listed_in_the_order_of_their_use(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/docs")).await;
    page.the("heading", "API reference").await;
    page.holds("document.querySelectorAll('.calls a').length > 4").await;
    let titles = page.run("return [...document.querySelectorAll('.calls a')].map((a) => a.innerText)").await;
    let titles: Vec<_> = titles.as_array().unwrap().iter().map(|title| title.as_str().unwrap()).collect();
    assert_eq!(titles[..4], ["Get list items", "Add list items", "Get items of many lists", "Add items to many lists"]);
    for title in titles {
        let is_name = |word: &str| ["API", "ID", "OpenAPI", "Prometheus'"].contains(&word);
        let is_sentence = title.split(' ').skip(1).all(|word| is_name(word) || word.starts_with(char::is_lowercase));
        assert!(is_sentence && title.starts_with(char::is_uppercase), "{title}");
    }
}
