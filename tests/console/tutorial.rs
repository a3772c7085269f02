//! The tutorial of the console, followed step by step.

use std::rc::Rc;

use regex::Regex;
use serde_json::json;

use crate::api::Api;
use crate::page::Page;

const TUTORIAL: &str = include_str!("../../docs/tutorials/console.md");

/// The steps are sentences of a few forms: `open` an address or a section, `click`, `enter` a text in a field, `choose`
/// from a list, and `see` a text.
const STEPS: &str = r"(?x)
    [Oo]pen\s+`(?<address>[^`]+)`
    | [Oo]pen\s+the\s+section\s+\*\*(?<section>[^*]+)\*\*
    | [Cc]lick\s+\*\*(?<click>[^*]+)\*\*
    | [Ee]nter\s+`(?<text>[^`]+)`\s+in\s+\*\*(?<field>[^*]+)\*\*
    | [Cc]hoose\s+`(?<option>[^`]+)`\s+in\s+\*\*(?<list>[^*]+)\*\*
    | [Ss]ee\s+\*(?<seen>[^*]+)\*";

pub async fn its_steps_work(page: Rc<Page>) {
    let api = Api::start().await;
    let mut steps = 0;
    for step in Regex::new(STEPS).unwrap().captures_iter(TUTORIAL) {
        steps += 1;
        let part = |name: &str| step.name(name).map(|part| part.as_str());
        if let Some(address) = part("address") {
            let path = address.strip_prefix("http://127.0.0.1:8080").expect("an address of the server");
            page.open(&api.url(path)).await;
        } else if let Some(section) = part("section") {
            assert_eq!(section, "Why is an item missing?");
            page.sees(section).await;
            page.run("document.querySelector('.missing').open = true").await;
        } else if let Some(name) = part("click") {
            page.click_the(name).await;
        } else if let (Some(text), Some(field)) = (part("text"), part("field")) {
            page.fill(field, text).await;
        } else if let (Some(option), Some(list)) = (part("option"), part("list")) {
            page.fill_the("combobox", list, option).await;
        } else if let Some(text) = part("seen") {
            page.sees(text).await;
        }
    }
    assert!(steps > 30, "the tutorial has {steps} steps");
    page.sees("leave the store by").await;
    assert_eq!(api.get("/v1/features").await["features"], json!([]));
}
