//! Every page, in every look: accessible, and within the screen.

use std::rc::Rc;

use reqwest::Method;
use serde_json::json;

use crate::api::{Api, ago_text};
use crate::page::Page;

/// A page, and its text once it is loaded.
const PAGES: [(&str, &str); 42] = [
    ("/console", "user.seen"),
    ("/console/features?q=none", "No matching feature"),
    ("/console/features/new", "About this"),
    ("/console/features/user/seen", "Open a list"),
    ("/console/features/user/seen/edit", "Changes"),
    ("/console/features/user/seen/history", "created the feature"),
    ("/console/lists", "Which list?"),
    ("/console/lists?type=user&feature=seen", "Entities with lists"),
    ("/console/lists?type=user&feature=seen&id=u-1", "2 items over"),
    ("/console/lists?type=user&feature=seen&id=u-2", "This list is empty"),
    ("/console/lists?type=user&feature=suspended&id=spam", "Look up"),
    ("/console/features/user/suspended", "the newest item is kept"),
    ("/console/entities", "Entity types 2"),
    ("/console/entities?q=none", "No matching entity type"),
    ("/console/entities/new", "About this"),
    ("/console/entities/type/user", "Open an entity"),
    ("/console/entities/type/user/bags", "Paris"),
    ("/console/entities/type/shop/bags", "No entity has a bag"),
    ("/console/entities/type/user/indexes", "by_city"),
    ("/console/entities/type/shop/indexes", "No index yet"),
    ("/console/entities/type/user/find", "Which bags?"),
    ("/console/entities/type/user/find?index=by_city&value=Paris", "Ada"),
    ("/console/entities/type/user/find?index=by_city&value=Oslo&order=oldest&max=9", "No matching bag"),
    ("/console/entities/type/user/edit", "Changes"),
    ("/console/entities/type/user/history", "created the index"),
    ("/console/entities/entity", "Which entity?"),
    ("/console/entities/entity?type=user&id=u-1", "Expires"),
    ("/console/entities/entity?type=user&id=u-2", "This entity has no bag"),
    ("/console/erasure", "1 of 1 versions"),
    ("/console/erasure/entity", "Which entity should be erased?"),
    ("/console/erasure/entity?type=user&id=u-1", "It has items in 1 list."),
    ("/console/health", "All checks pass"),
    ("/console/access", "Your permissions"),
    ("/console/access/keys", "No keys yet"),
    ("/console/access/audit", "created the feature"),
    ("/console/access/audit?action=refuse", "No recent refusals"),
    ("/docs", "API reference"),
    ("/docs/create_feature", "Create a feature"),
    ("/docs/get_items", "Try it"),
    ("/docs/errors", "Error codes"),
    ("/docs/errors/etag_mismatch", "What to do"),
    ("/console/nowhere", "No page has this address"),
];

/// Wider than this, a line is not read with ease: 140 times the size of its letters.
const CONTENT_REMS_MAX: u32 = 140;

pub async fn every_page_is_accessible(page: Rc<Page>) {
    let api = Api::start().await;
    api.feature("seen", "string", "30d").await;
    api.feature("old", "string", "30d").await;
    api.add("seen", &[(5, json!("a")), (600, json!("b"))]).await;
    api.send(Method::PATCH, "/v1/features/user/seen", json!({"labels": {"deprecated/": "user.watched"}})).await;
    api.send(Method::POST, "/v1/features/user/old/purge", json!({})).await;
    api.users().await;
    api.send(Method::POST, "/v1/entity-types", json!({"entity_type": "shop"})).await;
    let index = json!({"name": "by_city", "properties": ["/city"], "order_by": "/age"});
    api.send(Method::POST, "/v1/entity-types/user/indexes", index).await;
    api.bag("u-1", json!({"name": "Ada", "city": "Paris", "age": 36, "tags": ["a", "b"], "address": {"zip": "75007"}}))
        .await;
    let set = json!({"entity_type": "user", "name": "suspended", "value_type": "string", "ttl": "30d", "identity": "key", "max_items": 9});
    api.send(Method::POST, "/v1/features", set).await;
    let items = json!({"items": [{"timestamp": ago_text(60), "key": "u-1", "value": "links"}]});
    api.send(Method::POST, "/v1/lists/user/suspended/spam/items", items).await;
    for (path, expected) in PAGES {
        page.open(&api.url(path)).await;
        page.sees(expected).await;
        page.holds("!document.querySelector('.loading')").await;
        page.is_accessible().await;
        // The content is in the middle, and no line is too long.
        let widths = "const { left, right, width } = document.querySelector('main').getBoundingClientRect();\
                      const size = parseFloat(getComputedStyle(document.documentElement).fontSize);\
                      const places = document.querySelector('.places').getBoundingClientRect();\
                      return [width / size, Math.abs(places.left - (document.querySelector('.below').clientWidth - right)), innerWidth / size]";
        let widths = page.run(widths).await;
        let of = |index: usize| widths[index].as_f64().unwrap();
        assert!(of(0) <= f64::from(CONTENT_REMS_MAX) && of(1) < 2.0 && of(2) < 180.0, "{path}: {widths}");
    }
    page.open("about:blank").await;
}
