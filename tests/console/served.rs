//! How the files are served: to a browser, and byte by byte.

use std::pin::Pin;
use std::rc::Rc;

use reqwest::{Client, StatusCode, redirect};
use serde_json::json;

use crate::api::Api;
use crate::page::Page;

type Test = fn() -> Pin<Box<dyn Future<Output = ()>>>;

/// Tests without a browser.
pub const TESTS: [(&str, Test); 3] = [
    ("a_browser_is_led_to_the_console", || Box::pin(a_browser_is_led_to_the_console())),
    ("files_are_kept_by_their_content", || Box::pin(files_are_kept_by_their_content())),
    ("every_page_forbids_what_it_does_not_need", || Box::pin(every_page_forbids_what_it_does_not_need())),
];

pub async fn pages_are_light_and_paint_soon(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console")).await;
    page.the("link", "user.seen").await;
    // No other host, and only files that the server packs.
    let script = "return performance.getEntriesByType('resource').map(({name, transferSize}) => [name, transferSize])";
    let fetched = page.run(script).await;
    let fetched = fetched.as_array().unwrap();
    let mut weight = 0;
    for entry in fetched {
        assert!(entry[0].as_str().unwrap().starts_with(&api.server.url), "{entry}");
        weight += entry[1].as_u64().unwrap();
    }
    assert!(fetched.len() > 10 && weight < 120_000, "{} files, {weight} bytes", fetched.len());
    assert_eq!(page.run("return document.cookie").await, json!(""));
    page.reload().await;
    page.the("link", "user.seen").await;
    let script = "return performance.getEntriesByType('resource')\
                  .filter(({name, transferSize}) => name.includes('/static/') && transferSize > 0).length";
    assert_eq!(page.run(script).await, json!(0), "what is kept for good was fetched again");
}

/// The time of the first paint. It depends on the machine: the test reports it and asserts nothing.
pub async fn the_first_paint_is_reported(page: Rc<Page>) {
    let api = Api::start().await;
    for (path, when) in [("/console", "with nothing kept"), ("/console", "kept"), ("/docs", "kept")] {
        page.open(&api.url(path)).await;
        page.holds("document.querySelector('h1')").await;
        let painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
        page.holds(painted).await;
        let millis = page.run(&format!("return {painted}")).await;
        eprintln!("first paint of {path} ({when}): {:.0} ms", millis.as_f64().unwrap());
    }
}

/// From the list to a feature and back without a mouse, seeing where one is.
pub async fn keys_alone_are_enough(page: Rc<Page>) {
    const TAB: &str = "\u{E004}";
    const ENTER: &str = "\u{E007}";
    const ESCAPE: &str = "\u{E00C}";
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/features")).await;
    page.the("link", "user.seen").await;
    page.run("document.activeElement.blur()").await;
    page.press(TAB).await;
    let mut steps = 0;
    while !page.focused().await.contains("user.seen") {
        page.press(TAB).await;
        page.holds("getComputedStyle(document.activeElement).outlineStyle !== 'none'").await;
        steps += 1;
        assert!(steps < 60, "the feature is not reached");
    }
    page.press(ENTER).await;
    page.the("heading", "user.seen").await;
    page.holds("document.activeElement.tagName === 'H1'").await;
    let button = page.the("button", "Delete").await;
    button.send_keys("").await.unwrap();
    page.press(ENTER).await;
    page.the("dialog", "Delete this feature?").await;
    page.holds("document.querySelector('dialog').contains(document.activeElement)").await;
    page.press(ESCAPE).await;
    page.no("dialog", "Delete this feature?").await;
    page.holds("document.activeElement.innerText === 'Delete'").await;
}

/// Every element that is scrolled to stands below the head, at any edge.
pub async fn the_head_covers_nothing(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/features/new")).await;
    page.the("button", "Create feature").await;
    let hidden = page
        .run(
            "const head = document.querySelector('.top').getBoundingClientRect().bottom;
             const targets = [...document.querySelectorAll('main :is(input, textarea, select, button, a, h1, h2, h3)')];
             const ways = [(it) => it.scrollIntoView(true), (it) => it.scrollIntoView(false)];
             const focus = (it) => { document.activeElement.blur(); it.focus(); };
             const waysTo = (it) => (/^H/.test(it.tagName) ? ways : [...ways, focus]);
             return targets.filter((it) => it.getClientRects().length).flatMap((it) => waysTo(it).map((way) => {
               document.getElementById('below').scrollTo(0, 100000);
               way(it);
               const { top } = it.getBoundingClientRect();
               return top < head - 1 ? `${it.tagName} ${it.innerText || it.name} at ${top}` : null;
             })).filter(Boolean);",
        )
        .await;
    assert_eq!(hidden, json!([]));
}

fn client() -> Client {
    Client::builder().redirect(redirect::Policy::none()).build().unwrap()
}

async fn a_browser_is_led_to_the_console() {
    let api = Api::start().await;
    let client = client();
    let browser = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
    let led = client.get(api.url("/")).header("accept", browser).send().await.unwrap();
    assert_eq!((led.status(), &led.headers()["location"]), (StatusCode::SEE_OTHER, &"/console".parse().unwrap()));
    // Programs get a 404.
    assert_eq!(client.get(api.url("/")).send().await.unwrap().status(), StatusCode::NOT_FOUND);
    let put = client.put(api.url("/console")).send().await.unwrap();
    assert_eq!(
        (put.status(), &put.headers()["allow"]),
        (StatusCode::METHOD_NOT_ALLOWED, &"GET, HEAD, OPTIONS".parse().unwrap())
    );
    let none = client.get(api.url("/console/static/none.js")).send().await.unwrap();
    assert_eq!(none.status(), StatusCode::NOT_FOUND);
    assert_eq!(none.headers()["content-type"], "application/problem+json");
    let head = client.head(api.url("/console/lists")).send().await.unwrap();
    assert_eq!(
        (head.status(), &head.headers()["content-type"]),
        (StatusCode::OK, &"text/html; charset=utf-8".parse().unwrap())
    );
    assert!(head.bytes().await.unwrap().is_empty());
}

async fn files_are_kept_by_their_content() {
    let api = Api::start().await;
    let client = client();
    let index = client.get(api.url("/console")).send().await.unwrap();
    assert_eq!(index.headers()["cache-control"], "no-cache");
    let etag = index.headers()["etag"].clone();
    let text = index.text().await.unwrap();
    let again = client.get(api.url("/docs")).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!((again.status(), again.headers()["etag"].clone()), (StatusCode::NOT_MODIFIED, etag));
    let script = text.split('"').find(|part| part.ends_with("/main.js")).unwrap();
    let plain = client.get(api.url(script)).send().await.unwrap();
    assert_eq!(plain.headers()["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(plain.headers()["content-type"], "text/javascript; charset=utf-8");
    assert!(!plain.headers().contains_key("content-encoding"));
    let packed = client.get(api.url(script)).header("accept-encoding", "br, gzip;q=0.8").send().await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert_ne!(packed.headers()["etag"], plain.headers()["etag"]);
    let (packed, plain) = (packed.bytes().await.unwrap(), plain.bytes().await.unwrap());
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked).unwrap();
    assert!(unpacked == plain && packed.len() < plain.len());
}

async fn every_page_forbids_what_it_does_not_need() {
    let api = Api::start().await;
    for path in ["/console", "/docs", "/console/static/main.js", "/console/static/icon.svg"] {
        let answer = client().get(api.url(path)).send().await.unwrap();
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.split("; ").any(|part| part == directive), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
        assert!(!answer.headers().contains_key("set-cookie"));
    }
}
