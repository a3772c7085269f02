//! Our HTTP/1.1 server: the only reader of the wire.
//!
//! A get that is answered from memory costs less than what a web framework does around it. Here a
//! request is parsed where it lies, its handler is called in the connection's own task, and one
//! write carries the answer. This module knows HTTP/1.1 and nothing of lists; what a request means
//! is its [`Handler`]'s to say. It serves any stream of bytes, not TCP alone.
//!
//! It takes what RFC 9112 says a server must take, and refuses whatever two readers could understand
//! in two ways: where a request ends must never depend on who reads it ([`head`] and [`chunked`] say
//! what that is). A refusal is answered as a problem, and ends the connection.
//!
//! Times and bounds: the first byte of a request must come within [`KEEP_ALIVE`]; a head must be whole
//! within [`HEAD_TIMEOUT`] of its first byte, and a body within `body_timeout`. An answer must be taken
//! within [`ANSWER_TIMEOUT`]. What a client sends ahead of its turn waits in the kernel but for
//! [`AHEAD_BYTES`], and after [`TURN_REQUESTS`] answers other connections have their turn.
//!
//! The handler first decides on a request by its head ([`Handler::admit`]). A refusal is answered before the body is
//! awaited, and `100 Continue` comes after it. An admitted request is answered once it is whole, so that its deadline
//! counts from then ([`Handler::answer`]).
//!
//! A client may end its own side once its requests are whole: they are answered. A connection that breaks off ends the
//! work for it.
//!
//! Totals: how many connections there are, and which make room for new ones, is said in [`slots`]; what
//! is refused since it has waited too long in [`shedding`]; what lets others go before in [`line`]. What they hold
//! together comes out of a [`Budget`].

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

/// Idle connections are kept this long, used and new ones: callers are services that come back, or connect ahead.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long the head of a request may take from its first byte.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection in the reserve may take to say what it wants.
const SPARE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a client may take to receive what it asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long what a client still sends is taken in after the last answer: closing at once would reset
/// the connection, and the client could lose that answer (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);
/// Room for a read, at least.
const READ_BYTES: usize = 4 << 10;
/// What is held of requests that wait for their turn.
const AHEAD_BYTES: usize = OWN_BYTES;
/// A longer head is refused.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Answers to requests that came together are sent together, up to this.
const OUTPUT_BYTES: usize = 64 << 10;
/// The connection of a caller without a key is kept behind the body of a refused request if at most this many bytes
/// are left to come, within [`LINGER`].
const SKIPPED_BYTES_MAX: u64 = 64 << 10;
/// Requests of one connection that are answered before others have their turn. Of a stranger it is one, and stands in
/// a line.
const TURN_REQUESTS: u32 = 8;

/// The decision on the head of a request.
pub(crate) struct Decision<A> {
    /// Whose memory the request and its answer take.
    pub caller: Principal,
    /// Whether the caller is unknown, and would need a key.
    pub is_stranger: bool,
    /// The handler's own state of an admitted request, or the answer that refuses it.
    pub outcome: Result<A, Response>,
}

/// Answers requests.
pub(crate) trait Handler {
    type Admitted<'r>;

    /// Which headers the request for a target is to come with.
    fn headers_wanted(&self, target: &str) -> HeadersWanted;

    /// What becomes of the request for a path under load.
    fn class(&self, path: &str) -> Class;

    /// Decides on a request by its head. `lack` is the server's own reason to refuse.
    fn admit<'r>(
        &self,
        head: RequestHead<'r>,
        lack: Option<Lack>,
    ) -> impl Future<Output = Decision<Self::Admitted<'r>>>;

    /// Answers an admitted request, whose body is whole, or never will be.
    fn answer<'r>(
        &self,
        request: Request<'r>,
        admitted: Self::Admitted<'r>,
        caller: Principal,
    ) -> impl Future<Output = Response>;

    /// Answers what is no request that could be understood, or is none yet. `took` is the time since
    /// its first byte.
    fn refuse(&self, refusal: Refusal, took: Duration) -> Response;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Answered even where there is no slot for anything else.
    Health,
    /// Refused only for want of a slot or of memory.
    Control,
    /// As [`Self::Control`], for a document that anyone may read, or for nothing. Others go before.
    Document,
    /// Refused, too, where it has waited too long.
    Load,
}

/// Why a connection's bytes cannot be served. It ends with the answer to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// What is wrong, in a clause that begins with its subject.
    Malformed(&'static str),
    /// Another version of HTTP.
    Version,
    /// A transfer coding beside `chunked`.
    TransferCoding,
    HeadTooLarge,
    HeadTimeout,
    /// No slot, or no memory, for a request that is not whole.
    Overloaded,
}

/// What connections may ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A longer body is not read to its end.
    pub body_bytes_max: usize,
    pub body_timeout: Duration,
    /// A request that has waited for longer in its socket is refused while its worker is behind.
    pub socket_wait_max: Duration,
}

/// What the connections of one worker share.
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

    /// The same, which counts unread answers here.
    pub fn counting(self, unread: Arc<Unread>) -> Self {
        Self { unread, ..self }
    }

    /// Looks whether the worker is behind, for as long as it is awaited.
    pub fn watch(&self) -> impl Future<Output = ()> + use<> {
        Rc::clone(&self.shedding).watch()
    }
}

/// Serves a connection until it ends. It has a slot unless it counts for none. `stopping` says that
/// idle connections are to end.
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
