//! Gets of several lists at once: one call over HTTP, pipelined commands in Redis's protocol.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::data::{DataSet, ENTITY_PREFIX, write_list_digits};
use super::endpoint::{Endpoint, write_body};
use super::response::Malformed;

/// Between the lists of one get: a prime, so that they are others unless it divides their number.
const STRIDE: u64 = 7_919;

/// The lists of the get that begins with this one.
pub fn lists_of(first: u64, count: u64, data: &DataSet) -> impl Iterator<Item = u64> {
    let lists = data.lists;
    (0..count).map(move |i| (first + i * STRIDE) % lists)
}

/// The parts of requests for several lists.
#[derive(Debug)]
pub struct BatchGet {
    /// How many lists.
    pub count: u64,
    head: Vec<u8>,
    list_head: Vec<u8>,
    list_tail: Vec<u8>,
}

impl BatchGet {
    pub fn new(endpoint: &Endpoint, limit: u64, count: u64) -> Self {
        let Endpoint { host, batch_path, authorization, entity_type, feature, .. } = endpoint;
        let authorization = authorization.as_ref().map(|text| format!("Authorization: {text}\r\n")).unwrap_or_default();
        Self {
            count,
            head: format!(
                "POST {batch_path} HTTP/1.1\r\nHost: {host}\r\n{authorization}Content-Type: \
                 application/json\r\nContent-Length: "
            )
            .into_bytes(),
            list_head: format!(
                "{{\"entity_type\":\"{entity_type}\",\"feature\":\"{feature}\",\"entity_id\":\"{ENTITY_PREFIX}"
            )
            .into_bytes(),
            list_tail: format!("\",\"limit\":{limit}}}").into_bytes(),
        }
    }

    pub fn render(&self, first: u64, data: &DataSet, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        write_body(out, |out| {
            out.extend_from_slice(b"{\"requests\":");
            let mut before = b'[';
            for list in lists_of(first, self.count, data) {
                out.push(before);
                before = b',';
                out.extend_from_slice(&self.list_head);
                write_list_digits(list, out);
                out.extend_from_slice(&self.list_tail);
            }
            out.extend_from_slice(b"]}");
        });
    }
}

/// The result of each list, as in the answer.
pub fn pages(body: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        results: Vec<&'a RawValue>,
    }
    let Answer { results } =
        serde_json::from_slice(body).map_err(|e| Malformed(format!("the response of a batch get: {e}")))?;
    Ok(results.into_iter().map(|result| result.get().as_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_names_distinct_lists() {
        let data = DataSet { lists: 10_000, length: 20, value_bytes: 12, oldest_nanos: 1, spacing_nanos: 1 };
        let endpoint = Endpoint {
            host: "h:1".into(),
            batch_path: "/v1/lists:batchGet".into(),
            entity_type: "bench".into(),
            feature: "lists".into(),
            ..Endpoint::default()
        };
        let mut out = Vec::new();
        BatchGet::new(&endpoint, 50, 20).render(9_999, &data, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/lists:batchGet HTTP/1.1\r\nHost: h:1\r\nContent-Type"), "{head}");
        let input = liststore_contract::operations::batch_get::BatchGetInput::read(body.as_bytes()).unwrap();
        let requests: Vec<_> = input.requests.into_iter().map(|request| request.unwrap()).collect();
        assert_eq!((requests.len(), requests[0].entity_id.as_str()), (20, "list-00009999"));
        let distinct: std::collections::BTreeSet<_> = requests.iter().map(|r| r.entity_id.as_str()).collect();
        assert_eq!(distinct.len(), 20);
    }

    #[test]
    fn an_answer_is_split_into_its_pages() {
        let body = br#"{"results":[{"items":[]},{"problem":{"code":"overloaded"}}]}"#;
        assert_eq!(pages(body).unwrap(), [&b"{\"items\":[]}"[..], b"{\"problem\":{\"code\":\"overloaded\"}}"]);
        assert!(pages(b"{\"items\":[]}").is_err());
    }
}
