//! Listens, and takes each connection the fast way as long as that can serve it, then the framework's.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_http::{HttpService, Protocol};
use actix_service::map_config;
use actix_web::dev::{AppConfig, Server, Service, ServiceFactory, fn_factory, fn_service};
use actix_web::{App, HttpRequest, web};
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

use super::ApiState;
use super::body::RequestBody;
use super::fast_path::{self, HEAD_TIMEOUT, HandedOver, KEEP_ALIVE, LINGER};
use super::metrics::OpenConnection;
use super::server::{self, Request};

/// Connections that wait in the kernel's queue while all workers have as many as they may.
const BACKLOG: u32 = 4_096;

#[derive(Debug, Clone, Copy)]
pub struct ListenOptions {
    /// Threads that serve connections. At least 1.
    pub workers: usize,
    /// Connections of all workers; others wait.
    pub connections_max: usize,
    /// How long open requests may take once the server is stopped.
    pub shutdown_grace: Duration,
}

/// A server that listens. Connections are served while `server` is awaited.
pub struct Listening {
    pub server: Server,
    /// The first one that it listens on, with the port that it was given if that was left open.
    pub address: SocketAddr,
}

/// Listens on every address that a `host:port` stands for.
pub fn listen(state: Arc<ApiState>, host_port: &str, options: ListenOptions) -> io::Result<Listening> {
    let workers = options.workers.max(1);
    let mut builder = Server::build()
        .workers(workers)
        .max_concurrent_connections(options.connections_max.div_ceil(workers))
        .shutdown_timeout(options.shutdown_grace.as_secs())
        .disable_signals();
    let (mut address, mut refused) = (None, None);
    for candidate in host_port.to_socket_addrs()? {
        let listener = match bind(candidate) {
            Ok(listener) => listener,
            // `localhost` stands for two addresses, of which a machine may have one.
            Err(error) => {
                refused = Some(error);
                continue;
            }
        };
        address = address.or(Some(listener.local_addr()?));
        let (state, stopping) = (Arc::clone(&state), builder.graceful_shutdown_signal());
        builder = builder.listen("http", listener, move || {
            let (state, stopping) = (Arc::clone(&state), stopping.clone());
            fn_factory(move || {
                let signal = stopping.clone();
                let framework = framework(Arc::clone(&state), move || {
                    let signal = signal.clone();
                    async move { signal.notified().await }
                });
                let (state, stopping) = (Arc::clone(&state), stopping.clone());
                async move {
                    let framework = Rc::new(framework.new_service(()).await?);
                    let worker = Rc::new(fast_path::Worker::default());
                    Ok::<_, ()>(fn_service(move |stream: TcpStream| {
                        let (state, worker) = (Arc::clone(&state), Rc::clone(&worker));
                        let (framework, stopping) = (Rc::clone(&framework), stopping.clone());
                        async move {
                            let open = state.metrics.connection();
                            let peer = stream.peer_addr().ok();
                            // Answers are written whole: nothing is gained by waiting to fill a packet.
                            stream.set_nodelay(true).map_err(drop)?;
                            // On the heap, so that its state is gone once the connection is the framework's.
                            let served = Box::pin(fast_path::serve(stream, peer, &state, &worker, stopping.notified()));
                            let Some(HandedOver { stream, read }) = served.await else { return Ok(()) };
                            let stream = Rewound { read, stream, _open: open };
                            std::future::poll_fn(|context| framework.poll_ready(context)).await.map_err(drop)?;
                            framework.call((stream, Protocol::Http1, peer)).await.map_err(drop)
                        }
                    }))
                }
            })
        })?;
    }
    let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "it stands for no address");
    let address = address.ok_or_else(|| refused.unwrap_or_else(none))?;
    Ok(Listening { server: builder.run(), address })
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that is started again does not wait for old connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// The service of connections that the fast path has handed over.
fn framework<F>(
    state: Arc<ApiState>,
    stopping: impl Fn() -> F + 'static,
) -> impl ServiceFactory<(Rewound, Protocol, Option<SocketAddr>), Config = (), Response = (), InitError = ()>
where
    F: Future<Output = ()> + 'static,
{
    let state = web::Data::from(state);
    // One handler behind all paths: finding routes by ourselves keeps decoding strict, every refusal
    // a problem, and the way to a list short.
    let serve = move |request: HttpRequest, payload: web::Payload| {
        let state = state.clone();
        async move {
            let (uri, body) = (request.uri(), RequestBody::arriving(payload.into_inner()));
            let (method, headers, peer) = (request.method(), request.headers(), request.peer_addr());
            let request = Request { method, path: uri.path(), query: uri.query(), headers, peer, body };
            server::serve(&state, request).await
        }
    };
    HttpService::build()
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD_TIMEOUT)
        .client_disconnect_timeout(LINGER)
        // Work for a client that has gone is not begun. A client that only ends its own side looks the
        // same.
        .h1_allow_half_closed(false)
        .graceful_shutdown_signal(stopping)
        .finish(map_config(App::new().default_service(web::to(serve)), |()| AppConfig::default()))
}

/// A connection whose first bytes have been read already: they are read again.
struct Rewound {
    read: Bytes,
    stream: TcpStream,
    _open: OpenConnection,
}

impl AsyncRead for Rewound {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        let bytes = this.read.len().min(buffer.remaining());
        buffer.put_slice(&this.read[..bytes]);
        this.read.advance(bytes);
        if this.read.is_empty() {
            // Its memory is not needed for as long as the connection lives.
            this.read = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
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
