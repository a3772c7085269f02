//! A request as it was received, whatever carried it: first its head, by which most refusals are decided, then its
//! body.

use std::net::SocketAddr;
use std::sync::Arc;

use actix_web::http::Method;
use actix_web::http::header::HeaderMap;

use super::body::RequestBody;
use super::tls_clients::ShownCertificate;
use crate::access::Identity;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Somebody on the network; nobody knows who, once a relay is in between.
    Network(Option<SocketAddr>),
    /// The same, by way of the address that is for administration alone.
    Administration(Option<SocketAddr>),
    /// Somebody who may use the server's data directory.
    Local,
}

/// What a connection says of whoever asks over it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub peer: Peer,
    /// The certificate that it showed in the TLS handshake, checked then.
    pub certificate: Option<Arc<ShownCertificate>>,
    /// Who that makes them, if anybody who is known.
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
    /// As it was sent, still encoded.
    pub path: &'r str,
    pub query: Option<&'r str>,
    pub headers: &'r HeaderMap,
    pub client: &'r Client,
    pub framing: Framing,
    /// Whether it expects something else than `100-continue`.
    pub expects_unknown: bool,
    /// Whether the body arrived together with the head. Otherwise the request waits for it.
    pub has_body: bool,
}

pub(crate) struct Request<'r> {
    pub head: RequestHead<'r>,
    pub body: RequestBody,
}
