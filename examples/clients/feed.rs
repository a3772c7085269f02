use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::{Client, Method};
use serde_json::{Value, json};

const SEEN: &str = "/v1/lists/user/story_seen/u-123/items";

struct Liststore {
    client: Client,
    url: String,
}

impl Liststore {
    /// Sends one request and returns the answer, or the problem as an error.
    async fn call(&self, method: Method, path: &str, body: Value) -> Result<Value, Box<dyn Error>> {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = request.send().await?;
        let failed = answer.status().is_client_error() || answer.status().is_server_error();
        let body: Value = answer.json().await?;
        if failed { Err(format!("{}: {}", body["code"], body["detail"]).into()) } else { Ok(body) }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("LISTSTORE_URL").unwrap_or("http://127.0.0.1:8080".to_owned());
    let lists = Liststore { client: Client::new(), url };

    // Create the feature, unless it exists.
    if lists.call(Method::GET, "/v1/features/user/story_seen", Value::Null).await.is_err() {
        let feature = json!({"entity_type": "user", "name": "story_seen", "value_type": "string", "ttl": "30d"});
        lists.call(Method::POST, "/v1/features", feature).await?;
    }

    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let stories = ["story-1", "story-2", "story-3"];
    let items: Vec<_> =
        (now..).zip(stories).map(|(timestamp, value)| json!({"timestamp": timestamp, "value": value})).collect();
    let added = lists.call(Method::POST, SEEN, json!({"items": items})).await?;
    println!("added {}", added["added"]);

    let page = lists.call(Method::GET, &format!("{SEEN}?limit=2"), Value::Null).await?;
    for item in page["items"].as_array().into_iter().flatten() {
        println!("seen {}", item["value"]);
    }

    let wanted = json!({"values": ["story-2", "story-8", "story-9"]});
    let found = lists.call(Method::POST, &format!("{SEEN}:contains"), wanted).await?;
    for result in found["results"].as_array().into_iter().flatten() {
        if result["timestamp"].is_null() {
            println!("new {}", result["value"]);
        }
    }
    Ok(())
}
