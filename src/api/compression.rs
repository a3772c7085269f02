//! Compresses long answers for callers who accept it.
//!
//! A worker has many connections. It compresses an answer in pieces, and serves other connections between them. So
//! encoders of several connections exist at once, each with about a megabyte. There are few encoders, and an answer
//! without a free encoder is sent uncompressed. Constant documents are not compressed here ([`super::document`]).

use std::io::{self, Write};

use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, VARY};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use prometheus::{IntCounter, IntGauge, Registry};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::negotiation::{Coding, preferred_coding};
use super::response::{Body, Response};

/// On every answer that has a compressed form.
pub(crate) const BY_CODING: (HeaderName, HeaderValue) = (VARY, HeaderValue::from_static("Accept-Encoding"));
/// About 100 microseconds of work.
const PIECE_BYTES: usize = 16 << 10;
/// Compression reduces JSON to about a fifth.
const EXPECTED: usize = 5;
/// A larger compressed part means that the answer is sent uncompressed: three quarters.
const WORTHWHILE: (usize, usize) = (3, 4);
/// The limit of encoders of all workers. Each has about a megabyte, and its output.
const ENCODERS_MAX: usize = 8;
/// The best first: zstd makes an answer smaller, and takes less time.
const OFFERED: [Coding; 2] = [Coding::Zstd, Coding::Gzip];
/// The zstd level. Higher levels take longer, and reduce the size of such answers little.
const ZSTD_LEVEL: i32 = 1;

/// The encoders of a process.
pub(crate) struct Encoders {
    free: Semaphore,
    at_work: IntGauge,
    left_out: IntCounter,
}

/// A borrowed encoder, returned on drop.
struct Encoder<'e> {
    encoders: &'e Encoders,
    _permit: SemaphorePermit<'e>,
}

impl Encoders {
    /// Registers its metrics with `registry`.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let at_work = IntGauge::new("liststore_http_encoders", "Responses being compressed.")?;
        let left_out = IntCounter::new(
            "liststore_http_uncompressed_total",
            "Responses sent uncompressed because the limit of concurrent compressions was reached.",
        )?;
        registry.register(Box::new(at_work.clone()))?;
        registry.register(Box::new(left_out.clone()))?;
        Ok(Self { free: Semaphore::new(ENCODERS_MAX), at_work, left_out })
    }

    /// An encoder, if one is free.
    fn take(&self) -> Option<Encoder<'_>> {
        let Ok(permit) = self.free.try_acquire() else {
            self.left_out.inc();
            return None;
        };
        self.at_work.inc();
        Some(Encoder { encoders: self, _permit: permit })
    }
}

impl Drop for Encoder<'_> {
    fn drop(&mut self) {
        self.encoders.at_work.dec();
    }
}

/// Whether an answer is compressed for callers who accept it. An answer with a strong entity tag is not, because the
/// tag stands for exactly its bytes. Neither is an answer with a secret, or a compressed one.
pub(crate) fn applies_to(response: &Response, bytes_min: usize) -> bool {
    let Body::Whole(body) = &response.body else { return false };
    let is_strong = |tag: &HeaderValue| !tag.as_bytes().starts_with(b"W/");
    body.len() >= bytes_min
        && !response.header(&ETAG).is_some_and(is_strong)
        && response.header(&CACHE_CONTROL).is_none()
        && response.header(&CONTENT_ENCODING).is_none()
}

/// Compresses an answer if its caller prefers that, and sets `Vary`.
pub(crate) async fn compress(
    encoders: &Encoders,
    headers: &HeaderMap,
    method: &Method,
    mut response: Response,
) -> Response {
    let (name, value) = BY_CODING;
    response.add(name, value);
    if *method == Method::HEAD {
        return response;
    }
    let (Some(coding), Body::Whole(body)) = (preferred_coding(headers, &OFFERED), &response.body) else {
        return response;
    };
    let Some(_encoder) = encoders.take() else { return response };
    let compressed = match coding {
        Coding::Zstd => zstd(body).await,
        Coding::Gzip => gzip(body).await,
    };
    match compressed {
        Ok(compressed) => response.with(CONTENT_ENCODING, HeaderValue::from_static(coding.name())).body(compressed),
        // The result was too large. The answer is sent uncompressed.
        Err(_) => response,
    }
}

async fn gzip(body: &Bytes) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Output::of(body), Compression::fast());
    write_in_pieces(&mut encoder, body).await?;
    Ok(encoder.finish()?.bytes.into())
}

async fn zstd(body: &Bytes) -> io::Result<Bytes> {
    let mut encoder = zstd::Encoder::new(Output::of(body), ZSTD_LEVEL)?;
    // So that it takes only the memory that a body of this length needs.
    encoder.set_pledged_src_size(Some(body.len() as u64))?;
    write_in_pieces(&mut encoder, body).await?;
    Ok(encoder.finish()?.bytes.into())
}

/// The compressed form of an answer, while it is small enough.
struct Output {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Output {
    fn of(body: &Bytes) -> Self {
        let (part, of) = WORTHWHILE;
        Self { bytes: Vec::with_capacity(body.len() / EXPECTED), bytes_max: body.len() / of * part }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn write_in_pieces(encoder: &mut impl Write, body: &Bytes) -> io::Result<()> {
    for piece in body.chunks(PIECE_BYTES) {
        encoder.write_all(piece)?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use actix_web::http::StatusCode;
    use actix_web::http::header::ACCEPT_ENCODING;

    use super::*;

    async fn coding_of(encoders: &Encoders, body: Bytes) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let response = compress(encoders, &headers, &Method::GET, Response::new(StatusCode::OK).body(body)).await;
        response.header(&CONTENT_ENCODING).map(|coding| coding.to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn encoders_are_few_and_an_answer_without_one_is_sent_uncompressed() {
        let encoders = Encoders::register(&Registry::new()).unwrap();
        let body = Bytes::from("x".repeat(10_000));
        let taken: Vec<_> = (0..ENCODERS_MAX).map(|_| encoders.take().unwrap()).collect();
        assert_eq!(coding_of(&encoders, body.clone()).await, None);
        assert_eq!((encoders.at_work.get(), encoders.left_out.get()), (ENCODERS_MAX as i64, 1));
        drop(taken);
        assert_eq!(coding_of(&encoders, body).await.as_deref(), Some("gzip"));
        assert_eq!((encoders.at_work.get(), encoders.left_out.get()), (0, 1));
    }

    #[tokio::test]
    async fn an_answer_that_does_not_shrink_is_sent_uncompressed() {
        let encoders = Encoders::register(&Registry::new()).unwrap();
        let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(100_000).collect();
        assert_eq!(coding_of(&encoders, noise.into()).await, None);
    }
}
