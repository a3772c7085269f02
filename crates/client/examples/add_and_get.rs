//! Adds a story to a list, and prints the newest 50.

use std::error::Error;
use std::io::{Write, stdout};

use liststore_client::domain::{Clock, SystemClock};
use liststore_client::{Client, Get, ListName, NewItem, Retries, ServerUrl};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(ServerUrl::parse("http://127.0.0.1:8080")?, None, Retries::PATIENT)?;
    let presented = ListName::new("user", "story_presented", "u-123")?;
    let list = client.list(&presented);
    list.add(&[NewItem::new(SystemClock.now(), &"story-17")?]).await?;
    for item in list.get(&Get { limit: Some(50), ..Get::default() }).await?.items {
        writeln!(stdout(), "{} {}", item.timestamp, item.value::<String>()?)?;
    }
    Ok(())
}
