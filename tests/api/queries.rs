//! Queries of a list other than its newest items: `order=oldest`, `items:count`,
//! `items:contains`, and as of a moment.

use serde_json::{Value, json};

use super::client::{ago, api, items};
use super::pages::numbered;

fn token(page: &Value) -> Option<String> {
    page["next_page_token"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn the_oldest_items_come_first_on_request() {
    let api = api().await;
    let (list, start) = numbered(&api, 20).await;
    let mut expected = api.values(&list).await;
    assert_eq!(api.values(&format!("{list}?order=newest")).await, expected);
    expected.reverse();
    for limit in [1, 2, 7, 19, 20, 21] {
        let (mut walked, mut next) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("{list}?order=oldest&limit={limit}{next}")).await;
            walked.extend(page.values());
            match token(&page.expect(200)) {
                Some(token) => next = format!("&page_token={token}"),
                None => break,
            }
        }
        assert_eq!(walked, expected, "limit {limit}");
    }
    let bounded = format!("{list}?order=oldest&min_timestamp={}&max_timestamp={}", start + 2, start + 2);
    assert_eq!(api.values(&bounded).await, expected[6..9]);
    for bad in ["order=newer", "order=", "order=Oldest", "order=oldest&order=oldest"] {
        api.get(&format!("{list}?{bad}")).await.refused("invalid_argument", "order");
    }
}

#[tokio::test]
async fn a_token_is_valid_for_its_order_only() {
    let api = api().await;
    let (list, _) = numbered(&api, 9).await;
    let newest = token(&api.get(&format!("{list}?limit=2")).await.expect(200)).unwrap();
    let oldest = token(&api.get(&format!("{list}?limit=2&order=oldest")).await.expect(200)).unwrap();
    for other in [
        format!("order=oldest&page_token={newest}"),
        format!("page_token={oldest}"),
        format!("order=newest&page_token={oldest}"),
    ] {
        api.get(&format!("{list}?{other}")).await.refused("invalid_page_token", "page_token");
    }
    // The default is the order that it names.
    api.get(&format!("{list}?order=newest&page_token={newest}")).await.expect(200);
    api.get(&format!("{list}?order=oldest&page_token={oldest}")).await.expect(200);
}

#[tokio::test]
async fn items_are_counted_up_to_a_bound() {
    let api = api().await;
    let (list, start) = numbered(&api, 20).await;
    let count = async |query: &str| api.get(&format!("{list}:count{query}")).await.expect(200);
    assert_eq!(count("").await, json!({"count": 20, "exact": true}));
    assert_eq!(count("?max=20").await, json!({"count": 20, "exact": true}));
    assert_eq!(count("?max=19").await, json!({"count": 19, "exact": false}));
    assert_eq!(count(&format!("?min_timestamp={start}&max_timestamp={}", start + 1)).await["count"], 6);
    let missing = api.get(&format!("{}:count", items("seen", "nobody"))).await;
    assert_eq!(missing.expect(200), json!({"count": 0, "exact": true}));
    for (query, code, field) in [
        ("max=0", "invalid_argument", "max"),
        ("max=1000001", "invalid_argument", "max"),
        ("limit=1", "invalid_argument", "limit"),
        ("min_timestamp=2&max_timestamp=1", "invalid_argument", "min_timestamp"),
        ("max_timestamp=soon", "invalid_timestamp", "max_timestamp"),
    ] {
        api.get(&format!("{list}:count?{query}")).await.refused(code, field);
    }
    api.get(&format!("{}:count", items("unknown", "u"))).await.refused("feature_not_found", "");
    api.get(&format!("{list}:count?version=v2")).await.refused("version_not_found", "");
}

#[tokio::test]
async fn values_are_found_in_request_order() {
    let api = api().await;
    api.feature("seen", "json", "30d").await;
    let (list, now) = (items("seen", "u"), 1_724_949_845_430_000_000_u64.max(ago(100)));
    api.add(&list, &[(now, json!({"a": 1, "b": [null]})), (now + 1, "x".into()), (now + 2, "x".into())]).await;
    let contains = format!("{list}:contains");
    // Values are equal as they are stored, however they are written; an answer has the stored form.
    let asked = br#"{"values": ["y", {"b":[null], "a": 1.0}, "x", "y", "x"]}"#;
    let found = api.send(reqwest::Method::POST, &contains, &[], asked).await.expect(200);
    let at = |answer: &Value| answer["timestamp"].clone();
    let results = found["results"].as_array().unwrap();
    let values: Vec<_> = results.iter().map(|result| result["value"].clone()).collect();
    assert_eq!(values, ["y".into(), json!({"a": 1, "b": [null]}), "x".into(), "y".into(), "x".into()]);
    let page = api.get(&list).await.expect(200);
    let newest = |n: usize| at(&page["items"][n]);
    let times: Vec<_> = results.iter().map(at).collect();
    assert_eq!(times, [Value::Null, newest(2), newest(0), Value::Null, newest(0)]);

    let bounded = format!("{contains}?max_timestamp={}", now + 1);
    let found = api.post(&bounded, json!({"values": ["x"]})).await.expect(200);
    assert_eq!(at(&found["results"][0]), newest(1));
    let missing = format!("{}:contains", items("seen", "nobody"));
    let found = api.post(&missing, json!({"values": ["x"]})).await.expect(200);
    assert_eq!(found, json!({"results": [{"value": "x", "timestamp": null}]}));
}

#[tokio::test]
async fn invalid_searches_for_values_are_refused() {
    let api = api().await;
    api.feature("seen", "int64", "30d").await;
    let contains = format!("{}:contains", items("seen", "u"));
    for (body, code, field) in [
        (json!({}), "invalid_argument", "values"),
        (json!({"values": []}), "invalid_argument", "values"),
        (json!({"values": 7}), "invalid_argument", "values"),
        (json!({"values": vec![7; 1_001]}), "invalid_argument", "values"),
        (json!({"value": [7]}), "invalid_argument", "value"),
        (json!({"values": [1, "2", "x"]}), "value_type_mismatch", "values[2]"),
    ] {
        api.post(&contains, body).await.refused(code, field);
    }
    let found = api.post(&contains, json!({"values": vec![7; 1_000]})).await.expect(200);
    assert_eq!(found["results"].as_array().unwrap().len(), 1_000);
    api.post(&format!("{contains}?limit=1"), json!({"values": [1]})).await.refused("invalid_argument", "limit");
    let unknown = format!("{}:contains", items("unknown", "u"));
    api.post(&unknown, json!({"values": [1]})).await.refused("feature_not_found", "");
}

/// The model: the present items, up to the moment.
#[tokio::test]
async fn a_list_is_shown_as_of_a_moment() {
    let api = api().await;
    let (list, start) = numbered(&api, 20).await;
    for (moment, count) in [(start - 1, 0), (start, 3), (start + 3, 12), (start + 100, 20)] {
        let mut expected: Vec<_> = (0..20_u64).filter(|n| start + n / 3 <= moment).collect();
        assert_eq!(expected.len(), count);
        for order in ["newest", "oldest"] {
            let (mut walked, mut next) = (Vec::new(), String::new());
            loop {
                let page = api.get(&format!("{list}?as_of={moment}&order={order}&limit=4{next}")).await;
                walked.extend(page.values().iter().map(|value| value.as_u64().unwrap()));
                match token(&page.expect(200)) {
                    Some(token) => next = format!("&page_token={token}"),
                    None => break,
                }
            }
            // Ties have a fixed order.
            let times: Vec<_> = walked.iter().map(|n| n / 3).collect();
            assert!(if order == "newest" { times.is_sorted_by(|a, b| a >= b) } else { times.is_sorted() }, "{times:?}");
            walked.sort_unstable();
            expected.sort_unstable();
            assert_eq!(walked, expected, "as of {moment}, {order}");
        }
    }
    let both = |as_of: u64, min: u64, max: u64| format!("{list}?as_of={as_of}&min_timestamp={min}&max_timestamp={max}");
    assert_eq!(api.values(&both(start + 2, start + 1, start + 5)).await.len(), 6);
    assert_eq!(api.values(&both(start + 5, start + 1, start + 1)).await.len(), 3);
    assert!(api.values(&both(start, start + 1, start + 5)).await.is_empty());
    // Items that were removed since are missing, and items that were added since with an earlier timestamp are
    // present.
    api.post(&format!("{list}:remove"), json!({"value": 0})).await.expect(200);
    api.add(&list, &[(start, Value::from(100))]).await;
    let mut values: Vec<_> =
        api.values(&format!("{list}?as_of={start}")).await.iter().map(|value| value.as_u64().unwrap()).collect();
    values.sort_unstable();
    assert_eq!(values, [1, 2, 100]);
}

#[tokio::test]
async fn a_future_moment_is_refused_and_a_token_is_valid_for_its_moment_only() {
    let api = api().await;
    let (list, start) = numbered(&api, 9).await;
    let future = ago(0) + 3_600_000_000_000;
    api.get(&format!("{list}?as_of={future}")).await.refused("invalid_argument", "as_of");
    api.get(&format!("{list}?as_of=yesterday")).await.refused("invalid_timestamp", "as_of");
    let page = api.get(&format!("{list}?as_of={}&limit=2", start + 2)).await.expect(200);
    let of_then = token(&page).unwrap();
    for other in [format!("as_of={}&page_token={of_then}", start + 3), format!("page_token={of_then}")] {
        api.get(&format!("{list}?{other}")).await.refused("invalid_page_token", "page_token");
    }
    // It is not a first page for other callers, and gets no page of theirs.
    assert_eq!(api.values(&list).await.len(), 9);
    assert_eq!(api.values(&format!("{list}?as_of={start}")).await.len(), 3);
    assert_eq!(api.values(&list).await.len(), 9);
}
