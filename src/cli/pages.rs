//! Listings, which a server returns page by page.

use serde_json::value::RawValue;

use super::failure::Failure;
use super::output::Format;
use crate::client::{Client, RawPage, Request};
use crate::domain::Limit;
use crate::wire::parameters::PAGE_TOKEN;

/// Entries as the server wrote them, so that members which this release does not support are printed too.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub all: Vec<Box<RawValue>>,
    /// Where the remaining entries begin.
    pub next_page_token: Option<String>,
}

/// Reports to people that a listing has more entries than `--limit`.
pub(super) fn note_more(format: Format, next_page_token: Option<&str>) {
    if next_page_token.is_some() && format == Format::Table {
        eprintln!("more follow: pass a higher --limit to show them");
    }
}

/// Requests up to a number of entries. `request` builds the request of a page with a given size.
pub(super) async fn entries(
    client: &Client,
    limit: usize,
    request: impl Fn(usize) -> Request,
) -> Result<Entries, Failure> {
    let mut entries = Entries::default();
    while entries.all.len() < limit {
        let page_size = (limit - entries.all.len()).min(Limit::PAGE_SIZE_MAX);
        let request = request(page_size).query(&PAGE_TOKEN, entries.next_page_token.take());
        let page: RawPage = client.ask(&request).await?;
        entries.all.extend(page.entries);
        entries.next_page_token = page.next_page_token;
        if entries.next_page_token.is_none() {
            break;
        }
    }
    Ok(entries)
}
