//! A page of items as lines of JSON (NDJSON): one item a line, and a last line with the token of the next page if there
//! is one.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::problem::Problem;
use crate::service::RenderedPage;

/// The text before and after a token.
const TOKEN: (&[u8], &[u8]) = (b"{\"next_page_token\":", b"}\n");

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    #[serde(borrow)]
    next_page_token: Option<&'a RawValue>,
}

/// The same page in lines. No JSON of a page contains a line break.
pub(crate) fn of(page: &RenderedPage) -> Result<RenderedPage, Problem> {
    let unreadable = |error| Problem::internal(format!("cannot parse a rendered page: {error}"));
    let Page { items, next_page_token } = serde_json::from_slice(&page.text).map_err(unreadable)?;
    let mut text = Vec::with_capacity(page.text.len() + TOKEN.0.len());
    for item in items {
        text.extend_from_slice(item.get().as_bytes());
        text.push(b'\n');
    }
    if let Some(token) = next_page_token {
        text.extend_from_slice(TOKEN.0);
        text.extend_from_slice(token.get().as_bytes());
        text.extend_from_slice(TOKEN.1);
    }
    Ok(RenderedPage { text: text.into(), tag: tag_of_lines(&page.tag), items: page.items })
}

/// The tag of the lines, whose bytes differ from the page with this tag.
fn tag_of_lines(tag: &[u8]) -> Bytes {
    [tag.strip_suffix(b"\"").unwrap_or(tag), b"-lines\""].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_item_per_line_and_a_token() {
        let of = |text: &'static str| {
            let page = RenderedPage { text: text.into(), tag: Bytes::from_static(b"W/\"1\""), items: 2 };
            let RenderedPage { text, tag, items } = super::of(&page).unwrap();
            assert_eq!((&*tag, items), (&b"W/\"1-lines\""[..], 2));
            String::from_utf8(text.to_vec()).unwrap()
        };
        assert_eq!(of(r#"{"items":[]}"#), "");
        assert_eq!(of(r#"{"items":[{"a":"}\n,"},{"b":[1,{}]}]}"#), "{\"a\":\"}\\n,\"}\n{\"b\":[1,{}]}\n");
        assert_eq!(of(r#"{"items":[{}],"next_page_token":"x"}"#), "{}\n{\"next_page_token\":\"x\"}\n");
    }
}
