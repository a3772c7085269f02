//! Health: as reported, and without a server.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::{Api, end_servers};
use crate::page::Page;

pub async fn checks_and_graphs_are_live(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/health")).await;
    page.sees("All checks pass").await;
    page.sees("Anyone who can reach this server has full access.").await;
    page.holds("document.querySelectorAll('.graph canvas').length >= 6").await;
    // A reading shows the writes since the previous one.
    let is_shown = "return /writes\\s+(0\\.[1-9]|[1-9])/.test(document.body.innerText)";
    let began = Instant::now();
    while page.run(is_shown).await != true {
        assert!(began.elapsed() < Duration::from_secs(30), "no reading shows that something was written");
        api.add("seen", &[(5, json!("a"))]).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    page.is_accessible().await;
}

pub async fn the_pool_is_resized(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/console/health")).await;
    page.sees("2 actors of this server").await;
    page.click("button", "Resize").await;
    page.the("dialog", "Resize the pool").await;
    page.is_accessible().await;
    page.fill("Actors", "3").await;
    page.click_in_dialog("Resize").await;
    page.sees("3 actors of this server").await;
    assert_eq!(api.get("/v1/pool").await["actors"], json!(3));
}

pub async fn an_ended_server_is_reported(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/features/user/seen")).await;
    page.the("heading", "user.seen").await;
    drop(api);
    end_servers();
    page.click("link", "History").await;
    page.sees("The server does not respond.").await;
    page.is_accessible().await;
    // The browser notes each failed request, and this test is about them.
    for line in page.log().await {
        assert!(line.contains("ERR_CONNECTION_REFUSED") || line.contains("ERR_CONNECTION_RESET"), "{line}");
    }
    page.open("about:blank").await;
    page.log().await;
}

/// A frozen server takes connections and answers nothing. The page sees the same if its requests never end.
pub async fn a_frozen_server_is_reported(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/features/user/seen")).await;
    page.the("heading", "user.seen").await;
    page.run(
        "window.really = fetch;
         window.fetch = (_, { signal } = {}) => new Promise((_, reject) =>
           signal?.addEventListener('abort', () => reject(signal.reason)));",
    )
    .await;
    page.click("button", "Delete").await;
    page.the("dialog", "Delete this feature?").await;
    let in_dialog = "document.querySelector('dialog .banner')?.innerText.includes";
    page.holds(&format!("{in_dialog}('Still waiting for the server')")).await;
    page.holds(&format!("{in_dialog}('The server does not respond.')")).await;
    page.is_accessible().await;
    page.click("button", "Keep it").await;
    page.sees("The server does not respond.").await;
    page.run("window.fetch = window.really").await;
    page.sees_no("The server does not respond.").await;
    page.sees_no("Still waiting for the server").await;
}

/// Without values an axis shows times and numbers without a meaning.
pub async fn graphs_have_no_axes_without_values(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/health")).await;
    page.sees("No reads in the last minute.").await;
    page.holds("document.querySelectorAll('.graph canvas').length >= 4").await;
    page.holds("!document.querySelector('.graph-empty canvas')").await;
    // The time of one read is shown for a minute.
    api.get("/v1/lists/user/seen/u-1/items").await;
    page.sees_no("No reads in the last minute.").await;
    page.holds("/p50\\s+[\\d.]+ (ms|µs|s)/.test(document.querySelector('[aria-label=\"Time of reads, last minute\"]').innerText)").await;
    // Permits are drawn by their use, and not by the limit.
    let permits = page.run("return document.querySelector('[aria-label=\"Permits in use\"]').innerText").await;
    assert!(!permits.as_str().unwrap().contains("limit"), "{permits}");
    page.is_accessible().await;
}

/// Everything that a page shows as a time can be typed into a field of times.
pub async fn the_times_of_graphs_can_be_typed(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/console")).await;
    page.run(
        "window.drawn = new Set();
         const draw = CanvasRenderingContext2D.prototype.fillText;
         CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
           window.drawn.add(text);
           return draw.call(this, text, ...rest);
         };
         import('/console/static/lib/times.js').then((times) => { window.times = times; });",
    )
    .await;
    // On a narrow screen the link is in a menu. Opening the address would forget the scripts.
    page.run("document.querySelector('a[href=\"/console/health\"]').click()").await;
    page.holds("window.drawn.has('now') && window.drawn.has('-5s')").await;
    let graph = "document.querySelector('[aria-label=\"Processor\"] [role=img]').ariaLabel";
    page.holds(&format!("/^Processor since -(\\d+m)?\\d+s\\. Now: of one core /.test({graph})")).await;
    let refused =
        "return [...window.drawn].filter((text) => /^-|:/.test(text) && window.times.readTime(text, 0n).error)";
    assert_eq!(page.run(refused).await, json!([]));
    let written = "return [0, 0.4, 59.6, 90, 3600, 90061].map(window.times.ago)";
    assert_eq!(page.run(written).await, json!(["now", "now", "-1m", "-1m30s", "-1h", "-1d1h1m1s"]));
}
