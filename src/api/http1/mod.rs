//! Our HTTP/1.1 server: the only reader of the wire.
//!
//! A get from memory costs less than a web framework's work around it. This server parses a request in place, calls its
//! handler in the connection's own task, and writes the answer with one call. The module implements HTTP/1.1 and has no
//! notion of lists. Its [`Handler`] interprets requests. It serves any stream of bytes, not only TCP.
//!
//! It accepts everything that RFC 9112 requires, and refuses every ambiguous request: where a request ends must never
//! depend on its reader. [`head`] and [`chunked`] define the details. A refusal is answered as a problem, and ends the
//! connection.
//!
//! Times and bounds: the first byte of a request must arrive within [`KEEP_ALIVE`]. A head must be complete within
//! [`HEAD_TIMEOUT`] of its first byte, and a body within `body_timeout`. The client must read an answer within
//! [`ANSWER_TIMEOUT`]. Bytes of later requests wait in the kernel beyond [`AHEAD_BYTES`]. After [`TURN_REQUESTS`]
//! answers other connections have their turn.
//!
//! The handler first decides on a request by its head ([`Handler::admit`]). It answers a refusal before the body
//! arrives, and sends `100 Continue` only for an admitted request. An admitted request is answered once it is complete,
//! so that its deadline counts from then ([`Handler::answer`]).
//!
//! A client may end its own side after complete requests, and still gets their answers. The work for a connection ends
//! when the connection breaks.
//!
//! Three modules handle many connections. [`slots`] bounds their number and selects the ones that make way.
//! [`shedding`] refuses requests that have waited too long. [`line`] lets other requests go first. A [`Budget`] bounds
//! the memory of all connections.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::body::Lack;
use super::request::{Client, Request, RequestHead};
use super::response::Response;
use crate::access::{Budget, OWN_BYTES, Principal};
use crate::domain::Clock;
use answer::Dates;
pub(crate) use arrival::Stream;
use buffers::Buffers;
use connection::Connection;
pub(crate) use connection::has_begun;
pub(crate) use head::HeadersWanted;
use hosts::Hosts;
use line::Line;
use shedding::Shedding;
pub(crate) use slots::{EXTRA as EXTRA_SLOTS, Slot, Slots};
pub(crate) use unread::Unread;

mod answer;
mod arrival;
mod buffers;
mod chunked;
mod connection;
mod head;
mod hosts;
mod line;
mod shedding;
mod slots;
mod target;
#[cfg(test)]
mod tests;
mod unread;

/// How long idle connections, used or new, stay open. Callers are services that return, or connect in advance.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long the head of a request may take from its first byte.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection in the reserve may take to send its request.
const SPARE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a client may take to read its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the server reads further bytes after the last answer. Closing at once would reset the connection, and the
/// client could lose that answer (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);
/// The smallest free space for a read.
const READ_BYTES: usize = 4 << 10;
/// The reserved bytes of requests that wait for their turn.
const AHEAD_BYTES: usize = OWN_BYTES;
/// A longer head is refused.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Answers to requests that arrived together are sent together, up to this size.
const OUTPUT_BYTES: usize = 64 << 10;
/// The connection of a caller without a key continues after the body of a refused request only if at most this many
/// bytes are missing, and arrive within [`LINGER`].
const SKIPPED_BYTES_MAX: u64 = 64 << 10;
/// The requests of one connection that are answered before other connections have their turn. A stranger's turn is one
/// request, and waits in a line.
const TURN_REQUESTS: u32 = 8;

/// The decision on the head of a request.
pub(crate) struct Decision<A> {
    /// The caller whose memory share holds the request and its answer.
    pub caller: Principal,
    /// Whether the caller is unknown and needs a key.
    pub is_stranger: bool,
    /// The handler's own state of an admitted request, or the answer that refuses it.
    pub outcome: Result<A, Response>,
}

/// Answers requests.
pub(crate) trait Handler {
    type Admitted<'r>;

    /// The headers that the request for a target must include.
    fn headers_wanted(&self, target: &str) -> HeadersWanted;

    /// How the server treats requests for a path under load.
    fn class(&self, path: &str) -> Class;

    /// Decides on a request by its head. `lack` is the server's own reason to refuse.
    fn admit<'r>(
        &self,
        head: RequestHead<'r>,
        lack: Option<Lack>,
    ) -> impl Future<Output = Decision<Self::Admitted<'r>>>;

    /// Answers an admitted request. Its body is complete, or failed.
    fn answer<'r>(
        &self,
        request: Request<'r>,
        admitted: Self::Admitted<'r>,
        caller: Principal,
    ) -> impl Future<Output = Response>;

    /// Answers a malformed or incomplete request. `took` is the time since its first byte.
    fn refuse(&self, refusal: Refusal, took: Duration) -> Response;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Answered even without a free slot for other requests.
    Health,
    /// Refused only without a free slot or memory.
    Control,
    /// As [`Self::Control`], for a public document, or for no operation. Other requests go first.
    Document,
    /// Also refused if it has waited too long.
    Load,
}

/// Why a connection's bytes cannot be served. The connection ends with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The mistake, as a clause that begins with its subject.
    Malformed(&'static str),
    /// Another version of HTTP.
    Version,
    /// A transfer coding other than `chunked`.
    TransferCoding,
    HeadTooLarge,
    HeadTimeout,
    /// No slot, or no memory, for an incomplete request.
    Overloaded,
}

/// The bounds of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A longer body is not read to its end.
    pub body_bytes_max: usize,
    pub body_timeout: Duration,
    /// A request that has waited longer in its socket is refused while its worker is behind.
    pub socket_wait_max: Duration,
}

/// The shared state of one worker's connections.
pub(crate) struct Shared {
    limits: Limits,
    clock: Arc<dyn Clock>,
    budget: Arc<Budget>,
    unread: Arc<Unread>,
    buffers: Buffers,
    dates: Dates,
    hosts: Hosts,
    shedding: Rc<Shedding>,
    line: Line,
    health_line: Line,
}

impl Shared {
    pub fn new(limits: Limits, clock: Arc<dyn Clock>, budget: Arc<Budget>) -> Self {
        let shedding = Rc::new(Shedding::new(limits.socket_wait_max));
        let (buffers, dates, hosts) = (Buffers::default(), Dates::default(), Hosts::default());
        let (unread, line, health_line) = (Arc::default(), Line::default(), Line::default());
        Self { limits, clock, budget, unread, buffers, dates, hosts, shedding, line, health_line }
    }

    /// Counts unread answers in `unread`.
    pub fn counting(self, unread: Arc<Unread>) -> Self {
        Self { unread, ..self }
    }

    /// Checks repeatedly whether the worker is behind, while the future is awaited.
    pub fn watch(&self) -> impl Future<Output = ()> + use<> {
        Rc::clone(&self.shedding).watch()
    }
}

/// Serves a connection until it ends. It has a slot, unless it needs none. `stopping` resolves when idle connections
/// must end.
pub(crate) async fn serve<S, H>(
    stream: S,
    client: &Client,
    handler: &H,
    shared: &Shared,
    slot: Option<&Slot>,
    stopping: impl Future<Output = ()>,
) where
    S: Stream,
    H: Handler,
{
    Connection::new(stream, client, handler, shared, slot).serve(pin!(stopping)).await;
}
