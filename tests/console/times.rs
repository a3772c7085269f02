//! Times: as they are shown, and as people type them.

use std::rc::Rc;

use reqwest::Method;
use serde_json::json;

use crate::api::Api;
use crate::page::Page;

const LIST: &str = "/console/lists?type=user&feature=seen&id=u-1";
const TABLE: &str = include_str!("../support/typed_times.json");

/// The console and the commands read the same spellings: one table is the test of both.
pub async fn fields_take_what_commands_take(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/console")).await;
    page.run(&format!(
        "const {{ now, typed, bounds }} = {TABLE};
         window.wrong = null;
         import('/console/static/lib/times.js').then(({{ readTime, timeOfAnyYear, rfc3339 }}) => {{
           const wrong = (spellings, reader) => {{
             const read = (text) => reader(text, readTime(now, 0n).ns);
             return spellings.filter(({{ text, at, assumes_utc, refused }}) => {{
               const {{ ns, isUtcAssumed, error }} = read(text);
               return at ? ns === undefined || rfc3339(ns) !== at || Boolean(isUtcAssumed) !== Boolean(assumes_utc)
                 : !error?.includes(refused);
             }}).map(({{ form, text }}) => `${{form}}: ${{text}}: ${{read(text).error ?? rfc3339(read(text).ns)}}`);
           }};
           window.wrong = [...wrong(typed, readTime), ...wrong(bounds, timeOfAnyYear)];
         }});"
    ))
    .await;
    page.holds("window.wrong !== null").await;
    assert_eq!(page.run("return window.wrong").await, json!([]));
}

/// Items of 2010, under a TTL that still shows them.
async fn old_items(api: &Api) {
    api.feature("seen", "string", "7300d").await;
    let items = json!({"items": [
        {"timestamp": "2010-12-01T08:26:00.123456789Z", "value": "first"},
        {"timestamp": "2010-12-05T08:26:00Z", "value": "second"},
        {"timestamp": "2011-01-01T08:26:00Z", "value": "third"},
    ]});
    api.send(Method::POST, "/v1/lists/user/seen/u-1/items", items).await;
}

pub async fn times_have_seconds_and_a_zone_and_one_switch(page: Rc<Page>) {
    let api = Api::start().await;
    page.command("Emulation.setTimezoneOverride", json!({"timezoneId": "Asia/Kolkata"})).await;
    old_items(&api).await;
    page.open(&api.url(LIST)).await;
    page.sees("2010-12-01 08:26:00 UTC").await;
    // The exact time is reached by the keyboard.
    page.the("button", "2010-12-01 08:26:00 UTC").await.send_keys("\u{E007}").await.unwrap();
    page.sees("2010-12-01T08:26:00.123456789Z").await;
    page.is_accessible().await;
    page.click("button", "Times: UTC. Change to local").await;
    page.sees("2010-12-01 13:56:00 +05:30").await;
    page.sees_no("08:26:00 UTC").await;
    page.is_accessible().await;
    // A field takes a time in the form that the page shows.
    page.run("document.querySelector('.bounds').open = true").await;
    page.fill("From", "2010-12-05 13:56:00 +05:30").await;
    page.fill("To", "2010-12-31").await;
    page.sees("That is 2010-12-31 05:30:00 +05:30.").await;
    page.click("button", "Show items").await;
    page.sees("1 item at 2010-12-05 13:56:00 +05:30").await;
    // All pages have the switch, and it outlives a reload.
    page.open(&api.url("/console/features/user/seen/history")).await;
    page.sees("+05:30").await;
    page.click("button", "Times: local. Change to UTC").await;
    page.sees_no("+05:30").await;
    page.command("Emulation.setTimezoneOverride", json!({"timezoneId": ""})).await;
}

pub async fn the_timeline_fits_its_items(page: Rc<Page>) {
    let api = Api::start().await;
    old_items(&api).await;
    page.open(&api.url(LIST)).await;
    page.sees("3 items over 1 month").await;
    let counts = "[...document.querySelectorAll('.bar')].map((bar) => parseInt(bar.getAttribute('aria-label')))";
    page.holds(&format!("{counts}.at(0) === 1 && {counts}.at(-1) === 1")).await;
    page.holds(&format!("{counts}.reduce((a, b) => a + b) === 3")).await;
    let axis = page.run("return document.querySelector('.axis').innerText").await;
    assert!(axis.as_str().unwrap().contains("2011-01-01 08:26:00 UTC"), "{axis}");
    // A bar leads to its items and no other.
    page.run("document.querySelectorAll('.bar')[0].click()").await;
    page.sees("1 item at 2010-12-01 08:26:00 UTC").await;
    page.sees_no("third").await;
    page.is_accessible().await;
}
