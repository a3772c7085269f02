//! Where requests over HTTP go, and how their bodies are framed.

/// The server's data for requests.
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    /// The Host header.
    pub host: String,
    /// The path of the feature's lists, up to and including the slash before an entity ID.
    pub lists_path: String,
    /// The path of gets of several lists, and the feature of these lists.
    pub batch_path: String,
    pub entity_type: String,
    pub feature: String,
    /// The Authorization header, if requests have one.
    pub authorization: Option<String>,
}

/// Writes the length of the text of `write`, the end of the head, and the text.
pub fn write_body(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    // The length is filled in afterwards, at the right end of a field of blanks, which may precede a header's value
    // (RFC 9110, section 5.5).
    const PLACE: &[u8] = b"        \r\n\r\n";
    let place = out.len();
    out.extend_from_slice(PLACE);
    let begin = out.len();
    write(out);
    let mut length = out.len() - begin;
    for digit in out[place..place + 8].iter_mut().rev() {
        *digit = b'0' + (length % 10) as u8;
        length /= 10;
        if length == 0 {
            break;
        }
    }
}
