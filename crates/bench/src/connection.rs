//! One connection for loading and setting up: it sends a request, reads its answer, and then sends the next one.
//! Measured requests go through [`super::socket`], which costs less.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::input::Input;
use super::protocol::Protocol;
use super::response::{Malformed, Response};

pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Connection {
    stream: Option<TcpStream>,
    /// The request: the user of the connection renders into it.
    pub request: Vec<u8>,
    /// The last answer.
    input: Input,
}

/// Why there is no answer. The connection is closed then.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The connection ended; `idle` if it may have done so before the request arrived.
    #[error("the connection was lost: {source}")]
    Lost { source: io::Error, idle: bool },
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("no answer in time")]
    TimedOut,
}

impl Broken {
    /// The generator's own code for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect_failed",
            Self::Lost { .. } => "connection_lost",
            Self::Malformed(_) => "bad_answer",
            Self::TimedOut => "timeout",
        }
    }
}

impl Connection {
    pub fn new() -> Self {
        Self { stream: None, request: Vec::new(), input: Input::new() }
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Connects to the first of the addresses that accepts it.
    pub async fn open(&mut self, addresses: &[SocketAddr]) -> Result<(), Broken> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(addresses));
        let stream = connecting
            .await
            .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(Broken::Connect)?;
        self.stream = Some(stream);
        Ok(())
    }

    /// Sends the request, and waits for its answer for at most `timeout`.
    pub async fn exchange(&mut self, protocol: &Protocol, timeout: Duration) -> Result<Response, Broken> {
        let answered = match tokio::time::timeout(timeout, self.exchange_patiently(protocol)).await {
            Ok(answered) => answered,
            Err(_) => Err(Broken::TimedOut),
        };
        if !answered.as_ref().is_ok_and(|answer| answer.keep_alive) {
            self.stream = None;
        }
        answered
    }

    async fn exchange_patiently(&mut self, protocol: &Protocol) -> Result<Response, Broken> {
        let lost = |source| Broken::Lost { source, idle: false };
        let stream = self.stream.as_mut().ok_or_else(|| lost(io::ErrorKind::NotConnected.into()))?;
        stream.write_all(&self.request).await.map_err(lost)?;
        self.input.clear();
        loop {
            match stream.read_buf(self.input.room()).await {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {
                    if let Some(answer) = self.input.answer(protocol)? {
                        return Ok(answer);
                    }
                }
                Err(error) => return Err(lost(error)),
            }
        }
    }

    /// The body of the last answer.
    pub fn body(&self, answer: &Response) -> &[u8] {
        self.input.body(answer)
    }
}
