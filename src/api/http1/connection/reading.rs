//! Bodies: read whole, in the time that they have, and within the memory that there is.

use bytes::{BufMut, Bytes};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};

use super::super::budget::OWN_BYTES;
use super::super::chunked::{Chunked, Decoded};
use super::super::head::{Framing, Head};
use super::super::{Handler, Stream};
use super::{Connection, End, some_read};
use crate::api::body::{Lack, RequestBody};

/// A body that is read grows by what there is of it, but by no less and no more than this.
const BODY_STEP_BYTES: (usize, usize) = (OWN_BYTES / 2, 256 << 10);

impl<S: Stream, H: Handler> Connection<'_, S, H> {
    /// Reads a body whole, in the time that it has.
    pub(super) async fn body(&mut self, head: &Head) -> Result<RequestBody, End> {
        let bytes_max = self.shared.limits.body_bytes_max;
        match head.framing {
            // Most have none, and to cut nothing off costs as much as to cut something.
            Framing::Length(0) => Ok(RequestBody::Whole(Bytes::new())),
            Framing::Length(length) if length > bytes_max as u64 => Ok(RequestBody::TooLarge),
            Framing::Length(length) => {
                let length = length as usize;
                if self.input.len() < length {
                    let deadline = self.begin_body(head).await?;
                    while self.input.len() < length {
                        let missing = length - self.input.len();
                        // Room comes with the bytes, not with what a head announces.
                        let step = missing.min(body_step(self.input.len()));
                        if self.share.hold(self.held_with(step)).is_err() {
                            return Ok(RequestBody::NotTaken(Lack::RoomForBody));
                        }
                        self.input.reserve(step);
                        if !self.more(deadline).await? {
                            return Ok(RequestBody::Late);
                        }
                    }
                }
                Ok(RequestBody::Whole(self.input.split_to(length).freeze()))
            }
            Framing::Chunked => {
                let (mut chunked, mut deadline) = (Chunked::new(bytes_max), None);
                loop {
                    match chunked.decode(&mut self.input).map_err(End::Refused)? {
                        Decoded::Whole(body) => return Ok(RequestBody::Whole(body)),
                        Decoded::TooLarge => return Ok(RequestBody::TooLarge),
                        Decoded::Partial => {}
                    }
                    let until = match deadline {
                        Some(deadline) => deadline,
                        None => *deadline.insert(self.begin_body(head).await?),
                    };
                    let step = body_step(chunked.len());
                    if self.share.hold(self.held_with(chunked.len() + step)).is_err() {
                        return Ok(RequestBody::NotTaken(Lack::RoomForBody));
                    }
                    self.input.reserve(step);
                    if !self.more(until).await? {
                        return Ok(RequestBody::Late);
                    }
                }
            }
        }
    }

    /// Before the first wait for a body: the client may wait for earlier answers before it goes on, or
    /// for a word that its body is wanted. Returns when the body must be whole.
    async fn begin_body(&mut self, head: &Head) -> Result<Instant, End> {
        if head.expects_continue && self.input.is_empty() {
            self.output().put_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.flush().await?;
        Ok(Instant::now() + self.shared.limits.body_timeout)
    }

    /// Reads more of a body into the room that there is; false if the deadline passed.
    async fn more(&mut self, deadline: Instant) -> Result<bool, End> {
        match timeout_at(deadline, self.stream.read_buf(&mut self.input)).await {
            Ok(read) => some_read(read).map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

/// By how much a body grows that has so many bytes.
fn body_step(bytes: usize) -> usize {
    bytes.clamp(BODY_STEP_BYTES.0, BODY_STEP_BYTES.1)
}
