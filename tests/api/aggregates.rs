//! Aggregates over HTTP: the form of answers, and every mistake in a request. That the numbers are right is the concern
//! of the conformance suite.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, ago, api, api_with, items};
use super::keys::{admin, key, with_key};

const COUNT: &str = r#"[{"name": "n", "function": "count"}]"#;

fn count() -> Value {
    serde_json::from_str(COUNT).unwrap()
}

async fn aggregate(api: &Api, list: &str, body: Value) -> Value {
    api.post(&format!("{list}:aggregate"), body).await.expect(200)
}

async fn payments(api: &Api) -> String {
    api.feature("payment", "json", "30d").await;
    let list = items("payment", "u-1");
    let payment = |amount: f64, card: &str, country: &str| json!({"amount": amount, "card": card, "country": country});
    let now = ago(0);
    let minutes = |minutes: u64| now - minutes * 60_000_000_000;
    let paid = [
        (minutes(1), payment(10.5, "c-1", "NO")),
        (minutes(2), payment(20.0, "c-2", "SE")),
        (minutes(70), payment(30.25, "c-1", "NO")),
        (minutes(71), json!({"amount": "refused", "country": "FI"})),
    ];
    api.add(&list, &paid).await;
    list
}

#[tokio::test]
async fn each_window_has_its_aggregates() {
    let api = api().await;
    let list = payments(&api).await;
    let body = json!({"windows": ["10m", "24h"], "aggregates": [
        {"name": "payments", "function": "count"},
        {"name": "spent", "function": "sum", "property": "/amount"},
        {"name": "cards", "function": "count_distinct", "property": "/card"},
        {"name": "largest", "function": "max", "property": "/amount"},
        {"name": "top", "function": "top", "k": 1, "property": "/card"},
    ]});
    let answer = aggregate(&api, &list, body.clone()).await;
    assert_eq!(answer["items_read"], 4);
    let window = |place: usize| answer["windows"][place].clone();
    assert_eq!((&window(0)["window"], &window(1)["window"]), (&json!("10m"), &json!("24h")));
    assert_eq!((&window(0)["max_timestamp"], &window(0)["complete"]), (&answer["as_of"], &json!(true)));
    let short = json!({"payments": 2, "spent": 30.5, "cards": 2, "largest": 20, "top": [{"value": "c-1", "count": 1}]});
    assert_eq!((&window(0)["results"], &window(0)["skipped"]), (&short, &json!(0)));
    let long =
        json!({"payments": 4, "spent": 60.75, "cards": 2, "largest": 30.25, "top": [{"value": "c-1", "count": 2}]});
    assert_eq!((&window(1)["results"], &window(1)["skipped"]), (&long, &json!(1)));

    let mut grouped = body.clone();
    grouped["windows"] = json!(["24h"]);
    grouped["aggregates"] = count();
    grouped["group_by"] = json!({"property": "/country", "max_groups": 1});
    let answer = aggregate(&api, &list, grouped).await;
    let groups = json!([
        {"value": "NO", "count": 2, "results": {"n": 2}},
        {"other": true, "count": 2, "results": {"n": 2}},
    ]);
    assert_eq!((&answer["windows"][0]["groups"], answer["windows"][0].get("results")), (&groups, None));

    let filtered =
        json!({"windows": ["24h"], "aggregates": count(), "where": {"property": "/country", "in": ["SE", "FI"]}});
    assert_eq!(aggregate(&api, &list, filtered).await["windows"][0]["results"]["n"], 2);
    let missing = aggregate(&api, &items("payment", "nobody"), body).await;
    let nothing = json!({"payments": 0, "spent": 0, "cards": 0, "largest": null, "top": []});
    assert_eq!((&missing["windows"][1]["results"], &missing["items_read"]), (&nothing, &json!(0)));
}

#[tokio::test]
async fn a_window_that_lacks_items_reports_the_reason() {
    let api = api_with(&[("items.aggregate_items_max", "3")]).await;
    let list = payments(&api).await;
    let reasons = async |windows: Value| {
        let answer = aggregate(&api, &list, json!({"windows": windows, "aggregates": count()})).await;
        let windows = answer["windows"].as_array().unwrap().clone();
        windows.iter().map(|window| (window["complete"].clone(), window["reason"].clone())).collect::<Vec<_>>()
    };
    let complete = (json!(true), Value::Null);
    let lacks = |reason: &str| (json!(false), json!(reason));
    assert_eq!(reasons(json!(["10m", "30d"])).await, [complete.clone(), lacks("items_max")]);
    assert_eq!(reasons(json!(["10m", "31d"])).await, [complete, lacks("ttl")]);
    let bounded =
        json!({"entity_type": "user", "name": "bounded", "value_type": "int64", "ttl": "30d", "max_items": 2});
    api.post("/v1/features", bounded).await.expect(201);
    let list = items("bounded", "u");
    api.add(&list, &[(ago(60), 1.into()), (ago(120), 2.into()), (ago(180), 3.into())]).await;
    let answer = aggregate(&api, &list, json!({"windows": ["90s", "1h"], "aggregates": count()})).await;
    assert_eq!(
        (&answer["windows"][0]["complete"], &answer["windows"][1]["reason"]),
        (&json!(true), &json!("max_items"))
    );
    assert_eq!((&answer["windows"][1]["results"]["n"], &answer["items_read"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn every_mistake_is_named() {
    let api = api().await;
    api.feature("text", "string", "30d").await;
    api.feature("json", "json", "30d").await;
    api.feature("int", "int64", "30d").await;
    let refused = async |feature: &str, body: Value, code: &str, field: &str| {
        api.post(&format!("{}:aggregate", items(feature, "u")), body).await.refused(code, field);
    };
    for windows in [json!([]), json!(vec!["1h"; 17]), json!("1h"), Value::Null] {
        let body = json!({"windows": windows, "aggregates": count()});
        refused("int", body, "invalid_argument", "windows").await;
    }
    for window in [
        json!("0s"),
        json!("-1h"),
        json!("7301d"),
        json!("99999999999999999999y"),
        json!("1.5h"),
        json!("soon"),
        json!(60),
    ] {
        let body = json!({"windows": ["1h", window], "aggregates": count()});
        refused("int", body, "invalid_argument", "windows[1]").await;
    }
    let reversed = json!({"min_timestamp": 2, "max_timestamp": 1});
    let body = json!({"windows": [reversed], "aggregates": count()});
    refused("int", body, "invalid_argument", "windows[0].min_timestamp").await;
    for (window, code, field) in [
        (json!({"min_timestamp": 1}), "invalid_argument", "windows[0].max_timestamp"),
        (json!({"min_timestamp": 1, "max_timestamp": "soon"}), "invalid_timestamp", "windows[0].max_timestamp"),
        (json!({"min_timestamp": 1, "max_timestamp": 2, "last": "1h"}), "invalid_argument", "windows[0].last"),
    ] {
        refused("int", json!({"windows": [window], "aggregates": count()}), code, field).await;
    }
    for (aggregate, code, field) in [
        (json!({"name": "n", "function": "median"}), "invalid_argument", "aggregates[1].function"),
        (json!({"name": "x", "function": "count"}), "invalid_argument", "aggregates[1].name"),
        (json!({"name": "n", "function": "sum", "property": "amount"}), "invalid_argument", "aggregates[1].property"),
        (json!({"name": "n", "function": "sum", "property": "/a~"}), "invalid_argument", "aggregates[1].property"),
        (json!({"name": "n", "function": "sum", "k": 3}), "invalid_argument", "aggregates[1].k"),
    ] {
        let body = json!({"windows": ["1h"], "aggregates": [{"name": "x", "function": "last"}, aggregate]});
        refused("json", body, code, field).await;
    }
    let of = |function: &str, property: &str| json!({"windows": ["1h"], "aggregates": [{"name": "n", "function": function, "property": property}]});
    refused("text", of("count", "/a"), "value_type_mismatch", "aggregates[0].property").await;
    let sum = json!({"windows": ["1h"], "aggregates": [{"name": "n", "function": "sum"}]});
    refused("text", sum.clone(), "value_type_mismatch", "aggregates[0].function").await;
    for (member, value, code, field) in [
        ("group_by", json!({"max_groups": 100_000}), "invalid_argument", "group_by.max_groups"),
        ("group_by", json!({"property": "/a"}), "value_type_mismatch", "group_by.property"),
        ("where", json!({"in": []}), "invalid_argument", "where.in"),
        ("where", json!({"in": [1, "x"]}), "value_type_mismatch", "where.in[1]"),
        ("as_of", json!(ago(0) + 3_600_000_000_000), "invalid_argument", "as_of"),
        ("as_of", json!("soon"), "invalid_timestamp", "as_of"),
        ("limit", json!(7), "invalid_argument", "limit"),
    ] {
        let mut body = json!({"windows": ["1h"], "aggregates": count()});
        body[member] = value;
        refused("int", body, code, field).await;
    }
    refused("unknown", sum.clone(), "feature_not_found", "").await;

    let list = items("int", "u");
    api.add(&list, &[(ago(1), i64::MAX.into()), (ago(2), 1.into())]).await;
    refused("int", sum.clone(), "out_of_range", "aggregates[0]").await;
    api.feature("double", "double", "30d").await;
    api.add(&items("double", "u"), &[(ago(1), 1e308.into()), (ago(2), 1e308.into())]).await;
    refused("double", sum, "out_of_range", "aggregates[0]").await;
    let mean = json!({"windows": ["1h"], "aggregates": [{"name": "n", "function": "mean"}]});
    assert_eq!(aggregate(&api, &items("double", "u"), mean).await["windows"][0]["results"]["n"], 1e308);
}

#[tokio::test]
async fn integers_are_digits_on_request() {
    let api = api().await;
    api.feature("int", "int64", "30d").await;
    let list = items("int", "u");
    api.add(&list, &[(ago(1), 9_007_199_254_740_993_i64.into()), (ago(2), 1.into())]).await;
    let functions = ["count", "sum", "min", "last", "top"];
    let aggregates: Vec<_> = functions.iter().map(|function| json!({"name": function, "function": function})).collect();
    let body = json!({"windows": ["1h"], "aggregates": aggregates});
    let answer = api.post(&format!("{list}:aggregate?int64_as=string"), body).await.expect(200);
    let top = json!([{"value": "1", "count": 1}, {"value": "9007199254740993", "count": 1}]);
    let results = json!({"count": 2, "sum": "9007199254740994", "min": "1", "last": "9007199254740993", "top": top});
    assert_eq!(answer["windows"][0]["results"], results);
}

#[tokio::test]
async fn one_call_returns_aggregates_and_items_of_other_lists() {
    let api = api().await;
    let list = payments(&api).await;
    let of = |entity_id: &str| json!({"entity_type": "user", "feature": "payment", "entity_id": entity_id});
    let with = |entity_id: &str, aggregate: Value| {
        let mut request = of(entity_id);
        request["aggregate"] = aggregate;
        request
    };
    let body = json!({"windows": ["24h"], "aggregates": count()});
    let (mut later, mut mistyped) = (body.clone(), body.clone());
    later["as_of"] = json!(ago(0) + 3_600_000_000_000);
    mistyped["where"] = json!({"in": [9_007_199_254_740_993_i64]});
    let requests = json!({"requests": [
        with("u-1", body.clone()),
        of("u-1"),
        with("..", body.clone()),
        with("u-2", body.clone()),
        with("u-1", later),
        with("u-1", mistyped),
    ]});
    let answer = api.post("/v1/lists:batchGet", requests).await.expect(200);
    let results = &answer["results"];
    assert_eq!(results[0]["windows"][0]["results"]["n"], 4);
    assert_eq!(results[1]["items"].as_array().unwrap().len(), 4);
    assert_eq!(results[2]["problem"]["field"], "requests[2].entity_id");
    assert_eq!(results[3]["windows"][0]["results"]["n"], 0);
    assert_eq!(results[4]["problem"]["field"], "requests[4].aggregate.as_of");
    assert_eq!(results[5]["problem"]["field"], "requests[5].aggregate.where.in[0]");
    let alone = aggregate(&api, &list, body).await;
    assert_eq!(alone["windows"][0]["results"], results[0]["windows"][0]["results"]);
}

/// What Aggregate List Items refuses without a look at the list refuses a call for many lists.
#[tokio::test]
async fn a_malformed_aggregate_refuses_the_whole_call() {
    let api = api().await;
    payments(&api).await;
    let body = json!({"windows": ["24h"], "aggregates": count()});
    let changed = |member: &str, value: Value| {
        let mut changed = body.clone();
        changed[member] = value;
        changed
    };
    let good = json!({"entity_type": "user", "feature": "payment", "entity_id": "u-1"});
    let bag = json!({"entity_type": "user", "entity_id": "u-1"});
    let twice = json!([{"name": "n", "function": "count"}, {"name": "n", "function": "count"}]);
    let reversed = json!([{"min_timestamp": 2, "max_timestamp": 1}]);
    for (aggregate, code, field) in [
        (json!(7), "invalid_argument", ""),
        (json!({"windows": ["24h"]}), "invalid_argument", "aggregates"),
        (changed("windows", json!(["0s"])), "invalid_argument", "windows[0]"),
        (changed("windows", json!(["\u{fffd}"])), "invalid_argument", "windows[0]"),
        (changed("windows", reversed), "invalid_argument", "windows[0].min_timestamp"),
        (changed("as_of", json!("soon")), "invalid_timestamp", "as_of"),
        (changed("aggregates", twice), "invalid_argument", "aggregates[1].name"),
        (changed("where", json!({"in": []})), "invalid_argument", "where.in"),
        (changed("limit", json!(1)), "invalid_argument", "limit"),
    ] {
        let place = |whole: &str| match field {
            "" => whole.to_owned(),
            field => format!("{whole}.{field}"),
        };
        let mut bad = good.clone();
        bad["aggregate"] = aggregate.clone();
        let call = json!({"requests": [good, bad]});
        api.post("/v1/lists:batchGet", call).await.refused(code, &place("requests[1].aggregate"));
        let call = json!({"requests": [bag], "aggregates": {"payment": aggregate}});
        api.post("/v1/entities:batchGet", call).await.refused(code, &place("aggregates.payment"));
    }
    let halves = r#"{"requests": [{"entity_type": "user", "feature": "payment", "entity_id": "u-1", "aggregate":
        {"windows": ["24h"], "aggregates": [{"name": "\ud800", "function": "count"}]}}]}"#;
    let json = [("content-type", "application/json")];
    let refused = api.send(Method::POST, "/v1/lists:batchGet", &json, halves.as_bytes()).await;
    refused.refused("invalid_argument", "requests[0].aggregate.aggregates[0].name");
    let mut limited = good.clone();
    (limited["aggregate"], limited["limit"]) = (body.clone(), json!(5));
    api.post("/v1/lists:batchGet", json!({"requests": [limited]}))
        .await
        .refused("invalid_argument", "requests[0].limit");
}

async fn put_bag(api: &Api, entity_id: &str) {
    let (path, json) = (format!("/v1/entities/user/{entity_id}"), [("content-type", "application/json")]);
    api.send(Method::PUT, &path, &json, b"{}").await.expect(201);
}

#[tokio::test]
async fn aggregates_come_along_with_bags() {
    let api = api().await;
    let list = payments(&api).await;
    api.feature("seen", "string", "30d").await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    put_bag(&api, "u-1").await;
    put_bag(&api, "u-2").await;
    let spent = json!({"windows": ["24h"], "aggregates": [{"name": "s", "function": "sum", "property": "/amount"}]});
    let requests: Vec<_> =
        ["u-2", "none", "u-1"].iter().map(|id| json!({"entity_type": "user", "entity_id": id})).collect();
    let call = json!({"requests": requests, "aggregates": {"payment": spent, "seen": spent, "none": spent}});
    let answer = api.post("/v1/entities:batchGet?lists=payment:1", call.clone()).await.expect(200);
    let results = &answer["results"];
    assert_eq!(results[0]["aggregates"]["payment"]["windows"][0]["results"]["s"], 0);
    assert_eq!(results[1]["problem"]["code"], "bag_not_found");
    assert_eq!(results[2]["aggregates"]["payment"]["windows"][0]["results"]["s"], 60.75);
    assert_eq!(results[2]["lists"]["payment"]["items"].as_array().unwrap().len(), 1);
    let alone = aggregate(&api, &list, spent.clone()).await;
    assert_eq!(results[2]["aggregates"]["payment"]["windows"][0]["results"], alone["windows"][0]["results"]);
    for place in [0, 2] {
        let problem = |feature: &str| results[place]["aggregates"][feature]["problem"].clone();
        assert_eq!(problem("seen")["field"], "aggregates.seen.aggregates[0].function");
        assert_eq!(problem("none")["code"], "feature_not_found");
    }
    let bare = api.post("/v1/entities:batchGet", json!({"requests": requests})).await.expect(200);
    assert_eq!((bare["results"][2].get("lists"), bare["results"][2].get("aggregates")), (None, None));

    let many = vec![json!({"entity_type": "user", "entity_id": "u"}); 501];
    let call = json!({"requests": many, "aggregates": {"payment": spent}});
    let refused = api.post("/v1/entities:batchGet?lists=seen", call.clone()).await;
    refused.refused("invalid_argument", "lists");
    api.post("/v1/entities:batchGet", call).await.expect(200);
    let call = json!({"requests": many, "aggregates": {"payment": spent, "seen": spent}});
    api.post("/v1/entities:batchGet", call).await.refused("invalid_argument", "aggregates");
}

/// The answer has the bytes of one response: aggregates that no longer fit are requested again.
#[tokio::test]
async fn aggregates_with_bags_share_the_answer() {
    let api = api_with(&[("http.response_bytes_max", "2KiB")]).await;
    api.feature("text", "string", "30d").await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    for entity_id in ["u-1", "u-2", "u-3"] {
        put_bag(&api, entity_id).await;
        let texts: Vec<_> = (0..20).map(|n| (ago(60) + n, json!(format!("{n:030}")))).collect();
        api.add(&items("text", entity_id), &texts).await;
    }
    let top = json!({"windows": ["1h"], "aggregates": [{"name": "t", "function": "top", "k": 20}]});
    let requests: Vec<_> =
        ["u-1", "u-2", "u-3"].iter().map(|id| json!({"entity_type": "user", "entity_id": id})).collect();
    let call = json!({"requests": requests, "aggregates": {"text": top}});
    let answer = api.post("/v1/entities:batchGet", call).await.expect(200);
    let read: Vec<_> = (0..3).map(|place| &answer["results"][place]["aggregates"]["text"]).collect();
    let (fitting, others): (Vec<&Value>, Vec<&Value>) =
        read.into_iter().partition(|read| read.get("windows").is_some());
    assert_eq!((fitting.len(), others.len()), (1, 2), "{answer}");
    assert_eq!(fitting[0]["windows"][0]["results"]["t"].as_array().unwrap().len(), 20);
    assert!(others.iter().all(|read| read["problem"]["code"] == "response_too_large"), "{answer}");
}

#[tokio::test]
async fn items_that_aggregations_read_are_measured() {
    let api = api().await;
    let list = payments(&api).await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    put_bag(&api, "u-1").await;
    let measured = async |name: &str| {
        let text = api.get("/metrics").await.text();
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap()
    };
    assert_eq!(measured("liststore_items_aggregated_total").await, 0);
    let body = json!({"windows": ["24h"], "aggregates": count()});
    aggregate(&api, &list, body.clone()).await;
    assert_eq!(measured("liststore_items_aggregated_total").await, 4);
    let request = json!({"entity_type": "user", "feature": "payment", "entity_id": "u-1", "aggregate": body});
    api.post("/v1/lists:batchGet", json!({"requests": [request]})).await.expect(200);
    assert_eq!(measured("liststore_items_aggregated_total").await, 8);
    let call = json!({"requests": [{"entity_type": "user", "entity_id": "u-1"}], "aggregates": {"payment": body}});
    api.post("/v1/entities:batchGet", call).await.expect(200);
    assert_eq!(measured("liststore_items_aggregated_total").await, 12);
    let hour = json!({"windows": ["1h"], "aggregates": count()});
    aggregate(&api, &list, hour).await;
    assert_eq!(measured("liststore_items_aggregated_total").await, 14, "no item before the window is read");
    assert_eq!(measured("liststore_items_read_total").await, 0);
}

#[tokio::test]
async fn aggregates_that_need_too_much_memory_are_refused() {
    let api = api_with(&[("http.response_bytes_max", "1KiB")]).await;
    api.feature("text", "string", "30d").await;
    let list = items("text", "u");
    let texts: Vec<_> = (0..100).map(|n| (ago(60) + n, json!(format!("value {n}")))).collect();
    api.add(&list, &texts).await;
    let body = json!({"windows": ["1h"], "aggregates": [{"name": "t", "function": "top", "k": 100}]});
    api.post(&format!("{list}:aggregate"), body).await.refused("aggregate_too_large", "");
    let body = json!({"windows": ["1h"], "aggregates": [{"name": "d", "function": "count_distinct"}]});
    assert_eq!(aggregate(&api, &list, body).await["windows"][0]["results"]["d"], 100);
}

#[tokio::test]
async fn aggregated_items_count_against_the_limit() {
    let api = api().await;
    let list = payments(&api).await;
    // More than is allowed again within a minute.
    let more: Vec<_> = (0..100).map(|n| (ago(300) + n, json!({"amount": 1.5}))).collect();
    api.add(&list, &more).await;
    let admin = admin(&api).await;
    let limited = json!({"name": "r", "roles": ["reader"], "items_per_second": 1, "items_burst": 3});
    let (reader, _) = key(&api, Some(&admin), limited).await;
    let (path, body) = (format!("{list}:aggregate"), json!({"windows": ["24h"], "aggregates": count()}));
    with_key(&api, &reader, Method::POST, &path, &body).await.expect(200);
    with_key(&api, &reader, Method::POST, &path, &body).await.refused("rate_limited", "");

    let of_type = json!({"entity_type": "user"});
    with_key(&api, &admin, Method::POST, "/v1/entity-types", &of_type).await.expect(201);
    with_key(&api, &admin, Method::PUT, "/v1/entities/user/u-1", &json!({})).await.expect(201);
    let limited = json!({"name": "b", "roles": ["reader"], "items_per_second": 1, "items_burst": 3});
    let (reader, _) = key(&api, Some(&admin), limited).await;
    let call = json!({"requests": [{"entity_type": "user", "entity_id": "u-1"}], "aggregates": {"payment": body}});
    with_key(&api, &reader, Method::POST, "/v1/entities:batchGet", &call).await.expect(200);
    with_key(&api, &reader, Method::POST, "/v1/entities:batchGet", &call).await.refused("rate_limited", "");
}
