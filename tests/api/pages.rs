//! Pages of items: walks that miss nothing and repeat nothing, and tokens that are valid only for them.

use serde_json::{Value, json};

use super::client::{Answer, Api, ago, api, api_with, items};

fn token(answer: &Answer) -> Option<String> {
    answer.expect(200)["next_page_token"].as_str().map(str::to_owned)
}

/// Walks a list to its end, and returns the pages.
async fn walk(api: &Api, path: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut next = String::new();
    loop {
        let answer = api.get(&format!("{path}{next}")).await;
        pages.push(answer.values());
        match token(&answer) {
            Some(token) => next = format!("&page_token={token}"),
            None => return pages,
        }
    }
}

/// A list of `count` numbers, three at each moment, and the first moment.
pub async fn numbered(api: &Api, count: u64) -> (String, u64) {
    api.feature("seen", "int64", "30d").await;
    let (list, start) = (items("seen", "u"), ago(1_000));
    // Three share each timestamp, so that pages end among ties.
    let added: Vec<_> = (0..count).map(|n| (start + n / 3, Value::from(n))).collect();
    api.add(&list, &added).await;
    (list, start)
}

#[tokio::test]
async fn a_walk_sees_every_item_once() {
    let api = api().await;
    let (list, _) = numbered(&api, 20).await;
    let whole = walk(&api, &format!("{list}?limit=100")).await;
    assert_eq!((whole.len(), whole[0].len()), (1, 20));
    for limit in [1, 2, 3, 7, 19, 20, 21] {
        let pages = walk(&api, &format!("{list}?limit={limit}")).await;
        assert_eq!(pages.concat(), whole[0], "limit {limit}");
        // The number of pages matches the items: a token exists exactly if an item follows.
        assert_eq!(pages.len(), 20_usize.div_ceil(limit), "limit {limit}");
    }
}

#[tokio::test]
async fn a_walk_continues_while_items_are_added_and_removed() {
    let api = api().await;
    let (list, start) = numbered(&api, 9).await;
    let first = api.get(&format!("{list}?limit=4")).await;
    let rest: Vec<_> = api.values(&list).await.split_off(4);
    let token = token(&first).unwrap();
    api.add(&list, &[(start + 100, Value::from(100))]).await;
    // Removes the very item of the token.
    api.post(&format!("{list}:remove"), json!({"value": first.values()[3]})).await.expect(200);
    assert_eq!(api.get(&format!("{list}?limit=9&page_token={token}")).await.values(), rest);
}

#[tokio::test]
async fn a_token_is_valid_for_its_list_and_bounds_only() {
    let api = api().await;
    let (list, start) = numbered(&api, 9).await;
    api.post("/v1/features/user/seen/versions", json!({"version": "v2"})).await.expect(201);
    let bounded = format!("{list}?limit=2&min_timestamp={start}");
    let token = token(&api.get(&bounded).await).unwrap();
    api.get(&format!("{bounded}&page_token={token}")).await.expect(200);
    // The same bound in another form is the same bound; the limit may change.
    api.get(&format!("{list}?limit=9&min_timestamp={start:019}&page_token={token}")).await.expect(200);
    for other in [
        format!("{list}?page_token={token}"),
        format!("{list}?min_timestamp={}&page_token={token}", start + 1),
        format!("{list}?min_timestamp={start}&max_timestamp={}&page_token={token}", start + 50),
        format!("{}?min_timestamp={start}&page_token={token}", items("seen", "other")),
        format!("{list}?version=v2&min_timestamp={start}&page_token={token}"),
        format!("{bounded}&page_token={token}A"),
        format!("{bounded}&page_token={}", &token[1..]),
        format!("{bounded}&page_token={}", token.to_lowercase()),
        format!("{bounded}&page_token=%20"),
    ] {
        api.get(&other).await.refused("invalid_page_token", "page_token");
    }
}

/// It depends only on the walk, so it is valid after a restart, too.
#[tokio::test]
async fn a_token_is_valid_on_every_server() {
    let (one, other) = (api().await, api().await);
    let (list, start) = (items("seen", "u"), ago(1_000));
    let added: Vec<_> = (0..9).map(|n| (start + n / 3, Value::from(n))).collect();
    for api in [&one, &other] {
        api.feature("seen", "int64", "30d").await;
        api.add(&list, &added).await;
    }
    let token = token(&one.get(&format!("{list}?limit=4")).await).unwrap();
    let whole = other.values(&list).await;
    assert_eq!(other.values(&format!("{list}?page_token={token}")).await, whole[4..]);
}

#[tokio::test]
async fn a_token_is_refused_once_its_feature_was_created_again() {
    let api = api().await;
    let (list, _) = numbered(&api, 9).await;
    let token = token(&api.get(&format!("{list}?limit=2")).await).unwrap();
    api.delete("/v1/features/user/seen").await.expect(200);
    numbered(&api, 9).await;
    api.get(&format!("{list}?limit=2&page_token={token}")).await.refused("invalid_page_token", "page_token");
}

#[tokio::test]
async fn a_page_ends_before_its_answer_is_too_large() {
    let api = api_with(&[("http.response_bytes_max", "65536")]).await;
    api.feature("seen", "string", "30d").await;
    let (list, now) = (items("seen", "u"), ago(100));
    for n in 0..6 {
        api.add(&list, &[(now + n, format!("{n}{}", "x".repeat(25_000)).into())]).await;
    }
    // Quotes double in JSON: this one alone is above the bound, and still comes.
    api.add(&list, &[(now + 6, "\"".repeat(60_000).into())]).await;
    let pages = walk(&api, &format!("{list}?limit=100")).await;
    let sizes: Vec<_> = pages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 2, 2, 2]);
}

/// Answers that were sent once may be sent again, but a token is valid only for the bounds as written.
#[tokio::test]
async fn a_token_belongs_to_its_bounds_even_for_a_cached_page() {
    let api = api().await;
    let (list, start) = numbered(&api, 9).await;
    let askers = ["limit=4", "limit=4&min_timestamp=0", "limit=4&max_timestamp=9223372036854775807"];
    for (round, first) in askers.iter().enumerate() {
        // The list changes, so that nothing of the round before is the answer.
        api.add(&list, &[(start + 100, Value::from(100 + round))]).await;
        for then in askers {
            for _ in 0..4 {
                api.get(&format!("{list}?{first}")).await.expect(200);
            }
            let pages = walk(&api, &format!("{list}?{then}")).await;
            assert_eq!(pages.concat().len(), 10 + round, "{first}, then {then}");
        }
    }
}
