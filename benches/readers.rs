//! Serves one `ApiState` through several readers of HTTP/1.1: our loop, hyper's connection and actix-http's dispatcher.
//! Each has one thread and one port in the same process. `scripts/compare-readers` measures and attacks them.
//!
//! `cargo bench --bench readers -- --data-dir DIR` prints their URLs as one JSON document, and serves until SIGTERM.
//! The other readers have no slots, no budgets and no shedding, so their figures are lower bounds. `bare` readers also
//! have no timers, and so no times for heads, bodies and idle connections.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints, or panics")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::{HttpServiceBuilder, KeepAlive};
use actix_server::Server;
use actix_service::{Service, ServiceFactory, fn_factory, fn_service};
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use bytes::Bytes;
use clap::Parser;
use futures_util::TryStreamExt;
use futures_util::future::LocalBoxFuture;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use liststore::api::ApiState;
use liststore::app::{Application, Stores};
use liststore::config::{Flag, Layers, Settings};
use liststore::domain::{Clock, SystemClock};
use liststore::http::{Body, Response, Whole, answer_whole};
use liststore::telemetry::Log;
use mimalloc::MiMalloc;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The same as our loop's.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 32 << 10;
const SEND_BYTES: u32 = 64 << 10;
const BACKLOG: u32 = 4_096;
/// The same as the settings' defaults.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_BYTES_MAX: usize = 2 << 20;

#[derive(Debug, Parser)]
struct Arguments {
    /// A new or former data directory
    #[arg(long)]
    data_dir: String,
    /// Connections of each reader
    #[arg(long, default_value_t = 11_000)]
    connections_max: usize,
    /// What cargo says to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// Listens on a free port. `make` makes the function by which the port's only thread serves its connections.
fn listen<M, F, S>(connections_max: usize, make: M) -> String
where
    M: Fn() -> F + Clone + Send + 'static,
    F: Future<Output = S> + 'static,
    S: Fn(TcpStream) -> LocalBoxFuture<'static, ()> + 'static,
{
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(SEND_BYTES).unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(BACKLOG).unwrap().into_std().unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let factory = move || {
        let make = make.clone();
        fn_factory(move || {
            let making = make();
            async move {
                let serve = Rc::new(making.await);
                Ok::<_, ()>(fn_service(move |stream: TcpStream| {
                    let _ = stream.set_nodelay(true);
                    let serving = serve(stream);
                    async move {
                        serving.await;
                        Ok::<_, ()>(())
                    }
                }))
            }
        })
    };
    let server = Server::build().workers(1).max_concurrent_connections(connections_max).disable_signals();
    actix::spawn(server.listen("reader", listener, factory).unwrap().run());
    url
}

fn serve_by_hyper(state: Arc<ApiState>, has_timers: bool) -> impl Fn(TcpStream) -> LocalBoxFuture<'static, ()> {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.half_close(true).max_header_size(HEAD_BYTES_MAX).header_read_timeout(None::<Duration>);
    if has_timers {
        // It also ends idle connections, so it must be as long as they may last.
        http.timer(TokioTimer::new()).header_read_timeout(KEEP_ALIVE);
    }
    move |stream: TcpStream| -> LocalBoxFuture<'static, ()> {
        let (state, http, peer) = (Arc::clone(&state), http.clone(), stream.peer_addr().ok());
        Box::pin(async move {
            let service = hyper::service::service_fn(move |request| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(answer_hyper(&state, peer, request, has_timers).await) }
            });
            // The end of a connection is the same for this program, whatever its cause.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        })
    }
}

async fn answer_hyper(
    state: &ApiState,
    peer: Option<SocketAddr>,
    request: hyper::Request<Incoming>,
    has_timers: bool,
) -> hyper::Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = if body.is_end_stream() {
        Some(Bytes::new())
    } else {
        let reading = Limited::new(body, BODY_BYTES_MAX).collect();
        let read = if has_timers { timeout(BODY_TIMEOUT, reading).await } else { Ok(reading.await) };
        read.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes)
    };
    let Some(body) = body else {
        let mut refused = hyper::Response::default();
        *refused.status_mut() = hyper::StatusCode::REQUEST_TIMEOUT;
        return refused;
    };
    let (method, headers) = from_hyper(&head);
    let (path, query) = (head.uri.path(), head.uri.query());
    to_hyper(answer_whole(state, Whole { peer, method: &method, path, query, headers: &headers, body }).await)
}

/// hyper has newer types for methods and headers than actix. A server on hyper alone would save these conversions, so
/// callgrind shows them apart. Like our loop it leaves out headers that no operation on lists reads.
#[inline(never)]
fn from_hyper(head: &hyper::http::request::Parts) -> (Method, HeaderMap) {
    let method = Method::from_bytes(head.method.as_str().as_bytes()).unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in &head.headers {
        if !matches!(name.as_str(), "host" | "content-length" | "connection" | "user-agent" | "accept") {
            let name = HeaderName::from_bytes(name.as_str().as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
    }
    (method, headers)
}

#[inline(never)]
fn to_hyper(response: Response) -> hyper::Response<Full<Bytes>> {
    let mut answer = hyper::Response::default();
    *answer.status_mut() = hyper::StatusCode::from_u16(response.status.as_u16()).unwrap();
    for (name, value) in response.headers() {
        let name = hyper::header::HeaderName::from_bytes(name.as_str().as_bytes()).unwrap();
        let value = hyper::header::HeaderValue::from_bytes(value.as_bytes()).unwrap();
        answer.headers_mut().append(name, value);
    }
    *answer.body_mut() = Full::new(whole_body(response));
    answer
}

fn whole_body(response: Response) -> Bytes {
    match response.body {
        Body::Whole(bytes) => bytes,
        Body::Stream(_) => unreachable!("only the framework makes streams"),
    }
}

async fn serve_by_actix(state: Arc<ApiState>, has_timers: bool) -> impl Fn(TcpStream) -> LocalBoxFuture<'static, ()> {
    let idle = if has_timers { KeepAlive::Timeout(KEEP_ALIVE) } else { KeepAlive::Os };
    let service = HttpServiceBuilder::<TcpStream, _>::default()
        .keep_alive(idle)
        .client_request_timeout(if has_timers { HEAD_TIMEOUT } else { Duration::ZERO })
        .h1::<_, Bytes>(move |request: actix_http::Request| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(answer_actix(&state, request, has_timers).await) }
        });
    let dispatcher = service.new_service(()).await.unwrap();
    move |stream: TcpStream| -> LocalBoxFuture<'static, ()> {
        let peer = stream.peer_addr().ok();
        let serving = dispatcher.call((stream, peer));
        Box::pin(async move {
            let _ = serving.await;
        })
    }
}

async fn answer_actix(
    state: &ApiState,
    mut request: actix_http::Request,
    has_timers: bool,
) -> actix_http::Response<Bytes> {
    let reading = request.take_payload().try_collect::<Vec<_>>();
    let read = if has_timers { timeout(BODY_TIMEOUT, reading).await } else { Ok(reading.await) };
    let Some(parts) = read.ok().and_then(Result::ok) else {
        return actix_http::Response::with_body(StatusCode::REQUEST_TIMEOUT, Bytes::new());
    };
    let body = match <[Bytes; 1]>::try_from(parts) {
        Ok([whole]) => whole,
        Err(parts) => parts.concat().into(),
    };
    let head = request.head();
    let (peer, method, path, query) = (head.peer_addr, &head.method, head.uri.path(), head.uri.query());
    let response = answer_whole(state, Whole { peer, method, path, query, headers: &head.headers, body }).await;
    let mut answer = actix_http::Response::with_body(response.status, ());
    for (name, value) in response.headers() {
        answer.headers_mut().append(name.clone(), value.clone());
    }
    answer.set_body(whole_body(response))
}

fn settings(arguments: &Arguments) -> Settings {
    let given = [
        ("http.listen", "127.0.0.1:0".to_owned()),
        ("http.workers", "1".to_owned()),
        ("http.connections_max", arguments.connections_max.to_string()),
        // Under valgrind everything takes long, and nothing may be shed.
        ("http.socket_wait_ms", "60000".to_owned()),
        ("items.actors", "1".to_owned()),
        ("items.permit_wait_ms", "60000".to_owned()),
        ("items.operation_timeout_ms", "60000".to_owned()),
        ("items.embedded.dir", arguments.data_dir.clone()),
    ];
    let flags = given.map(|(key, value)| Flag { flag: "bench", key, value });
    let layers = Layers { config_file: None, environment: Vec::new(), flags: &flags };
    Settings::load_from(&layers).expect("valid settings").settings
}

fn main() {
    let arguments = Arguments::parse();
    let (settings, connections_max) = (settings(&arguments), arguments.connections_max);
    #[cfg(target_os = "linux")]
    liststore::scheduling::take_turns();
    actix::System::new().block_on(async move {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let stores = Stores::open(&settings, &clock).await.unwrap();
        let application = Application::build(&settings, stores, clock, Arc::new(Log::unset())).await.unwrap();
        let state = application.state();
        let hyper = |has_timers| {
            let state = Arc::clone(&state);
            listen(connections_max, move || std::future::ready(serve_by_hyper(Arc::clone(&state), has_timers)))
        };
        let actix = |has_timers| {
            let state = Arc::clone(&state);
            listen(connections_max, move || serve_by_actix(Arc::clone(&state), has_timers))
        };
        let mut urls = serde_json::json!({
            "hyper": hyper(true),
            "hyper, bare": hyper(false),
            "actix-http": actix(true),
            "actix-http, bare": actix(false),
        });
        let serving = application.run_until_stopped(move |ready| {
            urls["ours"] = ready.url.into();
            println!("{urls}");
        });
        serving.await.unwrap();
    });
}
