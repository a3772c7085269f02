//! Bodies: read completely within their time and memory, or skipped where the head was refused.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::{Buf, BufMut, Bytes};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};

use super::super::chunked::{Chunked, Decoded};
use super::super::head::Head;
use super::super::{Handler, LINGER, Refusal, SKIPPED_BYTES_MAX, Stream};
use super::{Connection, End, some_read};
use crate::access::OWN_BYTES;
use crate::api::body::{Lack, RequestBody};
use crate::api::request::Framing;

/// The smallest and the largest step by which the buffer of a body grows. In between it grows by its length.
const BODY_STEP_BYTES: (usize, usize) = (OWN_BYTES / 2, 256 << 10);

/// The outcome of waiting for more of a body.
enum Came {
    Bytes,
    TooLate,
    /// Another connection has the slot.
    SentAway,
}

impl<S: Stream, H: Handler> Connection<'_, S, H> {
    /// Whether the whole body came with its head, according to its length.
    pub(super) fn has_body(&self, framing: Framing) -> bool {
        match framing {
            Framing::Absent => true,
            Framing::Length(length) => length <= self.input.len() as u64,
            Framing::Chunked => false,
        }
    }

    /// Reads a complete body within its time.
    pub(super) async fn body(&mut self, head: &Head) -> Result<RequestBody, End> {
        let bytes_max = self.shared.limits.body_bytes_max;
        match head.framing {
            // Most requests have none, and splitting off nothing costs as much as splitting off something.
            Framing::Absent | Framing::Length(0) => Ok(RequestBody::Whole(Bytes::new())),
            Framing::Length(length) if length > bytes_max as u64 => Ok(RequestBody::TooLarge),
            Framing::Length(length) => {
                let length = length as usize;
                if self.input.len() < length {
                    // The length is known before any of it is requested.
                    if !self.share.has_room_for(self.held_with(length - self.input.len())) {
                        return Ok(RequestBody::NotTaken(Lack::RoomForBody));
                    }
                    let began = self.begin_body(head).await?;
                    while self.input.len() < length {
                        let missing = length - self.input.len();
                        // Memory grows with the received bytes, not with the announced length.
                        let step = missing.min(body_step(self.input.len()));
                        if self.share.hold(self.held_with(step)).is_err() {
                            return Ok(RequestBody::NotTaken(Lack::RoomForBody));
                        }
                        self.input.reserve(step);
                        if let Some(refused) = self.more(began).await? {
                            return Ok(refused);
                        }
                    }
                }
                Ok(RequestBody::Whole(self.input.split_to(length).freeze()))
            }
            Framing::Chunked => {
                let (mut chunked, mut began) = (Chunked::new(bytes_max), None);
                loop {
                    match chunked.decode(&mut self.input) {
                        Ok(Decoded::Whole(body)) => return Ok(RequestBody::Whole(body)),
                        Ok(Decoded::TooLarge) => return Ok(RequestBody::TooLarge),
                        Ok(Decoded::Partial) => {}
                        Err(Refusal::Malformed(what)) => return Ok(RequestBody::Malformed(what)),
                        Err(refusal) => return Err(End::Refused(refusal)),
                    }
                    let since = match began {
                        Some(began) => began,
                        None => *began.insert(self.begin_body(head).await?),
                    };
                    // After the longest body only the end of its chunks and trailers can follow.
                    let step = body_step(chunked.len()).min(bytes_max - chunked.len() + BODY_STEP_BYTES.0);
                    if self.share.hold(self.held_with(chunked.len() + step)).is_err() {
                        return Ok(RequestBody::NotTaken(Lack::RoomForBody));
                    }
                    self.input.reserve(step);
                    if let Some(refused) = self.more(since).await? {
                        return Ok(refused);
                    }
                }
            }
        }
    }

    /// Runs before the first wait for a body. The client may wait for earlier answers before it continues, or for `100
    /// Continue`. Returns when the wait began.
    async fn begin_body(&mut self, head: &Head) -> Result<Instant, End> {
        if head.expects_continue && self.input.is_empty() {
            self.output().put_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.flush().await?;
        Ok(Instant::now())
    }

    /// Reads more of a body into the available memory. Returns the outcome of the body if nothing more arrives.
    async fn more(&mut self, began: Instant) -> Result<Option<RequestBody>, End> {
        let until = began + self.shared.limits.body_timeout;
        // A known caller keeps its slot until then.
        let may_be_sent_away = !self.share.holder().is_known();
        Ok(match self.read_until(began, until, may_be_sent_away).await? {
            Came::Bytes => None,
            Came::TooLate => Some(RequestBody::Late),
            Came::SentAway => Some(RequestBody::NotTaken(Lack::Connections)),
        })
    }

    async fn read_until(&mut self, since: Instant, until: Instant, may_be_sent_away: bool) -> Result<Came, End> {
        let Self { stream, input, slot, .. } = self;
        let slot = slot.filter(|_| may_be_sent_away);
        let mut reading = pin!(stream.read_buf(input));
        let came = poll_fn(|context| match reading.as_mut().poll(context) {
            Poll::Ready(read) => Poll::Ready(some_read(read).map(|()| Came::Bytes)),
            Poll::Pending if slot.is_some_and(|slot| slot.poll_leave(since, context).is_ready()) => {
                Poll::Ready(Ok(Came::SentAway))
            }
            Poll::Pending => Poll::Pending,
        });
        timeout_at(until, came).await.unwrap_or(Ok(Came::TooLate))
    }

    /// Whether the connection can continue after the body of a refused request. The body must have arrived, or be short
    /// enough for its caller. A client that waits for `100 Continue` may send it or not (RFC 9110, section 10.1.1).
    pub(super) fn can_skip_body(&mut self, head: &Head) -> bool {
        match head.framing {
            Framing::Absent => true,
            Framing::Length(length) => {
                let missing = length.saturating_sub(self.input.len() as u64);
                let is_stranger = self.share.holder().is_stranger();
                let most = if is_stranger { SKIPPED_BYTES_MAX } else { self.shared.limits.body_bytes_max as u64 };
                missing == 0 || missing <= most && !head.expects_continue
            }
            // This skips it, if all of it has arrived.
            Framing::Chunked => {
                let mut chunked = Chunked::new(self.shared.limits.body_bytes_max);
                matches!(chunked.decode(&mut self.input), Ok(Decoded::Whole(_)))
            }
        }
    }

    /// Skips such a body, after its request is answered.
    pub(super) async fn skip_body(&mut self, framing: Framing) -> Result<(), End> {
        let Framing::Length(mut missing) = framing else { return Ok(()) };
        let since = Instant::now();
        let time = if self.share.holder().is_stranger() { LINGER } else { self.shared.limits.body_timeout };
        loop {
            let there = missing.min(self.input.len() as u64);
            self.input.advance(there as usize);
            missing -= there;
            if missing == 0 {
                return Ok(());
            }
            self.flush().await?;
            self.input.reserve(OWN_BYTES / 2);
            // Ending the connection here loses no request.
            match self.read_until(since, since + time, true).await? {
                Came::Bytes => {}
                Came::TooLate | Came::SentAway => return Err(End::AfterAnswers),
            }
        }
    }
}

/// The next growth of a body with this many bytes.
fn body_step(bytes: usize) -> usize {
    bytes.clamp(BODY_STEP_BYTES.0, BODY_STEP_BYTES.1)
}
