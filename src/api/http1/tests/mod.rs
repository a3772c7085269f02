//! The loop with a recorder in place of the server: its requests, times, turns and memory.

mod against_hyper;
mod memory;
mod shedding;
mod times;
mod turns;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::io;
use std::rc::Rc;

use actix_web::HttpResponse;
use actix_web::body::BodyStream;
use actix_web::http::StatusCode;
use bytes::Bytes;
use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::sleep;

use super::*;
use crate::access::{ActsFor, Identity};
use crate::api::body::RequestBody;
use crate::api::request::{Framing, Peer};
use crate::domain::SystemClock;

const CLIENT: Client = Client { peer: Peer::Local, certificate: None, identity: None };
const BODY_BYTES_MAX: usize = 10_000;
const BUDGET_BYTES: usize = 16 << 20;
const ANSWER_BYTES_MAX: usize = 4 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const SOCKET_WAIT_MAX: Duration = Duration::from_millis(50);
const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
/// The longest time that a refusal counts.
const SLOW: Duration = Duration::from_millis(1);

/// A request as a server received it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    method: String,
    target: String,
    body: Vec<u8>,
}

/// Records requests, and answers with the target.
#[derive(Default)]
struct Recorder {
    seen: RefCell<Vec<Seen>>,
    /// Bodies that are missing or incomplete.
    incomplete: Cell<usize>,
    refused: Cell<Option<Refusal>>,
    /// The number of requests refused by their heads.
    refused_by_head: Cell<usize>,
    /// The caller whose memory requests take, if not a stranger.
    caller: RefCell<Option<Principal>>,
}

impl Handler for Recorder {
    type Admitted<'r> = ();

    fn headers_wanted(&self, _: &str) -> HeadersWanted {
        HeadersWanted::Meaningful
    }

    fn class(&self, path: &str) -> Class {
        match path {
            "/health" => Class::Health,
            "/document" => Class::Document,
            _ => Class::Load,
        }
    }

    async fn admit<'r>(&self, head: RequestHead<'r>, lack: Option<Lack>) -> Decision<()> {
        let (is_stranger, caller) = (self.caller.borrow().is_none(), self.caller.borrow().clone().unwrap_or_default());
        let is_too_large = matches!(head.framing, Framing::Length(length) if length > BODY_BYTES_MAX as u64);
        if lack.is_none() && !is_too_large && head.path != "/refused" {
            return Decision { caller, is_stranger, outcome: Ok(()) };
        }
        self.refused_by_head.set(self.refused_by_head.get() + 1);
        if head.path == "/slow" {
            sleep(SLOW).await;
        }
        Decision { caller, is_stranger, outcome: Err(Response::new(StatusCode::PAYLOAD_TOO_LARGE)) }
    }

    async fn answer<'r>(&self, Request { head, body }: Request<'r>, (): (), _: Principal) -> Response {
        let query = head.query.map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{}{query}", head.path);
        if head.path == "/slow" {
            sleep(SLOW).await;
        }
        let RequestBody::Whole(body) = body else {
            self.incomplete.set(self.incomplete.get() + 1);
            return Response::new(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let method = head.method.to_string();
        let response = match head.path {
            "/stream" => {
                let parts = ["one", "", "two"].map(|part| Ok::<_, io::Error>(Bytes::from_static(part.as_bytes())));
                HttpResponse::Ok().body(BodyStream::new(stream::iter(parts))).into()
            }
            "/broken" => {
                let parts = [Ok(Bytes::from_static(b"one")), Err(io::Error::other("it broke off"))];
                HttpResponse::Ok().body(BodyStream::new(stream::iter(parts))).into()
            }
            "/long" => Response::new(StatusCode::OK).body(vec![b'x'; ANSWER_BYTES_MAX]),
            _ => Response::new(StatusCode::OK).body(target.clone()),
        };
        self.seen.borrow_mut().push(Seen { method, target, body: body.to_vec() });
        response
    }

    fn refuse(&self, refusal: Refusal, _: Duration) -> Response {
        self.refused.set(Some(refusal));
        Response::new(StatusCode::BAD_REQUEST)
    }
}

fn shared() -> Shared {
    let limits =
        Limits { body_bytes_max: BODY_BYTES_MAX, body_timeout: BODY_TIMEOUT, socket_wait_max: SOCKET_WAIT_MAX };
    Shared::new(limits, Arc::new(SystemClock), Budget::new(BUDGET_BYTES, BODY_BYTES_MAX, ANSWER_BYTES_MAX))
}

/// Runs a client against the loop. Time advances only while both wait.
fn with_ours<T, F: Future<Output = T>>(client: impl FnOnce(DuplexStream, Rc<Recorder>) -> F) -> (T, Rc<Recorder>) {
    with_ours_over(64 << 10, client)
}

fn with_ours_over<T, F: Future<Output = T>>(
    buffer_bytes: usize,
    client: impl FnOnce(DuplexStream, Rc<Recorder>) -> F,
) -> (T, Rc<Recorder>) {
    let recorder = Rc::new(Recorder::default());
    let (near, far) = duplex(buffer_bytes);
    let shared = shared();
    let serving = serve(far, &CLIENT, &*recorder, &shared, None, pending());
    let reported = block_on(async { tokio::join!(client(near, Rc::clone(&recorder)), serving).0 });
    (reported, recorder)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

/// Sends pieces one after another, each read before the next is sent, and collects all answers.
async fn send(stream: DuplexStream, pieces: &[&[u8]]) -> Vec<u8> {
    let (mut from, mut to) = tokio::io::split(stream);
    let sending = async {
        for piece in pieces {
            if to.write_all(piece).await.is_err() {
                break;
            }
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }
        let _ = to.shutdown().await;
    };
    let mut answers = Vec::new();
    let reading = async { from.read_to_end(&mut answers).await.unwrap() };
    tokio::join!(sending, reading);
    answers
}

fn ours(pieces: &[&[u8]]) -> (Vec<u8>, Rc<Recorder>) {
    with_ours(|stream, _| send(stream, pieces))
}

/// The statuses of the answers to a connection that sends this text and ends its side.
fn statuses(shared: &Shared, recorder: &Recorder, text: &[u8]) -> Vec<String> {
    let (near, far) = duplex(64 << 10);
    let pieces = [text];
    let serving = serve(far, &CLIENT, recorder, shared, None, pending());
    let (answers, ()) = block_on(async { tokio::join!(send(near, &pieces), serving) });
    let answers = String::from_utf8_lossy(&answers);
    answers.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].to_owned()).collect()
}

fn known() -> Principal {
    Principal::Known(Arc::new(Identity::new("key:", "a", vec![], ActsFor::Themselves)))
}
