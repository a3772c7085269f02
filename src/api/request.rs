//! A request as received, by any transport: first its head, which decides most refusals, then its body.

use std::net::SocketAddr;
use std::sync::Arc;

use actix_web::http::Method;
use actix_web::http::header::HeaderMap;

use super::body::RequestBody;
use super::tls_clients::ShownCertificate;
use crate::access::Identity;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An address on the network. It is unknown behind a relay.
    Network(Option<SocketAddr>),
    /// The same, through the address for administration.
    Administration(Option<SocketAddr>),
    /// A process with access to the server's data directory.
    Local,
}

/// The connection's data about its caller.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub peer: Peer,
    /// The certificate that the client presented in the TLS handshake, which verified it.
    pub certificate: Option<Arc<ShownCertificate>>,
    /// The identity of the caller, if known.
    pub identity: Option<Arc<Identity>>,
}

impl Client {
    pub fn new(peer: Peer) -> Self {
        Self { peer, certificate: None, identity: None }
    }
}

/// How the body of a request is framed, as its head announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The head announces no body.
    Absent,
    Length(u64),
    Chunked,
}

#[derive(Clone, Copy)]
pub(crate) struct RequestHead<'r> {
    pub method: &'r Method,
    /// As sent, still encoded.
    pub path: &'r str,
    pub query: Option<&'r str>,
    pub headers: &'r HeaderMap,
    pub client: &'r Client,
    pub framing: Framing,
    /// Whether it has an expectation other than `100-continue`.
    pub expects_unknown: bool,
    /// Whether the body arrived together with the head. Otherwise the request waits for it.
    pub has_body: bool,
}

pub(crate) struct Request<'r> {
    pub head: RequestHead<'r>,
    pub body: RequestBody,
}
