//! Keys: the first one, permissions, and lifetimes.

use std::rc::Rc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, sign_in};
use crate::page::Page;
use crate::provider::{Lie, Provider};

pub async fn the_first_key_closes_an_open_server(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/console/access")).await;
    page.sees("This server is open").await;
    page.is_accessible().await;
    page.click("link", "API keys").await;
    page.sees("No keys yet").await;
    page.click("button", "New key").await;
    page.the("dialog", "New API key").await;
    page.is_accessible().await;
    page.click("button", "Create the key").await;
    page.the("dialog", "Here is the key").await;
    page.is_accessible().await;
    let token = page.run("return document.querySelector('.token code').innerText").await;
    let token = token.as_str().unwrap();
    assert!(token.starts_with("ls_"), "{token}");
    page.click("button", "I have stored it").await;
    page.no("dialog", "Here is the key").await;
    let html = page.run("return document.documentElement.outerHTML + location.href").await;
    assert!(!html.as_str().unwrap().contains(token), "the key is shown once");
    // The session continues with it, and a caller without it is refused.
    page.sees_no("This server is open").await;
    page.the("button", "Sign out").await;
    page.reload().await;
    page.the("button", "Rotate admin").await;
    page.click("button", "Sign out").await;
    page.the("heading", "Sign in").await;
    page.is_accessible().await;
    page.fill_the("textbox", "API key", "ls_nonsense").await;
    page.click("button", "Sign in").await;
    page.sees("malformed API key").await;
    sign_in(&page, token).await;
    page.the("button", "Rotate admin").await;
    page.expects_refusals(401).await;
}

pub async fn actions_without_permission_are_not_offered(page: Rc<Page>) {
    let mut api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    api.key("admin", &["admin"], &[]).await;
    let reader = api.key("reader", &["reader"], &["user.*"]).await;
    page.open(&api.url("/console/features/user/seen")).await;
    sign_in(&page, &reader).await;
    page.the("heading", "user.seen").await;
    page.holds("[...document.querySelectorAll('.page-head button')].every((b) => b.ariaDisabled === 'true')").await;
    page.click("button", "Delete").await;
    page.sees("reader has no role with the permission features:write.").await;
    page.no("dialog", "Delete this feature?").await;
    page.is_accessible().await;
    page.open(&api.url("/console/access")).await;
    page.sees("user.*").await;
    page.is_accessible().await;
    page.open(&api.url("/console/access/keys")).await;
    page.sees("You may not read keys").await;
    page.open(&api.url("/console/health")).await;
    page.sees("You may not read the metrics").await;
    page.is_accessible().await;
    page.expects_refusals(401).await;
}

pub async fn keys_are_made_rotated_and_revoked(page: Rc<Page>) {
    let mut api = Api::start().await;
    let admin = api.key("admin", &["admin"], &[]).await;
    page.open(&api.url("/console/access/keys")).await;
    sign_in(&page, &admin).await;
    page.click("button", "New key").await;
    page.fill("Name", "feed").await;
    page.fill("Only for these features", "user.*").await;
    page.fill("Expires after", "30d").await;
    page.click("button", "Create the key").await;
    page.click("button", "I have stored it").await;
    page.sees("user.*").await;
    page.is_accessible().await;
    page.click("button", "Rotate feed").await;
    page.the("dialog", "Rotate feed?").await;
    page.click("button", "Rotate").await;
    page.click("button", "I have stored it").await;
    page.click("button", "Revoke feed").await;
    page.fill("Type feed to revoke it", "feed").await;
    page.is_accessible().await;
    page.click("button", "Revoke permanently").await;
    page.sees("The key feed is revoked").await;
    page.no("button", "Revoke feed").await;
    let keys = api.send(Method::GET, "/v1/keys", Value::Null).await;
    let feed = keys["keys"].as_array().unwrap().iter().find(|key| key["name"] == "feed").unwrap();
    assert_eq!((&feed["state"], &feed["roles"]), (&json!("revoked"), &json!(["reader"])));
    page.click("link", "Audit trail").await;
    page.sees("revoked the key").await;
    page.fill("What", "rotate_key").await;
    page.click("button", "Filter").await;
    page.sees("rotated the key").await;
    page.sees_no("revoked the key").await;
    page.is_accessible().await;
    page.expects_refusals(401).await;
}

pub async fn refused_requests_are_shown(page: Rc<Page>) {
    let mut api = Api::start().await;
    let admin = api.key("admin", &["admin"], &[]).await;
    let reader = api.key("reader", &["reader"], &[]).await;
    page.open(&api.url("/console/access/audit")).await;
    sign_in(&page, &admin).await;
    page.sees("created the key").await;
    for _ in 0..2 {
        let refused = reqwest::Client::new().get(api.url("/v1/keys")).bearer_auth(&reader).send().await.unwrap();
        assert_eq!(refused.status(), 403);
    }
    page.click("link", "Refused requests").await;
    page.sees("permission_denied").await;
    page.sees("list_keys").await;
    page.sees_no("created the key").await;
    page.is_accessible().await;
    page.reload().await;
    page.sees("key:reader").await;
    page.fill("By", "key:nobody").await;
    page.click("button", "Filter").await;
    page.sees("No recent refusals").await;
    page.click("link", "Changes").await;
    page.sees("No changes").await;
    page.expects_refusals(401).await;
}

/// A page of the trail may be empty, and not be the last.
pub async fn an_empty_part_of_the_trail_is_not_its_end(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/access")).await;
    page.click("link", "Audit trail").await;
    page.sees("created the feature").await;
    page.run(
        "const really = fetch;
         window.fetch = (path, options) => {
           const asked = new URL(path, location);
           if (asked.pathname !== '/v1/audit') return really(path, options);
           const token = asked.searchParams.get('page_token');
           if (token === 'second') return really('/v1/audit', options);
           const body = JSON.stringify({ changes: [], next_page_token: token ? 'second' : 'first' });
           return Promise.resolve(new Response(body, { headers: { 'Content-Type': 'application/json' } }));
         };",
    )
    .await;
    page.fill("By", "ada").await;
    page.click("button", "Filter").await;
    for _ in 0..2 {
        page.sees("There are earlier changes").await;
        page.sees_no("No changes").await;
        page.click("button", "Show earlier changes").await;
    }
    page.sees("created the feature").await;
    page.sees_no("There are earlier changes").await;
}

pub async fn people_sign_in_with_their_identity_provider(page: Rc<Page>) {
    let provider = Provider::start().await;
    let api = Api::start_with(&[("access.jwt.issuers", &provider.settings())]).await;
    let sign_in = format!("Sign in with {}", provider.url.strip_prefix("http://").unwrap());
    // A foreign link does not sign a person in.
    page.open(&api.url("/console/signed-in?code=c-1&state=forged")).await;
    page.sees("The sign-in was not started in this tab").await;
    assert_eq!(provider.exchanges(), [0; 0]);
    page.open(&api.url("/console/access?page=1")).await;
    page.the("button", &sign_in).await;
    page.is_accessible().await;
    page.click("button", &sign_in).await;
    page.the("heading", "Who are you?").await;
    page.click("link", "I am alice").await;
    // Sign-in returns to the previous page, without its parameters in the address.
    page.sees("jwt:alice").await;
    page.holds("location.pathname + location.search === '/console/access?page=1'").await;
    page.is_accessible().await;
    assert_eq!(provider.exchanges(), [200]);
    page.reload().await;
    page.sees("jwt:alice").await;
    // A started sign-in is valid once.
    page.holds("sessionStorage.length === 1 && document.cookie === ''").await;
    page.click("button", "Sign out").await;
    page.the("button", &sign_in).await;
    page.open(&api.url("/console/signed-in?code=c-1&state=undefined")).await;
    page.sees("The sign-in was not started in this tab").await;
    assert_eq!(provider.exchanges(), [200]);
    // A person whom the provider refuses sees the reason.
    page.click("button", &sign_in).await;
    page.the("heading", "Who are you?").await;
    let link = page.run("return document.querySelector('a').href.replace('code=c-1', 'code=c-2')").await;
    page.open(link.as_str().unwrap()).await;
    page.sees("The identity provider refused the sign-in").await;
    for line in page.log().await {
        // A returning person finds a field that was checked before.
        assert!(line.contains("status of 401 ") || line.contains("status of 400 "), "{line}");
    }
}

/// The answer must belong to the sign-in that was started here: by its state for the console, by its verifier for the
/// provider.
pub async fn a_sign_in_without_its_state_or_with_another_verifier_is_refused(page: Rc<Page>) {
    let provider = Provider::start().await;
    let api = Api::start_with(&[("access.jwt.issuers", &provider.settings())]).await;
    let sign_in = format!("Sign in with {}", provider.url.strip_prefix("http://").unwrap());
    let console = api.url("/console/access");
    page.open(&console).await;
    page.click("button", &sign_in).await;
    page.the("heading", "Who are you?").await;
    page.open(&api.url("/console/signed-in?code=c-1")).await;
    page.sees("The sign-in was not started in this tab").await;
    page.holds("sessionStorage.length === 0").await;
    assert_eq!(provider.exchanges(), [0; 0]);
    page.open(&console).await;
    page.click("button", &sign_in).await;
    page.the("heading", "Who are you?").await;
    let link = page.run("return document.querySelector('a').href").await;
    page.open(&console).await;
    page.the("button", &sign_in).await;
    page.run(
        "const [key] = Object.keys(sessionStorage);
         sessionStorage[key] = JSON.stringify({ ...JSON.parse(sessionStorage[key]), verifier: 'x'.repeat(43) });",
    )
    .await;
    page.open(link.as_str().unwrap()).await;
    page.sees("The identity provider refused the sign-in").await;
    page.the("button", &sign_in).await;
    assert_eq!(provider.exchanges(), [400]);
    // Fields that were not checked yet, and the answer of the provider.
    page.log().await;
}

/// A provider with wrong answers signs no person in, and no code or verifier goes elsewhere.
pub async fn a_lying_provider_signs_no_user_in(page: Rc<Page>) {
    let (provider, elsewhere) = (Provider::start().await, Provider::start().await);
    let api = Api::start_with(&[("access.jwt.issuers", &provider.settings())]).await;
    let sign_in = format!("Sign in with {}", provider.url.strip_prefix("http://").unwrap());
    let token_of_another = format!("{}/token", elsewhere.url);
    for lie in [Lie::OtherIssuer, Lie::TokensAt(token_of_another.clone())] {
        provider.lie(Some(lie));
        page.open(&api.url("/console/access")).await;
        page.click("button", &sign_in).await;
        page.sees("The identity provider's metadata names another issuer").await;
    }
    // It may begin to lie during a session.
    for (lie, reported) in [
        (Lie::TokensAt(token_of_another.clone()), "metadata names another issuer"),
        (Lie::LedTo(token_of_another), "The identity provider does not respond"),
        (Lie::OtherNonce, "The token belongs to another sign-in"),
    ] {
        provider.lie(None);
        page.open(&api.url("/console/access")).await;
        page.click("button", &sign_in).await;
        page.the("heading", "Who are you?").await;
        provider.lie(Some(lie));
        page.click("link", "I am alice").await;
        page.sees(reported).await;
        page.the("button", &sign_in).await;
        page.holds("sessionStorage.length === 0").await;
    }
    assert_eq!(elsewhere.exchanges(), [0; 0]);
    // An answer in another issuer's name, from an attacker who can send people here with a code.
    provider.lie(None);
    page.open(&api.url("/console/access")).await;
    page.click("button", &sign_in).await;
    page.the("heading", "Who are you?").await;
    let link = page.run("return document.querySelector('a').href + '&iss=https%3A%2F%2Fid.example.org'").await;
    let asked = provider.exchanges().len();
    page.open(link.as_str().unwrap()).await;
    page.sees("The response came from another identity provider").await;
    // A started sign-in is valid once, even if it failed.
    page.open(link.as_str().unwrap().split("&iss=").next().unwrap()).await;
    page.sees("The sign-in was not started in this tab").await;
    assert_eq!(provider.exchanges().len(), asked);
    // It asked for the identity, and one request was redirected.
    page.log().await;
}
