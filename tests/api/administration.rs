//! An address for administration alone.

use liststore::operations::OPERATIONS;
use liststore_contract::operations::metrics;
use liststore_contract::row::Group;

use super::client::{api, api_with};

#[tokio::test]
async fn a_separate_address_serves_metrics_and_the_pool_without_lists() {
    let api = api_with(&[("admin.listen", "127.0.0.1:0")]).await;
    let apart = api.server.administration_url.clone().unwrap();
    let http = reqwest::Client::new();
    for operation in OPERATIONS.iter().map(|operation| operation.row) {
        let path = operation.path_of(&["user", "seen", "u-1"]);
        let method: reqwest::Method = operation.method.as_str().parse().unwrap();
        let status_at = async |url: &str| {
            let answer = http.request(method.clone(), format!("{url}{path}")).send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        let (here, there) = (status_at(&api.server.url).await, status_at(&apart).await);
        let not_here = |(status, text): &(u16, String)| *status == 404 && text.contains("admin.listen");
        let not_there = |(status, text): &(u16, String)| *status == 404 && text.contains("http.listen");
        let is_administration = operation.group == Group::Operations || operation.is(&metrics::ROW);
        let about = operation.name;
        assert_eq!(not_here(&here), is_administration, "{about}: {here:?}");
        let is_health = operation.group == Group::Health;
        assert_eq!(not_there(&there), !(is_administration || is_health), "{about}: {there:?}");
    }
}

#[tokio::test]
async fn without_a_separate_address_one_address_serves_everything() {
    let api = api().await;
    assert_eq!(api.server.administration_url, None);
    api.get("/v1/pool").await.expect(200);
    assert_eq!(api.get("/metrics").await.status, 200);
}
