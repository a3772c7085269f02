//! Compares the loop with hyper. For any stream of bytes, with any cuts, both must read the same requests with the same
//! bodies. Ours may refuse where hyper continues, because it reads more strictly. But it must never read another
//! request, or one where hyper has stopped. Further tests check its times and turns.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::BodyStream;
use actix_web::http::StatusCode;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, sleep};

use super::*;
use crate::access::{ActsFor, Holder, Identity, Share};
use crate::api::body::RequestBody;
use crate::api::request::{Framing, Peer};
use crate::domain::SystemClock;

const CLIENT: Client = Client { peer: Peer::Local, certificate: None, identity: None };
const BODY_BYTES_MAX: usize = 10_000;
const BUDGET_BYTES: usize = 16 << 20;
const ANSWER_BYTES_MAX: usize = 4 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const SOCKET_WAIT_MAX: Duration = Duration::from_millis(50);
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
    let told = block_on(async { tokio::join!(client(near, Rc::clone(&recorder)), serving).0 });
    (told, recorder)
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

fn hypers(pieces: &[&[u8]]) -> Vec<Seen> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (near, far) = duplex(64 << 10);
    let service = hyper::service::service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            // A target with only a host, as in `CONNECT`, has no path.
            let target = request.uri().path_and_query().map_or_else(|| request.uri().to_string(), ToString::to_string);
            let method = request.method().to_string();
            let body = request.into_body().collect().await?.to_bytes().to_vec();
            seen.borrow_mut().push(Seen { method, target, body });
            Ok::<_, hyper::Error>(hyper::Response::new(String::new()))
        }
    });
    let serving =
        hyper::server::conn::http1::Builder::new().half_close(true).serve_connection(TokioIo::new(far), service);
    // Its end is one of its answers.
    block_on(async { tokio::join!(send(near, pieces), serving) }).1.unwrap_or_default();
    seen.take()
}

/// Cuts a text at these places.
fn cut<'t>(text: &'t [u8], places: &[prop::sample::Index]) -> Vec<&'t [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place.index(text.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut begin = 0;
    for place in places {
        pieces.push(&text[begin..place]);
        begin = place;
    }
    pieces.push(&text[begin..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// A body with the lines of the head that frame it.
fn framed() -> impl Strategy<Value = (String, Vec<u8>)> {
    let body = prop::collection::vec(prop::sample::select(b"abc\r\n:; 0GET/HTP1.".to_vec()), 0..60);
    let chunks = prop::collection::vec((body.clone(), prop::sample::select(vec!["", ";a=b", ";x"])), 0..4);
    let trailers = prop::sample::select(vec!["", "X-Sum: 1\r\n", "Content-Length: 9\r\nHost: y\r\n"]);
    prop_oneof![
        Just((String::new(), Vec::new())),
        body.prop_map(|body| (format!("Content-Length: {}\r\n", body.len()), body)),
        (chunks, trailers, any::<bool>()).prop_map(|(chunks, trailers, expects)| {
            let mut text = Vec::new();
            for (chunk, extension) in chunks.iter().filter(|(chunk, _)| !chunk.is_empty()) {
                text.extend_from_slice(format!("{:X}{extension}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
            let expects = if expects { "Expect: 100-continue\r\n" } else { "" };
            (format!("{expects}Transfer-Encoding: chunked\r\n"), text)
        }),
    ]
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"]);
    let target = prop::sample::select(vec!["/", "/v1/lists/a/b/c/items?limit=1", "http://x/y?z", "/a%20b"]);
    let version = prop::sample::select(vec!["1.1", "1.1", "1.1", "1.1", "1.0"]);
    let line = prop::sample::select(vec![
        "",
        "",
        "",
        "X-A:b \r\n",
        "Accept: */*\r\n",
        "Connection: keep-alive\r\n",
        "Connection: close\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
        "TE: trailers\r\n",
    ]);
    let empty_line = prop::sample::select(vec!["", "", "\r\n"]);
    (method, target, version, line, framed(), empty_line).prop_map(
        |(method, target, version, line, (framing, body), empty_line)| {
            // Older clients do not support chunks.
            let version = if framing.contains("chunked") { "1.1" } else { version };
            let head = format!("{empty_line}{method} {target} HTTP/{version}\r\nHost: x\r\n{line}{framing}\r\n");
            [head.as_bytes(), &body].concat()
        },
    )
}

/// Changes of a few bytes.
fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, Vec<u8>)>> {
    let text = prop::sample::select(vec![
        &b""[..],
        b"\r",
        b"\n",
        b"\r\n",
        b"\0",
        b" ",
        b"\t",
        b":",
        b",",
        b";",
        b"0",
        b"1",
        b"f",
        b"-",
        b"+",
        b"x",
        b"\xff",
        b"\r\nContent-Length: 3",
        b"\r\nTransfer-Encoding: chunked",
        b"\r\nTransfer-Encoding: identity",
        b"\r\n folded",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ]);
    prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, text.prop_map(<[u8]>::to_vec)), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_well_formed_is_seen_as_hyper_sees_it(
        requests in prop::collection::vec(request(), 1..5),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let text = requests.concat();
        let pieces = cut(&text, &places);
        let (_, recorder) = ours(&pieces);
        prop_assert_eq!(recorder.refused.get(), None);
        prop_assert_eq!(&*recorder.seen.borrow(), &hypers(&pieces));
    }

    #[test]
    fn what_is_not_is_never_seen_as_another_request(
        requests in prop::collection::vec(request(), 1..4),
        changes in changes(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut text = requests.concat();
        for (place, removed, inserted) in changes {
            let begin = place.index(text.len() + 1);
            let end = text.len().min(begin + usize::from(removed));
            text.splice(begin..end, inserted);
        }
        let pieces = cut(&text, &places);
        let (_, recorder) = ours(&pieces);
        let (ours, hypers) = (recorder.seen.borrow(), hypers(&pieces));
        prop_assert!(hypers.starts_with(&ours), "ours {:?}, hyper's {:?}", ours, hypers);
    }

    #[test]
    fn how_a_stream_is_cut_makes_no_difference(
        requests in prop::collection::vec(request(), 1..4),
        changes in changes(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
    ) {
        let mut text = requests.concat();
        for (place, removed, inserted) in changes {
            let begin = place.index(text.len() + 1);
            let end = text.len().min(begin + usize::from(removed));
            text.splice(begin..end, inserted);
        }
        let (_, whole) = ours(&[&text]);
        let (_, in_pieces) = ours(&cut(&text, &places));
        prop_assert_eq!(&*whole.seen.borrow(), &*in_pieces.seen.borrow());
        // An endless head is checked line by line, so a mistake in its last line may stay unnoticed until the stream
        // ends. But no cut makes a request invalid.
        prop_assert!(in_pieces.refused.get().is_none() || whole.refused.get().is_some());
    }
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_head_has_its_time_from_its_first_byte_each_time() {
    let ((), recorder) = with_ours(|mut stream, recorder| async move {
        let mut answer = [0; 512];
        for round in 1..=3 {
            // Idle for longer than the time of a head.
            sleep(HEAD_TIMEOUT * u32::from(round > 1) * 3).await;
            for piece in GET.chunks(GET.len().div_ceil(4)) {
                stream.write_all(piece).await.unwrap();
                sleep(HEAD_TIMEOUT / 5).await;
            }
            assert!(stream.read(&mut answer).await.unwrap() > 0);
            assert_eq!(recorder.seen.borrow().len(), round);
        }
        let began = Instant::now();
        for byte in b"GET /a HTTP/1.1\r\nHost: x\r\nX-Slow: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" {
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(HEAD_TIMEOUT / 20).await;
        }
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.starts_with(b"HTTP/1.1 400 "), "the refusal of the recorder");
        assert!(began.elapsed() < HEAD_TIMEOUT * 5);
    });
    assert_eq!(recorder.refused.get(), Some(Refusal::HeadTimeout));
}

#[test]
fn an_idle_connection_is_kept_and_ends_without_a_word() {
    let ((), recorder) = with_ours(|mut stream, _| async move {
        let (began, mut all) = (Instant::now(), Vec::new());
        stream.read_to_end(&mut all).await.unwrap();
        assert!(all.is_empty() && began.elapsed() >= KEEP_ALIVE && began.elapsed() < KEEP_ALIVE + LINGER);
    });
    assert_eq!(recorder.refused.get(), None);
    with_ours(|mut stream, _| async move {
        stream.write_all(GET).await.unwrap();
        let mut answer = [0; 512];
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        let began = Instant::now();
        // Empty lines are no requests, and keep no connection open.
        let mut told = Vec::new();
        while stream.write_all(b"\r\n").await.is_ok() && began.elapsed() < KEEP_ALIVE * 2 {
            sleep(Duration::from_secs(1)).await;
        }
        stream.read_to_end(&mut told).await.unwrap();
        assert!(told.is_empty() && began.elapsed() >= KEEP_ALIVE && began.elapsed() < KEEP_ALIVE + HEAD_TIMEOUT);
    });
}

#[test]
fn a_body_that_is_waited_for_is_asked_for_once() {
    let (answers, recorder) = with_ours(|mut stream, _| async move {
        stream
            .write_all(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
            .await
            .unwrap();
        let mut word = [0; 25];
        stream.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
        send(stream, &[b"bo", b"dy"]).await
    });
    assert!(answers.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert_eq!(recorder.seen.borrow()[0].body, b"body");
    // Not if the body would not be read, or has arrived already.
    for text in [
        &b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody"[..],
        b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\nExpect: 100-continue\r\n\r\n",
        b"POST /a HTTP/1.0\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody",
    ] {
        let (answers, _) = ours(&[text]);
        assert!(!answers.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&answers));
    }
}

#[test]
fn answers_are_framed_for_who_asks() {
    let get = |method: &str, path: &str, version: &str| {
        let text = format!("{method} {path} HTTP/{version}\r\nHost: x\r\n\r\n");
        let (answers, _) = ours(&[text.as_bytes()]);
        String::from_utf8(answers).unwrap()
    };
    let chunked = get("GET", "/stream", "1.1");
    assert!(chunked.contains("\r\ntransfer-encoding: chunked\r\n") && !chunked.contains("content-length"), "{chunked}");
    assert!(chunked.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"), "{chunked}");
    let old = get("GET", "/stream", "1.0");
    assert!(!old.contains("chunked") && old.contains("connection: close") && old.ends_with("\r\n\r\nonetwo"), "{old}");
    let head = get("HEAD", "/stream", "1.1");
    assert!(head.ends_with("\r\n\r\n") && head.contains("chunked"), "{head}");
    let head = get("HEAD", "/long", "1.1");
    assert!(head.ends_with("\r\n\r\n") && head.contains("\r\ncontent-length: 4194304\r\n"), "{head}");
    let broken = get("GET", "/broken", "1.1");
    assert!(!broken.ends_with("0\r\n\r\n"), "{broken}");
    let long = get("GET", "/long", "1.1");
    assert!(long.len() > 4 << 20 && long.ends_with("xxx"));
}

#[test]
fn an_answer_that_is_not_taken_ends_its_connection() {
    let (took, _) = with_ours(|mut stream, _| async move {
        stream.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let began = Instant::now();
        // A byte now and then does not extend the connection's time.
        let mut byte = [0];
        while stream.read(&mut byte).await.is_ok_and(|bytes| bytes > 0) && began.elapsed() < ANSWER_TIMEOUT * 2 {
            sleep(Duration::from_secs(1)).await;
            // Bytes sent before the connection ended remain readable.
            if stream.write_all(b"\r\n").await.is_err() {
                break;
            }
        }
        began.elapsed()
    });
    assert!(took >= ANSWER_TIMEOUT && took < ANSWER_TIMEOUT + Duration::from_secs(3), "{took:?}");
}

#[test]
fn one_who_asks_without_end_leaves_others_their_turn() {
    let shared = shared();
    let (pipelining, other) = (Recorder::default(), Recorder::default());
    let ((mut many, many_far), (mut one, one_far)) = (duplex(1 << 20), duplex(1 << 10));
    let others_turn = block_on(async {
        many.write_all(&GET.repeat(1_000)).await.unwrap();
        one.write_all(GET).await.unwrap();
        let turn = async {
            while other.seen.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            pipelining.seen.borrow().len()
        };
        tokio::select! {
            () = serve(many_far, &CLIENT, &pipelining, &shared, None, pending()) => unreachable!("it is not closed"),
            () = serve(one_far, &CLIENT, &other, &shared, None, pending()) => unreachable!("it is not closed"),
            turn = turn => turn,
        }
    });
    assert!(others_turn <= 2 * TURN_REQUESTS as usize, "after {others_turn} requests of the first");
}

/// Regardless of the number of connections, a caller with a key waits for few requests of strangers, and for few
/// documents.
#[test]
fn others_go_before_strangers_and_documents() {
    const CONNECTIONS: usize = 60;
    const REQUESTS: usize = 40;
    const ASKED: usize = 20;
    for (path, is_known, is_ahead) in [
        ("/document", true, false),
        ("/document", false, false),
        ("/document", false, true),
        ("/list", false, false),
        ("/list", false, true),
        ("/health", false, false),
        ("/health", false, true),
    ] {
        let shared = shared();
        let (many, other) = (Recorder::default(), Recorder::default());
        *many.caller.borrow_mut() = is_known.then(known);
        *other.caller.borrow_mut() = Some(known());
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let asking_without_end = async |mut near: DuplexStream| {
            let mut answers = [0; 4 << 10];
            loop {
                let text = if is_ahead { request.repeat(REQUESTS) } else { request.clone() };
                near.write_all(text.as_bytes()).await.unwrap();
                assert!(near.read(&mut answers).await.unwrap() > 0);
            }
        };
        let (mut near, far) = duplex(1 << 10);
        let asking = async {
            // Each of the other connections has its first answer.
            while many.seen.borrow().len() < CONNECTIONS {
                tokio::task::yield_now().await;
            }
            let before = many.seen.borrow().len();
            for _ in 0..ASKED {
                near.write_all(GET).await.unwrap();
                assert!(near.read(&mut [0; 1 << 10]).await.unwrap() > 0);
            }
            many.seen.borrow().len() - before
        };
        let went_before = block_on(async {
            let others = (0..CONNECTIONS).map(|_| duplex(64 << 10)).map(|(near, far)| {
                futures_util::future::join(
                    asking_without_end(near),
                    serve(far, &CLIENT, &many, &shared, None, pending()),
                )
            });
            tokio::select! {
                _ = futures_util::future::join_all(others) => unreachable!("they do not end"),
                () = serve(far, &CLIENT, &other, &shared, None, pending()) => unreachable!("it is not closed"),
                went_before = asking => went_before,
            }
        });
        assert!(went_before <= 4 * ASKED, "{went_before} for {path} {is_known} {is_ahead}");
    }
}

#[test]
fn hyper_is_asked_nothing_that_it_cannot_tell() {
    // The oracle reads the same as the recorder, for an unambiguous stream.
    let text = [GET, b"POST /b?c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", GET].concat();
    let seen = hypers(&[&text]);
    assert_eq!(seen.len(), 3);
    assert_eq!((seen[1].target.as_str(), &seen[1].body[..]), ("/b?c", &b"abc"[..]));
}

/// Bytes that arrived this many milliseconds ago, the first request's first, and the number of times that their age was
/// read.
struct Aged {
    stream: DuplexStream,
    ages_ms: &'static [u64],
    asked: Rc<Cell<usize>>,
}

impl Stream for Aged {
    fn since_last_arrival(&self) -> Option<Duration> {
        let asked = self.asked.replace(self.asked.get() + 1);
        Some(Duration::from_millis(self.ages_ms[asked]))
    }

    fn queued(&self) -> usize {
        0
    }
}

impl AsyncRead for Aged {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Aged {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// The statuses of the answers, and the number of requests whose age was read.
fn statuses_by_age(shared: &Shared, requests: &[&[u8]], ages_ms: &'static [u64]) -> (Vec<String>, usize) {
    let (recorder, asked, text) = (Recorder::default(), Rc::default(), requests.concat());
    let (near, stream) = duplex(64 << 10);
    let (far, pieces) = (Aged { stream, ages_ms, asked: Rc::clone(&asked) }, [&text[..]]);
    let (answers, ()) =
        block_on(async { tokio::join!(send(near, &pieces), serve(far, &CLIENT, &recorder, shared, None, pending())) });
    let answers = String::from_utf8_lossy(&answers);
    assert!(!answers.contains("connection: close"), "{answers}");
    (answers.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].to_owned()).collect(), asked.get())
}

#[test]
fn a_worker_that_is_behind_refuses_what_has_waited_too_long_but_no_health() {
    const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    let shared = shared();
    let requests = [GET, HEALTH, GET, GET, GET, HEALTH];
    let ages_ms = &[60, 50, 10, 9_000];
    // No age is read while the worker is not behind.
    assert_eq!(statuses_by_age(&shared, &requests, &[]), (vec!["200".to_owned(); 6], 0));
    for _ in 0..2 {
        shared.shedding.note(Duration::from_secs(1), 1_000);
    }
    let (statuses, asked) = statuses_by_age(&shared, &requests, ages_ms);
    assert_eq!((&statuses[..], asked), (&["413", "200", "200", "200", "413", "200"].map(str::to_owned)[..], 4));
}

/// Otherwise clients that read no answers, or end each connection with one, would make a worker refuse without end.
#[test]
fn a_refusal_counts_also_where_nobody_takes_it_or_nothing_follows() {
    for header in ["", "Connection: close\r\n"] {
        let (recorder, shared) = (Recorder::default(), shared());
        for _ in 0..2 {
            shared.shedding.note(Duration::from_secs(1), 1_000);
        }
        // There is no room for an answer.
        let (mut near, stream) = duplex(8);
        let far = Aged { stream, ages_ms: &[60], asked: Rc::default() };
        block_on(async {
            let asking = async {
                near.write_all(format!("GET /slow HTTP/1.1\r\nHost: x\r\n{header}\r\n").as_bytes()).await.unwrap();
                sleep(SLOW * 2).await;
            };
            assert!(shared.shedding.refuses(Some(Duration::from_millis(60))).is_some());
            tokio::select! {
                () = serve(far, &CLIENT, &recorder, &shared, None, pending()) => unreachable!("it is not taken"),
                () = asking => {}
            }
            assert_eq!(recorder.refused_by_head.get(), 1);
            assert!(shared.shedding.refuses(Some(Duration::from_millis(60))).is_none(), "{header}");
        });
    }
}

/// The kernel had the request, but the runtime was not notified yet. Closing reset the connection.
#[test]
fn a_request_that_came_as_its_connection_was_told_to_leave_is_answered() {
    for has_room in [false, true] {
        let (slots, recorder, shared) = (Slots::new(1), Recorder::default(), shared());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let text = runtime.block_on(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            far.set_nonblocking(true).unwrap();
            let kernel = far.try_clone().unwrap();
            let slot = slots.enter().await.unwrap();
            let serving = serve(TcpStream::from_std(far).unwrap(), &CLIENT, &recorder, &shared, Some(&slot), pending());
            let asking = async {
                tokio::task::yield_now().await;
                io::Write::write_all(&mut near, GET).unwrap();
                while kernel.peek(&mut [0]).is_err() {
                    std::hint::spin_loop();
                }
                // Otherwise it would keep the connection open.
                drop(kernel);
                let other = slots.enter().await.unwrap();
                assert!(slot.is_leaving() && !other.is_spare());
                let other = Some(other).filter(|_| !has_room);
                near.set_nonblocking(true).unwrap();
                let mut answer = [0; 512];
                let bytes = TcpStream::from_std(near).unwrap().read(&mut answer).await.unwrap();
                drop(other);
                String::from_utf8_lossy(&answer[..bytes]).into_owned()
            };
            // In this order: the connection checks before the runtime is notified of the request.
            futures_util::future::join(asking, serving).await.0
        });
        let status = if has_room { "HTTP/1.1 200 OK" } else { "HTTP/1.1 413" };
        assert!(text.starts_with(status) && text.contains("connection: close") != has_room, "{text}");
        let counted = (recorder.seen.borrow().len(), recorder.refused_by_head.get());
        assert_eq!(counted, if has_room { (1, 0) } else { (0, 1) });
    }
}

/// Takes the budget except for this many bytes.
fn all_but(shared: &Shared, bytes: usize) -> Share {
    let mut others = Share::new(Arc::clone(&shared.budget), Holder::Anyone);
    others.hold_anyway(BUDGET_BYTES - bytes);
    others
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

#[test]
fn a_body_without_room_is_refused_before_it_is_asked_for() {
    let (shared, recorder) = (shared(), Recorder::default());
    *recorder.caller.borrow_mut() = Some(Principal::Anonymous);
    let others = all_but(&shared, 5_000);
    let head = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(statuses(&shared, &recorder, head.as_bytes()), ["413"]);
    assert_eq!((recorder.incomplete.get(), shared.budget.used()), (1, BUDGET_BYTES - 5_000));
    drop(others);
    assert_eq!(statuses(&shared, &recorder, &[head.as_bytes(), &[b'x'; 9_000]].concat()), ["200"]);
    assert_eq!(shared.budget.used(), 0);
}

/// The server sends an existing answer without room for it, and counts its bytes until then.
#[test]
fn an_answer_is_counted_until_it_is_taken() {
    let (shared, recorder) = (shared(), Recorder::default());
    *recorder.caller.borrow_mut() = Some(Principal::Anonymous);
    let others = all_but(&shared, 100_000);
    let (near, far) = duplex(64 << 10);
    block_on(async {
        let asking = async {
            let (mut from, mut to) = tokio::io::split(near);
            to.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut some = [0; 1_000];
            from.read_exact(&mut some).await.unwrap();
            assert!(shared.budget.used() > BUDGET_BYTES + (3 << 20), "{}", shared.budget.used());
            to.shutdown().await.unwrap();
            from.read_to_end(&mut Vec::new()).await.unwrap();
        };
        tokio::join!(asking, serve(far, &CLIENT, &recorder, &shared, None, pending()))
    });
    assert_eq!(shared.budget.used(), BUDGET_BYTES - 100_000);
    drop(others);
    assert_eq!(shared.budget.used(), 0);
}

/// The refusal of a head comes before the body, and before `100 Continue`. The connection continues after a short body.
#[test]
fn a_refused_head_is_answered_before_its_body() {
    for (framing, goes_on) in [
        ("Content-Length: 9\r\n", true),
        ("Content-Length: 9\r\nExpect: 100-continue\r\n", false),
        ("Content-Length: 9999999\r\n", false),
        ("Transfer-Encoding: chunked\r\n", false),
    ] {
        let ((), recorder) = with_ours(|mut stream, _| async move {
            let head = format!("POST /refused HTTP/1.1\r\nHost: x\r\n{framing}\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = vec![0; 512];
            let bytes = stream.read(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer[..bytes]).into_owned();
            assert!(answer.starts_with("HTTP/1.1 413 "), "{framing}: {answer}");
            assert_eq!(answer.contains("connection: close"), !goes_on, "{framing}: {answer}");
            if goes_on {
                let answers = send(stream, &[&b"some body"[..], GET]).await;
                assert!(answers.starts_with(b"HTTP/1.1 200 "), "{framing}");
            }
        });
        assert_eq!((recorder.refused_by_head.get(), recorder.incomplete.get()), (1, 0), "{framing}");
    }
    // A body that has arrived is skipped, with any framing.
    let chunked = b"POST /refused HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (shared, recorder) = (shared(), Recorder::default());
    assert_eq!(statuses(&shared, &recorder, &[&chunked[..], GET].concat()), ["413", "200"]);
    // A missing body ends its connection.
    let (took, _) = with_ours(|mut stream, _| async move {
        stream.write_all(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n").await.unwrap();
        let (began, mut answers) = (Instant::now(), Vec::new());
        stream.read_to_end(&mut answers).await.unwrap();
        began.elapsed()
    });
    assert!(took <= LINGER * 3, "{took:?}");
}

/// Such clients send their whole input, end their side, and then wait.
#[test]
fn a_client_that_ends_its_side_behind_whole_requests_is_answered() {
    let post = b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    for (text, answered) in [
        ([&post[..], GET].concat(), 2),
        (b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20), 20),
        // Except an incomplete one.
        ([GET, &post[..post.len() - 1]].concat(), 1),
    ] {
        let (shared, recorder) = (shared(), Recorder::default());
        assert_eq!(statuses(&shared, &recorder, &text), vec!["200"; answered]);
        assert_eq!(recorder.seen.borrow().len(), answered);
    }
}

fn known() -> Principal {
    Principal::Known(Arc::new(Identity::new("key:", "a", vec![], ActsFor::Themselves)))
}

/// Between two turns another connection may take the slot of an unknown caller, regardless of the number of requests.
#[test]
fn unknown_callers_make_room_between_their_turns() {
    const REQUESTS: usize = 20;
    for (caller, leaves_after) in
        [(None, Some(1)), (Some(Principal::Anonymous), Some(TURN_REQUESTS as usize)), (Some(known()), None)]
    {
        let (slots, shared, recorder) = (Slots::new(1), shared(), Recorder::default());
        *recorder.caller.borrow_mut() = caller;
        let (mut near, far) = duplex(64 << 10);
        let took_its_place = block_on(async {
            near.write_all(&GET.repeat(REQUESTS)).await.unwrap();
            let slot = slots.enter().await.unwrap();
            let serving = serve(far, &CLIENT, &recorder, &shared, Some(&slot), pending());
            let entering = async {
                let other = slots.enter().await.unwrap();
                let took_its_place = !other.is_spare();
                near.shutdown().await.unwrap();
                near.read_to_end(&mut Vec::new()).await.unwrap();
                took_its_place
            };
            // In this order: the first turn is over.
            futures_util::future::join(serving, entering).await.1
        });
        assert_eq!(took_its_place, leaves_after.is_some());
        assert_eq!(recorder.seen.borrow().len(), leaves_after.unwrap_or(REQUESTS));
        assert_eq!(recorder.refused.take(), leaves_after.map(|_| Refusal::Overloaded));
    }
}

/// Another connection may take a stranger's slot in every wait. A known caller keeps its slot.
#[test]
fn a_stranger_makes_room_in_every_state() {
    for text in [
        &b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nsome"[..],
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nsome",
        b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        for (caller, leaves) in [(None, true), (Some(Principal::Anonymous), true), (Some(known()), false)] {
            let (slots, shared, recorder) = (Slots::new(1), shared(), Recorder::default());
            *recorder.caller.borrow_mut() = caller;
            let (mut near, far) = duplex(1 << 10);
            block_on(async {
                let slot = slots.enter().await.unwrap();
                let serving = async {
                    serve(far, &CLIENT, &recorder, &shared, Some(&slot), pending()).await;
                    slot.is_leaving()
                };
                let asking = async {
                    near.write_all(text).await.unwrap();
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                    let other = slots.enter().await.unwrap();
                    let took_its_place = !other.is_spare();
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                    drop(near);
                    took_its_place
                };
                assert_eq!(tokio::join!(serving, asking), (leaves, leaves), "{}", String::from_utf8_lossy(text));
            });
            assert_eq!(shared.budget.used(), 0);
        }
    }
}
