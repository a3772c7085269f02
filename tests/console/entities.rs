//! Entity types and bags: declared, put, changed, read and deleted by a person.

use std::rc::Rc;

use reqwest::Method;
use serde_json::json;

use crate::api::{Api, sign_in};
use crate::page::Page;

const ENTITY: &str = "/console/entities/entity?type=user&id=u-17";

pub async fn a_type_is_created_changed_and_deleted(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/console/entities")).await;
    page.sees("No entity types yet").await;
    page.is_accessible().await;
    page.click("link", "New entity type").await;
    page.the("heading", "New entity type").await;
    page.click("button", "Create entity type").await;
    page.sees("Required.").await;
    page.fill("Entity type", "user").await;
    page.fill("Time to live", "30d").await;
    page.sees("A bag changed now is visible until").await;
    page.fill("Owner", "feed-team").await;
    page.is_accessible().await;
    page.click("button", "Create entity type").await;
    page.the("heading", "user").await;
    page.is_accessible().await;
    assert_eq!(api.get("/v1/entity-types/user").await["ttl"], "30d");

    page.click("link", "Edit").await;
    page.fill("Time to live", "1d").await;
    page.sees("are hidden immediately").await;
    page.fill("Owner", "mine").await;
    api.send(Method::PATCH, "/v1/entity-types/user", json!({"owner": "theirs"})).await;
    page.click("button", "Review the change").await;
    page.click("button", "Save the change").await;
    page.sees("Changed by someone else during your edit.").await;
    page.is_accessible().await;
    page.sees("theirs").await;
    page.expects_refusals(412).await;
    page.click("button", "Continue with this").await;
    page.click("button", "Save the change").await;
    page.sees("user was changed").await;
    let changed = api.get("/v1/entity-types/user").await;
    assert_eq!((&changed["ttl"], &changed["owner"]), (&json!("1d"), &json!("mine")));

    page.click("link", "History").await;
    page.sees("created the entity type").await;
    page.sees("changed the entity type").await;
    page.is_accessible().await;
    api.bag("u-17", json!({"name": "Ada"})).await;
    page.click("link", "Overview").await;
    page.click("button", "Delete").await;
    page.the("dialog", "Delete this entity type?").await;
    page.sees("1 entity has a bag.").await;
    page.is_accessible().await;
    page.fill("Type user to delete it", "user").await;
    page.click("button", "Delete permanently").await;
    page.sees("are unreachable").await;
    page.click("button", "To the entities").await;
    page.sees("No entity types yet").await;
    page.open(&api.url("/console/entities/type/user")).await;
    page.sees("Entity type not found").await;
    page.click("link", "Its history").await;
    page.sees("deleted the entity type").await;
    page.expects_refusals(404).await;
}

pub async fn a_bag_is_put_changed_and_deleted(page: Rc<Page>) {
    let api = Api::start().await;
    page.may_use_the_clipboard().await;
    page.open(&api.url(ENTITY)).await;
    page.sees("This entity type has no bags").await;
    page.is_accessible().await;
    page.click("link", "Create the entity type").await;
    page.holds("document.querySelector('input[name=entity_type]')?.value === 'user'").await;
    page.click("button", "Create entity type").await;
    page.the("heading", "user").await;
    page.fill("Entity ID", "u-17").await;
    page.click("button", "Show").await;
    page.sees("This entity has no bag").await;
    page.is_accessible().await;
    page.click("button", "Put a bag").await;
    // Text that is not JSON is reported at once. The server reports all other mistakes, in its words.
    page.fill("Properties", "{\"name\": ").await;
    page.sees("Not valid JSON").await;
    page.is_accessible().await;
    for (wrong, expected) in [("[1]", "a bag must be a JSON object"), ("{\"a\": 1, \"a\": 2}", "duplicate key")] {
        page.fill("Properties", wrong).await;
        page.click("button", "Put the bag").await;
        page.sees(expected).await;
    }
    page.is_accessible().await;
    page.expects_refusals(400).await;
    page.fill(
        "Properties",
        "{\"name\": \"Ada\", \"score\": 1.10, \"big\": 12345678901234567890.12, \"city\": {\"name\": \"Paris\"}}",
    )
    .await;
    page.click("button", "Put the bag").await;
    page.sees("The bag was put").await;
    page.sees("Expires").await;
    page.is_accessible().await;
    // Digits stay as they were written.
    page.sees("12345678901234567890.12").await;
    page.sees("1.10").await;

    page.click("button", "Edit").await;
    page.holds("document.querySelector('textarea').value.includes('\"score\": 1.10')").await;
    page.choose("Send as", "a merge patch").await;
    page.fill("Merge patch", "{\"score\": null, \"city\": {\"zip\": \"75007\"}}").await;
    page.is_accessible().await;
    page.click("button", "Save the change").await;
    page.sees("The bag was changed").await;
    let bag = api.send_for_text(Method::GET, "/v1/entities/user/u-17", json!(null)).await;
    assert!(
        bag.contains(
            "{\"big\":12345678901234567890.12,\"city\":{\"name\":\"Paris\",\"zip\":\"75007\"},\"name\":\"Ada\"}"
        ),
        "{bag}"
    );

    page.click("button", "Copy as curl").await;
    page.holds("document.body.innerText.includes('Copy as curl: copied')").await;
    assert!(page.copied().await.ends_with("/v1/entities/user/u-17"));
    page.click("button", "Copy as command").await;
    page.holds("document.body.innerText.includes('Copy as command: copied')").await;
    assert!(page.copied().await.starts_with("liststore entity get --url "));

    page.click("button", "Delete bag").await;
    page.the("dialog", "Delete this bag?").await;
    page.is_accessible().await;
    page.click("button", "Delete").await;
    page.sees("This entity has no bag").await;
    assert_eq!(api.get("/v1/entities/user").await["entities"], json!([]));
}

pub async fn a_lost_race_over_a_bag_shows_both_changes(page: Rc<Page>) {
    let api = Api::start().await;
    api.users().await;
    api.bag("u-17", json!({"name": "Ada", "city": "Paris", "age": 36})).await;
    page.open(&api.url(ENTITY)).await;
    page.click("button", "Edit").await;
    page.fill("Properties", "{\"name\": \"Ada L.\", \"city\": \"Paris\", \"age\": 36}").await;
    page.sees("Changes").await;
    api.bag("u-17", json!({"name": "Ada", "city": "Rome"})).await;
    page.click("button", "Save the change").await;
    page.sees("Changed by someone else during your edit.").await;
    page.is_accessible().await;
    for reported in ["\"Rome\"", "removed", "\"Ada L.\""] {
        page.sees(reported).await;
    }
    page.click("button", "Apply my changes to theirs").await;
    page.click("button", "Save the change").await;
    page.sees("The bag was changed").await;
    assert_eq!(api.get("/v1/entities/user/u-17").await["properties"], json!({"name": "Ada L.", "city": "Rome"}));
    // A message about this change would look like one about the next.
    page.sees_no("The bag was changed").await;
    // A patch is limited to the shown state, too.
    page.click("button", "Edit").await;
    page.choose("Send as", "a merge patch").await;
    page.fill("Merge patch", "{\"age\": 37}").await;
    api.bag("u-17", json!({"name": "Ada"})).await;
    page.click("button", "Save the change").await;
    page.click("button", "Continue with the patch").await;
    page.click("button", "Save the change").await;
    page.sees("The bag was changed").await;
    assert_eq!(api.get("/v1/entities/user/u-17").await["properties"], json!({"name": "Ada", "age": 37}));
    page.expects_refusals(412).await;
}

pub async fn the_lists_of_an_entity_are_shown_with_its_bag_and_bags_are_paged(page: Rc<Page>) {
    let api = Api::start().await;
    api.users().await;
    api.feature("seen", "string", "30d").await;
    api.feature("bought", "int64", "30d").await;
    api.add("seen", &[(60, json!("story-9")), (600, json!("story-1"))]).await;
    api.bag("u-1", json!({"name": "Ada"})).await;
    page.open(&api.url("/console/entities/entity?type=user&id=u-1")).await;
    page.sees("story-9").await;
    page.sees_no("bought").await;
    page.click("link", "seen").await;
    page.sees("2 items over").await;
    for n in 2..=60 {
        api.bag(&format!("u-{n}"), json!({"n": n})).await;
    }
    page.open(&api.url("/console/entities/type/user/bags")).await;
    let shown = "new Set([...document.querySelectorAll('.items .main-cell a')].map((a) => a.innerText))";
    page.holds(&format!("{shown}.size === 50")).await;
    page.is_accessible().await;
    page.run(&format!("window.first = {shown}")).await;
    page.click("button", "More").await;
    page.holds(&format!("{shown}.size === 10 && [...{shown}].every((id) => !window.first.has(id))")).await;
    page.click("button", "Back").await;
    page.holds(&format!("{shown}.size === 50")).await;
    page.open(&api.url("/console/entities")).await;
    page.fill_the("combobox", "Entity type", "user").await;
    page.fill("Entity ID", "u-7").await;
    page.click("button", "Look").await;
    page.the("heading", "u-7").await;
    page.sees("It has no list with items").await;
}

pub async fn a_refused_caller_learns_why(page: Rc<Page>) {
    let mut api = Api::start().await;
    api.users().await;
    api.bag("u-17", json!({"name": "Ada"})).await;
    api.key("admin", &["admin"], &[]).await;
    let reader = api.key("reader", &["reader"], &[]).await;
    let narrow = api.key("narrow", &["editor"], &["user.seen"]).await;
    page.open(&api.url(ENTITY)).await;
    sign_in(&page, &reader).await;
    page.sees("Ada").await;
    page.click("button", "Edit").await;
    page.sees("reader has no role with the permission lists:write.").await;
    page.is_accessible().await;
    page.open(&api.url("/console/entities/type/user/indexes")).await;
    page.click("button", "New index").await;
    page.sees("reader has no role with the permission features:write.").await;
    page.click("button", "Sign out").await;
    sign_in(&page, &narrow).await;
    // Otherwise the page might be left before the key was checked.
    page.the("button", "Sign out").await;
    page.open(&api.url(ENTITY)).await;
    // A bag is of all of a type: a scope of one of its features is not enough.
    page.sees("You may not read its bag").await;
    page.is_accessible().await;
    page.open(&api.url("/console/entities/type/user/bags")).await;
    page.holds("document.querySelector('h1') && !document.querySelector('.loading')").await;
    page.is_accessible().await;
    for line in page.log().await {
        assert!(line.contains("status of 401 ") || line.contains("status of 403 "), "{line}");
    }
}

/// More feature versions than a call of several lists may name.
pub async fn lists_behind_a_thousand_features_are_shown(page: Rc<Page>) {
    let api = Api::start().await;
    api.features((0..1_001).map(|number| format!("a{number:04}"))).await;
    api.feature("zz", "string", "30d").await;
    api.add("zz", &[(5, json!("here"))]).await;
    page.open(&api.url("/console/entities/entity?type=user&id=u-1")).await;
    page.the("link", "zz").await;
    page.sees("here").await;
    page.open(&api.url("/console/erasure/entity?type=user&id=u-1")).await;
    page.sees("It has items in 1 list.").await;
    page.the("link", "zz").await;
}

pub async fn bags_of_a_type_are_purged(page: Rc<Page>) {
    let api = Api::start().await;
    api.users().await;
    for id in ["u-1", "u-2"] {
        api.bag(id, json!({"name": "Ada"})).await;
    }
    page.open(&api.url("/console/entities/type/user")).await;
    page.click("button", "Purge bags").await;
    page.the("dialog", "Purge its bags?").await;
    page.sees("2 entities have bags").await;
    page.is_accessible().await;
    page.fill("Type user to purge its bags", "user").await;
    page.click("button", "Purge permanently").await;
    page.sees("bags of user").await;
    page.sees("1 of 1 versions finished").await;
    assert_eq!(api.get("/v1/entities/user").await["entities"], json!([]));
    page.open("about:blank").await;
}
