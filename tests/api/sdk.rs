//! The typed calls of the package `liststore-client`, against a server.

use liststore::domain::{Clock, EntityId, EntityType, Order, SystemClock, Timestamp};
use liststore::wire::ErrorCode;
use liststore_client::operations::create_entity_type;
use liststore_client::{Client, ClientError, Condition, Get, ListName, NewItem, Request, Retries, ServerUrl, Within};
use liststore_contract::operations::create_feature::FeatureInput;
use liststore_contract::operations::update_feature::FeaturePatch;
use serde::{Deserialize, Serialize};

use super::support::{TestServer, settings, spawn_server};

async fn server_and_client() -> (TestServer, Client) {
    let server = spawn_server(settings(&[])).await;
    let client = Client::new(ServerUrl::parse(&server.url).unwrap(), None, Retries::NONE).unwrap();
    (server, client)
}

async fn create(client: &Client, definition: &str) {
    client.create_feature(&FeatureInput::read(definition.as_bytes()).unwrap()).await.unwrap();
}

/// So many seconds ago.
fn ago(secs: u64) -> Timestamp {
    Timestamp::from_nanos(SystemClock.now().as_nanos() - secs * 1_000_000_000).unwrap()
}

#[tokio::test]
async fn a_list_is_written_read_and_cleared_by_typed_calls() {
    let (_server, client) = server_and_client().await;
    create(&client, r#"{"entity_type":"user","name":"seen","value_type":"string","ttl":"30d"}"#).await;
    let name = ListName::new("user", "seen", "u/1").unwrap();
    let list = client.list(&name);
    assert!(list.get(&Get::default()).await.unwrap().items.is_empty());
    let (older, newer) = (ago(20), ago(10));
    let items = [NewItem::new(older, &"a").unwrap(), NewItem::new(newer, &"b\"é").unwrap()];
    assert_eq!(list.add(&items).await.unwrap().added, 2);

    let mut pages = list.pages(Get { limit: Some(1), order: Order::Oldest, ..Get::default() });
    let mut read = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        read.extend(page.items.iter().map(|item| (item.timestamp, item.value::<String>().unwrap())));
    }
    assert_eq!(read, [(older, "a".to_owned()), (newer, "b\"é".to_owned())]);

    let late = Within { min: Some(newer), max: None };
    assert_eq!(list.count(&late, None).await.unwrap().count, 1);
    let found = list.contains(&Within::default(), &["a", "c"]).await.unwrap().results;
    assert_eq!(found.iter().map(|found| found.timestamp.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(list.remove_value(&"a").await.unwrap(), 1);
    assert_eq!(list.remove_items(&items).await.unwrap(), 1);
    list.add(&items).await.unwrap();
    assert_eq!(list.remove_between(&late).await.unwrap(), 1);
    list.clear().await.unwrap();
    assert_eq!(list.count(&Within::default(), None).await.unwrap().count, 0);
}

#[tokio::test]
async fn members_of_a_set_are_looked_up_and_removed_by_their_keys() {
    let (_server, client) = server_and_client().await;
    let keyed = r#"{"entity_type":"user","name":"flags","value_type":"int64","ttl":"30d","identity":"key"}"#;
    create(&client, keyed).await;
    let name = ListName::new("user", "flags", "u-1").unwrap();
    let set = client.list(&name);
    set.add(&[NewItem::new(ago(5), &7).unwrap().with_key("k\"1")]).await.unwrap();
    let found = set.lookup_keys(&["k\"1", "k2"]).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|item| item.map(|item| (item.key, item.json.get().to_owned()))).collect();
    assert_eq!(found, [Some((Some("k\"1".to_owned()), "7".to_owned())), None]);
    assert_eq!(set.remove_keys(&["k\"1"]).await.unwrap(), 1);
}

#[tokio::test]
async fn features_are_found_changed_and_deleted_by_typed_calls() {
    let (_server, client) = server_and_client().await;
    create(&client, r#"{"entity_type":"user","name":"seen","value_type":"string","ttl":"30d"}"#).await;
    let id = ListName::new("user", "seen", "u-1").unwrap().feature;
    assert_eq!(client.features(Some("user"), None).await.unwrap().features[0].name, "seen");
    let patch = FeaturePatch::read(br#"{"owner":"feed team"}"#).unwrap();
    assert_eq!(client.update_feature(&id, &patch).await.unwrap().owner, "feed team");
    client.delete_feature(&id).await.unwrap();
    assert!(client.feature(&id).await.unwrap().is_none());
    let missing = ListName { feature: id, ..ListName::new("user", "seen", "u-1").unwrap() };
    let refused = client.list(&missing).get(&Get::default()).await.unwrap_err();
    assert!(refused.has_code(ErrorCode::FeatureNotFound), "{refused}");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    city: Option<String>,
}

#[tokio::test]
async fn a_bag_has_the_type_of_the_caller_and_conditions_apply() {
    let (_server, client) = server_and_client().await;
    let entity_type = EntityType::new("user").unwrap();
    let request = Request::new(&create_entity_type::ROW, &[]).json(br#"{"entity_type":"user"}"#.to_vec());
    client.send(&request).await.unwrap();
    let id = EntityId::new("u-1").unwrap();
    assert!(client.bag(&entity_type, &id).await.unwrap().is_none());
    let ada = Person { name: "Ada".to_owned(), city: None };
    client.put_bag(&entity_type, &id, &ada, Condition::IfAbsent).await.unwrap();
    let again = client.put_bag(&entity_type, &id, &ada, Condition::IfAbsent).await.unwrap_err();
    assert!(again.has_code(ErrorCode::EtagMismatch), "{again}");

    let found = client.bag(&entity_type, &id).await.unwrap().unwrap();
    assert_eq!(found.properties::<Person>().unwrap(), ada);
    let paris = serde_json::json!({"city": "Paris"});
    client.patch_bag(&entity_type, &id, &paris, Condition::IfUnchanged(found.etag.clone())).await.unwrap();
    let late = client.patch_bag(&entity_type, &id, &paris, Condition::IfUnchanged(found.etag)).await;
    assert!(matches!(late, Err(ClientError::Problem(_))));
    let found = client.bag(&entity_type, &id).await.unwrap().unwrap();
    assert_eq!(found.properties::<Person>().unwrap().city.as_deref(), Some("Paris"));
    client.delete_bag(&entity_type, &id, Condition::Always).await.unwrap();
    assert!(client.bag(&entity_type, &id).await.unwrap().is_none());
}
