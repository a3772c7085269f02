//! The forms that answers come in: compressed, and in lines.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Api, ago, api, api_with, items};
use super::sockets::metric;

async fn get(api: &Api, path: &str, headers: &[(&str, &str)]) -> Answer {
    api.send(Method::GET, path, headers, b"").await
}

/// A list whose page of 100 is large enough for compression, and whose page of 10 is not.
async fn filled(api: &Api) -> String {
    api.feature("seen", "string", "30d").await;
    let (list, now) = (items("seen", "u"), ago(1_000));
    api.add(&list, &(0..200).map(|n| (now + n, format!("value {n} {}", "é".repeat(40)).into())).collect::<Vec<_>>())
        .await;
    list
}

fn varies_by(answer: &Answer) -> Vec<&str> {
    answer.headers.iter().filter(|(name, _)| name == "vary").map(|(_, value)| value.as_str()).collect()
}

#[tokio::test]
async fn long_answers_are_compressed_on_request() {
    let api = api().await;
    let list = filled(&api).await;
    let plain = get(&api, &list, &[]).await;
    assert_eq!((plain.header("content-encoding"), varies_by(&plain)), (None, vec!["Accept", "Accept-Encoding"]));
    for (accepted, coding) in [
        ("gzip", Some("gzip")),
        ("deflate, GZIP;q=0.2", Some("gzip")),
        ("*", Some("gzip")),
        ("gzip;q=0", None),
        ("gzip;q=0.5, identity", None),
        ("br, zstd", Some("zstd")),
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip, zstd;q=0.9", Some("gzip")),
        ("zstd;q=0.5, identity", None),
        ("br, deflate", None),
    ] {
        let answer = get(&api, &list, &[("accept-encoding", accepted)]).await;
        assert_eq!(answer.header("content-encoding"), coding, "{accepted}");
        assert_eq!((varies_by(&answer), answer.etag()), (varies_by(&plain), plain.etag()));
        assert_eq!(answer.body, plain.body);
        let sent: usize = answer.header("content-length").unwrap().parse().unwrap();
        assert_eq!(sent < plain.body.len() / 2, coding.is_some(), "{sent} of {}", plain.body.len());
    }
    let gzip = [("accept-encoding", "gzip")];
    let short = get(&api, &format!("{list}?limit=10"), &[("accept-encoding", "gzip, zstd")]).await;
    assert_eq!((short.header("content-encoding"), varies_by(&short)), (None, vec!["Accept"]));
    // A tag belongs to the page in all codings.
    let same = get(&api, &list, &[("accept-encoding", "gzip"), ("if-none-match", plain.etag())]).await;
    assert_eq!((same.status, same.header("content-encoding")), (304, None));
    assert_eq!(varies_by(&same), varies_by(&plain), "a cache gets the same headers");
    // Other answers too, except answers with a strong tag.
    assert_eq!(get(&api, "/openapi.json", &gzip).await.header("content-encoding"), Some("gzip"));
    let body = json!({"description": "x".repeat(2_000), "labels": (0..60).map(|n| (format!("k{n}"), Value::from("v".repeat(200)))).collect::<serde_json::Map<_, _>>()});
    api.patch("/v1/features/user/seen", body).await.expect(200);
    let feature = get(&api, "/v1/features/user/seen", &gzip).await;
    assert!(
        feature.body.len() > 8_192 && feature.header("content-encoding").is_none() && !feature.etag().starts_with('W')
    );
}

/// It is compressed once, for any number of requests.
#[tokio::test]
async fn the_document_of_the_api_is_compressed_in_advance() {
    let api = api().await;
    let plain = get(&api, "/openapi.json", &[]).await;
    for coding in ["gzip", "zstd"] {
        let headers = [("accept-encoding", coding)];
        let packed = get(&api, "/openapi.json", &headers).await;
        assert_eq!((packed.header("content-encoding"), varies_by(&packed)), (Some(coding), vec!["Accept-Encoding"]));
        assert_eq!(packed.body, plain.body);
        let sent: usize = packed.header("content-length").unwrap().parse().unwrap();
        assert!(sent < plain.body.len() / 5, "{sent} of {}", plain.body.len());
        let head = api.send(Method::HEAD, "/openapi.json", &headers, b"").await;
        assert_eq!(head.header("content-length"), packed.header("content-length"));
    }
    assert_eq!(varies_by(&plain), ["Accept-Encoding"]);
    // More callers than there are encoders, at once, and none is without a compressed form.
    let asking = (0..30).map(|_| get(&api, "/openapi.json", &[("accept-encoding", "zstd")]));
    for answer in join_all(asking).await {
        assert_eq!(answer.header("content-encoding"), Some("zstd"));
    }
    assert_eq!(metric(&api, "liststore_http_uncompressed_total").await, 0.0);
}

#[tokio::test]
async fn an_answer_without_an_encoder_is_uncompressed() {
    let api = api().await;
    let list = filled(&api).await;
    let asking = (0..100).map(|_| get(&api, &list, &[("accept-encoding", "gzip")]));
    let answers = join_all(asking).await;
    let plain = get(&api, &list, &[]).await;
    assert!(answers.iter().all(|answer| answer.body == plain.body && varies_by(answer) == varies_by(&plain)));
    let uncompressed = answers.iter().filter(|answer| answer.header("content-encoding").is_none()).count();
    assert_eq!(metric(&api, "liststore_http_uncompressed_total").await, uncompressed as f64);
    assert_eq!(metric(&api, "liststore_http_encoders").await, 0.0);
}

#[tokio::test]
async fn the_least_length_for_compression_is_a_setting() {
    let api = api_with(&[("http.compression_bytes_min", "1024")]).await;
    let list = filled(&api).await;
    let gzip = [("accept-encoding", "gzip")];
    let answer = get(&api, &format!("{list}?limit=10"), &gzip).await;
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    // Also an answer that is too long for one piece of work.
    let many: Vec<_> = (0..100).map(|_| json!({"entity_type": "user", "feature": "seen", "entity_id": "u"})).collect();
    let body = json!({ "requests": many }).to_string();
    for coding in ["gzip", "zstd"] {
        let headers = [("accept-encoding", coding), ("content-type", "application/json")];
        let answer = api.send(Method::POST, "/v1/lists:batchGet", &headers, body.as_bytes()).await;
        assert_eq!(answer.header("content-encoding"), Some(coding));
        assert_eq!(answer.expect(200)["results"].as_array().unwrap().len(), 100);
    }
}

#[tokio::test]
async fn pages_are_sent_as_lines_if_preferred() {
    let api = api().await;
    let list = filled(&api).await;
    let lines = [("accept", "application/x-ndjson")];
    let mut walked = Vec::new();
    let mut path = format!("{list}?limit=90");
    loop {
        let (page, plain) = (get(&api, &path, &lines).await, get(&api, &path, &[("accept", "*/*")]).await.json());
        assert_eq!(page.content_type(), Some("application/x-ndjson"));
        assert_eq!(varies_by(&page)[0], "Accept");
        let text = page.text();
        assert!(text.ends_with('\n'));
        let mut read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let token = read.last().filter(|last| last.get("next_page_token").is_some()).cloned();
        read.truncate(read.len() - usize::from(token.is_some()));
        assert_eq!(Value::from(read.clone()), plain["items"]);
        walked.extend(read);
        let Some(token) = token else {
            assert_eq!(plain.get("next_page_token"), None);
            break;
        };
        assert_eq!(token, json!({"next_page_token": plain["next_page_token"]}));
        path = format!("{list}?limit=90&page_token={}", token["next_page_token"].as_str().unwrap());
    }
    assert_eq!(walked.len(), 200);
    assert_eq!(get(&api, &items("seen", "nobody"), &lines).await.body, b"");

    let json = get(&api, &list, &[("accept", "application/x-ndjson;q=0.1, application/json")]).await;
    assert_eq!(json.content_type(), Some("application/json"));
    // Lines are other bytes, and have another tag.
    let tag = get(&api, &list, &lines).await.etag().to_owned();
    assert_ne!(tag, json.etag());
    let both = |tag: &str| [("accept", "application/x-ndjson"), ("if-none-match", tag)].map(|(n, v)| (n, v.to_owned()));
    for (sent, status) in [(&*tag, 304), (json.etag(), 200)] {
        let headers = both(sent);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(get(&api, &list, &headers).await.status, status);
    }
    // Problems are sent as usual, and lines are compressed like any answer.
    get(&api, &items("none", "u"), &lines).await.refused("feature_not_found", "");
    let headers = [("accept", "application/x-ndjson"), ("accept-encoding", "gzip")];
    assert_eq!(get(&api, &list, &headers).await.header("content-encoding"), Some("gzip"));
}
