//! Features: created, found, changed, read and deleted by a person.

use std::rc::Rc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, ago_text};
use crate::page::Page;

/// The place of a list of features: its table, or the text of an empty list.
pub async fn one_is_created_found_changed_and_deleted(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/console")).await;
    page.sees("No features yet").await;
    page.is_accessible().await;
    page.click("link", "New feature").await;
    page.the("heading", "New feature").await;
    // A missing value is reported, with its place.
    page.click("button", "Create feature").await;
    page.sees("Required.").await;
    page.is_accessible().await;
    page.fill("Entity type", "user name").await;
    page.sees("letters A–Z and a–z").await;
    page.fill("Entity type", "user").await;
    page.fill("Name", "seen").await;
    page.fill("Time to live", "2d12h").await;
    page.sees("2 days 12 hours").await;
    page.fill("Owner", "feed-team").await;
    page.fill("Labels", "team=feed").await;
    // A draft outlives a reload.
    page.reload().await;
    page.holds("document.querySelector('input[name=owner]')?.value === 'feed-team'").await;
    page.click("button", "Create feature").await;
    page.the("heading", "user.seen").await;
    page.is_accessible().await;
    assert_eq!(api.get("/v1/features/user/seen").await["ttl"], "2d12h");

    page.click("link", "Edit").await;
    page.fill("Time to live", "1d").await;
    page.sees("are hidden immediately").await;
    page.click("button", "Review the change").await;
    page.is_accessible().await;
    page.click("button", "Save the change").await;
    page.sees("user.seen was changed").await;
    assert_eq!(api.get("/v1/features/user/seen").await["ttl"], "1d");

    page.click("link", "History").await;
    page.sees("changed the feature").await;
    page.sees("created the feature").await;
    page.is_accessible().await;

    page.click("button", "Delete").await;
    page.the("dialog", "Delete this feature?").await;
    page.is_accessible().await;
    page.holds("document.querySelector('dialog .danger.solid').disabled").await;
    page.fill("Type user.seen to delete it", "user.seen").await;
    page.click("button", "Delete permanently").await;
    page.sees("leave the store by").await;
    page.click("button", "To the features").await;
    page.sees("No features yet").await;
    assert_eq!(api.get("/v1/features").await["features"], json!([]));
}

pub async fn a_lost_race_shows_both_changes(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/features/user/seen/edit")).await;
    page.fill("Owner", "mine").await;
    page.fill("Description", "of mine").await;
    api.send(Method::PATCH, "/v1/features/user/seen", json!({"owner": "theirs", "ttl": "7d"})).await;
    page.click("button", "Review the change").await;
    page.click("button", "Save the change").await;
    page.sees("Changed by someone else during your edit.").await;
    page.is_accessible().await;
    for reported in ["mine", "theirs", "of mine", "30d", "7d"] {
        page.sees(reported).await;
    }
    assert_eq!(api.get("/v1/features/user/seen").await["owner"], "theirs");
    page.click("button", "Continue with this").await;
    page.click("button", "Save the change").await;
    page.sees("user.seen was changed").await;
    page.expects_refusals(412).await;
    let feature = api.get("/v1/features/user/seen").await;
    assert_eq!(
        (&feature["owner"], &feature["ttl"], &feature["description"]),
        (&json!("mine"), &json!("7d"), &json!("of mine"))
    );
}

pub async fn a_deletion_shows_its_consequences(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/features/user/seen")).await;
    page.click("button", "Delete").await;
    page.sees("No list has items.").await;
    let value = "x".repeat(92);
    let items = json!([{"timestamp": ago_text(60), "value": value}, {"timestamp": ago_text(90), "value": value}]);
    let add = |n| json!({"entity_type": "user", "feature": "seen", "entity_id": format!("u-{n}"), "items": items});
    for from in [0, 520] {
        let requests: Vec<_> = (from..from + 520).map(add).collect();
        api.send(Method::POST, "/v1/lists:batchAdd", json!({ "requests": requests })).await;
    }
    page.reload().await;
    page.click("button", "Delete").await;
    // A bounded number is counted at once, and shown as a bound. The exact number is available on request.
    page.sees("at least 1,000 lists with at least 400 items").await;
    page.sees("Its items expire by").await;
    page.is_accessible().await;
    page.click("button", "Count all").await;
    let counted = "document.querySelector('dialog li[aria-live]').innerText";
    loop {
        let now = page.run(&format!("return {counted}")).await;
        if now.as_str().unwrap().contains("1,040 lists with 2,080 items") {
            break;
        }
        page.holds(&format!("{counted} !== {now}")).await;
    }
    page.sees_no("at least").await;
}

pub async fn deprecated_features_and_versions_are_marked(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    api.send(Method::POST, "/v1/features/user/seen/versions", json!({"version": "v2"})).await;
    page.open(&api.url("/console/features/user/seen")).await;
    page.click("button", "Deprecate version v2").await;
    page.the("dialog", "Deprecate version v2?").await;
    page.is_accessible().await;
    page.fill("What to use instead", "v3, since March").await;
    page.click_in_dialog("Deprecate").await;
    page.sees("Version v2 is deprecated").await;
    page.the("columnheader", "v2 deprecated").await;
    page.sees("v3, since March").await;
    page.is_accessible().await;
    assert_eq!(api.get("/v1/features/user/seen").await["labels"], json!({"deprecated/v2": "v3, since March"}));
    page.open(&api.url("/console/features")).await;
    page.sees("v2 deprecated").await;
    page.open(&api.url("/console/lists?type=user&feature=seen&version=v2&id=u-1")).await;
    page.the("option", "v2 (deprecated)").await;
    page.is_accessible().await;
    // The whole feature, and back again.
    page.open(&api.url("/console/features/user/seen")).await;
    page.click("button", "Deprecate").await;
    page.the("dialog", "Deprecate this feature?").await;
    page.fill("What to use instead", "user.watched").await;
    page.click_in_dialog("Deprecate").await;
    page.sees("This feature is deprecated.").await;
    page.is_accessible().await;
    page.click("button", "Deprecate").await;
    page.click("button", "Remove the deprecation").await;
    page.sees_no("This feature is deprecated.").await;
    // A version removes its mark with it.
    page.click("button", "Delete version v2").await;
    page.fill("Type v2 to delete it", "v2").await;
    page.click("button", "Delete permanently").await;
    page.sees("Version v2 is deleted").await;
    page.no("columnheader", "v2 deprecated").await;
    assert_eq!(api.get("/v1/features/user/seen").await["labels"], json!({}));
}

pub async fn versions_are_shown_side_by_side(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    page.open(&api.url("/console/features/user/seen")).await;
    page.click("button", "Add a version").await;
    page.the("dialog", "Add a version").await;
    page.is_accessible().await;
    page.fill("Version", "v2").await;
    page.fill("Time to live", "7d").await;
    page.click("button", "Add").await;
    page.the("columnheader", "v2").await;
    page.sees("7 days").await;
    page.is_accessible().await;
    page.click("button", "Edit version v2").await;
    page.fill("Time to live", "3d").await;
    page.click("button", "Save the change").await;
    page.sees("Version v2 was changed").await;
    assert_eq!(api.get("/v1/features/user/seen/versions/v2").await["ttl"], "3d");
    // The shown state is deleted: a change is noticed only once the page has it.
    page.sees("3 days").await;
    page.click("button", "Delete version v2").await;
    page.fill("Type v2 to delete it", "v2").await;
    page.click("button", "Delete permanently").await;
    page.sees("Version v2 is deleted").await;
    page.no("columnheader", "v2").await;
    assert_eq!(api.get("/v1/features/user/seen").await["versions"].as_array().unwrap().len(), 1);
}

pub async fn thousands_are_searched_and_paged(page: Rc<Page>) {
    let api = Api::start().await;
    for number in 0..2_100 {
        let (owner, kind) = (format!("team-{}", number % 3), ["string", "int64"][number % 2]);
        let body = json!({"entity_type": format!("kind{}", number % 7), "name": format!("feature_{number:04}"),
            "value_type": kind, "ttl": "30d", "owner": owner, "labels": {"even": (number % 2 == 0).to_string()}});
        api.send(Method::POST, "/v1/features", body).await;
    }
    page.open(&api.url("/console/features")).await;
    page.sees("2,100 list features").await;
    page.sees("Page 1 of 42").await;
    page.click("button", "Next").await;
    page.sees("Page 2 of 42").await;
    page.reload().await;
    page.sees("Page 2 of 42").await;
    page.fill_the("searchbox", "Search features", "feature_04 kind3").await;
    page.sees("of 2,100 features").await;
    page.sees_no("feature_1900").await;
    page.is_accessible().await;
    page.fill_the("searchbox", "Search features", "").await;
    page.choose("Owner", "team-1").await;
    page.sees("700 of 2,100 features").await;
    page.choose("Value type", "int64").await;
    page.choose("Label", "even=false").await;
    page.sees("350 of 2,100 features").await;
    assert!(page.address().await.contains("owner=team-1"));
    page.reload().await;
    page.sees("350 of 2,100 features").await;
    if !page.is_narrow() {
        page.click("button", "Versions").await;
        page.the("button", "Versions").await;
        page.holds("document.querySelector('th[aria-sort=ascending]').innerText.includes('Versions')").await;
    }
    page.fill_the("searchbox", "Search features", "nothing is called so").await;
    page.sees("No matching feature").await;
}

/// The console reads 20,000 features. The server knows the others.
pub async fn more_than_the_console_reads_are_found_by_name(page: Rc<Page>) {
    let api = Api::start().await;
    api.features((0..20_000).map(|number| format!("a{number:05}"))).await;
    api.feature("zz", "string", "30d").await;
    api.add("zz", &[(5, json!("here"))]).await;
    page.open(&api.url("/console/features")).await;
    page.sees("20,000 and more list features").await;
    page.sees("Only the first 20,000 are shown.").await;
    page.open(&api.url("/console/lists")).await;
    page.fill_the("combobox", "Feature", "user.zzz").await;
    page.click("button", "Show items").await;
    page.sees("Feature not found.").await;
    page.expects_refusals(404).await;
    page.fill_the("combobox", "Feature", "user.zz").await;
    page.fill("Entity ID", "u-1").await;
    page.click("button", "Show items").await;
    page.sees("here").await;
    page.open(&api.url("/console/entities/entity?type=user&id=u-1")).await;
    page.the("link", "zz").await;
}

pub async fn buckets_are_chosen_at_the_creation(page: Rc<Page>) {
    let api = Api::start().await;
    page.open(&api.url("/console/features/new")).await;
    page.fill("Entity type", "user").await;
    page.fill("Name", "seen").await;
    page.choose("Bucket", "month").await;
    page.sees("--bucket month").await;
    page.is_accessible().await;
    page.click("button", "Create feature").await;
    page.the("heading", "user.seen").await;
    assert_eq!(api.get("/v1/features/user/seen").await["bucket"], "month");
    // A version has the feature's, unless another one is chosen.
    page.click("button", "Add a version").await;
    page.fill("Version", "v2").await;
    page.choose("Bucket", "none").await;
    page.click_in_dialog("Add").await;
    page.sees("Version v2 was added").await;
    assert_eq!(api.get("/v1/features/user/seen/versions/v2").await["bucket"], Value::Null);
}
