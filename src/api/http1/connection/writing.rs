//! Answers: collected, and sent once a write is worth its cost.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::http::{Method, Version};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::super::slots::Slot;
use super::super::{ANSWER_TIMEOUT, Handler, LINGER, OUTPUT_BYTES, Stream, answer};
use super::{Connection, End};
use crate::api::response::{Body, Response};

impl<S: Stream, H: Handler> Connection<'_, S, H> {
    /// Appends an answer to the unsent answers, and sends them once a write is worth its cost.
    pub(super) async fn write(
        &mut self,
        mut response: Response,
        method: &Method,
        version: Version,
        kept: bool,
    ) -> Result<(), End> {
        let no_content = *method == Method::HEAD || answer::has_no_content(response.status);
        let length = match response.body.size() {
            Some(bytes) => answer::Length::Known(bytes),
            None if version == Version::HTTP_11 => answer::Length::Chunked,
            None => answer::Length::UntilTheEnd,
        };
        let kept = kept && !response.closes && length != answer::Length::UntilTheEnd;
        self.hold_answer(&mut response, !no_content);
        self.answered_at = Instant::now();
        let date = self.shared.dates.at(self.answered_at, &*self.shared.clock);
        let persistence = answer::Persistence::of(kept, version);
        answer::write_head(&response, length, persistence, &date, self.output());
        match response.body {
            _ if no_content => {}
            // Sent without a copy.
            Body::Whole(body) if body.len() > OUTPUT_BYTES => self.long_body = body,
            Body::Whole(body) => self.output.put_slice(&body),
            Body::Stream(body) => {
                self.write_stream(body, length).await?;
                self.answered_at = Instant::now();
            }
        }
        if self.output.len() >= OUTPUT_BYTES || !self.long_body.is_empty() {
            self.flush().await?;
        }
        if kept { Ok(()) } else { Err(End::AfterAnswers) }
    }

    /// Sends a streamed body.
    async fn write_stream(&mut self, mut body: BoxBody, length: answer::Length) -> Result<(), End> {
        let mut sent = 0;
        loop {
            let next = poll_fn(|context| Pin::new(&mut body).poll_next(context));
            // A broken answer must not look complete.
            let Some(bytes) = self.wait_while_connected(pin!(next), None).await?.transpose().map_err(|_| End::Now)?
            else {
                break;
            };
            if bytes.is_empty() {
                continue;
            }
            sent += bytes.len() as u64;
            if matches!(length, answer::Length::Known(announced) if sent > announced) {
                return Err(End::Now);
            }
            if length == answer::Length::Chunked {
                answer::write_chunk_head(bytes.len(), self.output());
            }
            self.output().put_slice(&bytes);
            if length == answer::Length::Chunked {
                self.output().put_slice(b"\r\n");
            }
            if self.output.len() >= OUTPUT_BYTES {
                self.flush().await?;
            }
        }
        match length {
            answer::Length::Chunked => self.output().put_slice(b"0\r\n\r\n"),
            answer::Length::Known(announced) if sent < announced => return Err(End::Now),
            _ => {}
        }
        Ok(())
    }

    /// The buffer of unsent answers.
    pub(super) fn output(&mut self) -> &mut BytesMut {
        if self.output.capacity() == 0 {
            self.output = self.shared.buffers.take();
        }
        &mut self.output
    }

    /// Ends the connection after its last answer.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.flush().await?;
        timeout(LINGER, self.stream.shutdown()).await??;
        let mut rest = self.shared.buffers.take();
        let since = Instant::now();
        let Self { stream, slot, .. } = self;
        let until_it_ends = async {
            let mut ended = pin!(async {
                while stream.read_buf(&mut rest).await? > 0 {
                    rest.clear();
                }
                Ok(())
            });
            // The wait keeps no other connection from a slot.
            poll_fn(|context| match slot.is_some_and(|slot| slot.poll_leave(since, context).is_ready()) {
                true => Poll::Ready(Ok(())),
                false => ended.as_mut().poll(context),
            })
            .await
        };
        timeout(LINGER, until_it_ends).await?
    }

    /// Sends as much as the client accepts.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, output, long_body, .. } = self;
        let mut rest = output.chain(long_body);
        while rest.has_remaining() {
            let mut slices = [IoSlice::new(&[]); 2];
            let count = rest.chunks_vectored(&mut slices);
            let stream = Pin::new(&mut *stream);
            let written = match slices.get(..count).unwrap_or_default() {
                // Costs the kernel less than a vectored write.
                [all] => stream.poll_write(context, all),
                slices => stream.poll_write_vectored(context, slices),
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                bytes => rest.advance(bytes),
            }
        }
        Pin::new(stream).poll_flush(context)
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() || !self.long_body.is_empty() {
            match poll_fn(|context| Poll::Ready(self.poll_send(context))).await {
                Poll::Ready(sent) => sent?,
                Poll::Pending => {
                    // A connection whose client leaves even small answers unread, without memory to hold them, is
                    // closed.
                    self.share.hold(self.held_with(0)).map_err(|_| io::ErrorKind::OutOfMemory)?;
                    let shared = self.shared;
                    let _lying = shared.unread.count(self.stream.queued());
                    let (slot, is_known) = (self.slot, self.share.holder().is_known());
                    let since = Instant::now();
                    let sending = poll_fn(|context| match self.poll_send(context) {
                        // A known caller keeps the slot for the longest time of an answer. Once another connection has
                        // the slot, nothing waits.
                        Poll::Pending if slot.is_some_and(|slot| leaves(slot, is_known, since, context)) => {
                            Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
                        }
                        sent => sent,
                    });
                    timeout(ANSWER_TIMEOUT, sending).await??;
                }
            }
        }
        self.long_body = Bytes::new();
        self.shared.buffers.give_back(&mut self.output);
        if self.input.is_empty() {
            self.shared.buffers.give_back(&mut self.input);
        }
        Ok(())
    }
}

fn leaves(slot: &Slot, is_known: bool, since: Instant, context: &Context<'_>) -> bool {
    if is_known { slot.is_leaving() } else { slot.poll_leave(since, context).is_ready() }
}
