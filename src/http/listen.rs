//! Listens, and routes requests: operations on lists and bags directly to the API, others through the framework.

use std::borrow::Cow;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use actix_server::ServerBuilder;
use actix_service::boxed::{self, BoxService};
use actix_service::{IntoServiceFactory, Service, ServiceFactory, fn_factory, fn_service};
use actix_web::dev::{AppConfig, Payload, Server, ServiceResponse};
use actix_web::http::Version;
use actix_web::{App, HttpMessage, HttpRequest, HttpResponse, web};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::time::Instant;

use super::server::{self, Admitted};
use crate::access::Principal;
use crate::api::body::{Lack, RequestBody};
use crate::api::http1::{self, Class, Decision, HeadersWanted, Refusal, Slots};
use crate::api::percent::cut;
use crate::api::request::{Client, Framing, Peer, Request, RequestHead};
use crate::api::response::Response;
use crate::api::{ApiOptions, ApiState, Tls};

/// Connections that wait in the kernel's queue while all workers are full.
const BACKLOG: u32 = 4_096;

/// The kernel's buffer for an answer whose client does not read. Linux uses twice as much for its overhead (socket(7)),
/// and up to 4 MiB without a bound. Connections inherit the size from the listening socket, plain or with TLS.
const SEND_BYTES: u32 = 64 << 10;

pub struct ListenOptions {
    /// Threads that serve connections. At least 1.
    pub workers: usize,
    /// Connections of all workers. A further connection replaces one that waits for a request.
    pub connections_max: usize,
    /// How long open requests may take after the server begins to stop.
    pub shutdown_grace: Duration,
    /// Without it, connections are plain.
    pub tls: Option<Arc<Tls>>,
}

/// A listening server. Connections are served while `server` is awaited.
pub struct Listening {
    pub server: Server,
    /// The first listening address, with the assigned port if the setting left the port open.
    pub address: SocketAddr,
    /// `https` with TLS, or `http`.
    pub scheme: &'static str,
}

/// Connections to the address of administration, for probes, scrapers and operators.
const ADMINISTRATORS_MAX: usize = 256;

/// Addresses that this process has bound. It accepts no connection before it listens on them.
pub struct Bound(Vec<TcpSocket>);

/// Binds every address of a `host:port`. An address in use fails here, before a start changes anything.
pub fn bind(host_port: &str) -> io::Result<Bound> {
    let (mut sockets, mut refused) = (Vec::new(), None);
    for candidate in host_port.to_socket_addrs()? {
        match socket(candidate) {
            Ok(socket) => sockets.push(socket),
            // `localhost` has two addresses, and a machine may have only one of them.
            Err(error) => refused = Some(error),
        }
    }
    let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "it resolves to no address");
    if sockets.is_empty() { Err(refused.unwrap_or_else(none)) } else { Ok(Bound(sockets)) }
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server does not wait until the kernel drops old connections.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BYTES)?;
    socket.bind(address)?;
    Ok(socket)
}

fn scheme(tls: Option<&Arc<Tls>>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}

/// Listens for administration on a separate thread, so that it answers regardless of the load on lists.
pub fn listen_for_administration(
    state: Arc<ApiState>,
    bound: Bound,
    tls: Option<Arc<Tls>>,
    grace: Duration,
) -> io::Result<Listening> {
    let scheme = scheme(tls.as_ref());
    let entrance = Arc::new(Entrance { slots: Slots::new(ADMINISTRATORS_MAX), tls, peer: Peer::Administration });
    let builder = Server::build()
        .workers(1)
        .max_concurrent_connections(ADMINISTRATORS_MAX + 2 * http1::EXTRA_SLOTS)
        .shutdown_timeout(grace.as_secs())
        .disable_signals();
    let (builder, address) = listen_on(builder, &state, &entrance, bound)?;
    Ok(Listening { server: builder.run(), address, scheme })
}

/// Listens on the addresses, and on a socket of local administration.
pub fn listen(
    state: Arc<ApiState>,
    bound: Bound,
    admin: Option<UnixListener>,
    options: ListenOptions,
) -> io::Result<Listening> {
    let workers = options.workers.max(1);
    let slots = Slots::new(options.connections_max);
    let scheme = scheme(options.tls.as_ref());
    let entrance = Arc::new(Entrance { slots, tls: options.tls, peer: Peer::Network });
    // Includes connections that wait for a slot. More connections wait in the kernel's queue.
    let accepted_max = options.connections_max + 2 * http1::EXTRA_SLOTS;
    let builder = Server::build()
        .workers(workers)
        .max_concurrent_connections(accepted_max.div_ceil(workers))
        .shutdown_timeout(options.shutdown_grace.as_secs())
        .disable_signals();
    let (mut builder, address) = listen_on(builder, &state, &entrance, bound)?;
    if let Some(listener) = admin {
        let (state, stopping) = (Arc::clone(&state), builder.graceful_shutdown_signal());
        builder = builder.listen_uds("admin", listener, move || {
            let (state, stopping) = (Arc::clone(&state), stopping.clone());
            fn_factory(move || {
                let (state, stopping) = (Arc::clone(&state), stopping.clone());
                async move {
                    let worker = Rc::new(Worker::start(state).await?);
                    Ok::<_, ()>(fn_service(move |stream: UnixStream| {
                        let (worker, stopping) = (Rc::clone(&worker), stopping.clone());
                        async move {
                            worker.serve_local(stream, stopping.notified()).await;
                            Ok::<_, ()>(())
                        }
                    }))
                }
            })
        })?;
    }
    Ok(Listening { server: builder.run(), address, scheme })
}

/// Listens on every address. Returns the first.
fn listen_on(
    mut builder: ServerBuilder,
    state: &Arc<ApiState>,
    entrance: &Arc<Entrance>,
    bound: Bound,
) -> io::Result<(ServerBuilder, SocketAddr)> {
    let mut address = None;
    for socket in bound.0 {
        let listener = socket.listen(BACKLOG)?.into_std()?;
        address = address.or(Some(listener.local_addr()?));
        let (state, entrance) = (Arc::clone(state), Arc::clone(entrance));
        let stopping = builder.graceful_shutdown_signal();
        builder = builder.listen("http", listener, move || {
            let (state, entrance, stopping) = (Arc::clone(&state), Arc::clone(&entrance), stopping.clone());
            fn_factory(move || {
                let (state, entrance, stopping) = (Arc::clone(&state), Arc::clone(&entrance), stopping.clone());
                async move {
                    let worker = Rc::new(Worker::start(state).await?);
                    Ok::<_, ()>(fn_service(move |stream: TcpStream| {
                        let (worker, entrance) = (Rc::clone(&worker), Arc::clone(&entrance));
                        let stopping = stopping.clone();
                        // Boxed, because actix-server's task would reserve its space twice.
                        Box::pin(async move {
                            worker.serve(stream, &entrance, stopping.notified()).await;
                            Ok::<_, ()>(())
                        })
                    }))
                }
            })
        })?;
    }
    Ok((builder, address.ok_or(io::ErrorKind::AddrNotAvailable)?))
}

/// The steps that every network connection passes, in any worker.
struct Entrance {
    slots: Arc<Slots>,
    tls: Option<Arc<Tls>>,
    /// Identifies callers by their address.
    peer: fn(Option<SocketAddr>) -> Peer,
}

/// Serves the connections of one worker.
struct Worker {
    state: Arc<ApiState>,
    shared: http1::Shared,
    framework: BoxService<actix_http::Request, ServiceResponse, actix_web::Error>,
}

impl Worker {
    async fn start(state: Arc<ApiState>) -> Result<Self, ()> {
        let ApiOptions { body_bytes_max, body_timeout, socket_wait_max, .. } = state.options;
        let limits = http1::Limits { body_bytes_max, body_timeout, socket_wait_max };
        let data = web::Data::from(Arc::clone(&state));
        // One handler serves all paths. Our own router decodes strictly, and every refusal is a problem document.
        let serve = move |request: HttpRequest, payload: web::Payload| {
            let state = data.clone();
            async move {
                let dispatched: Option<Dispatched> = request.extensions_mut().remove();
                // Every request that reaches the framework was admitted.
                let Some(Dispatched { client, admitted, caller }) = dispatched else {
                    return HttpResponse::InternalServerError().finish();
                };
                let (uri, method, headers) = (request.uri(), request.method(), request.headers());
                let (path, query, framing) = (uri.path(), uri.query(), Framing::Absent);
                let head = RequestHead {
                    method,
                    path,
                    query,
                    headers,
                    client: &client,
                    framing,
                    expects_unknown: false,
                    has_body: true,
                };
                let body = RequestBody::Handed(payload.into_inner());
                HttpResponse::from(server::carry_out(&state, Request { head, body }, admitted, caller).await)
            }
        };
        let app = App::new().default_service(web::to(serve)).into_factory();
        let framework = boxed::service(app.new_service(AppConfig::default()).await?);
        let shared = http1::Shared::new(limits, Arc::clone(&state.clock), Arc::clone(&state.budget));
        let shared = shared.counting(Arc::clone(&state.unread));
        // The task ends with the worker's thread.
        actix_web::rt::spawn(shared.watch());
        actix_web::rt::spawn(state.lists.pulse().beat());
        Ok(Self { shared, state, framework })
    }

    async fn serve(&self, stream: TcpStream, entrance: &Entrance, stopping: impl Future<Output = ()>) {
        let _open = self.state.metrics.connection();
        let Some(slot) = entrance.slots.enter().await else { return };
        let began = Instant::now();
        // Answers are written whole, so waiting to fill a packet has no benefit. An error means that the client has
        // gone, which the next read reports.
        let _ = stream.set_nodelay(true);
        let mut client = Client::new((entrance.peer)(stream.peer_addr().ok()));
        match &entrance.tls {
            None => http1::serve(stream, &client, self, &self.shared, Some(&slot), stopping).await,
            Some(tls) => {
                let serving = async {
                    let mut stopping = pin!(stopping);
                    let asked_to_leave = |context: &Context<'_>| slot.poll_leave(began, context);
                    if !http1::has_begun(&stream, &slot, stopping.as_mut()).await {
                        return;
                    }
                    let Some(stream) = tls.accept(stream, asked_to_leave).await else { return };
                    client.certificate = tls.shown(&stream);
                    let shown = client.certificate.as_ref();
                    client.identity = shown.and_then(|shown| self.state.access.certified(&shown.names()));
                    http1::serve(stream, &client, self, &self.shared, Some(&slot), stopping).await;
                };
                // Boxed, so that the tasks of plain connections reserve no space for it.
                Box::pin(serving).await;
            }
        }
        if slot.is_leaving() {
            self.state.metrics.evicted();
        }
    }

    async fn serve_local(&self, stream: UnixStream, stopping: impl Future<Output = ()>) {
        let client = Client::new(Peer::Local);
        http1::serve(stream, &client, self, &self.shared, None, stopping).await;
    }

    /// Answers through the framework, unless it cannot represent the request.
    async fn dispatch(&self, request: Request<'_>, admitted: Admitted<'_>, caller: Principal) -> Response {
        let Request { head: asked, body } = request;
        // The framework's parser rejects a quotation mark in a query, which some clients do not encode.
        let with_query = |query: &str| format!("{}?{}", asked.path, query.replace('"', "%22"));
        let target = asked.query.map_or(Cow::Borrowed(asked.path), |query| with_query(query).into());
        let (uri, body) = match (target.parse(), body) {
            (Ok(uri), RequestBody::Whole(body)) => (uri, body),
            (_, body) => return server::carry_out(&self.state, Request { head: asked, body }, admitted, caller).await,
        };
        let payload = if body.is_empty() { Payload::None } else { Payload::from(body) };
        let mut dispatched = actix_http::Request::with_payload(payload);
        let head = dispatched.head_mut();
        head.uri = uri;
        head.method = asked.method.clone();
        head.version = Version::HTTP_11;
        head.headers = asked.headers.clone();
        if let Peer::Network(address) | Peer::Administration(address) = asked.client.peer {
            head.peer_addr = address;
        }
        let (client, admitted) = (asked.client.clone(), admitted.into_owned());
        dispatched.extensions_mut().insert(Dispatched { client, admitted, caller });
        match self.framework.call(dispatched).await {
            Ok(answered) => answered.into_parts().1.into(),
            Err(error) => error.error_response().into(),
        }
    }
}

/// The data that accompanies a request through the framework.
struct Dispatched {
    client: Client,
    admitted: Admitted<'static>,
    caller: Principal,
}

/// The first segments of the paths of lists and bags.
const LOAD: [&str; 2] = ["/v1/lists", "/v1/entities"];

/// The start and ends of the paths that find bags, whose colon may be encoded. A type or an index with one of these
/// names takes the same fast route.
const FINDS: (&str, [&str; 4]) =
    ("/v1/entity-types/", ["/entities", "/entities:find", "/entities%3Afind", "/entities%3afind"]);

fn is_load(path: &str) -> bool {
    LOAD.iter().any(|begin| path.starts_with(begin))
}

/// Whether the framework would cost a request more than its operation. The query does not count.
fn is_hot(target: &str) -> bool {
    let finds = |path: &str| FINDS.1.iter().any(|end| path.ends_with(end));
    is_load(target) || target.starts_with(FINDS.0) && finds(cut(target, b'?').0)
}

impl http1::Handler for Worker {
    type Admitted<'r> = Admitted<'r>;

    fn headers_wanted(&self, target: &str) -> HeadersWanted {
        if is_hot(target) { HeadersWanted::Meaningful } else { HeadersWanted::All }
    }

    fn class(&self, path: &str) -> Class {
        match path {
            "/livez" | "/readyz" | "/metrics" => Class::Health,
            path if is_load(path) => Class::Load,
            path if path.starts_with("/v1/") => Class::Control,
            _ => Class::Document,
        }
    }

    async fn admit<'r>(&self, head: RequestHead<'r>, lack: Option<Lack>) -> Decision<Admitted<'r>> {
        server::admit(&self.state, head, lack).await
    }

    async fn answer<'r>(&self, request: Request<'r>, admitted: Admitted<'r>, caller: Principal) -> Response {
        if is_hot(request.head.path) {
            server::carry_out(&self.state, request, admitted, caller).await
        } else {
            // Boxed, so that requests on the fast route allocate no space for it.
            Box::pin(self.dispatch(request, admitted, caller)).await
        }
    }

    fn refuse(&self, refusal: Refusal, took: Duration) -> Response {
        server::refuse(&self.state, refusal, took)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Pending;

    use liststore_contract::operations::list_entities;

    use super::*;
    use crate::operations::OPERATIONS;

    /// The server holds this value for each of thousands of connections. Further space is only for connections with a
    /// running request.
    #[test]
    fn the_future_of_a_connection_is_small() {
        fn bytes<'a, F: Future>(_: fn(&'a Worker, TcpStream, &'a Entrance, Pending<()>) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = bytes(Worker::serve);
        assert!(bytes <= 1_800, "{bytes} bytes");
    }

    /// Plain connections and TLS connections use the same sockets.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn accepted_connections_have_a_bounded_send_buffer() {
        use nix::sys::socket::{getsockopt, sockopt};
        let listener = socket("127.0.0.1:0".parse().unwrap()).unwrap().listen(BACKLOG).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert_eq!(getsockopt(&accepted, sockopt::SndBuf).unwrap(), 2 * SEND_BYTES as usize);
    }

    /// Otherwise the server would treat its headers differently from the headers of similar operations.
    #[test]
    fn only_reads_and_writes_of_lists_and_bags_are_hot() {
        for row in OPERATIONS.iter().map(|operation| operation.row) {
            // A walk over all lists of a version costs more than either route to it.
            let expected = row.counts_items && !row.is(&list_entities::ROW);
            let path = row.path_of(&["a", "b", "c"]);
            assert_eq!(is_hot(&path), expected, "{path}");
            assert_eq!(is_hot(&format!("{path}?value=%221%22&min=/entities")), expected, "{path}");
            for colon in ["%3A", "%3a"] {
                assert_eq!(is_hot(&path.replace(':', colon)), expected, "{path}, {colon}");
            }
        }
    }
}
