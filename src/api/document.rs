//! Constant documents, stored in every form in which they are sent. Each form is made once.

use std::io::{self, Write};

use actix_web::http::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::compression::BY_CODING;
use super::negotiation::{Coding, preferred_coding};
use super::response::Response;

/// Takes some hundredths of a second for each form, once.
const ZSTD_LEVEL: i32 = 9;

pub(crate) struct PackedDocument {
    plain: Bytes,
    /// The best first.
    packed: Vec<(Coding, Bytes)>,
}

impl PackedDocument {
    pub fn new(plain: Bytes) -> Self {
        let zstd = zstd::encode_all(&*plain, ZSTD_LEVEL).map(|packed| (Coding::Zstd, packed.into()));
        let gzip = gzip(&plain).map(|packed| (Coding::Gzip, packed));
        // Writing to memory does not fail. A missing form would not be offered.
        Self { packed: [zstd, gzip].into_iter().flatten().collect(), plain }
    }

    /// Answers with the document, compressed if its caller prefers that and it has at least `bytes_min` bytes.
    pub fn answer(&self, response: Response, headers: &HeaderMap, bytes_min: usize) -> Response {
        let Self { plain, packed } = self;
        let offered: Vec<Coding> = packed.iter().map(|(coding, _)| *coding).collect();
        let preferred = preferred_coding(headers, &offered).filter(|_| plain.len() >= bytes_min);
        let form = preferred.and_then(|preferred| packed.iter().find(|(coding, _)| *coding == preferred));
        let Some((coding, packed)) = form else { return response.body(plain.clone()) };
        let (name, value) = BY_CODING;
        let response = response.with(name, value).with(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        response.body(packed.clone())
    }
}

fn gzip(plain: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain)?;
    encoder.finish().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use actix_web::http::StatusCode;
    use actix_web::http::header::ACCEPT_ENCODING;

    use super::*;
    use crate::api::response::Body;

    #[test]
    fn each_form_is_made_once_and_contains_the_document() {
        let text = Bytes::from("all work and no play ".repeat(1_000));
        let document = PackedDocument::new(text.clone());
        let answer = |accepted: &'static str, bytes_min: usize| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            let response = document.answer(Response::new(StatusCode::OK), &headers, bytes_min);
            let coding = response.header(&CONTENT_ENCODING).map(|coding| coding.to_str().unwrap().to_owned());
            let Body::Whole(body) = response.body else { panic!("a stream") };
            (coding, body)
        };
        for (accepted, expected) in [("gzip, zstd", Some("zstd")), ("gzip", Some("gzip")), ("br", None)] {
            let ((coding, body), (_, again)) = (answer(accepted, 0), answer(accepted, 0));
            assert_eq!(coding.as_deref(), expected);
            assert_eq!(body.as_ptr(), again.as_ptr(), "{accepted}: the same bytes");
            let mut unpacked = Vec::new();
            match expected {
                Some("zstd") => unpacked = zstd::decode_all(&*body).unwrap(),
                Some(_) => {
                    flate2::read::GzDecoder::new(&*body).read_to_end(&mut unpacked).unwrap();
                }
                None => unpacked = body.to_vec(),
            }
            assert_eq!(unpacked, text);
        }
        assert_eq!(answer("gzip", text.len() + 1).0, None);
    }
}
