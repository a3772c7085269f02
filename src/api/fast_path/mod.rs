//! The fast way in: connections on which simple requests are read, and their answers written,
//! without the web framework.
//!
//! A get that is answered from memory costs less than what a framework does around it. Here a request
//! is parsed where it lies, its handler is called in the connection's own task, and one write
//! carries the answer. Handlers, errors, metrics and logs are those of every request
//! ([`super::server`]): this module knows HTTP/1.1, and nothing of lists.
//!
//! It knows only the plain part of it ([`request`] says which requests are simple), and guesses at
//! nothing: at the first request that is not, the connection is handed over to the framework with
//! all bytes that were read of it, and stays there.
//!
//! Times and bounds: a connection's first bytes must come within [`HEAD_TIMEOUT`], those of the next
//! request within [`KEEP_ALIVE`], a body within `http.body_timeout_secs` and before its handler is
//! called; an answer must be taken within [`KEEP_ALIVE`]. What a client sends ahead of its turn waits
//! in the kernel but for [`AHEAD_BYTES`]. A client that leaves, or ends its own side, ends the work
//! for it.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::http::{ConnectionType, Version};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};

use super::ApiState;
use super::body::RequestBody;
use super::server::{self, Request};
use buffers::Buffers;
use request::{Head, Parsed};
use response::Dates;

mod buffers;
mod request;
mod response;

/// Idle connections are kept this long: callers are services that come back.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long a connection may take to send the head of a request, its first one included.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long what a client still sends is taken in after the last answer: closing at once would reset
/// the connection, and the client could lose that answer (RFC 9112, section 9.6).
pub(super) const LINGER: Duration = Duration::from_secs(1);
/// Room for a read, at least.
const READ_BYTES: usize = 4 << 10;
/// What is held of requests that wait for their turn.
const AHEAD_BYTES: usize = 16 << 10;
/// Answers to requests that came together are sent together, up to this.
const OUTPUT_BYTES: usize = 64 << 10;

/// What the connections of one worker share.
#[derive(Default)]
pub(super) struct Worker {
    buffers: Buffers,
    dates: Dates,
}

/// A connection that is the framework's from here on.
pub(super) struct HandedOver {
    pub stream: TcpStream,
    /// What was read of it and not answered.
    pub read: Bytes,
}

/// Serves a connection until it ends, or must be handed over. `stopping` says that idle connections
/// are to end.
pub(super) async fn serve(
    stream: TcpStream,
    peer: Option<SocketAddr>,
    state: &ApiState,
    worker: &Worker,
    stopping: impl Future<Output = ()>,
) -> Option<HandedOver> {
    let mut connection = Connection {
        stream,
        peer,
        state,
        worker,
        input: BytesMut::new(),
        output: BytesMut::new(),
        idle_until: Instant::now() + HEAD_TIMEOUT,
    };
    let (mut timer, mut stopping) = (pin!(sleep_until(connection.idle_until)), pin!(stopping));
    loop {
        connection.skip_empty_lines();
        match request::parse(&connection.input) {
            Parsed::Nothing => {
                connection.flush().await.ok()?;
                connection.next_bytes(timer.as_mut(), stopping.as_mut()).await?;
            }
            Parsed::Simple(head) => {
                if !connection.answer(head).await? {
                    connection.end().await.ok()?;
                    return None;
                }
                connection.idle_until = Instant::now() + KEEP_ALIVE;
            }
            Parsed::NotSimple => {
                connection.flush().await.ok()?;
                let Connection { stream, input, .. } = connection;
                return Some(HandedOver { stream, read: input.freeze() });
            }
        }
    }
}

struct Connection<'w> {
    stream: TcpStream,
    peer: Option<SocketAddr>,
    state: &'w ApiState,
    worker: &'w Worker,
    /// Read and not yet parsed. Has a buffer only while there is something in it.
    input: BytesMut,
    /// Answers that were not sent yet.
    output: BytesMut,
    idle_until: Instant,
}

impl Connection<'_> {
    /// Some clients put an empty line behind a body (RFC 9112, section 2.2).
    fn skip_empty_lines(&mut self) {
        let empty = self.input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        self.input.advance(empty);
    }

    /// Waits for the next bytes; `None` at the end of the connection.
    async fn next_bytes(
        &mut self,
        mut timer: Pin<&mut Sleep>,
        mut stopping: Pin<&mut impl Future<Output = ()>>,
    ) -> Option<()> {
        let Self { stream, input, worker, idle_until, .. } = self;
        poll_fn(|context| {
            if let Poll::Ready(read) = poll_read(stream, input, &worker.buffers, context) {
                return Poll::Ready(some_read(read));
            }
            if stopping.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            // The timer stays at an old deadline while requests come: setting it costs more than
            // looking again when it rings.
            while timer.as_mut().poll(context).is_ready() {
                if Instant::now() >= *idle_until {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(*idle_until);
            }
            Poll::Pending
        })
        .await
    }

    /// Answers the request that begins the input. Returns whether the connection is kept; `None` if
    /// the client has gone.
    async fn answer(&mut self, head: Head) -> Option<bool> {
        let text = self.input.split_to(head.bytes).freeze();
        let body = self.body(head.content_length).await?;
        // What may still come of a late body is no request.
        let whole = !matches!(body, RequestBody::Late);
        // The parser lets only ASCII through.
        let target = std::str::from_utf8(text.get(head.target)?).ok()?;
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let request = Request { method: &head.method, path, query, headers: &head.headers, peer: self.peer, body };
        let mut response = self.unless_gone(server::serve(self.state, request)).await?;
        // Heads are used again: this one may have answered an older client on a connection of the
        // framework's, whose version says by itself that the connection ends.
        response.head_mut().version = Version::HTTP_11;
        let kept = whole && response.head().connection_type() != ConnectionType::Close;
        if self.output.capacity() == 0 {
            self.output = self.worker.buffers.take();
        }
        let date = self.worker.dates.at(self.state.clock.now());
        response::write(response, kept, &date, &mut self.output).await?;
        if self.output.len() >= OUTPUT_BYTES {
            self.flush().await.ok()?;
        }
        Some(kept)
    }

    /// Reads a body whole, in the time that it has; `None` if the client has gone.
    async fn body(&mut self, length: usize) -> Option<RequestBody> {
        if self.input.len() < length {
            // The client may wait for earlier answers before it goes on.
            self.flush().await.ok()?;
            let deadline = Instant::now() + self.state.options.body_timeout;
            while self.input.len() < length {
                self.input.reserve(length - self.input.len());
                match timeout_at(deadline, self.stream.read_buf(&mut self.input)).await {
                    Ok(read) => some_read(read)?,
                    Err(_) => return Some(RequestBody::Late),
                }
            }
        }
        Some(RequestBody::Whole(self.input.split_to(length).freeze()))
    }

    /// Waits for an answer, unless the client leaves first. Earlier answers are sent meanwhile.
    async fn unless_gone<T>(&mut self, answering: impl Future<Output = T>) -> Option<T> {
        let Self { stream, input, output, worker, .. } = self;
        let mut answering = pin!(answering);
        poll_fn(|context| {
            if let Poll::Ready(answer) = answering.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            while !output.is_empty()
                && let Poll::Ready(written) = Pin::new(&mut *stream).poll_write(context, output)
            {
                match written {
                    Ok(bytes) if bytes > 0 => output.advance(bytes),
                    _ => return Poll::Ready(None),
                }
            }
            while input.len() < AHEAD_BYTES {
                let read = ready!(poll_read(stream, input, &worker.buffers, context));
                if some_read(read).is_none() {
                    return Poll::Ready(None);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Ends the connection after its last answer.
    async fn end(mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream.shutdown().await?;
        let mut rest = self.worker.buffers.take();
        let until_it_ends = async {
            while self.stream.read_buf(&mut rest).await? > 0 {
                rest.clear();
            }
            Ok(())
        };
        timeout(LINGER, until_it_ends).await?
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            timeout(KEEP_ALIVE, self.stream.write_all(&self.output)).await??;
        }
        self.worker.buffers.give_back(&mut self.output);
        if self.input.is_empty() {
            self.worker.buffers.give_back(&mut self.input);
        }
        Ok(())
    }
}

/// Reads what is there. The input has a buffer only while something is in it.
fn poll_read(
    stream: &mut TcpStream,
    input: &mut BytesMut,
    buffers: &Buffers,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    ready!(stream.poll_read_ready(context))?;
    if input.capacity() == 0 {
        *input = buffers.take();
    }
    input.reserve(READ_BYTES);
    let most = AHEAD_BYTES.saturating_sub(input.len());
    let read = pin!(stream.read_buf(&mut (&mut *input).limit(most))).poll(context);
    if read.is_pending() && input.is_empty() {
        buffers.give_back(input);
    }
    read
}

/// Nothing if the client has ended its side, or the connection broke off. To end one's side before
/// the answer is there means to give it up, here as in the framework.
fn some_read(read: io::Result<usize>) -> Option<()> {
    read.ok().filter(|bytes| *bytes > 0).map(drop)
}
