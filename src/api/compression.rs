//! Compresses long answers for those who ask for it.
//!
//! A worker has many connections: an answer is compressed in pieces, between which others have their turn.

use std::io::{self, Write};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, MessageBody};
use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, VARY};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::negotiation::prefers_gzip;

/// Of answers that could come compressed.
pub(super) const BY_CODING: (HeaderName, HeaderValue) = (VARY, HeaderValue::from_static("Accept-Encoding"));
/// Some 100 microseconds' work.
const PIECE_BYTES: usize = 16 << 10;
/// Of JSON that is compressed so, about a fifth is left.
const EXPECTED: usize = 5;

/// Whether an answer comes compressed to those who ask for it. One with a strong entity tag does not, since
/// that is of exactly its bytes, and neither does one with a secret.
pub(super) fn applies_to(response: &HttpResponse, bytes_min: usize) -> bool {
    let BodySize::Sized(bytes) = response.body().size() else { return false };
    let is_strong = |tag: &HeaderValue| !tag.as_bytes().starts_with(b"W/");
    bytes >= bytes_min as u64
        && !response.headers().get(ETAG).is_some_and(is_strong)
        && !response.headers().contains_key(CACHE_CONTROL)
}

/// Compresses an answer if its caller prefers that, and says that it depends on what they prefer.
pub(super) async fn compress(headers: &HeaderMap, method: &Method, mut response: HttpResponse) -> HttpResponse {
    let (name, value) = BY_CODING;
    response.headers_mut().append(name, value);
    if *method == Method::HEAD || !prefers_gzip(headers) {
        return response;
    }
    let (mut response, body) = response.into_parts();
    let body = match body.try_into_bytes() {
        Ok(body) => body,
        Err(body) => return response.set_body(body),
    };
    match gzip(&body).await {
        Ok(compressed) => {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response.set_body(compressed).map_into_boxed_body()
        }
        // Memory takes all that is written to it; and what is not compressed is as good an answer.
        Err(_) => response.set_body(body).map_into_boxed_body(),
    }
}

async fn gzip(body: &Bytes) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / EXPECTED), Compression::fast());
    for piece in body.chunks(PIECE_BYTES) {
        encoder.write_all(piece)?;
        tokio::task::yield_now().await;
    }
    Ok(encoder.finish()?.into())
}
