//! Compresses long answers for those who ask for it.
//!
//! A worker has many connections: an answer is compressed in pieces, between which others have their turn.

use std::io::{self, Write};

use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, VARY};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::negotiation::{Coding, preferred_coding};
use super::response::{Body, Response};

/// Of answers that could come compressed.
pub(super) const BY_CODING: (HeaderName, HeaderValue) = (VARY, HeaderValue::from_static("Accept-Encoding"));
/// Some 100 microseconds' work.
const PIECE_BYTES: usize = 16 << 10;
/// Of JSON that is compressed so, about a fifth is left.
const EXPECTED: usize = 5;
/// The best first: with zstd an answer is smaller, and takes less time.
const OFFERED: [Coding; 2] = [Coding::Zstd, Coding::Gzip];
/// Of zstd: higher ones take longer, and leave hardly less of such answers.
const ZSTD_LEVEL: i32 = 1;

/// Whether an answer comes compressed to those who ask for it. One with a strong entity tag does not, since
/// that is of exactly its bytes, and neither does one with a secret.
pub(super) fn applies_to(response: &Response, bytes_min: usize) -> bool {
    let Body::Whole(body) = &response.body else { return false };
    let is_strong = |tag: &HeaderValue| !tag.as_bytes().starts_with(b"W/");
    body.len() >= bytes_min
        && !response.header(&ETAG).is_some_and(is_strong)
        && response.header(&CACHE_CONTROL).is_none()
}

/// Compresses an answer if its caller prefers that, and says that it depends on what they prefer.
pub(super) async fn compress(headers: &HeaderMap, method: &Method, mut response: Response) -> Response {
    let (name, value) = BY_CODING;
    response.add(name, value);
    if *method == Method::HEAD {
        return response;
    }
    let (Some(coding), Body::Whole(body)) = (preferred_coding(headers, &OFFERED), &response.body) else {
        return response;
    };
    let compressed = match coding {
        Coding::Zstd => zstd(body).await,
        Coding::Gzip => gzip(body).await,
    };
    match compressed {
        Ok(compressed) => response.with(CONTENT_ENCODING, HeaderValue::from_static(coding.name())).body(compressed),
        // Memory takes all that is written to it; and what is not compressed is as good an answer.
        Err(_) => response,
    }
}

async fn gzip(body: &Bytes) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(room_for(body), Compression::fast());
    write_in_pieces(&mut encoder, body).await?;
    Ok(encoder.finish()?.into())
}

async fn zstd(body: &Bytes) -> io::Result<Bytes> {
    let mut encoder = zstd::Encoder::new(room_for(body), ZSTD_LEVEL)?;
    // So that it takes no more memory than a body of this length needs.
    encoder.set_pledged_src_size(Some(body.len() as u64))?;
    write_in_pieces(&mut encoder, body).await?;
    Ok(encoder.finish()?.into())
}

fn room_for(body: &Bytes) -> Vec<u8> {
    Vec::with_capacity(body.len() / EXPECTED)
}

async fn write_in_pieces(encoder: &mut impl Write, body: &Bytes) -> io::Result<()> {
    for piece in body.chunks(PIECE_BYTES) {
        encoder.write_all(piece)?;
        tokio::task::yield_now().await;
    }
    Ok(())
}
