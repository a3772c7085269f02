//! One connection: its requests one after another, in the order of arrival.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix_web::http::{Method, Version};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::head::{self, Head, Parsed};
use super::slots::Slot;
use super::{
    AHEAD_BYTES, Class, Decision, HEAD_BYTES_MAX, HEAD_TIMEOUT, Handler, KEEP_ALIVE, OUTPUT_BYTES, READ_BYTES, Refusal,
    SPARE_TIMEOUT, Shared, Stream,
};
use crate::access::{Holder, OWN_BYTES, Share};
use crate::api::body::{Lack, RequestBody};
use crate::api::percent::cut;
use crate::api::request::{Client, Request, RequestHead};
use crate::api::response::Response;

mod reading;
mod turns;
mod writing;

/// The head of an answer has fewer bytes.
const ANSWER_HEAD_BYTES: usize = 1 << 10;

/// Why no further request is read.
enum End {
    /// The client has gone, does not read, or has been idle for too long.
    Now,
    /// After the written answers are sent.
    AfterAnswers,
    Refused(Refusal),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Now
    }
}

/// The outcome of waiting for a head.
enum Waited {
    Bytes,
    TooLong,
    /// Another connection has the slot.
    SentAway,
    Ended,
}

pub(super) struct Connection<'h, S, H> {
    stream: S,
    client: &'h Client,
    handler: &'h H,
    shared: &'h Shared,
    slot: Option<&'h Slot>,
    /// Its memory, charged to the caller of its last request.
    share: Share,
    /// Whether the client has ended its side.
    has_ended: bool,
    /// Received and not yet parsed. Has a buffer only while it is not empty.
    input: BytesMut,
    /// The number of input bytes without a complete head.
    scanned: usize,
    /// When the first byte of an incomplete head arrived.
    head_began: Option<Instant>,
    /// When it began to wait for a request, and the deadline for its beginning.
    waits_since: Instant,
    idle_until: Instant,
    /// When the last answer was ready.
    answered_at: Instant,
    /// Unsent answers, and a long body that ends them.
    output: BytesMut,
    long_body: Bytes,
    answered_in_turn: u32,
    /// Whether the share is charged to the caller of a request.
    has_asked: bool,
    /// Whether other connections have gone first before its next request.
    has_waited_in_line: bool,
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
            share: Share::new(Arc::clone(&shared.budget), Holder::Stranger),
            has_ended: false,
            input: BytesMut::new(),
            scanned: 0,
            head_began: None,
            waits_since,
            idle_until: waits_since + KEEP_ALIVE,
            answered_at: waits_since,
            output: BytesMut::new(),
            long_body: Bytes::new(),
            answered_in_turn: 0,
            has_asked: false,
            has_waited_in_line: false,
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
        // The server cannot affect whether the client receives the last bytes.
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
                        Waited::SentAway if self.has_request_arrived().await => {}
                        Waited::TooLong | Waited::SentAway | Waited::Ended => return End::Now,
                    }
                }
                Parsed::Refused(refusal) => return End::Refused(refusal),
            }
        }
    }

    /// Searches the beginning of the input for a head.
    fn parse(&mut self) -> Parsed {
        // Some clients send an empty line after a body (RFC 9112, section 2.2).
        while self.input.starts_with(b"\r\n") {
            self.input.advance(2);
            self.scanned = 0;
        }
        // A head that arrives byte by byte is not parsed again for each byte.
        let news = self.input.get(self.scanned..).unwrap_or_default();
        if news.is_empty() || (self.scanned > 0 && !news.contains(&b'\n') && self.input.len() < HEAD_BYTES_MAX) {
            self.scanned = self.input.len();
            return Parsed::Partial;
        }
        let parsed = head::parse(&self.input, &self.shared.hosts, |target| self.handler.headers_wanted(target));
        self.scanned = if matches!(parsed, Parsed::Partial) { self.input.len() } else { 0 };
        parsed
    }

    /// Waits for more of a head.
    async fn wait(&mut self, mut timer: Pin<&mut Sleep>, mut stopping: Pin<&mut impl Future<Output = ()>>) -> Waited {
        if self.has_ended {
            return Waited::Ended;
        }
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
            // The timer keeps an old deadline while requests arrive, because setting it costs more than one check when
            // it fires.
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

    /// Whether a request had arrived when the connection had to leave. The runtime must ask the kernel for unread
    /// bytes. Closing without that would abort the request with a reset.
    async fn has_request_arrived(&mut self) -> bool {
        tokio::task::yield_now().await;
        let Self { stream, input, shared, .. } = self;
        let read = poll_fn(|context| Poll::Ready(poll_read(stream, input, shared, HEAD_BYTES_MAX, context))).await;
        match read {
            Poll::Ready(read) => some_read(read).is_ok(),
            Poll::Pending => false,
        }
    }

    /// Answers the first request of the input.
    async fn answer(&mut self, head: Head) -> Result<(), End> {
        let text = self.input.split_to(head.bytes).freeze();
        // The parser admits only ASCII.
        let target = text.get(head.target.clone()).and_then(|target| std::str::from_utf8(target).ok());
        let target = target.unwrap_or_default();
        let (path, query) = cut(target, b'?');
        let Head { method, headers, framing, expects_unknown, .. } = &head;
        let path = match path {
            // An absolute target may have no path (RFC 9112, section 3.2.4).
            "" if *method == Method::OPTIONS && query.is_none() => "*",
            "" => "/",
            path => path,
        };
        let class = self.handler.class(path);
        self.let_others_go_before(class).await?;
        let (client, framing, expects_unknown) = (self.client, *framing, *expects_unknown);
        let is_here = self.has_body(framing);
        let asked = RequestHead { method, path, query, headers, client, framing, expects_unknown, has_body: is_here };
        let may_work = self.may_work(class);
        let mut refused_since = if may_work && is_here { self.refuses_for_age(class) } else { None };
        let lack = if may_work { refused_since.map(|_| Lack::Time) } else { Some(Lack::Connections) };
        // Pinned where it is made, because passing a future moves it, and this one has kilobytes.
        let decided = self.wait_while_connected(pin!(self.handler.admit(asked, lack)), self.slot).await?;
        let Decision { caller, is_stranger, outcome } = decided;
        // A refusal for the server's own lack identifies no caller. The connection keeps its last caller.
        if lack.is_none() {
            let holder = Holder::of(&caller, is_stranger);
            if let Some(slot) = self.slot {
                slot.note_caller(holder.is_known());
                // Takes the slot of a known caller again, if identifying the caller had to wait.
                if holder.is_known() && slot.has_waited() {
                    self.may_work(class);
                }
            }
            self.has_asked = true;
            self.share.charge_to(holder);
        }
        // Refusing load would not help against strangers.
        if class == Class::Load && (lack.is_some() || !is_stranger) {
            self.shared.shedding.count();
        }
        let is_admitted = outcome.is_ok();
        let (response, can_go_on) = match outcome {
            Ok(admitted) => {
                let (body, is_whole) = self.admitted_body(&head, class, is_here, &mut refused_since).await?;
                let request = Request { head: asked, body };
                // The rest of an unread body is not a request.
                (self.wait_while_connected(pin!(self.handler.answer(request, admitted, caller)), None).await?, is_whole)
            }
            Err(response) => (response, self.can_skip_body(&head)),
        };
        self.head_began = None;
        let kept = can_go_on && head.kept && !self.leaves();
        match refused_since {
            None => self.write(response, method, head.version, kept).await?,
            Some(since) => self.write_at_once(response, &head, kept, since).await?,
        }
        if !is_admitted {
            self.skip_body(framing).await?;
        }
        self.answered().await
    }

    /// Whether the server may carry out a request now.
    fn may_work(&self, class: Class) -> bool {
        self.slot.is_none_or(Slot::admit) || class == Class::Health
    }

    /// Whether the connection ends with its current request.
    fn leaves(&self) -> bool {
        self.slot.is_some_and(|slot| slot.is_leaving() || slot.is_spare())
    }

    /// The current time, if the last request has waited for too long and must be refused.
    fn refuses_for_age(&self, class: Class) -> Option<Instant> {
        let shedding = &self.shared.shedding;
        if class != Class::Load || !shedding.is_behind() {
            return None;
        }
        shedding.refuses(self.stream.since_last_arrival())
    }

    /// Sends a refusal, and counts the time since its start. It counts even if the connection ends with it, and before
    /// its client has read it.
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

    /// Reads the body of an admitted request, if the request may still be carried out afterwards. Returns whether all
    /// of it was read.
    async fn admitted_body(
        &mut self,
        head: &Head,
        class: Class,
        is_here: bool,
        refused_since: &mut Option<Instant>,
    ) -> Result<(RequestBody, bool), End> {
        let body = self.body(head).await?;
        let is_whole = body.is_whole();
        if self.output.len() > OWN_BYTES && self.share.hold(self.held_with(body.len())).is_err() {
            self.flush().await?;
        }
        if !is_whole {
            return Ok((body, is_whole));
        }
        if self.slot.is_some_and(Slot::has_waited) && !self.may_work(class) {
            return Ok((RequestBody::NotTaken(Lack::Connections), is_whole));
        }
        if !is_here {
            *refused_since = self.refuses_for_age(class);
        }
        Ok((if refused_since.is_some() { RequestBody::NotTaken(Lack::Time) } else { body }, is_whole))
    }

    /// Counts the bytes of an answer until the client has read them, in place of its reserved memory.
    pub(super) fn hold_answer(&mut self, response: &mut Response, has_content: bool) {
        let reserved = response.reserved.take();
        let bytes = response.body.size().filter(|_| has_content).unwrap_or_default() as usize;
        let is_long = bytes > OUTPUT_BYTES;
        let has_reserved = reserved.is_some();
        if let Some(reserved) = reserved {
            self.share.absorb(reserved);
        }
        if is_long || has_reserved {
            self.share.hold_anyway(self.held_with(bytes) + ANSWER_HEAD_BYTES);
        }
    }

    /// The reserved memory together with this many bytes.
    fn held_with(&self, bytes: usize) -> usize {
        self.input.len() + self.output.len() + self.long_body.len() + bytes
    }

    /// Waits for the handler, unless the connection breaks first. Earlier answers are sent during its work. A client
    /// that ends its own side is answered. A connection gives up a `slot`, if another connection needs it.
    async fn wait_while_connected<T>(
        &mut self,
        mut answering: Pin<&mut impl Future<Output = T>>,
        slot: Option<&Slot>,
    ) -> Result<T, End> {
        let since = self.head_began.unwrap_or(self.waits_since);
        let Self { stream, input, output, shared, has_ended, .. } = self;
        poll_fn(|context| {
            if let Poll::Ready(answer) = answering.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            if slot.is_some_and(|slot| slot.poll_leave(since, context).is_ready()) {
                return Poll::Ready(Err(End::Now));
            }
            while !output.is_empty()
                && let Poll::Ready(written) = Pin::new(&mut *stream).poll_write(context, output)
            {
                match written {
                    Ok(bytes) if bytes > 0 => output.advance(bytes),
                    _ => return Poll::Ready(Err(End::Now)),
                }
            }
            while input.len() < AHEAD_BYTES && !*has_ended {
                match ready!(poll_read(stream, input, shared, AHEAD_BYTES, context)) {
                    Ok(bytes) => *has_ended = bytes == 0,
                    Err(error) => return Poll::Ready(Err(error.into())),
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Waits for the first byte of a new connection, with the time limit of a request. Returns false if the connection ends
/// before.
pub(crate) async fn has_begun(
    stream: &TcpStream,
    slot: &Slot,
    mut stopping: Pin<&mut impl Future<Output = ()>>,
) -> bool {
    let since = Instant::now();
    let until = since + if slot.is_spare() { SPARE_TIMEOUT } else { KEEP_ALIVE };
    let begun = poll_fn(|context| {
        if let Poll::Ready(ready) = stream.poll_read_ready(context) {
            return Poll::Ready(ready.is_ok());
        }
        let ends = slot.poll_leave(since, context).is_ready() || stopping.as_mut().poll(context).is_ready();
        if ends { Poll::Ready(false) } else { Poll::Pending }
    });
    timeout_at(until, begun).await.unwrap_or(false)
}

/// Boxes the work for one request. The allocator reuses the same few places for one request after another, and they
/// stay in the processor's cache. Inside the tasks of thousands of connections each would have a separate place.
///
/// The future is made in its final place. The argument of `Box::pin` would be made on the stack, and copied.
fn made_in_place<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

/// Reads available bytes, until the input has `bytes_max` bytes. The input has a buffer only while it is not empty.
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

/// Ends the connection if the client ended its side before its request was complete, or if the connection broke.
fn some_read(read: io::Result<usize>) -> Result<(), End> {
    if read? > 0 { Ok(()) } else { Err(End::Now) }
}
