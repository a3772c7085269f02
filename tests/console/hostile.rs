//! Foreign markup in names and values is shown, and does nothing.

use std::rc::Rc;

use reqwest::Method;
use serde_json::json;

use crate::api::Api;
use crate::page::Page;

const SCRIPT: &str = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">";

const SCRIPT_IN_URL: &str = "%3Cscript%3Edocument.title%3D'taken'%3C%2Fscript%3E";

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
    let body = json!({"entity_type": "user", "description": SCRIPT, "owner": rtl, "labels": {"k": SCRIPT}});
    api.send(Method::POST, "/v1/entity-types", body).await;
    let pointer = format!("/{}", SCRIPT.replace('/', "~1"));
    let index = json!({"name": "W".repeat(64), "properties": [pointer, "/\u{202E}turned"]});
    api.send(Method::POST, "/v1/entity-types/user/indexes", index).await;
    let bag = json!({SCRIPT: SCRIPT, "\u{202E}turned": rtl, "__proto__": {"polluted": true}, "long": "z".repeat(60_000), "W".repeat(2_000): 1});
    api.send(Method::PUT, &format!("/v1/entities/user/{hostile_id}"), bag).await;
    let value = SCRIPT_IN_URL;
    let views = [
        "/console/entities".to_owned(),
        "/console/entities/type/user".to_owned(),
        "/console/entities/type/user/bags".to_owned(),
        "/console/entities/type/user/indexes".to_owned(),
        "/console/entities/type/user/find".to_owned(),
        format!("/console/entities/type/user/find?index={}&value={value}&value={value}&min={value}", "W".repeat(64)),
        format!("/console/entities/type/user/find?index={value}&value={value}"),
        "/console/entities/type/user/edit".to_owned(),
        "/console/entities/type/user/history".to_owned(),
        format!("/console/entities/entity?type=user&id={hostile_id}"),
        format!("/console/entities/entity?type={value}&id={value}"),
        "/console/features".to_owned(),
        "/console/features/user/markup".to_owned(),
        "/console/features/user/turned".to_owned(),
        format!("/console/features/user/{wide}"),
        format!("/console/features/user/{wide}/edit"),
        "/console/features/user/markup/history".to_owned(),
        format!("/console/lists?type=user&feature=markup&id={hostile_id}"),
        "/console/access/audit".to_owned(),
        "/console/erasure".to_owned(),
        format!("/console/erasure?type={SCRIPT_IN_URL}&feature={SCRIPT_IN_URL}"),
        format!("/console/erasure/entity?type=user&id={hostile_id}"),
        format!("/console/access/audit?action={SCRIPT_IN_URL}&by={SCRIPT_IN_URL}"),
    ];
    for view in views {
        page.open(&api.url(&view)).await;
        page.holds("document.querySelector('h1') && !document.querySelector('.loading')").await;
        page.is_accessible().await;
        page.holds("document.title !== 'taken'").await;
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

/// Forms, and the button that sends each.
const FORMS: [(&str, &str); 16] = [
    ("/console/entities", "Look"),
    ("/console/entities?q=x", ""),
    ("/console/entities/new", "Create entity type"),
    ("/console/entities/type/user", "Show"),
    ("/console/entities/type/user/edit", "Review the change"),
    ("/console/entities/type/user/find", "Find"),
    ("/console/entities/entity?type=user&id=u-1", "Look"),
    ("/console/features/new", "Create feature"),
    ("/console/features/user/seen/edit", "Review the change"),
    ("/console/features?q=x", ""),
    ("/console/lists", "Show items"),
    ("/console/lists?type=user&feature=seen&id=u-1", "Show items"),
    ("/console/erasure", ""),
    ("/console/erasure/entity", "Look"),
    ("/console/access/audit", "Filter"),
    ("/docs/create_feature", "Send"),
];

/// Markup, text that turns direction and very long names: typed into each field, and sent.
pub async fn every_field_takes_anything(page: Rc<Page>) {
    const FILL: &str = "const text = TEXT;\
        for (const field of document.querySelectorAll('main input:not([type=radio]):not([type=checkbox]), main textarea')) {\
          const { set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value');\
          set.call(field, text); field.dispatchEvent(new Event('input', { bubbles: true })); }";
    let api = Api::start().await;
    api.feature("seen", "json", "30d").await;
    api.add("seen", &[(5, json!({"a": 1}))]).await;
    api.users().await;
    api.bag("u-1", json!({"a": 1})).await;
    let index = json!({"name": "by_a", "properties": ["/a", "/b"]});
    api.send(Method::POST, "/v1/entity-types/user/indexes", index).await;
    let texts = [
        serde_json::to_string(SCRIPT).unwrap(),
        "'\\u202Egnorw\\u2066 \\u0000'".to_owned(),
        "'n'.repeat(2000)".to_owned(),
    ];
    for (path, button) in FORMS {
        for text in &texts {
            page.open(&api.url(path)).await;
            page.holds("document.querySelector('main input, main textarea') && !document.querySelector('.loading')")
                .await;
            page.run(&FILL.replace("TEXT", text)).await;
            if !button.is_empty() {
                page.run(&format!(
                    "[...document.querySelectorAll('main button')].find((b) => b.innerText === '{button}')?.click()"
                ))
                .await;
            }
            // It is drawn again, and still there.
            page.run("return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))").await;
            page.holds("document.querySelector('h1') && document.title !== 'taken'").await;
            page.holds("!document.querySelector('main script, main img, main b')").await;
            page.holds("document.documentElement.scrollWidth <= innerWidth").await;
        }
    }
    // So are addresses that a click leads to.
    for (path, button) in
        [("/console/entities/entity?type=user&id=u-1", "Edit"), ("/console/entities/type/user/indexes", "New index")]
    {
        for text in &texts {
            page.open(&api.url(path)).await;
            page.click("button", button).await;
            page.holds("document.querySelector('main textarea')").await;
            page.run(&FILL.replace("TEXT", text)).await;
            page.run("return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))").await;
            page.run("document.querySelector('main .primary:not(:disabled)')?.click()").await;
            page.is_accessible().await;
            page.holds("document.title !== 'taken' && !document.querySelector('main script, main img, main b')").await;
        }
    }
    // A value of 10 MB is measured before it is sent.
    page.open(&api.url("/console/lists?type=user&feature=seen&id=u-1")).await;
    page.click("button", "Add an item").await;
    page.the("dialog", "Add an item").await;
    let json = "'[' + '1234567890,'.repeat(1e6) + '1]'";
    page.run(
        &FILL.replace("TEXT", json).replace("main input:not([type=radio]):not([type=checkbox]), main ", "dialog "),
    )
    .await;
    page.sees("A value must have at most 64,000 bytes; this has 11,000,003.").await;
    page.holds("document.querySelector('dialog .primary').disabled").await;
    // The server reports its opinion of it.
    for line in page.log().await {
        assert!(line.contains("status of 400 "), "{line}");
    }
}
