//! One connection: its requests one after another, in the order in which they came.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix_web::http::{Method, Version};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, Sleep, sleep_until};

use super::budget::{OWN_BYTES, Share};
use super::head::{self, Head, Parsed};
use super::slots::Slot;
use super::{
    AHEAD_BYTES, Class, HEAD_BYTES_MAX, HEAD_TIMEOUT, Handler, KEEP_ALIVE, OUTPUT_BYTES, READ_BYTES, Refusal,
    SPARE_TIMEOUT, Shared, Stream, TURN_REQUESTS,
};
use crate::api::body::{Lack, RequestBody};
use crate::api::percent::cut;
use crate::api::request::{Client, Request};
use crate::api::response::Response;

mod reading;
mod writing;

/// Why no further request is read.
enum End {
    /// The client has gone, or takes nothing, or has been idle for too long.
    Now,
    /// Once what was written has been sent.
    AfterAnswers,
    Refused(Refusal),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Now
    }
}

/// What came of waiting for a head.
enum Waited {
    Bytes,
    TooLong,
    /// Another connection has the place.
    SentAway,
    Ended,
}

pub(super) struct Connection<'h, S, H> {
    stream: S,
    client: &'h Client,
    handler: &'h H,
    shared: &'h Shared,
    slot: Option<&'h Slot>,
    share: Share,
    /// Read and not yet parsed. Has a buffer only while there is something in it.
    input: BytesMut,
    /// How much of the input is known to be no whole head.
    looked_at: usize,
    /// When the first byte of a head came that is not whole.
    head_began: Option<Instant>,
    /// When it began to wait for a request, and when that must have begun.
    waits_since: Instant,
    idle_until: Instant,
    /// When the last answer was ready.
    answered_at: Instant,
    /// Answers that were not sent yet, and a long body that ends them.
    output: BytesMut,
    long_body: Bytes,
    answered_in_turn: u32,
}

impl<'h, S, H> Connection<'h, S, H>
where
    S: Stream,
    H: Handler,
{
    pub fn new(stream: S, client: &'h Client, handler: &'h H, shared: &'h Shared, slot: Option<&'h Slot>) -> Self {
        let waits_since = Instant::now();
        Self {
            stream,
            client,
            handler,
            shared,
            slot,
            share: Share::new(Arc::clone(&shared.budget)),
            input: BytesMut::new(),
            looked_at: 0,
            head_began: None,
            waits_since,
            idle_until: waits_since + HEAD_TIMEOUT,
            answered_at: waits_since,
            output: BytesMut::new(),
            long_body: Bytes::new(),
            answered_in_turn: 0,
        }
    }

    pub async fn serve(&mut self, stopping: Pin<&mut impl Future<Output = ()>>) {
        let end = self.requests(stopping).await;
        let took = self.head_began.map(|began| began.elapsed()).unwrap_or_default();
        match end {
            End::Now => return,
            End::AfterAnswers => {}
            End::Refused(refusal) => {
                let response = self.handler.refuse(refusal, took);
                if let Err(End::Now) = self.write(response, &Method::GET, Version::HTTP_11, false).await {
                    return;
                }
            }
        }
        // Whether the client hears the last of it is not ours to tell.
        let _ = self.finish().await;
    }

    /// Answers requests until there are no more.
    async fn requests(&mut self, mut stopping: Pin<&mut impl Future<Output = ()>>) -> End {
        let mut timer = pin!(sleep_until(self.idle_until));
        loop {
            match self.parse() {
                Parsed::Whole(head) => {
                    if let Err(end) = made_in_place(|| self.answer(head)).await {
                        return end;
                    }
                    self.waits_since = self.answered_at;
                    self.idle_until = self.waits_since + KEEP_ALIVE;
                }
                Parsed::Partial => {
                    if self.flush().await.is_err() {
                        return End::Now;
                    }
                    if self.share.hold(self.input.len()).is_err() {
                        return End::Refused(Refusal::Overloaded);
                    }
                    match self.wait(timer.as_mut(), stopping.as_mut()).await {
                        Waited::Bytes => {}
                        Waited::TooLong if self.head_began.is_some() => return End::Refused(Refusal::HeadTimeout),
                        Waited::SentAway if self.head_began.is_some() => return End::Refused(Refusal::Overloaded),
                        Waited::SentAway if self.has_come_meanwhile().await => {}
                        Waited::TooLong | Waited::SentAway | Waited::Ended => return End::Now,
                    }
                }
                Parsed::Refused(refusal) => return End::Refused(refusal),
            }
        }
    }

    /// Looks for a head at the beginning of the input.
    fn parse(&mut self) -> Parsed {
        // Some clients put an empty line behind a body (RFC 9112, section 2.2).
        while self.input.starts_with(b"\r\n") {
            self.input.advance(2);
            self.looked_at = 0;
        }
        // A head that comes byte by byte is not parsed again for each of them.
        let news = self.input.get(self.looked_at..).unwrap_or_default();
        if news.is_empty() || (self.looked_at > 0 && !news.contains(&b'\n') && self.input.len() < HEAD_BYTES_MAX) {
            self.looked_at = self.input.len();
            return Parsed::Partial;
        }
        let parsed = head::parse(&self.input, &self.shared.hosts, |target| self.handler.headers_wanted(target));
        self.looked_at = if matches!(parsed, Parsed::Partial) { self.input.len() } else { 0 };
        parsed
    }

    /// Waits for more of a head.
    async fn wait(&mut self, mut timer: Pin<&mut Sleep>, mut stopping: Pin<&mut impl Future<Output = ()>>) -> Waited {
        let mut until = if self.input.is_empty() {
            self.head_began = None;
            self.idle_until
        } else {
            *self.head_began.get_or_insert_with(Instant::now) + HEAD_TIMEOUT
        };
        if self.slot.is_some_and(Slot::is_spare) {
            until = until.min(self.waits_since + SPARE_TIMEOUT);
        }
        if timer.deadline() > until {
            timer.as_mut().reset(until);
        }
        let since = self.head_began.unwrap_or(self.waits_since);
        let Self { stream, input, shared, slot, answered_in_turn, head_began, .. } = self;
        poll_fn(|context| {
            if let Poll::Ready(read) = poll_read(stream, input, shared, HEAD_BYTES_MAX, context) {
                return Poll::Ready(if some_read(read).is_ok() { Waited::Bytes } else { Waited::Ended });
            }
            *answered_in_turn = 0;
            if slot.is_some_and(|slot| slot.poll_leave(since, context).is_ready()) {
                return Poll::Ready(Waited::SentAway);
            }
            if head_began.is_none() && stopping.as_mut().poll(context).is_ready() {
                return Poll::Ready(Waited::Ended);
            }
            // The timer stays at an old deadline while requests come: setting it costs more than
            // looking again when it rings.
            while timer.as_mut().poll(context).is_ready() {
                if Instant::now() >= until {
                    return Poll::Ready(Waited::TooLong);
                }
                timer.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }

    /// Whether a request had come when the connection was told to leave. What the kernel has is not known before the
    /// runtime has asked it: to close without that would break the request off with a reset.
    async fn has_come_meanwhile(&mut self) -> bool {
        tokio::task::yield_now().await;
        let Self { stream, input, shared, .. } = self;
        let read = poll_fn(|context| Poll::Ready(poll_read(stream, input, shared, HEAD_BYTES_MAX, context))).await;
        match read {
            Poll::Ready(read) => some_read(read).is_ok(),
            Poll::Pending => false,
        }
    }

    /// Answers the request that begins the input.
    async fn answer(&mut self, head: Head) -> Result<(), End> {
        let text = self.input.split_to(head.bytes).freeze();
        // The parser lets only ASCII through.
        let target = text.get(head.target.clone()).and_then(|target| std::str::from_utf8(target).ok());
        let target = target.unwrap_or_default();
        let (path, query) = cut(target, b'?');
        // Of an absolute target there may be no path.
        let path = if path.is_empty() { "/" } else { path };
        let mut body = self.admitted_body(&head, path).await?;
        self.head_began = None;
        // What may still come of a body that was not read is no request.
        let whole = body.is_whole();
        let refused_since = if whole { self.refuses_for_age(path) } else { None };
        if refused_since.is_some() {
            body = RequestBody::NotTaken(Lack::Time);
        }
        if self.output.len() > OWN_BYTES && self.share.hold(self.held_with(body.len())).is_err() {
            self.flush().await?;
        }
        let request =
            |body| Request { method: &head.method, path, query, headers: &head.headers, client: self.client, body };
        let (first, again) = (request(body), request(RequestBody::NotTaken(Lack::RoomForAnswer)));
        // Pinned where it is made: a future that is handed on is moved, and this one has kilobytes.
        let mut response = self.unless_gone(pin!(self.handler.answer(first))).await?;
        if !self.has_room(&response, &head.method, path) {
            drop(response);
            response = self.unless_gone(pin!(self.handler.answer(again))).await?;
        }
        let leaves = self.slot.is_some_and(|slot| slot.is_leaving() || slot.is_spare());
        let kept = whole && head.kept && !leaves;
        match refused_since {
            None => self.write(response, &head.method, head.version, kept).await?,
            Some(since) => self.write_at_once(response, &head, kept, since).await?,
        }
        self.answered_in_turn += 1;
        if self.answered_in_turn >= TURN_REQUESTS {
            self.answered_in_turn = 0;
            self.flush().await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The present, if the request that was read last is to be refused since it has waited for too long.
    fn refuses_for_age(&self, path: &str) -> Option<Instant> {
        let shedding = &self.shared.shedding;
        shedding.count();
        if !shedding.is_behind() || self.handler.class(path) != Class::Load {
            return None;
        }
        shedding.refuses(self.stream.since_last_arrival())
    }

    /// Sends a refusal, and has it counted what that took since then: also where the connection ends with it, and
    /// before its client has taken it.
    async fn write_at_once(&mut self, response: Response, head: &Head, kept: bool, since: Instant) -> Result<(), End> {
        let shedding = &self.shared.shedding;
        let mut sending = pin!(async {
            let written = self.write(response, &head.method, head.version, kept).await;
            if !matches!(written, Err(End::Now)) {
                self.flush().await?;
            }
            written
        });
        let sent = poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await;
        shedding.refused(since);
        match sent {
            Poll::Ready(sent) => sent,
            Poll::Pending => sending.await,
        }
    }

    /// The body of a request that may be answered.
    async fn admitted_body(&mut self, head: &Head, path: &str) -> Result<RequestBody, End> {
        let admitted = self.slot.is_none_or(Slot::admit);
        if !admitted && self.handler.class(path) != Class::Health {
            return Ok(RequestBody::NotTaken(Lack::Connections));
        }
        self.body(head).await
    }

    /// Whether a long answer can be held until it is taken. What has been changed is told in any case.
    fn has_room(&mut self, response: &Response, method: &Method, path: &str) -> bool {
        let Some(bytes) = response.body.len() else { return true };
        let bytes = bytes as usize;
        if bytes <= OUTPUT_BYTES || *method == Method::HEAD {
            return true;
        }
        let held = self.held_with(bytes);
        if self.handler.only_reads(method, path) {
            return self.share.hold(held).is_ok();
        }
        self.share.hold_anyway(held);
        true
    }

    /// Bytes that are held together with so many.
    fn held_with(&self, bytes: usize) -> usize {
        self.input.len() + self.output.len() + self.long_body.len() + bytes
    }

    /// Waits for an answer, unless the client leaves first. Earlier answers are sent meanwhile.
    async fn unless_gone<T>(&mut self, mut answering: Pin<&mut impl Future<Output = T>>) -> Result<T, End> {
        let Self { stream, input, output, shared, .. } = self;
        poll_fn(|context| {
            if let Poll::Ready(answer) = answering.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            while !output.is_empty()
                && let Poll::Ready(written) = Pin::new(&mut *stream).poll_write(context, output)
            {
                match written {
                    Ok(bytes) if bytes > 0 => output.advance(bytes),
                    _ => return Poll::Ready(Err(End::Now)),
                }
            }
            while input.len() < AHEAD_BYTES {
                let read = ready!(poll_read(stream, input, shared, AHEAD_BYTES, context));
                if let Err(gone) = some_read(read) {
                    return Poll::Ready(Err(gone));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// What is to be done for one request, on the heap: the allocator gives one request after another the same few places,
/// which stay in the processor's cache. Within the tasks of thousands of connections each would have its own.
///
/// It is made where it stays: what is given to `Box::pin` is made on the stack, and all of it copied.
fn made_in_place<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

/// Reads what is there, until the input has `bytes_max` bytes. It has a buffer only while something is
/// in it.
fn poll_read(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    shared: &Shared,
    bytes_max: usize,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if input.capacity() == 0 {
        *input = shared.buffers.take();
    }
    input.reserve(READ_BYTES);
    let room = bytes_max.saturating_sub(input.len());
    let read = pin!(stream.read_buf(&mut (&mut *input).limit(room))).poll(context);
    if read.is_pending() && input.is_empty() {
        shared.buffers.give_back(input);
    }
    read
}

/// An end if the client has ended its side, or the connection broke off. To end one's side before the
/// answer is there means to give it up.
fn some_read(read: io::Result<usize>) -> Result<(), End> {
    if read? > 0 { Ok(()) } else { Err(End::Now) }
}
