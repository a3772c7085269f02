//! One connection of the measuring loop: a socket that never blocks, and the request and answer that
//! are on it. It costs two system calls a request, a send and a receive.

use std::io::{self, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustix::buffer::spare_capacity;

use super::connection::{Broken, CONNECT_TIMEOUT};
use super::input::Input;
use super::protocol::Protocol;
use super::response::Response;

/// Events come once for each change of the socket's state (edge-triggered, epoll(7)), so the receiver of an event
/// continues until nothing more can be done.
#[derive(Debug)]
pub struct Socket {
    token: Token,
    stream: Option<TcpStream>,
    /// The request: the user of the socket renders into it.
    pub request: Vec<u8>,
    /// How much of the request has been sent.
    sent: usize,
    /// The last answer.
    input: Input,
    /// Whether an answer has come through this stream: only then may its loss be the end of an
    /// idle connection, rather than an answer to the request.
    used: bool,
}

impl Socket {
    pub fn new(token: Token) -> Self {
        Self { token, stream: None, request: Vec::new(), sent: 0, input: Input::new(), used: false }
    }

    /// Connects to the first of the addresses that accepts it, and waits for that.
    pub fn open(&mut self, addresses: &[SocketAddr], registry: &Registry) -> Result<(), Broken> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match std::net::TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
                Ok(stream) => return self.adopt(stream, registry).map_err(Broken::Connect),
                Err(error) => failed = error,
            }
        }
        Err(Broken::Connect(failed))
    }

    fn adopt(&mut self, stream: std::net::TcpStream, registry: &Registry) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.register(TcpStream::from_std(stream), registry)
    }

    /// Starts to connect. An event reports when to call [`Socket::connected`].
    pub fn connect(&mut self, address: SocketAddr, registry: &Registry) -> Result<(), Broken> {
        self.close();
        TcpStream::connect(address).and_then(|stream| self.register(stream, registry)).map_err(Broken::Connect)
    }

    fn register(&mut self, mut stream: TcpStream, registry: &Registry) -> io::Result<()> {
        registry.register(&mut stream, self.token, Interest::READABLE | Interest::WRITABLE)?;
        (self.stream, self.used) = (Some(stream), false);
        Ok(())
    }

    /// Whether the connection is established.
    pub fn connected(&mut self) -> Result<bool, Broken> {
        let Some(stream) = &self.stream else { return Ok(false) };
        let connected = match stream.take_error() {
            Ok(Some(error)) | Err(error) => Err(error),
            // Until then it has no peer (the way that mio's documentation of `connect` names).
            Ok(None) => match stream.peer_addr() {
                Ok(_) => stream.set_nodelay(true).map(|()| true),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
                Err(error) => Err(error),
            },
        };
        connected.map_err(Broken::Connect)
    }

    /// Ends the connection. Dropping a stream removes it from the poll.
    pub fn close(&mut self) {
        self.stream = None;
    }

    /// Begins to send the request.
    pub fn begin(&mut self) -> Result<(), Broken> {
        self.sent = 0;
        self.input.clear();
        self.send()
    }

    /// Sends as much of the request as the socket accepts.
    fn send(&mut self) -> Result<(), Broken> {
        let idle = self.used;
        let lost = |source| Broken::Lost { source, idle };
        let stream = self.stream.as_mut().ok_or_else(|| lost(io::ErrorKind::NotConnected.into()))?;
        while self.sent < self.request.len() {
            match stream.write(&self.request[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(())
    }

    /// Sends the rest of the request, and reads the available part of the answer.
    pub fn proceed(&mut self, protocol: &Protocol) -> Result<Option<Response>, Broken> {
        self.send()?;
        loop {
            match self.receive()? {
                None => return Ok(None),
                Some(0) => return Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
                Some(_) => {
                    if let Some(answer) = self.input.answer(protocol)? {
                        self.used = true;
                        return Ok(Some(answer));
                    }
                }
            }
        }
    }

    /// Whether the connection, on which no answer is waited for, is still as it was: a server ends
    /// it when it likes.
    pub fn is_quiet(&mut self) -> bool {
        self.input.clear();
        matches!(self.receive(), Ok(None))
    }

    /// Reads once: the number of bytes, or `None` if there are none.
    fn receive(&mut self) -> Result<Option<usize>, Broken> {
        loop {
            let Some(stream) = &self.stream else { return Err(self.lost(io::ErrorKind::NotConnected.into())) };
            match rustix::io::read(stream, spare_capacity(self.input.room())) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.lost(error.into())),
            }
        }
    }

    fn lost(&self, source: io::Error) -> Broken {
        Broken::Lost { source, idle: self.used && self.input.is_empty() }
    }

    /// The body of the last answer.
    pub fn body(&self, answer: &Response) -> &[u8] {
        self.input.body(answer)
    }
}
