//! One connection: its requests one after another, in the order in which they came.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::{ConnectionType, Method, Version};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};

use super::budget::{OWN_BYTES, Share};
use super::chunked::{Chunked, Decoded};
use super::head::{self, Framing, Head, Parsed};
use super::slots::Slot;
use super::{
    AHEAD_BYTES, ANSWER_TIMEOUT, Class, HEAD_BYTES_MAX, HEAD_TIMEOUT, Handler, KEEP_ALIVE, LINGER, OUTPUT_BYTES,
    READ_BYTES, Refusal, SPARE_TIMEOUT, Shared, TURN_REQUESTS, answer,
};
use crate::api::body::RequestBody;
use crate::api::problem::NO_ROOM_FOR_ANSWER;
use crate::api::request::{Client, Request};

/// A body that is read grows by what there is of it, but by no less and no more than this.
const BODY_STEP_BYTES: (usize, usize) = (OWN_BYTES / 2, 256 << 10);

const NO_SLOT: &str = "all connections are busy: ask again later, or another server";
const NO_ROOM_FOR_BODY: &str = "bodies and answers under way fill the memory for them: ask again later, or for less";
const BEHIND: &str = "the server is behind with its requests; nothing was done";

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
    S: AsyncRead + AsyncWrite + Unpin,
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

    pub async fn serve(mut self, stopping: Pin<&mut impl Future<Output = ()>>) {
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
                    if let Err(end) = self.answer(head).await {
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
        let parsed = head::parse(&self.input, |target| self.handler.headers_wanted(target));
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

    /// Answers the request that begins the input.
    async fn answer(&mut self, head: Head) -> Result<(), End> {
        let text = self.input.split_to(head.bytes).freeze();
        // The parser lets only ASCII through.
        let target = text.get(head.target.clone()).and_then(|target| std::str::from_utf8(target).ok());
        let target = target.unwrap_or_default();
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        // Of an absolute target there may be no path.
        let path = if path.is_empty() { "/" } else { path };
        let mut body = self.admitted_body(&head, path).await?;
        self.head_began = None;
        // What may still come of a body that was not read is no request.
        let whole = body.is_whole();
        if whole && self.shared.shedding.refuses() && self.handler.class(path) == Class::Load {
            body = RequestBody::NotTaken(BEHIND);
        }
        if self.output.len() > OWN_BYTES && self.share.hold(self.held_with(body.len())).is_err() {
            self.flush().await?;
        }
        let request =
            |body| Request { method: &head.method, path, query, headers: &head.headers, client: self.client, body };
        let (first, again) = (request(body), request(RequestBody::NotTaken(NO_ROOM_FOR_ANSWER)));
        let mut response = self.unless_gone(self.handler.answer(first)).await?;
        if !self.has_room(&response, &head.method, path) {
            drop(response);
            response = self.unless_gone(self.handler.answer(again)).await?;
        }
        let leaves = self.slot.is_some_and(|slot| slot.is_leaving() || slot.is_spare());
        self.write(response, &head.method, head.version, whole && head.kept && !leaves).await?;
        self.answered_in_turn += 1;
        if self.answered_in_turn >= TURN_REQUESTS {
            self.answered_in_turn = 0;
            self.flush().await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The body of a request that may be answered.
    async fn admitted_body(&mut self, head: &Head, path: &str) -> Result<RequestBody, End> {
        let admitted = self.slot.is_none_or(Slot::admit);
        if !admitted && self.handler.class(path) != Class::Health {
            return Ok(RequestBody::NotTaken(NO_SLOT));
        }
        self.body(head).await
    }

    /// Whether a long answer can be held until it is taken. What has been changed is told in any case.
    fn has_room(&mut self, response: &HttpResponse, method: &Method, path: &str) -> bool {
        let BodySize::Sized(bytes) = response.body().size() else { return true };
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

    /// Reads a body whole, in the time that it has.
    async fn body(&mut self, head: &Head) -> Result<RequestBody, End> {
        let bytes_max = self.shared.limits.body_bytes_max;
        match head.framing {
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
                            return Ok(RequestBody::NotTaken(NO_ROOM_FOR_BODY));
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
                        return Ok(RequestBody::NotTaken(NO_ROOM_FOR_BODY));
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

    /// Waits for an answer, unless the client leaves first. Earlier answers are sent meanwhile.
    async fn unless_gone<T>(&mut self, answering: impl Future<Output = T>) -> Result<T, End> {
        let Self { stream, input, output, shared, .. } = self;
        let mut answering = pin!(answering);
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

    /// Puts an answer behind those that are not sent yet, and sends them once that is worth it.
    async fn write(
        &mut self,
        mut response: HttpResponse,
        method: &Method,
        version: Version,
        kept: bool,
    ) -> Result<(), End> {
        // Heads are used again: this one may have answered an older client, whose version says by
        // itself that the connection ends.
        response.head_mut().version = Version::HTTP_11;
        let kept = kept && response.head().connection_type() != ConnectionType::Close;
        let (response, body) = response.into_parts();
        let no_content = *method == Method::HEAD || answer::has_no_content(response.status());
        self.answered_at = Instant::now();
        let date = self.shared.dates.at(self.answered_at, &*self.shared.clock);
        let persistence = answer::Persistence::of(kept, version);
        match body.try_into_bytes() {
            Ok(body) => {
                let output = self.output();
                let length = answer::Length::Known(body.len() as u64);
                answer::write_head(&response, length, persistence, &date, output);
                if body.len() > OUTPUT_BYTES && !no_content {
                    // Sent from where it is.
                    self.long_body = body;
                } else if !no_content {
                    output.put_slice(&body);
                }
                if self.output.len() >= OUTPUT_BYTES || !self.long_body.is_empty() {
                    self.flush().await?;
                }
                if kept { Ok(()) } else { Err(End::AfterAnswers) }
            }
            Err(body) => {
                let length = match body.size() {
                    BodySize::None => answer::Length::Known(0),
                    BodySize::Sized(bytes) => answer::Length::Known(bytes),
                    BodySize::Stream if version == Version::HTTP_11 => answer::Length::Chunked,
                    BodySize::Stream => answer::Length::UntilTheEnd,
                };
                let kept = kept && length != answer::Length::UntilTheEnd;
                let persistence = answer::Persistence::of(kept, version);
                answer::write_head(&response, length, persistence, &date, self.output());
                if !no_content {
                    self.write_stream(body, length).await?;
                    self.answered_at = Instant::now();
                }
                if kept { Ok(()) } else { Err(End::AfterAnswers) }
            }
        }
    }

    /// Sends a body that comes bit by bit.
    async fn write_stream(&mut self, mut body: BoxBody, length: answer::Length) -> Result<(), End> {
        let mut sent = 0;
        loop {
            let next = poll_fn(|context| Pin::new(&mut body).poll_next(context));
            // An answer that broke off must not look like a whole one.
            let Some(bytes) = self.unless_gone(next).await?.transpose().map_err(|_| End::Now)? else { break };
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

    /// Where answers are written.
    fn output(&mut self) -> &mut BytesMut {
        if self.output.capacity() == 0 {
            self.output = self.shared.buffers.take();
        }
        &mut self.output
    }

    /// Ends the connection after its last answer.
    async fn finish(&mut self) -> io::Result<()> {
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
            // It keeps nobody else from a slot.
            poll_fn(|context| match slot.is_some_and(|slot| slot.poll_leave(since, context).is_ready()) {
                true => Poll::Ready(Ok(())),
                false => ended.as_mut().poll(context),
            })
            .await
        };
        timeout(LINGER, until_it_ends).await?
    }

    /// Sends as much as the client takes.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, output, long_body, .. } = self;
        let mut rest = output.chain(long_body);
        while rest.has_remaining() {
            let mut slices = [IoSlice::new(&[]); 2];
            let count = rest.chunks_vectored(&mut slices);
            let stream = Pin::new(&mut *stream);
            let written = match slices.get(..count).unwrap_or_default() {
                // Costs the kernel less than the other.
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

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() || !self.long_body.is_empty() {
            match poll_fn(|context| Poll::Ready(self.poll_send(context))).await {
                Poll::Ready(sent) => sent?,
                Poll::Pending => {
                    // Whoever lets even small answers lie when there is no memory for them is given up.
                    self.share.hold(self.held_with(0)).map_err(|_| io::ErrorKind::OutOfMemory)?;
                    timeout(ANSWER_TIMEOUT, poll_fn(|context| self.poll_send(context))).await??;
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

/// By how much a body grows that has so many bytes.
fn body_step(bytes: usize) -> usize {
    bytes.clamp(BODY_STEP_BYTES.0, BODY_STEP_BYTES.1)
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
