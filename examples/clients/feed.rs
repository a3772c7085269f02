use std::error::Error;

use liststore_client::domain::{Clock, SystemClock, Timestamp};
use liststore_client::operations::create_feature::FeatureInput;
use liststore_client::{Client, Get, ListName, NewItem, Retries, ServerUrl, Within};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("LISTSTORE_URL").unwrap_or("http://127.0.0.1:8080".to_owned());
    let client = Client::new(ServerUrl::parse(&url)?, None, Retries::PATIENT)?;
    let name = ListName::new("user", "story_seen", "u-123")?;
    let seen = client.list(&name);

    // Create the feature, unless it exists.
    if client.feature(&name.feature).await?.is_none() {
        let feature = br#"{"entity_type": "user", "name": "story_seen", "value_type": "string", "ttl": "30d"}"#;
        let feature = FeatureInput::read(feature).map_err(|problem| problem.detail)?;
        client.create_feature(&feature).await?;
    }

    let now = SystemClock.now().as_nanos();
    let mut items = Vec::new();
    for (nanos, story) in (now..).zip(["story-1", "story-2", "story-3"]) {
        items.push(NewItem::new(Timestamp::from_nanos(nanos)?, &story)?);
    }
    println!("added {}", seen.add(&items).await?.added);

    let newest = Get { limit: Some(2), ..Get::default() };
    for item in seen.get(&newest).await?.items {
        println!("seen {}", item.value::<String>()?);
    }

    let candidates = ["story-2", "story-8", "story-9"];
    let found = seen.contains(&Within::default(), &candidates).await?;
    for (story, result) in candidates.iter().zip(found.results) {
        if result.timestamp.is_none() {
            println!("new {story}");
        }
    }
    Ok(())
}
